"""The owner, tags and comment of a table, a view or a connection."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """The owner, tags and comment of a declaration. They do not affect batches."""

    owner: str | None = None
    tags: tuple[str, ...] = ()
    comment: str | None = None
