"""A read of a source by a tick that runs in the thread of the tick, for tests of many ticks."""

from __future__ import annotations

from typing import Any

from waterclock.engine.continuous.table_reads import Attempt


class InlineAttempt(Attempt[Any]):
    """A read that is over once it is started."""

    def start(self) -> None:
        """Read the source."""
        self.run()

    def join(self, timeout: float | None = None) -> None:
        """Return at once."""

    def is_alive(self) -> bool:
        """Return False: the read is over."""
        return False
