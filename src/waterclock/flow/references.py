"""What a column says of another table: which columns of it it refers to, in which role. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from waterclock.flow.ladders import Ladder


@dataclass(frozen=True, slots=True)
class Reference:
    """What a column refers to in another table: states the model; with `otherwise` it is checked, and reads it."""

    table: str
    columns: tuple[str, ...] = ()
    role: str | None = None
    at: str | None = None
    otherwise: Ladder = field(default=(), repr=False)
