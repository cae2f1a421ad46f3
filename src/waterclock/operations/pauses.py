"""Formats pauses for people, and resolves which tables a pause selects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from waterclock.batches.ledger_snapshot import LedgerSnapshot, Pause
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger_errors import no_pause
from waterclock.planner.plan import Plan
from waterclock.selection import select

_MOST_NAMED = 3


def select_paused_tables(flow: Flow, texts: list[str] | None, labels: str | None = None) -> tuple[str, ...] | None:
    """Return the tables to pause or resume; None for all. Raises E430 if labels are given, E510 to E514."""
    found = select(flow, *texts, has_both_parts=True) if texts else None
    if labels or (found and found.labels):
        name, given = next(iter(found.labels.items()), (found.tables[0], labels)) if found else ("TABLE", labels)
        raise no_pause(
            "a pause is of whole tables",
            why=f"labels are given: {given}",
            fix=f"give only the table; `waterclock skip {name} LABELS` leaves labels out",
        )
    return None if found is None else found.tables


def pause_lines(plan: Plan, zone: str) -> list[str]:
    """Describe a plan's pauses: who paused which tables, since when and why. Tables paused together share a line."""
    of_all = [] if plan.paused_all is None else [plan.paused_all.words(zone)]
    return [*of_all, *_pause_lines(plan.paused, zone)]


def waiting_request_lines(snapshot: LedgerSnapshot, names: Iterable[str], zone: str) -> list[str]:
    """Return lines noting that requests for paused tables wait until they are resumed. Empty if none is paused."""
    of_all = [] if snapshot.paused is None else [snapshot.paused.words(zone)]
    lines = [*of_all, *paused_by_name(snapshot, names, zone)]
    return [*lines, "requests are kept, and carried out after `waterclock resume`"] if lines else []


def paused_by_name(snapshot: LedgerSnapshot, names: Iterable[str], zone: str) -> list[str]:
    """Describe which of some tables are paused by name, by whom, since when and why."""
    return _pause_lines({name: pause for name in names if (pause := snapshot.of(name).paused)}, zone)


def _pause_lines(pauses: Mapping[str, Pause], zone: str) -> list[str]:
    together: dict[tuple[datetime, str, str], list[str]] = {}
    for name, pause in pauses.items():
        together.setdefault((pause.at, pause.who, pause.why), []).append(name)
    return [
        f"{names_words(names)} {'is' if len(names) == 1 else 'are'} {pauses[names[0]].words(zone)}"
        for names in together.values()
    ]


def names_words(names: Collection[str]) -> str:
    """Format table names: at most the first three, and the number of the others."""
    more = len(names) - _MOST_NAMED
    return ", ".join([*names][:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
