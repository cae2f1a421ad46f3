"""Where the events of lineage go, as `[openlineage]` of the project file says it."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.flow.declarations import Secret


@dataclass(frozen=True, slots=True)
class LineageSink:
    """A server's address, which may take a token, or a file below the project. `is_on`: this environment tells it.

    `namespace` is what all jobs and tables of the project stand under. `place`: where the project file says it.
    """

    url: str | Secret | None = None
    file: str | None = None
    token: str | Secret | None = None
    namespace: str = ""
    is_on: bool = False
    place: str = ""

    @property
    def is_said(self) -> bool:
        """Whether the project has a section of it at all."""
        return self.url is not None or self.file is not None

    @property
    def shown(self) -> str:
        """Name it for people, without what may hold a secret."""
        if self.file is not None:
            return self.file
        if isinstance(self.url, Secret):
            return f"the address in secret {self.url.name}"
        return (self.url or "").partition("?")[0].rpartition("@")[2]
