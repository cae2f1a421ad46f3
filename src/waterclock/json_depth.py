"""Limits the nesting of JSON and of parsed values, independent of the Python version.

Python's own parsers give up at about 1,000 levels before 3.12 and at about 10,000 since.
"""

from __future__ import annotations

import re

MOST_LEVELS = 1_000
"""The maximum nesting of objects and arrays that Spark's JSON parser (Jackson) accepts."""

# an unterminated string extends to the end of the text, so that each character is scanned once
_TOKENS = re.compile(r'(?:"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)[^"\[\]{}]*+)++|[\[{]|[\]}]', re.DOTALL)


def require_depth(text: str, most: int = MOST_LEVELS) -> None:
    """Check, by counting brackets, that a JSON text has at most `most` nested levels. Raises RecursionError if not."""
    if text.count("[") + text.count("{") <= most:
        return
    depth = 0
    for token in _TOKENS.finditer(text):
        sign = token[0]
        if sign in "[{":
            depth += 1
            if depth > most:
                raise RecursionError(f"more than {most} levels")
        elif sign in "]}":
            depth -= 1


def require_shallow(value: object, *, most: int) -> None:
    """Check that a parsed value has at most `most` nested lists and mappings. Raises RecursionError if not."""
    nested = [value]
    for _ in range(most + 1):
        values = [each.values() if isinstance(each, dict) else each for each in nested if isinstance(each, dict | list)]
        if not values:
            return
        nested = [inner for each in values for inner in each]
    raise RecursionError(f"more than {most} levels")
