"""Metadata of a table, a column or a connection for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """An owner, tags and a comment."""

    owner: str | None = None
    tags: tuple[str, ...] = ()
    comment: str | None = None
