"""Tells what sources keep of their logs for collects BY CHANGES, as runs saw it last, and what of that is too much."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.batches.kept_logs import Kept, Stands, is_followed, kept_of, limit_of
from waterclock.flow.declarations import Flow
from waterclock.operations.json import instant_text
from waterclock.operations.words import bytes_words, count_words

if TYPE_CHECKING:
    from waterclock.ledger.ledger import Past


@dataclass(frozen=True, slots=True)
class HeldLog:
    """What a source keeps for one table under a name, as it was seen last; `at` is None where no run looked yet.

    `limit`: of more than that many bytes somebody is told. `is_needed`: the table is collected BY CHANGES, from there.
    """

    table: str
    connection: str
    name: str
    at: datetime | None
    kept: Kept
    limit: int
    is_needed: bool = True

    @property
    def held(self) -> int:
        """How many bytes of the log the source keeps."""
        return self.kept.held

    @property
    def stands(self) -> Stands:
        """How it stands."""
        return self.kept.stands

    @property
    def is_troubled(self) -> bool:
        """Whether somebody is to be told: it is too much, or it is lost, or will be. What nobody needs may be lost."""
        is_too_much = self.held > self.limit
        return is_too_much or (self.is_needed and self.stands is not Stands.SAFE)

    def words(self) -> str:
        """Say how it stands."""
        whose = f"{self.connection}: {self.name}"
        if self.stands is Stands.GONE:
            return f"{whose} is gone"
        if self.stands is Stands.LOST:
            return f"{whose} has lost its log"
        said = f"{whose} holds back {bytes_words(self.held)} of the log"
        said += f", {bytes_words(self.kept.behind)} not collected" if self.is_needed else ", for nobody"
        if self.stands is Stands.LOSING:
            said += ", and the server may remove it at any time"
        elif self.held > self.limit:
            said += f", more than {bytes_words(self.limit)}"
        return said

    def fix(self) -> str:
        """Say what can be done."""
        if not self.is_needed:
            return "`waterclock maintain` drops it"
        if self.stands in {Stands.GONE, Stands.LOST}:
            return "take the table whole once more: give OPTIONS (snapshot '…') a value that it did not have"
        return f"see why {self.table} is not collected (`waterclock plan {self.table}`), or raise its log_limit"

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts, sizes in bytes."""
        return {
            "table": self.table,
            "connection": self.connection,
            "name": self.name,
            "at": instant_text(self.at),
            "stands": None if self.at is None else self.stands.value,
            "held": self.held,
            "behind": self.kept.behind,
            "most": self.kept.most,
            "limit": self.limit,
            "is_needed": self.is_needed,
            "is_troubled": self.is_troubled,
        }


def held_logs(flow: Flow, past: Past, names: Collection[str], gone: Collection[str] = ()) -> list[HeldLog]:
    """Return what sources keep for some tables, and for those that are `gone`; no source is asked.

    Cost: two questions to the ledger where something may be kept, else none.
    """
    meant = [name for name in names if flow.tables[name].source is not None]
    if not (gone or any(is_followed(flow.tables[name]) for name in meant)):
        return []
    kept, seen = past.kept_for([*meant, *gone]), past.seen_at_sources([*meant, *gone])
    newest = {str(said["table"]): name for name, said in kept.items()}
    found = []
    for name, said in kept.items():
        table = flow.tables.get(str(said["table"]))
        is_needed = table is not None and is_followed(table, str(said["connection"]))
        if is_needed and newest[str(said["table"])] != name:
            continue  # the next batch has the source let go of it
        noted = seen.get(str(said["table"]))
        is_seen = noted is not None and noted.data["name"] == name
        stood = Kept(Stands.SAFE) if noted is None or not is_seen else kept_of(noted.data)
        at = noted.at if noted is not None and is_seen else None
        limit = limit_of(table if is_needed else None, stood.most)
        found.append(HeldLog(str(said["table"]), str(said["connection"]), name, at, stood, limit, is_needed))
    return found


def log_words(log: HeldLog) -> str:
    """Say how a log stood, and when that was."""
    return f"{log.words()}{_when(log)}"


def calm_words(logs: Sequence[HeldLog]) -> str:
    """Say of the logs that nobody has to look at how much is kept for them at most; empty where there are none."""
    calm = [log for log in logs if log.is_needed and not log.is_troubled and log.at is not None]
    if not calm:
        return ""
    most, oldest = max(log.held for log in calm), min(calm, key=lambda log: instant_text(log.at) or "")
    count = count_words(len(calm), "log is", "logs are")
    return f"{count} followed, of which {bytes_words(most)} at most are held back{_when(oldest)}"


def _when(log: HeldLog) -> str:
    return "" if log.at is None else f" (seen {log.at:%Y-%m-%d %H:%M}Z)"
