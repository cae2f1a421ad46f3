"""Defines the row changes that decoders read from the log of a PostgreSQL server. Pure functions.

Positions are byte offsets in the log (`pg_lsn` as a number). The position of a transaction is that of its commit. A
reader at position `p` has not read the transactions that commit at or after `p`. Times are commit times, in UTC. They
may decrease if a clock was set back; positions never do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Op(StrEnum):
    """The kind of a change. SNAPSHOT rows existed when the slot was created."""

    SNAPSHOT = "snapshot"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"


@dataclass(frozen=True, slots=True)
class Begin:
    """The start of a transaction, with the position and time of its commit.

    Transactions that do not change the table are included.
    """

    xid: int
    committed_at: int
    at: datetime


@dataclass(frozen=True, slots=True)
class LogChange:
    """One change of a row, or a truncate. Values are texts as the server writes them, None for NULL.

    `after` is the new row, without large values that an update left unchanged. `before` has the known columns of the
    old row: those of its replica identity, or all under REPLICA IDENTITY FULL; None if none are known. `number` counts
    the table's changes within their transaction, from 0. `columns` are the column names in the log, in the table's
    order, each with its column's number if the log has it. `other_schema` is the schema of a change of another table
    that has the same name; None for the table's own changes.
    """

    op: Op
    begin: Begin
    number: int
    after: Mapping[str, str | None] | None = None
    before: Mapping[str, str | None] | None = None
    columns: tuple[tuple[str, int | None], ...] = field(default=(), compare=False)
    other_schema: str | None = None


Event = Begin | LogChange


def position_of(text: str) -> int:
    """Parse a log position in the server's format, such as `16/B374D848`."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def position_text(position: int) -> str:
    """Format a log position as the server does."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def instant_of_log(micros: int) -> datetime:
    """Convert microseconds since 2000, the server's epoch, to an instant."""
    return POSTGRES_EPOCH + micros * _MICROSECOND
