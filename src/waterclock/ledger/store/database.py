"""Opens and upgrades the ledger's database, and writes to it in one transaction at a time.

Every writing transaction starts by raising the ledger's sequence. The row that it updates is the lock that makes
writers take turns on any database. The number shows readers whether anything was written since their last read.

If a server that was reached before becomes unavailable, the ledger waits for it. A transaction that broke is retried,
since none of it was written. If the connection broke during the commit, the outcome is looked up first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import Pause
from waterclock.batches.rebuilding import Rebuilding, read_rebuilding
from waterclock.ledger import database_errors, ledger_errors
from waterclock.ledger.store import postgres, renamed_tables, schema
from waterclock.ledger.store.backend import Backend, BoundStatement, backend_of, parse_url, translate_database_errors
from waterclock.ledger.store.failure import StatementFailure
from waterclock.ledger.store.instants import from_micros, to_micros

FIRST_SCHEMA = "0019"  # of version 0.1.0; the earlier schemas of development versions cannot be upgraded
NEWEST_SCHEMA = "0021"
Clock = Callable[[], datetime]
P = ParamSpec("P")
R = TypeVar("R")

_SCHEMA_VERSION = sa.text("SELECT version_num FROM alembic_version")
_NEXT = schema.ledger.c.last_claim + 1
_RAISE = sa.update(schema.ledger).values(sequence=schema.ledger.c.sequence + 1)
_IS_HERE = schema.ledger.c.moved_to.is_(None)  # part of the locking statement: no write follows a move
_MOVED = sa.select(schema.ledger.c.moved_to)
_RAISE_CLAIM = _RAISE.values(last_claim=sa.case((sa.bindparam("clock") > _NEXT, sa.bindparam("clock")), else_=_NEXT))
_SEQUENCE = sa.select(schema.ledger.c.sequence)
RENAMED_AT = sa.select(sa.func.max(schema.former_names.c.at))
_ADD_EVENTS = sa.insert(schema.events).inline()  # inserts without returning the number
_MOST_TRIES = 5  # of a transaction whose connection breaks; if it breaks each time, the cause is no outage


@dataclass(slots=True)
class Write:
    """A writing transaction, with its position in the ledger's sequence and the events to record.

    `last_recorded` is the time of the newest record of a batch. `paused` is the pause of all tables, which applies to
    claims in this transaction. `rebuilding` is the running `rebuild --all`. `erasures` is the last erasure's number.
    """

    transaction: _Transaction
    at: datetime
    sequence: int
    flow: str | None
    last_claim: int
    last_recorded: datetime | None = None
    paused: Pause | None = None
    rebuilding: Rebuilding | None = None
    erasures: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def connection(self) -> sa.Connection:
        """The connection for queries. Deferred statements are sent before it is returned."""
        self.transaction.send()
        return self.transaction.connection

    def execute(self, statement: sa.Executable, values: Any = None) -> sa.CursorResult[Any]:
        """Execute one statement. With a list of values, execute it once for each."""
        return self.connection.execute(statement, values)

    def execute_each(self, statement: sa.Executable, values: Sequence[Mapping[str, Any]]) -> None:
        """Execute one statement for a list of values in one call, which is faster than a call for each."""
        if values:
            self.execute(statement, values)

    def later(self, statement: sa.Executable, values: Any) -> None:
        """Defer a statement without results. It is sent in order, with the next query or with the commit."""
        self.transaction.unsent.append((statement, values))

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
        """Record an event, one for each label, in the append-only log."""
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


class LedgerDatabase:
    """The database of a ledger. Threads may share it: each transaction has its own connection.

    `clock` is the server's clock, or this machine's if the database is a file.
    """

    def __init__(self, url: sa.URL, clock: Clock | None = None, *, patience: float = 300.0) -> None:
        self.url = url
        self.backend = backend_of(url)
        self.patience = patience  # seconds to wait for a server that was reached once
        self.report: Callable[[str], None] = _ignore_message
        self.clock: Clock = clock or self.backend.clock()
        self.is_clock_back = False  # whether the clock was behind the newest record when a batch was last recorded here
        self._transaction_lock = self.backend.lock_of(url)
        # writing threads wait for each other here: a database would poll its own lock by sleeping and retrying
        self._write_lock = threading.RLock()
        self._engine = self.backend.create_engine(url)
        self._was_reached = False
        self.current_names: Mapping[str, str] = {}  # current names by stored name, of renamed tables and code
        self.renamed_at: datetime | None = None
        self._now: sa.Select[int] = sa.select(sa.literal_column(self.backend.NOW))
        returned: tuple[Any, ...] = (
            schema.ledger.c.sequence, schema.ledger.c.flow, schema.ledger.c.last_claim,
            # in stored form: the first statement's result bypasses SQLAlchemy
            sa.type_coerce(schema.ledger.c.paused_at, sa.BigInteger).label("paused_micros"),
            sa.type_coerce(schema.ledger.c.last_recorded, sa.BigInteger).label("recorded_micros"),
            schema.ledger.c.paused_by, schema.ledger.c.paused_why, schema.ledger.c.rebuilding, schema.ledger.c.erasures,
            sa.literal_column(self.backend.NOW).label("now"),
            sa.literal_column(self.backend.TRANSACTION).label("transaction"),
        )  # fmt: skip
        self._raise = _RAISE.where(_IS_HERE).returning(*returned)
        self._raise_claim = _RAISE_CLAIM.where(_IS_HERE).returning(*returned)
        self._raise_moved = _RAISE.returning(*returned)

    def use_names(self, names: Mapping[str, str], since: datetime | None = None) -> None:
        """Translate stored names in all later reads and writes. An empty `names` ends the translation.

        `since` is the time of the last rename that the caller knew when it chose the names. If another runner has
        renamed tables after that, the next transaction ends the translation.
        """
        self.current_names, self.renamed_at = dict(names), since
        renamed_tables.translate_names(self._engine.dialect, names)

    def _refresh_renames(self, connection: sa.Connection) -> None:
        if self.current_names and connection.execute(RENAMED_AT).scalar() != self.renamed_at:
            self.use_names({})

    @property
    def clock_place(self) -> str:
        """The machine whose time `clock` returns, in words for messages."""
        return "the ledger's server" if isinstance(self.clock, postgres.ServerClock) else "this machine"

    def close(self) -> None:
        """Close all connections. No data is lost, since nothing is buffered."""
        self._engine.dispose()

    def use(self, engine: sa.Engine) -> None:
        """Use another engine than the default one of this kind of database."""
        self._engine = engine

    def log_in_by(self, url: Callable[[], str]) -> None:
        """Call `url` for each new connection, and use the user and password of its result. Ignored for a file."""
        if self.url.get_backend_name() == "sqlite":
            return

        def log_in(_dialect: Any, _record: Any, _arguments: Any, named: dict[str, Any]) -> None:
            parsed = parse_url(url())
            password = parsed.password if parsed.password is not None else parsed.query.get("password")
            named.update({"user": parsed.username or parsed.query.get("user"), "password": password})

        sa.event.listen(self._engine, "do_connect", log_in)

    def read_schema_version(self) -> str | None:
        """Read the schema version of the database without upgrading it; None for an empty one. Raises E401, E402."""
        return self._schema_version()

    def exists(self) -> bool:
        """Return whether the ledger's file or schema exists and is not empty."""
        with translate_database_errors(self.url):
            return self.backend.exists(self._engine, self.url)

    def create_empty(self) -> None:
        """Create the empty file or schema for a new ledger."""
        try:
            with translate_database_errors(self.url):
                self.backend.create_empty(self._engine, self.url)
        except OSError as error:
            raise database_errors.refused_operation_error(self.url, error) from error

    def upgrade_schema(self) -> None:
        """Create the tables of a new ledger, or upgrade those of an older one. Do nothing if they are up to date.

        Raises E401 if the database is no ledger, E402 if newer code or a development version has written it.
        """
        found = self._schema_version()
        if found == NEWEST_SCHEMA:
            return
        if found is not None and found < FIRST_SCHEMA:
            raise ledger_errors.unreleased_ledger_error(self.url, found, FIRST_SCHEMA)
        from waterclock.ledger.store.migrations import migrate

        with self._transaction(writes=True) as transaction:
            connection = transaction.connection
            self.backend.lock_schema(connection)
            if _read_version(connection, self.url) != NEWEST_SCHEMA:
                migrate(connection)
                _write_first_row(connection, self.clock())

    def call_with_retries(
        self, function: Callable[Concatenate[LedgerDatabase, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a function that runs one transaction; repeat the call if the connection breaks.

        Raises E423 if it breaks each time.
        """
        for _ in range(_MOST_TRIES - 1):
            try:
                return function(self, *args, **kwargs)
            except database_errors.LedgerUnreachableError as error:
                if not error.may_repeat:
                    raise
        return function(self, *args, **kwargs)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Read the ledger as of one moment, independent of concurrent writes."""
        with self._transaction(writes=False) as transaction:
            self._refresh_renames(transaction.connection)
            yield transaction.connection

    @contextmanager
    def write(self, *, claims: bool = False, even_moved: bool = False) -> Iterator[Write]:
        """Change the ledger in one transaction; other writers wait for their turn.

        With `claims`, `last_claim` is a new claim number: above all earlier ones, and above the clock in milliseconds.
        Raises E425 for a ledger that was moved, unless `even_moved`.
        """
        at = self.clock()
        values = {"clock": to_micros(at) // 1000} if claims else {}
        raising = self._raise_claim if claims else self._raise_moved if even_moved else self._raise
        with self._write_lock, self._transaction(writes=True, first=(raising, values)) as transaction:
            at, row = self.clock(), transaction.first
            if row is None:
                raise ledger_errors.moved_ledger_error(
                    self.url, transaction.connection.execute(_MOVED).scalar() or "nowhere"
                )
            transaction.number = row.transaction
            self._refresh_renames(transaction.connection)
            if isinstance(self.clock, postgres.ServerClock):
                at = self.clock.set(from_micros(row.now))
            recorded = None if row.recorded_micros is None else from_micros(row.recorded_micros)
            paused, rebuilding = _pause_of_all(row), read_rebuilding(row.rebuilding)
            write = Write(
                transaction, at, row.sequence, row.flow, row.last_claim, recorded, paused, rebuilding, row.erasures
            )
            yield write
            if write.events:
                write.later(_ADD_EVENTS, write.events)

    @contextmanager
    def write_unordered(self) -> Iterator[tuple[sa.Connection, datetime]]:
        """Change data that does not concern batches; the sequence stays unchanged. Yields a connection and the time."""
        with self._write_lock, self._transaction(writes=True) as transaction:
            self._refresh_renames(transaction.connection)
            yield transaction.connection, self.clock()

    def answers(self) -> bool:
        """Return whether a transaction can be started now."""
        try:
            self._begin(writes=False)[0].close()
        except sa.exc.DBAPIError:
            return False
        return True

    def sequence(self) -> int:
        """Return the number of the newest writing transaction."""
        with self.read() as connection:
            return int(connection.execute(_SEQUENCE).scalar_one())

    @contextmanager
    def _transaction(self, *, writes: bool, first: BoundStatement | None = None) -> Iterator[_Transaction]:
        with translate_database_errors(self.url, may_repeat=self._was_reached), self._transaction_lock:
            connection, answer = self._begin_or_wait(writes=writes, first=first)
            transaction = _Transaction(connection, self.backend, answer)
            try:
                yield transaction
                self._commit(transaction)
            except BaseException:
                connection.rollback()
                raise
            finally:
                connection.close()

    def _begin_or_wait(self, *, writes: bool, first: BoundStatement | None = None) -> tuple[sa.Connection, Any]:
        """Open a connection and begin a transaction. Wait for a server that was reached before.

        Also wait for a server that refuses the login, since this process may get a changed password soon.
        """
        try:
            return self._begin(writes=writes, first=first)
        except sa.exc.DBAPIError as error:
            if not (self._was_reached and self._is_worth_waiting(error)):
                raise
            self._report_wait(error)
            failure = self._failure_of(error)
        from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_exponential

        def before_sleep(state: RetryCallState) -> None:
            """Report a reason to wait that differs from the last one reported."""
            nonlocal failure
            error = state.outcome.exception() if state.outcome else None
            if error is not None and self._failure_of(error) is not failure:
                failure = self._failure_of(error)
                self._report_wait(error)

        waiting = Retrying(
            before_sleep=before_sleep,
            retry=retry_if_exception(self._is_worth_waiting),
            wait=wait_exponential(0.2, max=5),
            stop=stop_after_delay(self.patience),
            reraise=True,
        )
        try:
            begun = waiting(self._begin, writes=writes, first=first)
        except sa.exc.DBAPIError as error:
            if not self._is_away(error):
                raise
            raise database_errors.build_unreachable_error(self.url, error, may_repeat=False) from error
        self.report("the ledger answers again")
        return begun

    def _begin(self, *, writes: bool, first: BoundStatement | None = None) -> tuple[sa.Connection, Any]:
        connection = self._engine.connect()
        try:
            connection.begin()
            answer = self.backend.begin(connection, self.url, writes=writes, first=first)
        except BaseException:
            connection.close()
            raise
        if not self._was_reached and isinstance(self.clock, postgres.ServerClock):
            self.clock.set(from_micros(connection.execute(self._now).scalar_one()))
        self._was_reached = True
        return connection, answer

    def _report_wait(self, error: BaseException) -> None:
        what = "does not answer" if self._is_away(error) else "refuses the login"
        self.report(f"the ledger {what}; waiting for it ({ledger_errors.cause_of(error, self.url)})")

    def _is_worth_waiting(self, error: BaseException) -> bool:
        return self._failure_of(error) in {StatementFailure.AWAY, StatementFailure.NOT_LET_IN}

    def _is_away(self, error: BaseException) -> bool:
        return self._failure_of(error) is StatementFailure.AWAY

    def _failure_of(self, error: BaseException) -> StatementFailure | None:
        return self.backend.failure_of(error) if isinstance(error, sa.exc.DBAPIError) else None

    def _commit(self, transaction: _Transaction) -> None:
        """Commit. If the connection breaks meanwhile, ask the server whether the transaction was committed."""
        try:
            transaction.commit()
        except sa.exc.DBAPIError as error:
            if transaction.number is None or not self._is_away(error) or not self._was_committed(transaction.number):
                raise

    def _was_committed(self, number: int) -> bool:
        while True:
            connection, _ = self._begin_or_wait(writes=False)
            try:
                outcome = self.backend.outcome_of(connection, number)
            finally:
                connection.close()
            if outcome is not None:
                return outcome
            threading.Event().wait(0.2)  # the server has not noticed the lost connection yet

    def _schema_version(self) -> str | None:
        with self.read() as connection:
            return _read_version(connection, self.url)


@dataclass(slots=True)
class _Transaction:
    """An open transaction, with the statements that are not sent to the database yet.

    `first` is the result of its first statement. `number` is the database's number of a writing transaction, by which
    its outcome is looked up.
    """

    connection: sa.Connection
    backend: Backend
    first: Any
    number: int | None = None
    unsent: list[BoundStatement] = field(default_factory=list)

    def send(self) -> None:
        """Send the deferred statements to the database."""
        if self.unsent:
            self.backend.execute_all(self.connection, self.unsent)
            self.unsent = []

    def commit(self) -> None:
        """Send the deferred statements to the database, and commit."""
        self.backend.execute_all(self.connection, self.unsent, commits=True)
        self.connection.commit()


def pause_of(row: schema.AnyRow, *, is_of_all: bool = False) -> Pause | None:
    """Build the pause from a row of `tables` or `ledger`; None if neither is paused."""
    if row.paused_at is None:
        return None
    return Pause(row.paused_at, row.paused_by, row.paused_why, is_of_all)


def _pause_of_all(row: Any) -> Pause | None:
    if row.paused_micros is None:
        return None
    return Pause(from_micros(row.paused_micros), row.paused_by, row.paused_why, is_of_all=True)


def _ignore_message(_: str) -> None:
    pass


def open_database(url: str, *, create: bool, clock: Clock | None) -> LedgerDatabase | None:
    """Open the ledger at `url`; None if it does not exist and `create` is false."""
    database = LedgerDatabase(parse_url(url), clock)
    try:
        if not database.exists():
            if not create:
                database.close()
                return None
            database.create_empty()
        database.upgrade_schema()
    except BaseException:
        database.close()
        raise
    return database


def _read_version(connection: sa.Connection, url: sa.URL) -> str | None:
    """Read the schema version of the database; None for an empty one."""
    names = set(sa.inspect(connection).get_table_names()) if not _has_version(connection) else None
    if names is not None:
        if names:
            raise ledger_errors.no_ledger(url, f"its tables are {', '.join(sorted(names)[:3])}")
        return None
    found = connection.execute(_SCHEMA_VERSION).scalar()
    if found is None:
        return None
    if not str(found).isdigit():
        raise ledger_errors.no_ledger(url, f"its schema is {found!r}")
    if str(found) > NEWEST_SCHEMA:
        raise ledger_errors.build_newer_schema_error(url, str(found), NEWEST_SCHEMA)
    return str(found)


def _has_version(connection: sa.Connection) -> bool:
    return sa.inspect(connection).has_table("alembic_version")


def _write_first_row(connection: sa.Connection, at: datetime) -> None:
    if connection.execute(_SEQUENCE).first() is None:
        connection.execute(sa.insert(schema.ledger).values(id=1, sequence=0, last_claim=0, created_at=at))
