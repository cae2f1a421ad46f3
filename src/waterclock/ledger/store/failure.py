"""Why a database did not do what it was asked to, in the few kinds that a ledger tells apart."""

from __future__ import annotations

from enum import Enum, auto


class Failure(Enum):
    """Why a statement failed."""

    BUSY = auto()  # another holds the lock; the same may succeed later
    DAMAGED = auto()  # what every ledger has is not there, or the file is no database
    NOT_LET_IN = auto()  # the server does not accept user, password or host
    NO_DATABASE = auto()  # the server answers, and has no such database
    AWAY = auto()  # the server did not answer, or broke the connection off: nothing of the transaction was written
    REFUSED = auto()  # whatever else the database says
