"""Checks that a server's log continues the one that was read before, and is not another log with the same positions.

A restored server or a promoted standby starts a new timeline, at the position where it left the previous one. Changes
that a batch has collected from the old timeline after that position do not exist on this server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.postgres.database import PostgresDatabase
from waterclock.connectors.postgres.log_changes import position_of, position_text
from waterclock.connectors.postgres.table_facts import AGAIN
from waterclock.database_clients.postgres_client import execute_replication
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_HEXADECIMAL = 16
_HISTORY_LINE = re.compile(r"^\s*(\d+)\s+([0-9A-F]+/[0-9A-F]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a server's log, and its timeline."""

    end: int
    timeline: int


def read_log_end(connection: Connection, where: str) -> LogEnd:
    """Return the end of the log that is flushed to disk, and the timeline. Raises E861 (transient) at a standby."""
    row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    if row is None or row[0]:
        raise WaterclockError(
            "E861",
            "the server is a standby, or in recovery",
            where=where,
            why="changes are collected from the primary; nothing was collected here",
            fix="it is tried again; check that the connection's url is that of the primary",
            transient=True,
        )
    row = connection.execute(
        "SELECT pg_current_wal_flush_lsn(), substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8)"
    ).fetchone()
    if row is None:
        raise AssertionError("a server without a log")
    return LogEnd(position_of(str(row[0])), int(row[1], _HEXADECIMAL))


def require_same_log(database: PostgresDatabase, since: Mapping[str, Any], place: LogEnd, where: str) -> None:
    """Check that this server's log contains all collected changes. Raises E860 after a restore or a promotion."""
    low = int(since["to"])
    if place.end < low:
        raise _restored_server_error(where, low, f"its log ends at {position_text(place.end)}")
    before = int(since.get("timeline", place.timeline))
    if before == place.timeline:
        return
    left = {
        int(number): position_of(at)
        for number, at in _HISTORY_LINE.findall(_read_timeline_history(database, place.timeline, where))
    }
    if before not in left:
        raise _restored_server_error(where, low, f"its timeline {place.timeline} does not come from {before}")
    if left[before] < low:
        raise _restored_server_error(
            where, low, f"its timeline {place.timeline} left {before} at {position_text(left[before])}"
        )


def _read_timeline_history(database: PostgresDatabase, timeline: int, where: str) -> str:
    from psycopg.pq import ExecStatus

    with database.connect_for_replication(where) as connection:
        result = execute_replication(connection, f"TIMELINE_HISTORY {timeline}")
        return (result.get_value(0, 1) or b"").decode() if result.status == ExecStatus.TUPLES_OK else ""


def _restored_server_error(where: str, low: int, why: str) -> WaterclockError:
    return WaterclockError(
        "E860",
        "the server was restored or replaced",
        where=where,
        why=f"{why}, and the last batch read up to {position_text(low)}: the server has another log for a part of"
        " that, and the differences cannot be determined",
        fix=AGAIN,
    )
