"""The `[openlineage]` section of the project file: the destination of OpenLineage events."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.flow.declarations import Secret


@dataclass(frozen=True, slots=True)
class LineageSink:
    """The destination of OpenLineage events: a server's address with an optional token, or a file below the project.

    - `namespace`: the namespace of all jobs and tables of the project.
    - `is_on`: the current environment sends events.
    - `place`: the position of the declaration in the project file, for messages.
    """

    url: str | Secret | None = None
    file: str | None = None
    token: str | Secret | None = None
    namespace: str = ""
    is_on: bool = False
    place: str = ""

    @property
    def is_declared(self) -> bool:
        """True if the project file has the section `[openlineage]`."""
        return self.url is not None or self.file is not None

    @property
    def display_name(self) -> str:
        """The destination as messages show it, without the parts of an address that may contain a secret."""
        if self.file is not None:
            return self.file
        if isinstance(self.url, Secret):
            return f"the address in secret {self.url.name}"
        return (self.url or "").partition("?")[0].rpartition("@")[2]
