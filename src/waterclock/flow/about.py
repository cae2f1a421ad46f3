"""What is said of a table, a column or a connection for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """What is said for people."""

    owner: str | None = None
    tags: tuple[str, ...] = ()
    comment: str | None = None
