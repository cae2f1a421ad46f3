"""A rule in Python that carries a state from window to window, key by key."""

from __future__ import annotations

from dataclasses import dataclass

ROWS, STATE, BEFORE, AFTER = "rows", "state", "before", "after"
"""What a step reads: the window's rows, the state before them, and the marks of the rows' table, where it has one."""


@dataclass(frozen=True, slots=True)
class Step:
    """Which of the two tables of a step its function makes here: that of the state, or that of what comes out.

    The rows of a key are brought together with the state's rows of that key.
    """

    keys: tuple[str, ...]
    is_state: bool
