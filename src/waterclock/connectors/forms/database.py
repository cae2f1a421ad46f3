"""Opens the database of a forms connection, a SQLite file or PostgreSQL, and creates its tables.

    waterclock_forms_entities   the key columns and the required columns of each entity
    waterclock_forms_batches    who changed an entity, when and why; append-only
    waterclock_forms_changes    each changed row of a batch, before and after; append-only
    waterclock_forms_rows       the current rows; `version` is the number of the change that made a row
    waterclock_forms_clock      one row: the end of the newest window that was collected, and the layout of the tables
    waterclock_forms_proposals  who proposed changes, when and why, and who approved or rejected them
    waterclock_forms_proposed   each row of a proposal, before and after; append-only

Triggers refuse to change or delete history, to write a current row that no change made, and to decide a proposal twice
or by the person who proposed it. Writing transactions take turns, so the numbers and the times of batches ascend
together.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.connectors.sqlite.database import SqliteFile
from waterclock.database_clients.time_limits import limit_query_time
from waterclock.errors import WaterclockError
from waterclock.permissions.ownership import create_private_file, make_private_folder

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import PostgresDatabase

PREFIX = "waterclock_forms"
ENTITIES, BATCHES, CHANGES = f"{PREFIX}_entities", f"{PREFIX}_batches", f"{PREFIX}_changes"
ROWS, CLOCK = f"{PREFIX}_rows", f"{PREFIX}_clock"
PROPOSALS, PROPOSED = f"{PREFIX}_proposals", f"{PREFIX}_proposed"

LONGEST_LIST_SECONDS = 60.0
"""The maximum time to read a page of rows, or to count rows."""

_TABLES = (
    f"CREATE TABLE {CLOCK} (one {{int}} PRIMARY KEY, layout {{int}} NOT NULL, sealed_at {{text}} NOT NULL)",
    f"CREATE TABLE {ENTITIES} (entity {{text}} PRIMARY KEY, keys {{text}} NOT NULL, required {{text}} NOT NULL)",
    (
        f"CREATE TABLE {BATCHES} (id {{int}} PRIMARY KEY, entity {{text}} NOT NULL, who {{text}} NOT NULL,"
        " at {text} NOT NULL, why {text} NOT NULL, origin {text} NOT NULL, undoes {int})"
    ),
    (
        f"CREATE TABLE {CHANGES} (id {{int}} PRIMARY KEY, batch {{int}} NOT NULL REFERENCES {BATCHES},"
        " entity {text} NOT NULL, key {text} NOT NULL, before {text}, after {text})"
    ),
    f"CREATE INDEX {CHANGES}_of_key ON {CHANGES} (entity, key, id)",
    f"CREATE INDEX {CHANGES}_of_batch ON {CHANGES} (batch)",
    f"CREATE INDEX {BATCHES}_by_time ON {BATCHES} (at, id)",
    (
        f"CREATE TABLE {ROWS} (entity {{text}} NOT NULL, key {{text}} NOT NULL, version {{int}} NOT NULL,"
        " waits {int} NOT NULL, content {text} NOT NULL, hints {text}, PRIMARY KEY (entity, key))"
    ),
    f"CREATE INDEX {ROWS}_waiting ON {ROWS} (entity, waits, key)",
    f"INSERT INTO {CLOCK} (one, layout, sealed_at) VALUES (1, 1, '')",
)
_MADE = f"SELECT 1 FROM {CHANGES} AS c WHERE c.id = NEW.version AND c.entity = NEW.entity AND c.key = NEW.key"
_MADE += " AND c.after = NEW.content"
_DELETED = f"SELECT 1 FROM {CHANGES} AS c WHERE c.entity = OLD.entity AND c.key = OLD.key AND c.id > OLD.version"
_DELETED += " AND c.after IS NULL"
_KEPT = "the history of master data is append-only"
_DIRECT = "rows of master data are changed by waterclock edit or its pages, which record each change"
_PROPOSAL_TABLES = (
    f"ALTER TABLE {BATCHES} ADD COLUMN approved_by {{text}}",
    f"ALTER TABLE {BATCHES} ADD COLUMN proposal {{int}}",
    (
        f"CREATE TABLE {PROPOSALS} (id {{int}} PRIMARY KEY, entity {{text}} NOT NULL, who {{text}} NOT NULL,"
        " at {text} NOT NULL, why {text} NOT NULL, origin {text} NOT NULL, undoes {int}, count {int} NOT NULL,"
        " state {text} NOT NULL, decided_by {text}, decided_at {text}, decided_why {text}, batch {int})"
    ),
    (
        f"CREATE TABLE {PROPOSED} (proposal {{int}} NOT NULL REFERENCES {PROPOSALS}, key {{text}} NOT NULL,"
        " version {int}, before {text}, after {text}, PRIMARY KEY (proposal, key))"
    ),
    f"CREATE INDEX {PROPOSALS}_by_state ON {PROPOSALS} (entity, state, id)",
    f"CREATE INDEX {PROPOSED}_of_key ON {PROPOSED} (key)",
)
_DECIDABLE = "OLD.state = 'open' AND NEW.state IN ('approved', 'rejected', 'withdrawn')"
_DECIDABLE += " AND (NEW.state = 'withdrawn') = (NEW.decided_by = OLD.who)"
_DECIDABLE += "".join(
    f" AND NEW.{name} = OLD.{name}" for name in ("id", "entity", "who", "at", "why", "origin", "count")
)
_DECIDED = "a proposal is decided once, and never by the person who made it"
_SQLITE_PROPOSAL_TRIGGERS = (
    *(
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{_KEPT}'); END"
        for table, verb in ((PROPOSALS, "DELETE"), (PROPOSED, "UPDATE"), (PROPOSED, "DELETE"))
    ),
    (
        f"CREATE TRIGGER {PROPOSALS}_decided BEFORE UPDATE ON {PROPOSALS} WHEN NOT coalesce({_DECIDABLE}, 0)"
        f" BEGIN SELECT RAISE(ABORT, '{_DECIDED}'); END"
    ),
)
_POSTGRES_PROPOSAL_TRIGGERS = (
    (
        f"CREATE FUNCTION {PREFIX}_decided() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        f" IF NOT coalesce({_DECIDABLE}, false) THEN RAISE EXCEPTION '{_DECIDED}'; END IF; RETURN NEW; END$$"
    ),
    f"CREATE TRIGGER {PROPOSALS}_kept BEFORE UPDATE ON {PROPOSALS} FOR EACH ROW EXECUTE FUNCTION {PREFIX}_decided()",
    (
        f"CREATE TRIGGER {PROPOSALS}_no_delete BEFORE DELETE OR TRUNCATE ON {PROPOSALS}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {PREFIX}_keep()"
    ),
    (
        f"CREATE TRIGGER {PROPOSED}_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON {PROPOSED}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {PREFIX}_keep()"
    ),
)
_LAYOUT = 2  # of the tables; 1 had no proposals
_SQLITE_TRIGGERS = (
    *(
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{_KEPT}'); END"
        for table in (BATCHES, CHANGES)
        for verb in ("UPDATE", "DELETE")
    ),
    *(
        f"CREATE TRIGGER {ROWS}_{name} BEFORE {verb} ON {ROWS} WHEN NOT EXISTS ({made})"
        f" BEGIN SELECT RAISE(ABORT, '{_DIRECT}'); END"
        for name, verb, made in (
            ("insert", "INSERT", _MADE),
            ("update", "UPDATE OF entity, key, version, content", _MADE),
            ("delete", "DELETE", _DELETED),
        )
    ),
)
_POSTGRES_TRIGGERS = (
    f"CREATE FUNCTION {PREFIX}_keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION '{_KEPT}'; END$$",
    (
        f"CREATE FUNCTION {PREFIX}_made() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        f" IF NOT EXISTS ({_MADE}) THEN RAISE EXCEPTION '{_DIRECT}'; END IF; RETURN NEW; END$$"
    ),
    (
        f"CREATE FUNCTION {PREFIX}_deleted() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        f" IF NOT EXISTS ({_DELETED}) THEN RAISE EXCEPTION '{_DIRECT}'; END IF; RETURN OLD; END$$"
    ),
    *(
        f"CREATE TRIGGER {table}_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {PREFIX}_keep()"
        for table in (BATCHES, CHANGES)
    ),
    f"CREATE TRIGGER {ROWS}_truncate BEFORE TRUNCATE ON {ROWS} EXECUTE FUNCTION {PREFIX}_keep()",
    (
        f"CREATE TRIGGER {ROWS}_made BEFORE INSERT OR UPDATE OF entity, key, version, content ON {ROWS}"
        f" FOR EACH ROW EXECUTE FUNCTION {PREFIX}_made()"
    ),
    f"CREATE TRIGGER {ROWS}_deleted BEFORE DELETE ON {ROWS} FOR EACH ROW EXECUTE FUNCTION {PREFIX}_deleted()",
)
_QUOTED_OR_PLACE = re.compile(r"'[^']*'|\?")  # a column's name in quotes may have a question mark
_CREATION_LOCK = 7_013_551_994_402  # of pg_advisory_xact_lock: two processes may create the tables at once


def machine_time() -> datetime:
    """Return the time of this machine, which is the clock of a SQLite file."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class FormsSession:
    """Runs statements in an open transaction, with `?` for each value, on either database."""

    connection: Any
    is_server: bool

    def take_turn(self) -> None:
        """Wait until no other process writes. SQLite has locked the file when the transaction began."""
        if self.is_server:
            self.first_of(f"SELECT one FROM {CLOCK} WHERE one = 1 FOR UPDATE")

    def prefer_order_of_index(self) -> None:
        """Let PostgreSQL read rows in the order of an index, until the transaction ends, and not sort all of them.

        It takes a value to be rarer than it is, and would sort 250,000 rows for a page of 100. A sort that is
        discouraged has a high cost, for which it would compile the statement.
        """
        if self.is_server:
            discouraged = ("enable_sort", "enable_bitmapscan", "jit")
            self.first_of("SELECT " + ", ".join(f"set_config('{name}', 'off', true)" for name in discouraged))

    def rows_of(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a query and return all its rows."""
        found: list[Any] = self._run(sql, values).fetchall()
        return found

    def first_of(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Run a query and return its first row; None if there are no rows."""
        return self._run(sql, values).fetchone()

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and return the number of changed rows."""
        changed: int = self._run(sql, values).rowcount
        return changed

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each of `rows`, in one call of the driver."""
        if rows:
            self.connection.cursor().executemany(self._spelt(sql), rows)

    def json_field(self, column: str, name: str) -> str:
        """Return the SQL of a field in a JSON text. `name` contains no double quote."""
        if self.is_server:
            return self.parsed_field(f"{column}::json", name)
        quoted = name.replace("'", "''")
        return f"json_extract({column}, '$.\"{quoted}\"')"

    def parsed_field(self, column: str, name: str) -> str:
        """Return the SQL of a field in a column of the type json or jsonb of PostgreSQL."""
        quoted = name.replace("'", "''")
        return f"({column} ->> '{quoted}')"

    def _run(self, sql: str, values: Sequence[Any]) -> Any:
        return self.connection.execute(self._spelt(sql), tuple(values))

    def _spelt(self, sql: str) -> str:
        if not self.is_server:
            return sql
        return _QUOTED_OR_PLACE.sub(lambda it: "%s" if it[0] == "?" else it[0], sql.replace("%", "%%"))


@dataclass(frozen=True, slots=True)
class FormsDatabase:
    """The database of a forms connection. `clock` replaces the database's clock in tests."""

    database: SqliteFile | PostgresDatabase
    name: str
    is_server: bool
    clock: Callable[[], datetime] | None = None
    _is_ready: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @contextmanager
    def open_for_reading(self, where: str) -> Iterator[FormsSession]:
        """Open a transaction that sees one state of the database. Tables that do not exist are created before."""
        self.require_tables(where)
        with self.database.open_for_reading(where) as connection:
            yield FormsSession(connection, self.is_server)

    @contextmanager
    def open_for_listing(self, where: str) -> Iterator[FormsSession]:
        """Open a transaction to read a page of rows, or to count rows. Raises E813 if that takes too long."""
        with self.open_for_reading(where) as session:
            session.prefer_order_of_index()
            stop = session.connection.cancel_safe if self.is_server else session.connection.interrupt
            try:
                with limit_query_time(LONGEST_LIST_SECONDS, stop):
                    yield session
            except TimeoutError as error:
                raise WaterclockError(
                    "E813",
                    "the rows were not found in time",
                    where=where,
                    why=str(error),
                    fix="search by values of the first columns, which have an index; or query the table",
                ) from error

    @contextmanager
    def open_for_writing(self, where: str) -> Iterator[FormsSession]:
        """Open the writing transaction, after that of any other process. It commits if the block raises no error."""
        self.require_tables(where)
        with self.database.open_for_writing(where) as connection:
            session = FormsSession(connection, self.is_server)
            session.take_turn()
            yield session

    def now(self, session: FormsSession) -> datetime:
        """Return the current time of the database's clock: that of the server, or of this machine for a file."""
        if self.clock is not None:
            return self.clock()
        if not self.is_server:
            return machine_time()
        found: datetime = session.first_of("SELECT clock_timestamp()")[0]
        return found.astimezone(UTC)

    @property
    def exists(self) -> bool:
        """Whether the file exists. A server is taken to have the tables, which are created when it is opened."""
        return self.is_server or Path(self.database_path).is_file()

    def require_tables(self, where: str) -> None:
        """Create the tables, and a private file for them, unless they exist."""
        if self._is_ready.is_set() and (self.is_server or Path(str(self.database_path)).is_file()):
            return
        if not self.is_server and not Path(self.database_path).is_file():
            path = Path(self.database_path)
            make_private_folder(path.parent)
            try:
                import os

                os.close(create_private_file(path))
            except FileExistsError:  # another process was faster
                pass
        with self.database.open_for_writing(where) as connection:
            _create_tables(FormsSession(connection, self.is_server))
        self._is_ready.set()

    @property
    def database_path(self) -> str:
        """The path of the SQLite file; the address of a server."""
        return self.database.path if isinstance(self.database, SqliteFile) else self.database.name


def _create_tables(session: FormsSession) -> None:
    """Create the tables and triggers that do not exist, also in a database of an earlier layout."""
    if session.is_server:
        session.first_of(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")
        exists = session.first_of(f"SELECT to_regclass('{CLOCK}')")[0] is not None
    else:
        exists = session.first_of(f"SELECT 1 FROM sqlite_master WHERE name = '{CLOCK}'") is not None
    types = {"int": "BIGINT", "text": 'TEXT COLLATE "C"'} if session.is_server else {"int": "INTEGER", "text": "TEXT"}
    statements: list[str] = []
    if not exists:
        statements += [sql.format(**types) for sql in _TABLES]
        statements += _POSTGRES_TRIGGERS if session.is_server else _SQLITE_TRIGGERS
    if not exists or session.first_of(f"SELECT layout FROM {CLOCK}")[0] < _LAYOUT:
        statements += [sql.format(**types) for sql in _PROPOSAL_TABLES]
        statements += _POSTGRES_PROPOSAL_TRIGGERS if session.is_server else _SQLITE_PROPOSAL_TRIGGERS
        statements.append(f"UPDATE {CLOCK} SET layout = {_LAYOUT}")
    for sql in statements:
        session.connection.execute(sql)


def to_text(at: datetime) -> str:
    """Return an instant as a text that sorts by time."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


def from_text(text: str) -> datetime:
    """Return the instant of a text of `to_text`."""
    return datetime.fromisoformat(text)
