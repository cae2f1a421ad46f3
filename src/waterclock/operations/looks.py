"""Tells what a batch's look back at its source found: how many past windows it looked at, which changed, and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

_MOST = 10


def look_lines(note: Mapping[str, Any]) -> list[str]:
    """Return lines of what a batch noted of a look: up to when, and the past windows that it collected again."""
    past = note.get("past", {})
    spans = past.get("windows", [])
    changed = past.get("changed", {})
    at = datetime.fromisoformat(str(note["at"]))
    if not spans:
        return [f"looked at {at:%Y-%m-%d %H:%M:%SZ}; no window before it was done"]
    reach = f"back to {datetime.fromisoformat(spans[0][0]):%Y-%m-%d %H:%MZ}"
    found = f"{len(changed)} changed" if changed else "none had changed"
    lines = [f"looked {reach} at {at:%Y-%m-%d %H:%M:%SZ}: {found}"]
    lines += [f"{label}: {why}" for label, why in list(changed.items())[:_MOST]]
    return [*lines, f"and {len(changed) - _MOST} more"] if len(changed) > _MOST else lines
