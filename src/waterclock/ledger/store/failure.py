"""The kinds of database failures that a ledger distinguishes."""

from __future__ import annotations

from enum import Enum, auto


class StatementFailure(Enum):
    """The reasons why a statement failed."""

    BUSY = auto()  # another transaction has the lock; the same statement may succeed later
    DAMAGED = auto()  # a table that every ledger has is missing, or the file is no database
    NOT_LET_IN = auto()  # the server does not accept user, password or host
    NO_DATABASE = auto()  # the server answers, and has no such database
    AWAY = auto()  # the server did not answer, or closed the connection: nothing of the transaction was written
    REFUSED = auto()  # any other error of the database
