"""What a kind of database offers to hold a ledger; all else is written once for all of them, in SQLAlchemy's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, Protocol, cast

import sqlalchemy as sa

from waterclock.ledger import refusals, refused_databases
from waterclock.ledger.store import postgres, sqlite
from waterclock.ledger.store.failure import Failure

Said = tuple[sa.Executable, Any]  # a statement and its values: one set of them by name, or a list of sets
_USER = re.compile(r"[^:/?#\s]*")
_HOST = re.compile(r"[A-Za-z0-9_.,%-]*|[0-9A-Fa-f:.%]*")
_DATABASE = re.compile(r"[^@/?#=:\s]*")
_OF_A_FILE = "sqlite:///"


class Backend(Protocol):
    """A kind of database: a module of this package with these functions."""

    NOW: str  # SQL of the database's own clock in microseconds since 1970; NULL where it has none
    TRANSACTION: str  # SQL of the number by which a transaction's outcome can be asked for; NULL where it cannot

    def create_engine(self, url: sa.URL) -> sa.Engine:
        """Make the engine; nothing is opened yet."""

    def clock(self) -> Callable[[], datetime]:
        """Return the clock of a ledger in such a database."""

    def lock_of(self, url: sa.URL) -> AbstractContextManager[Any]:
        """Return what threads of this process must hold during a transaction."""

    def exists(self, engine: sa.Engine, url: sa.URL) -> bool:
        """Whether there is anything where the ledger is to be."""

    def make_room(self, engine: sa.Engine, url: sa.URL) -> None:
        """Make what a new ledger lies in: a folder, a schema."""

    def begin(self, connection: sa.Connection, url: sa.URL, *, writes: bool, first: Said | None) -> Any:
        """Begin the database's own transaction; give the first row of what its first statement answers."""

    def say(self, connection: sa.Connection, said: Sequence[Said], *, commits: bool = False) -> None:
        """Carry out statements that answer nothing, one after the other; `commits` may end the transaction with it."""

    def lock_schema(self, connection: sa.Connection) -> None:
        """Let two that bring one ledger up to date take turns."""

    def count_on(self, connection: sa.Connection) -> None:
        """Number events after those that were loaded with their numbers."""

    def outcome_of(self, connection: sa.Connection, transaction: int) -> bool | None:
        """Tell whether a transaction was committed; None where that is not decided yet."""

    def failure_of(self, error: sa.exc.DBAPIError) -> Failure:
        """Tell why a statement failed."""


def backend_of(url: sa.URL) -> Backend:
    """Return the module that speaks to the kind of database of a URL."""
    return cast("Backend", sqlite if url.get_backend_name() == "sqlite" else postgres)


def parse_url(url: str) -> sa.URL:
    """Read the URL of a ledger.

    Raises  E403 for one of no known kind, or whose parts cannot be distinguished
    """
    if url.startswith(_OF_A_FILE):  # all that follows is its path, which may hold a question mark
        return sa.URL.create("sqlite", database=url.removeprefix(_OF_A_FILE))
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # whose words show what may be a piece of a password
        raise refusals.unknown_url(url) from None
    if parsed.drivername not in ("sqlite", *postgres.SCHEMES) or not _is_plain(parsed):
        raise refusals.unknown_url(url)
    return parsed


def _is_plain(url: sa.URL) -> bool:
    """Return whether the parts of a URL are what they can be; where not, one of them holds a piece of a password."""
    if url.drivername == "sqlite" and (url.host or url.username or url.password or url.port):
        return False
    return all(
        pattern.fullmatch(part or "")
        for pattern, part in ((_USER, url.username), (_HOST, url.host), (_DATABASE, url.database))
    )


@contextmanager
def telling(url: sa.URL, *, may_repeat: bool = False) -> Iterator[None]:
    """Tell in the ledger's words what its database refuses.

    Raises  E415 where it is locked, E416 where it refuses the login or a statement, E422 where it is damaged, E423
            where it is away
    """
    try:
        yield
    except sa.exc.DBAPIError as error:
        match backend_of(url).failure_of(error):
            case Failure.AWAY:
                raise refused_databases.away(url, error, may_repeat=may_repeat) from error
            case Failure.NOT_LET_IN:
                raise refused_databases.not_let_in(url, error) from error
            case Failure.NO_DATABASE:
                raise refused_databases.no_database(url, error) from error
            case Failure.BUSY:
                raise refused_databases.busy(url, error) from error
            case Failure.DAMAGED:
                raise refusals.damaged(url, error) from error
            case _:
                raise refused_databases.failed(url, error) from error
