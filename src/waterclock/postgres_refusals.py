"""Classifies connections that a PostgreSQL server refuses, as opposed to servers that do not answer. Pure functions.

libpq gives no SQLSTATE for an error before the session starts. So the message of the server, or of PgBouncer, is
matched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

_NO_DATABASE = re.compile(r'database "[^"]*" does not exist|no such database')
_LOGIN = re.compile(
    r"authentication failed|pg_hba\.conf|role \"[^\"]*\" does not exist|no such user|is not permitted to log in"
    r"|no password supplied|permission denied for database|not currently accepting connections"
    r"|certificate|private key file|server does not support SSL"
)
_LOGIN_STATES = frozenset({"28000", "28P01"})
_NO_DATABASE_STATES = frozenset({"3D000"})


class Refused(Enum):
    """The reason why a server that answers refuses a connection."""

    LOGIN = auto()
    DATABASE = auto()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a connection is refused, and the line of the server's message that states it."""

    reason: Refused
    text: str


def refusal_of(state: str | None, text: str) -> Refusal | None:
    """Return why a connection is refused, given an error's SQLSTATE and text. Return None for any other error.

    The text is not matched if there is a SQLSTATE, since the session had started then.
    """
    lines = [line.strip() for line in text.strip().splitlines()] or [""]
    if state is not None:
        found = Refused.LOGIN if state in _LOGIN_STATES else Refused.DATABASE if state in _NO_DATABASE_STATES else None
        return None if found is None else Refusal(found, lines[0])
    for reason, pattern in ((Refused.DATABASE, _NO_DATABASE), (Refused.LOGIN, _LOGIN)):
        for line in lines:
            if pattern.search(line):
                return Refusal(reason, line)
    return None
