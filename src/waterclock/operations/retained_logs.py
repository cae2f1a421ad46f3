"""Reports the change logs that sources keep for collects BY CHANGES, as runs last saw them, and their problems."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.log_retention import LogSafety, RetainedLog, is_followed, limit_of, parse_retained_log
from waterclock.flow.declarations import Flow
from waterclock.operations.formatting import bytes_words, count_words
from waterclock.operations.json import instant_text

if TYPE_CHECKING:
    from waterclock.ledger.sections.past import PastSection
    from waterclock.operations.project_opening import OpenedProject


@dataclass(frozen=True, slots=True)
class TableLog:
    """The log that a source keeps for one table, as last seen. `at` is None if no run has checked it yet.

    `limit`: the bytes above which the log is reported. `is_needed`: the table is still collected BY CHANGES from
    this source.
    """

    table: str
    connection: str
    name: str
    at: datetime | None
    kept: RetainedLog
    limit: int
    is_needed: bool = True

    @property
    def retained_bytes(self) -> int:
        """The size in bytes of the log at the source."""
        return self.kept.held

    @property
    def condition(self) -> LogSafety:
        """The state of the log at the source: safe, about to be lost, lost, or missing."""
        return self.kept.condition

    @property
    def seen_condition(self) -> str | None:
        """The condition of the log, or None if no run has checked it yet."""
        return None if self.at is None else self.condition.value

    @property
    def is_troubled(self) -> bool:
        """Whether the log needs attention: too large, or lost or at risk while it is still needed."""
        is_too_much = self.retained_bytes > self.limit
        return is_too_much or (self.is_needed and self.condition is not LogSafety.SAFE)

    def words(self) -> str:
        """Describe the condition of the log."""
        whose = f"{self.connection}: {self.name}"
        if self.condition is LogSafety.GONE:
            return f"{whose} is gone"
        if self.condition is LogSafety.LOST:
            return f"{whose} has lost its log"
        described = f"{whose} holds back {bytes_words(self.retained_bytes)} of the log"
        described += f", {bytes_words(self.kept.behind)} not collected" if self.is_needed else ", and no table needs it"
        if self.condition is LogSafety.LOSING:
            described += ", and the server may remove it at any time"
        elif self.retained_bytes > self.limit:
            described += f", more than {bytes_words(self.limit)}"
        return described

    def fix(self) -> str:
        """Return advice for a log that needs attention: too large, lost or at risk."""
        if not self.is_needed:
            return "`waterclock maintain` drops it"
        if self.condition in {LogSafety.GONE, LogSafety.LOST}:
            return "take a new snapshot of the table: give OPTIONS (snapshot '…') a new value"
        return f"check why {self.table} is not collected (`waterclock plan {self.table}`), or raise its log_limit"


def retained_logs(flow: Flow, past: PastSection, names: Collection[str], gone: Collection[str] = ()) -> list[TableLog]:
    """Return the logs that sources keep for some tables, and for tables that are `gone`. No source is contacted.

    Cost: two queries of the ledger if a log may be kept, otherwise none.
    """
    collects = [name for name in names if flow.tables[name].source is not None]
    if not (gone or any(is_followed(flow.tables[name]) for name in collects)):
        return []
    kept, seen = past.kept_for_tables([*collects, *gone]), past.read_retained_states([*collects, *gone])
    newest = {str(owner["table"]): name for name, owner in kept.items()}
    found = []
    for name, owner in kept.items():
        table = flow.tables.get(str(owner["table"]))
        is_needed = table is not None and is_followed(table, str(owner["connection"]))
        if is_needed and newest[str(owner["table"])] != name:
            continue  # an older log of the table, which its next batch drops at the source
        recorded = seen.get(str(owner["table"]))
        is_seen = recorded is not None and recorded.data["name"] == name
        condition = (
            RetainedLog(LogSafety.SAFE) if recorded is None or not is_seen else parse_retained_log(recorded.data)
        )
        at = recorded.at if recorded is not None and is_seen else None
        limit = limit_of(table if is_needed else None, condition.most)
        found.append(TableLog(str(owner["table"]), str(owner["connection"]), name, at, condition, limit, is_needed))
    return found


def list_held_logs(at: OpenedProject, names: Collection[str]) -> list[TableLog]:
    """Return the kept logs of some tables, as runs last saw them. If all tables are given, include removed tables."""
    if at.ledger is None:
        return []
    gone: list[str] = []
    if len(names) == len(at.flow.tables):
        gone = [record.name for record in at.ledger.reads.tables() if record.name not in at.flow.tables]
    return retained_logs(at.flow, at.ledger.past, names, gone)


def log_words(log: TableLog) -> str:
    """Describe the condition of a log, and when it was seen."""
    return f"{log.words()}{_format_seen_time(log)}"


def calm_words(logs: Sequence[TableLog]) -> str:
    """Summarize the logs that need no attention, with the size of the largest. Empty if there are none."""
    calm = [log for log in logs if log.is_needed and not log.is_troubled and log.at is not None]
    if not calm:
        return ""
    most, oldest = max(log.retained_bytes for log in calm), min(calm, key=lambda log: instant_text(log.at) or "")
    count = count_words(len(calm), "log is", "logs are")
    return f"{count} followed, of which {bytes_words(most)} at most are held back{_format_seen_time(oldest)}"


def _format_seen_time(log: TableLog) -> str:
    return "" if log.at is None else f" (seen {log.at:%Y-%m-%d %H:%M}Z)"
