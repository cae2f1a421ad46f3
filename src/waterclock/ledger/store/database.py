"""How the ledger's database is opened, brought up to date, and written in one transaction at a time.

Every writing transaction starts by raising the ledger's sequence: the row it updates is the lock that makes writers
take turns on any database, and the number tells readers whether anything was written since they looked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from waterclock.ledger import refusals
from waterclock.ledger.store import schema, sqlite
from waterclock.ledger.store.instants import to_micros

NEWEST_SCHEMA = "0002"
Clock = Callable[[], datetime]

_SCHEMA_VERSION = sa.text("SELECT version_num FROM alembic_version")
_RAISE_SEQUENCE = (
    sa.update(schema.ledger)
    .values(sequence=schema.ledger.c.sequence + 1)
    .returning(schema.ledger.c.sequence, schema.ledger.c.flow, schema.ledger.c.last_claim)
)
_NEXT = schema.ledger.c.last_claim + 1
_RAISE_CLAIM = (
    sa.update(schema.ledger)
    .values(
        sequence=schema.ledger.c.sequence + 1,
        last_claim=sa.case((sa.bindparam("clock") > _NEXT, sa.bindparam("clock")), else_=_NEXT),
    )
    .returning(schema.ledger.c.sequence, schema.ledger.c.flow, schema.ledger.c.last_claim)
)
_SEQUENCE = sa.select(schema.ledger.c.sequence)
_ADD_EVENTS = sa.insert(schema.events)
_OF_A_FILE = "sqlite:///"


@dataclass(slots=True)
class Write:
    """A writing transaction: its connection, its place among all of them, and the events it will leave."""

    connection: sa.Connection
    at: datetime
    sequence: int
    flow: str | None
    last_claim: int
    events: list[dict[str, Any]] = field(default_factory=list)

    def execute(self, statement: sa.Executable, values: Any = None) -> sa.CursorResult[Any]:
        """Carry out one statement; a list of values carries it out for each."""
        return self.connection.execute(statement, values)

    def log(
        self,
        kind: str,
        *,
        who: str,
        table: str | None = None,
        labels: Iterable[datetime | None] = (None,),
        claim: int | None = None,
        run: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Leave an event, one a label, in the append-only log."""
        for label in labels:
            self.events.append(
                {
                    "at": self.at,
                    "kind": kind,
                    "who": who,
                    "table_name": table,
                    "label": label,
                    "claim": claim,
                    "run": run,
                    "data": data or {},
                }
            )


class Database:
    """An open ledger database of the newest schema; threads may share it, each transaction has its own connection."""

    def __init__(self, url: sa.URL, clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self._one_at_a_time = sqlite.lock_of(url)
        # threads that write wait here for each other: a database's own lock is waited for by sleeping and looking again
        self._turn = threading.RLock()
        self._engine = sqlite.create_engine(url)

    def close(self) -> None:
        """Close all connections; nothing is lost, for nothing is kept back."""
        self._engine.dispose()

    def bring_up_to_date(self) -> None:
        """Make the tables of a new ledger and add what an older one lacks; free where nothing is to be done.

        Raises  E401 where the database is no ledger, E402 where newer code has written it
        """
        if self._schema_version() == NEWEST_SCHEMA:
            return
        from waterclock.ledger.store.migrations import migrate

        with self._transaction(writes=True) as connection:
            if _found_version(connection, self.url) != NEWEST_SCHEMA:
                migrate(connection)
                _write_first_row(connection, self.clock())

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """See one moment of the ledger, whatever is written meanwhile."""
        with self._transaction(writes=False) as connection:
            yield connection

    @contextmanager
    def write(self, *, claims: bool = False) -> Iterator[Write]:
        """Change the ledger, all or nothing; others wait for their turn.

        With `claims`, `last_claim` is a new number: above all before it, and above the clock in milliseconds.
        """
        with self._turn, self._transaction(writes=True) as connection:
            at = self.clock()
            values = {"clock": to_micros(at) // 1000} if claims else None
            row = connection.execute(_RAISE_CLAIM if claims else _RAISE_SEQUENCE, values).one()
            write = Write(connection, at, row.sequence, row.flow, row.last_claim)
            yield write
            if write.events:
                connection.execute(_ADD_EVENTS, write.events)

    def sequence(self) -> int:
        """Return the number of the newest writing transaction."""
        with self.read() as connection:
            return int(connection.execute(_SEQUENCE).scalar_one())

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[sa.Connection]:
        try:
            with self._one_at_a_time, self._engine.begin() as connection:
                sqlite.begin(connection, writes=writes)
                yield connection
        except sa.exc.DBAPIError as error:
            if sqlite.is_busy(error):
                raise refusals.busy(self.url, error) from error
            if sqlite.is_damaged(error):
                raise refusals.damaged(self.url, error) from error
            raise refusals.failed(self.url, error) from error

    def _schema_version(self) -> str | None:
        with self.read() as connection:
            return _found_version(connection, self.url)


def open_database(url: str, *, create: bool, clock: Clock | None) -> Database | None:
    """Open the ledger at `url`; None where there is none and none is to be made."""
    parsed = _parse(url)
    if not sqlite.exists(parsed):
        if not create:
            return None
        try:
            sqlite.make_room(parsed)
        except OSError as error:
            raise refusals.failed(parsed, error) from error
    database = Database(parsed, clock or _system_clock)
    try:
        database.bring_up_to_date()
    except BaseException:
        database.close()
        raise
    return database


def _parse(url: str) -> sa.URL:
    if url.startswith(_OF_A_FILE):  # all that follows is its path, which may hold a question mark
        return sa.URL.create("sqlite", database=url.removeprefix(_OF_A_FILE))
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise refusals.unknown_url(url) from error
    if parsed.get_backend_name() != "sqlite":
        raise refusals.unknown_url(url)
    return parsed


def _found_version(connection: sa.Connection, url: sa.URL) -> str | None:
    """Read which schema the database has; None for an empty one."""
    names = set(sa.inspect(connection).get_table_names()) if not _has_version(connection) else None
    if names is not None:
        if names:
            raise refusals.no_ledger(url, f"its tables are {', '.join(sorted(names)[:3])}")
        return None
    found = connection.execute(_SCHEMA_VERSION).scalar()
    if found is None:
        return None
    if not str(found).isdigit():
        raise refusals.no_ledger(url, f"its schema is {found!r}")
    if str(found) > NEWEST_SCHEMA:
        raise refusals.newer(url, str(found), NEWEST_SCHEMA)
    return str(found)


def _has_version(connection: sa.Connection) -> bool:
    return sa.inspect(connection).has_table("alembic_version")


def _write_first_row(connection: sa.Connection, at: datetime) -> None:
    if connection.execute(_SEQUENCE).first() is None:
        connection.execute(sa.insert(schema.ledger).values(id=1, sequence=0, last_claim=0, created_at=at))


def _system_clock() -> datetime:
    return datetime.now(UTC)
