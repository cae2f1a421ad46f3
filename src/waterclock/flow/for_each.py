"""FOR EACH: collects that send a request for each row of a table, with values of that row."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Each:
    """FOR EACH `table`: a batch sends one request for each distinct combination of the table's columns `parameters`."""

    table: str
    parameters: tuple[str, ...]


def list_placeholders(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct columns that texts name in braces, as in `users/{user_id}`, in order."""
    return tuple(dict.fromkeys(name for text in texts for name in _PLACE.findall(text)))
