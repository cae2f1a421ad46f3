"""Caches the contents of pages until the project's files or its ledger change, and the state of ticks for a second."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from waterclock.operations.project_opening import OpenedProject
from waterclock.ui.page_query import Content

_State = tuple[object, object, object]  # planner, snapshot, minute or second
_MOST = 24  # pages of one state of the project; those of 500 tables take some 3 MB each


def _minute_of(at: OpenedProject) -> object:
    return at.now.replace(second=0, microsecond=0)


def current_second(_: OpenedProject) -> object:
    """Return the second of a monotonic clock."""
    return int(time.monotonic())


class PageCache:
    """A thread-safe cache of page contents for one state of the project.

    Contents that depend only on the clock are computed again if `moment` returns another value. It is the minute by
    default, because labels start and end at full minutes.
    """

    def __init__(self, moment: Callable[[OpenedProject], object] = _minute_of) -> None:
        self._moment = moment
        self._lock = threading.Lock()
        self._contents: OrderedDict[Hashable, Content] = OrderedDict()
        self._state: _State | None = None

    def get_or_compute(self, at: OpenedProject, key: Hashable, compute: Callable[[], Content]) -> Content:
        """Return the cached content for this state and key, or else compute it with `compute`."""
        state = at.planner, at.snapshot, self._moment(at)
        with self._lock:
            if not self._is_current(state):
                self._contents.clear()
                self._state = state
            elif key in self._contents:
                self._contents.move_to_end(key)
                return self._contents[key]
        content = compute()
        with self._lock:
            if self._is_current(state):
                self._contents[key] = content
                if len(self._contents) > _MOST:
                    self._contents.popitem(last=False)
        return content

    def clear(self) -> None:
        """Remove all contents, also those that are being computed now."""
        with self._lock:
            self._contents.clear()
            self._state = None

    def _is_current(self, state: _State) -> bool:
        """Return whether the cache is for this state. A changed project has other planner and snapshot objects."""
        if self._state is None:
            return False
        (planner, snapshot, moment), (known, seen, then) = state, self._state
        return planner is known and snapshot is seen and moment == then
