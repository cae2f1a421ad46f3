"""Represents the client that waits for the answer to a query, and may disconnect before it arrives."""

from __future__ import annotations

from collections.abc import Callable

from waterclock.permissions.users_and_roles import Person


class QueryClient:
    """The client that waits for the answer to one query. `name` is the client's id, "" if it is unknown.

    `person` sees only what is granted to them; None is the owner of the process.
    """

    def __init__(self, name: str = "", person: Person | None = None) -> None:
        self.name = name
        self.person = person
        self.has_left = False
        self._wake: Callable[[], None] | None = None

    def leave(self) -> None:
        """Mark the client as gone, and stop its query, as no client needs the answer."""
        self.has_left = True
        if self._wake is not None:
            self._wake()

    def on_leaving(self, wake: Callable[[], None]) -> None:
        """Register a callback for when the reader leaves. Call it at once if it has left already."""
        self._wake = wake
        if self.has_left:
            wake()
