"""FOR EACH: a collect sends a request, with values of the row, for each row of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Each:
    """A FOR EACH clause: a batch sends a request for each distinct combination of values in `parameters` of `table`."""

    table: str
    parameters: tuple[str, ...]


def list_placeholders(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct names in braces in some texts, as in `users/{user_id}`, in order."""
    return tuple(dict.fromkeys(name for text in texts for name in _PLACE.findall(text)))
