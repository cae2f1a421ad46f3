"""A column's reference to another table: to which of its columns, and in which role."""

from __future__ import annotations

from dataclasses import dataclass, field

from waterclock.flow.ladders import Ladder


@dataclass(frozen=True, slots=True)
class Reference:
    """A column's reference to another table. It documents the model; with `otherwise` it is also checked, by a read."""

    table: str
    columns: tuple[str, ...] = ()
    role: str | None = None
    at: str | None = None
    otherwise: Ladder = field(default=(), repr=False)
