"""Stateful steps: Python functions that pass a state for each key from window to window (`wc.stateful`)."""

from __future__ import annotations

from dataclasses import dataclass

ROWS, STATE, BEFORE, AFTER = "rows", "state", "before", "after"
"""The inputs of a step: the window's rows, the state before it, and the watermarks before and after the window."""


@dataclass(frozen=True, slots=True)
class StatefulStep:
    """The table that a stateful function makes: if `is_state`, the table of the state, else that of the output rows.

    The function is called for each combination of values in the columns `keys`.
    """

    keys: tuple[str, ...]
    is_state: bool
