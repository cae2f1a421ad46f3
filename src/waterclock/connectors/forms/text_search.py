"""Searches stored texts for a text in any case, equally in Python, SQLite and PostgreSQL.

Two characters are equal if their lower-case characters are. A character whose lower case has several characters is
equal to itself only. Databases lower ASCII letters alone; the other characters of the text are replaced in SQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache

from waterclock.connectors.forms.condition_sql import SqlTerm

_HIGHEST_CASED = 0x20000  # no character above has a case


def fold(text: str) -> str:
    """Return a text with each character in lower case."""
    return "".join(_lower(letter) for letter in text)


def contains(text: str, needle: str, *, is_server: bool) -> SqlTerm:
    """Return the condition that the text of an SQL expression contains another in any case. NULL contains none."""
    folded = fold(needle)
    lowered, values = f"lower({text})", list[object]()
    for letter in sorted(set(folded)):
        for other in sorted(_letters_by_lower().get(letter, ())):
            lowered = f"replace({lowered}, ?, ?)"
            values += [other, letter]
    return SqlTerm(f"({'strpos' if is_server else 'instr'}({lowered}, ?) > 0)", (*values, folded))


def escape_json(text: str) -> str:
    """Return a text as it is within a stored row, which is JSON. Each character is escaped by itself."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _lower(letter: str) -> str:
    lower = letter.lower()
    return lower if len(lower) == 1 else letter


@cache
def _letters_by_lower() -> Mapping[str, Iterable[str]]:
    """Map each lower-case character to the others that are equal to it, without the capital letters of ASCII."""
    found: dict[str, list[str]] = {}
    for letter in map(chr, range(0x80, _HIGHEST_CASED)):
        lower = _lower(letter)
        if lower != letter:
            found.setdefault(lower, []).append(letter)
    return found
