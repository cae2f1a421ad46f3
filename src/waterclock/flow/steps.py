"""Steps: functions in Python that carry a state from window to window, key by key."""

from __future__ import annotations

from dataclasses import dataclass

ROWS, STATE, BEFORE, AFTER = "rows", "state", "before", "after"
"""The parameters of a step: the window's rows, the state before it, and the marks of the rows' table, if any."""


@dataclass(frozen=True, slots=True)
class StatefulStep:
    """Which table of a step its function computes: the state, whose rows are grouped by key, or the results."""

    keys: tuple[str, ...]
    is_state: bool
