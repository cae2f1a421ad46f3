"""Caches the contents of pages until the project's files or its ledger change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import datetime

from waterclock.operations.project_opening import OpenedProject
from waterclock.ui.page_query import Content

_State = tuple[object, object, datetime]  # planner, snapshot, minute
_MOST = 24  # pages of one state of the project; those of 500 tables take some 3 MB each


class PageCache:
    """A thread-safe cache of page contents for one state of the project.

    Contents that depend only on the clock are computed again each minute, because labels start and end at full minutes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._contents: OrderedDict[Hashable, Content] = OrderedDict()
        self._state: _State | None = None

    def get_or_compute(self, at: OpenedProject, key: Hashable, compute: Callable[[], Content]) -> Content:
        """Return the cached content for this state and key, or else compute it with `compute`."""
        state = at.planner, at.snapshot, at.now.replace(second=0, microsecond=0)
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

    def _is_current(self, state: _State) -> bool:
        """Return whether the cache is for this state. A changed project has other planner and snapshot objects."""
        if self._state is None:
            return False
        (planner, snapshot, minute), (known, seen, then) = state, self._state
        return planner is known and snapshot is seen and minute == then
