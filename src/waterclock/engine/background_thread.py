"""Runs work next to a block in a thread of its own, until the block ends."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class BackgroundThread(ABC):
    """A context manager that runs `_run` in a thread while its block runs.

    `_run` returns soon after `_done` is set. The block waits for it for `most_seconds`, or without a limit.
    """

    def __init__(self, name: str, *, most_seconds: float | None = None) -> None:
        self._done = threading.Event()
        self._most_seconds = most_seconds
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(self._most_seconds)

    @abstractmethod
    def _run(self) -> None:
        """Do the work of the thread."""
