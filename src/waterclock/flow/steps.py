"""Stateful steps: Python functions that pass a state for each key from window to window (`wc.stateful`)."""

from __future__ import annotations

from dataclasses import dataclass

ROWS, STATE, BEFORE, AFTER = "rows", "state", "before", "after"
"""The inputs of a step: the window's rows, the state before it, and the watermark of the rows before and after it."""


@dataclass(frozen=True, slots=True)
class StatefulStep:
    """The role of a function in a stateful step: if `is_state`, its table keeps the state, else the results.

    The function is called for each combination of the columns `keys`.
    """

    keys: tuple[str, ...]
    is_state: bool
