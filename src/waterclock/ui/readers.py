"""The client that waits for the answer to a query, and may leave before it has it."""

from __future__ import annotations

from collections.abc import Callable


class Reader:
    """Waits for the answer to one query. `name` tells readers apart; readers without a name count as different ones."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.has_left = False
        self._wake: Callable[[], None] | None = None

    def leave(self) -> None:
        """Stop the query; its answer is not needed any more."""
        self.has_left = True
        if self._wake is not None:
            self._wake()

    def on_leaving(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when the reader leaves."""
        self._wake = wake
        if self.has_left:
            wake()
