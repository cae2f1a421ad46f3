"""What the log of a PostgreSQL database says of one table, however it was decoded: changes of rows, in log order. Pure.

Positions are numbers of bytes since the log began (`pg_lsn` as a number). A transaction is placed by the position of
its commit; all that commits at or behind a position `p` is what a reader at `p` has still to see. Times are those of
the commits, in UTC; they may go back where a clock was set, positions never do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Op(StrEnum):
    """What a change did. A snapshot's rows were there when the log was begun."""

    SNAPSHOT = "snapshot"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction that changed something, maybe not the table: where and when it was committed."""

    xid: int
    committed_at: int
    at: datetime


@dataclass(frozen=True, slots=True)
class LogChange:
    """One change of the table. Values are texts as the server writes them, None for NULL.

    `after` is the new row, without large values that the update left alone. `before` is what is known of the old one:
    the columns of its identity, or all of them under REPLICA IDENTITY FULL; None where nothing is. `number` counts the
    changes of the table within their transaction, from 0. `columns` are the names by which it is told, in the table's
    order, each with its column's number where the log has it.
    """

    op: Op
    begin: Begin
    number: int
    after: Mapping[str, str | None] | None = None
    before: Mapping[str, str | None] | None = None
    columns: tuple[tuple[str, int | None], ...] = field(default=(), compare=False)


Event = Begin | LogChange


def position_of(text: str) -> int:
    """Read a position as the server writes it: `16/B374D848`."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def position_text(position: int) -> str:
    """Write a position as the server reads it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def instant_of_log(micros: int) -> datetime:
    """Return the instant of so many microseconds since 2000, by which the server counts."""
    return POSTGRES_EPOCH + micros * _MICROSECOND
