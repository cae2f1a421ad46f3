"""Collects that send a request for each row of a table, with values of that row. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Each:
    """FOR EACH `table`: its columns `parameters` fill in a request, once a batch for each distinct combination."""

    table: str
    parameters: tuple[str, ...]


def places_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct columns that texts name in braces, as in `users/{user_id}`, in order."""
    return tuple(dict.fromkeys(name for text in texts for name in _PLACE.findall(text)))
