"""The functions that each kind of database (SQLite, PostgreSQL) implements for a ledger. All other code is common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, Protocol, cast

import sqlalchemy as sa

from waterclock.ledger import database_errors, ledger_errors
from waterclock.ledger.store import postgres, sqlite
from waterclock.ledger.store.failure import StatementFailure

BoundStatement = tuple[sa.Executable, Any]  # a statement and its values: one set of them by name, or a list of sets
_USER = re.compile(r"[^:/?#\s]*")
_HOST = re.compile(r"[A-Za-z0-9_.,%-]*|[0-9A-Fa-f:.%]*")
_DATABASE = re.compile(r"[^@/?#=:\s]*")
_OF_A_FILE = "sqlite:///"


class Backend(Protocol):
    """A kind of database: a module of this package with these functions."""

    NOW: str  # SQL of the server's clock in microseconds since 1970; NULL without a server
    TRANSACTION: str  # SQL of the number by which a transaction's outcome is looked up; NULL without a server

    def create_engine(self, url: sa.URL) -> sa.Engine:
        """Create the engine, without connecting yet."""

    def clock(self) -> Callable[[], datetime]:
        """Return the clock of a ledger in such a database."""

    def lock_of(self, url: sa.URL) -> AbstractContextManager[Any]:
        """Return the lock that the threads of this process use to take turns with their transactions."""

    def exists(self, engine: sa.Engine, url: sa.URL) -> bool:
        """Return whether the ledger's file or schema exists and is not empty."""

    def make_room(self, engine: sa.Engine, url: sa.URL) -> None:
        """Create the empty file or schema for a new ledger."""

    def begin(self, connection: sa.Connection, url: sa.URL, *, writes: bool, first: BoundStatement | None) -> Any:
        """Begin a transaction and execute its first statement, if given. Return the first row of its result."""

    def execute_all(
        self, connection: sa.Connection, statements: Sequence[BoundStatement], *, commits: bool = False
    ) -> None:
        """Execute statements without results in order. With `commits`, they may be committed in the same call."""

    def lock_schema(self, connection: sa.Connection) -> None:
        """Lock the schema, so that concurrent upgrades of one ledger take turns."""

    def count_on(self, connection: sa.Connection) -> None:
        """Set the number of the next event above the numbers of the events that were loaded from an export."""

    def outcome_of(self, connection: sa.Connection, transaction: int) -> bool | None:
        """Return whether a transaction was committed; None if the server does not know it yet."""

    def failure_of(self, error: sa.exc.DBAPIError) -> StatementFailure:
        """Return why a statement failed."""


def backend_of(url: sa.URL) -> Backend:
    """Return the module for the kind of database of a URL."""
    return cast("Backend", sqlite if url.get_backend_name() == "sqlite" else postgres)


def parse_url(url: str) -> sa.URL:
    """Parse the URL of a ledger. Raises E403 for an unknown kind, or if the parts cannot be distinguished."""
    if url.startswith(_OF_A_FILE):  # the remainder is the path, which may contain a question mark
        return sa.URL.create("sqlite", database=url.removeprefix(_OF_A_FILE))
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # its message may show part of a password
        raise ledger_errors.unknown_url(url) from None
    if parsed.drivername not in ("sqlite", *postgres.SCHEMES) or not _is_plain(parsed):
        raise ledger_errors.unknown_url(url)
    return parsed


def _is_plain(url: sa.URL) -> bool:
    """Return whether the parts of a URL have valid forms. If not, one of them may contain part of a password."""
    if url.drivername == "sqlite" and (url.host or url.username or url.password or url.port):
        return False
    return all(
        pattern.fullmatch(part or "")
        for pattern, part in ((_USER, url.username), (_HOST, url.host), (_DATABASE, url.database))
    )


@contextmanager
def translate_database_errors(url: sa.URL, *, may_repeat: bool = False) -> Iterator[None]:
    """Convert database errors into the ledger's errors: E415 for a lock, E416, E422 for damage, E423 if unreachable."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        match backend_of(url).failure_of(error):
            case StatementFailure.AWAY:
                raise database_errors.build_unreachable_error(url, error, may_repeat=may_repeat) from error
            case StatementFailure.NOT_LET_IN:
                raise database_errors.login_error(url, error) from error
            case StatementFailure.NO_DATABASE:
                raise database_errors.no_database(url, error) from error
            case StatementFailure.BUSY:
                raise database_errors.build_busy_error(url, error) from error
            case StatementFailure.DAMAGED:
                raise ledger_errors.damaged_ledger_error(url, error) from error
            case _:
                raise database_errors.refused_operation_error(url, error) from error
