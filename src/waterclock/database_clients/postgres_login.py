"""Distinguishes PostgreSQL servers that refuse a connection from servers that do not answer.

libpq gives no SQLSTATE for an error before the session starts, so the text of the error is matched. A server may answer
in another language. Then `connect` tries once more with libpq's trace of the protocol, which contains the SQLSTATE. The
trace needs Linux and the libpq of PostgreSQL 18; otherwise only the text is matched.
"""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from waterclock.database_clients.local_sockets import is_protected
from waterclock.database_clients.postgres_client import client_type
from waterclock.database_clients.time_limits import limit_connection_time

if TYPE_CHECKING:
    import psycopg

_NO_DATABASE = re.compile(r'database "[^"]*" does not exist|no such database')
_LOGIN = re.compile(
    r"authentication failed|pg_hba\.conf|role \"[^\"]*\" does not exist|no such user|is not permitted to log in"
    r"|no password supplied|permission denied for database|not currently accepting connections"
    r"|certificate|private key file|server does not support SSL|authentication method requirement"
)
_LOGIN_STATES = frozenset({"28000", "28P01"})
_NO_DATABASE_STATES = frozenset({"3D000"})
_SECONDS = 10
_FIRST_SECONDS = 150  # by default PgBouncer lets a first statement wait up to 120 seconds for a server
_VERIFIED = frozenset({"verify-ca", "verify-full"})
_REVEALING = "server requested a cleartext password"
_NOT_REVEALED = (
    "it asks for the password itself, and nothing shows that it is the right server; the password was not sent: have "
    "the server verified (?sslmode=verify-full&sslrootcert=... in the url, or ca of a connection), or add "
    "?require_auth=password to the url if no other server can answer at this address"
)
_REQUIRES = 160000  # the first libpq that supports require_auth
_FROM_SERVER = re.compile(r"failed: \S+ ?:  ")  # libpq writes two blanks after the server's word for FATAL
_TRACED_STATE = re.compile(rb'ErrorResponse\b.*? C "([0-9A-Z]{5})"', re.DOTALL)


class RefusalReason(Enum):
    """The reason why a server that answers refuses a connection."""

    LOGIN = auto()
    DATABASE = auto()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a server refuses a connection, and the line of its message that states the reason."""

    reason: RefusalReason
    text: str


def refusal_of(state: str | None, text: str) -> Refusal | None:
    """Classify an error by its SQLSTATE and text. Return None for an error that is not a refusal.

    The text is not matched if there is a SQLSTATE, since the session had started then.
    """
    lines = [line.strip() for line in text.strip().splitlines()] or [""]
    if state is not None:
        found = (
            RefusalReason.LOGIN
            if state in _LOGIN_STATES
            else RefusalReason.DATABASE
            if state in _NO_DATABASE_STATES
            else None
        )
        return None if found is None else Refusal(found, lines[0])
    for reason, pattern in ((RefusalReason.DATABASE, _NO_DATABASE), (RefusalReason.LOGIN, _LOGIN)):
        for line in lines:
            if pattern.search(line):
                return Refusal(reason, _NOT_REVEALED if _REVEALING in line else line)
    return None


def connect(
    conninfo: str = "", *, is_trusted: bool = False, most_bytes: int | None = None, **settings: Any
) -> psycopg.Connection[Any]:
    """Connect as psycopg does, with limits for each answer. The error of a refusal has its SQLSTATE if it is known.

    The password is not sent as plain text to a server that is neither verified nor `is_trusted`, unless the address or
    the environment sets `require_auth`. This protection needs libpq 16 or later. `most_bytes` is the maximum size of an
    answer. Cost: a second attempt if the server's message is not recognized.
    """
    import psycopg

    settings = settings if is_trusted else _protect_password(conninfo, settings)
    try:
        connection: psycopg.Connection[Any] = client_type().connect(conninfo, **settings)
    except psycopg.OperationalError as error:
        text = str(error)
        if error.sqlstate is None and refusal_of(None, text) is None and _FROM_SERVER.search(text):
            error.sqlstate = _state_of_refusal(conninfo, settings)
        raise
    connection.most_bytes = most_bytes  # type: ignore[attr-defined]
    return connection


@contextmanager
def limit_first_statements(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Limit the time of the first, short statements of a connection, and close it if the block fails.

    libpq limits only the login: a server can accept it and then be silent, or send notices without an end. Raises
    OperationalError, as for a server that is gone, if they are not answered in time.
    """
    from psycopg import OperationalError

    try:
        with limit_connection_time(_FIRST_SECONDS, connection.fileno()):
            yield
    except BaseException as error:
        connection.close()
        if isinstance(error, TimeoutError):
            raise OperationalError(f"it accepted the login, but then gave {error}") from error
        raise


def _protect_password(conninfo: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Add to the settings a `require_auth` that keeps the plain password from servers that are not verified."""
    from psycopg import pq
    from psycopg.conninfo import conninfo_to_dict

    of_environment = {each.keyword.decode(): each.val.decode() for each in pq.Conninfo.get_defaults() if each.val}
    parameters = {**of_environment, **conninfo_to_dict(conninfo), **settings}
    hosts = [str(parameters[name]) for name in ("host", "hostaddr") if parameters.get(name)]
    # a service defines its host in a separate file
    is_socket = not parameters.get("service") and all(is_protected(each) for host in hosts for each in host.split(","))
    if pq.version() < _REQUIRES or "require_auth" in parameters or is_socket or parameters.get("sslmode") in _VERIFIED:
        return settings
    return {**settings, "require_auth": "!password"}


def _state_of_refusal(conninfo: str, settings: Mapping[str, Any]) -> str | None:
    """Connect once more with a trace, and return the SQLSTATE of the server's error; None if it is not known."""
    from psycopg import NotSupportedError, pq
    from psycopg.conninfo import make_conninfo

    if not hasattr(os, "memfd_create"):
        return None
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    wanted = make_conninfo(conninfo, **{name: value for name, value in settings.items() if name in known})
    end = time.monotonic() + _SECONDS
    trace = os.memfd_create("waterclock")
    connection = pq.PGconn.connect_start(wanted.encode())
    try:
        connection.trace(trace)
        connection.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS)
        while (remaining := end - time.monotonic()) > 0:
            status = connection.connect_poll()
            if status not in {pq.PollingStatus.READING, pq.PollingStatus.WRITING}:
                break
            waits = ([connection.socket], []) if status == pq.PollingStatus.READING else ([], [connection.socket])
            select.select(*waits, [], remaining)
        connection.untrace()
        found = _TRACED_STATE.search(os.pread(trace, 1 << 20, 0))
        return found[1].decode() if found else None
    except (NotSupportedError, OSError):
        return None
    finally:
        connection.finish()
        os.close(trace)
