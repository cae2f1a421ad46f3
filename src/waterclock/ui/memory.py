"""Remembers what pages told of a project while neither its files nor its ledger change: many look at the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import datetime

from waterclock.operations.opening import Reading
from waterclock.ui.asking import Told

_State = tuple[object, object, datetime]  # planner, snapshot, minute
_MOST = 24  # pages of one state of the project; those of 500 tables take some 3 MB each


class Memory:
    """What was told, for one state of the project; used by many threads.

    What hangs on the clock alone is looked at anew each minute: labels begin and end with minutes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: OrderedDict[Hashable, Told] = OrderedDict()
        self._state: _State | None = None

    def told(self, at: Reading, key: Hashable, tell: Callable[[], Told]) -> Told:
        """Return what `tell` tells, or told before of the same state under the same key."""
        state = at.planner, at.snapshot, at.now.replace(second=0, microsecond=0)
        with self._lock:
            if not self._is_of(state):
                self._told.clear()
                self._state = state
            elif key in self._told:
                self._told.move_to_end(key)
                return self._told[key]
        told = tell()
        with self._lock:
            if self._is_of(state):
                self._told[key] = told
                if len(self._told) > _MOST:
                    self._told.popitem(last=False)
        return told

    def _is_of(self, state: _State) -> bool:
        """Tell whether this is the state that is remembered: planner and snapshot are made anew for another."""
        if self._state is None:
            return False
        (planner, snapshot, minute), (known, seen, then) = state, self._state
        return planner is known and snapshot is seen and minute == then
