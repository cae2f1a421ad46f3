"""Reports the look-back of a batch at its source: how many past windows it checked, which had changed, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waterclock.operations.project_opening import OpenedProject

_MOST = 10
# how many newest labels to search: recomputed labels have no look-back record, and of the up to 31 labels of a claim
# only the oldest has it
_NEWEST = 64


def read_last_lookbacks(at: OpenedProject, names: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """Return the look-back record of the newest batch of each table with LOOKBACK ... CHANGED, from the ledger."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in names:
        source = at.flow.tables[name].source
        newest = None if source is None or source.changed is None or at.ledger is None else at.ledger.reads.newest(name)
        if newest is None or source is None or source.lookback is None or at.ledger is None:
            continue
        low = source.lookback.subtract_from(newest.label, at.flow.tables[name].cadence.zone)
        notes = at.ledger.reads.source_notes(name, low, newest.end, most=_NEWEST)
        lookback = next((of["looked"] for _, of in notes if "past" in of.get("looked", {})), None)
        if lookback is not None:
            found[name] = lookback
    return found


def lookbacks_json(lookbacks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return look-backs for scripts: when they ran, and by label why each past window had changed."""
    from waterclock.json_models.timeliness import LookBack

    return {
        name: LookBack(at=lookback["at"], changed=lookback["past"]["changed"]).to_json()
        for name, lookback in lookbacks.items()
    }


def format_lookbacks(lookbacks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each table, and one for each past window that had changed."""
    return [f"{name} {line}" for name, lookback in lookbacks.items() for line in lookback_lines(lookback)]


def lookback_lines(note: Mapping[str, Any]) -> list[str]:
    """Format a look-back record in lines: its time, and the past windows that were collected again."""
    past = note.get("past", {})
    spans = past.get("windows", [])
    changed = past.get("changed", {})
    at = datetime.fromisoformat(str(note["at"]))
    if not spans:
        return [f"checked at {at:%Y-%m-%d %H:%M:%SZ}; no earlier window was done"]
    reach = f"back to {datetime.fromisoformat(spans[0][0]):%Y-%m-%d %H:%MZ}"
    found = f"{len(changed)} changed" if changed else "none had changed"
    lines = [f"checked {reach} at {at:%Y-%m-%d %H:%M:%SZ}: {found}"]
    lines += [f"{label}: {why}" for label, why in list(changed.items())[:_MOST]]
    return [*lines, f"and {len(changed) - _MOST} more"] if len(changed) > _MOST else lines
