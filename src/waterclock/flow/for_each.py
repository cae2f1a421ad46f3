"""Collects that ask their source once for each row of a table, and what is put of that row into a request. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Each:
    """FOR EACH `table`: its columns `parameters` say what is asked, each distinct combination once a batch."""

    table: str
    parameters: tuple[str, ...]


def places_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that texts name in braces, as `users/{user_id}`, in their order and each once."""
    return tuple(dict.fromkeys(name for text in texts for name in _PLACE.findall(text)))
