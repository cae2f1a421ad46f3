"""How deep JSON may be nested: as deep as Spark reads it, whatever the version of Python bears.

Python's own reader gives up at about 1,000 levels before 3.12 and at about 10,000 since.
"""

from __future__ import annotations

import re

MOST_LEVELS = 1_000
"""Levels of objects and arrays that Spark's reader (Jackson) takes."""

# a string that does not end goes to the end of the text, so that each sign is looked at once
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def require_depth(text: str, most: int = MOST_LEVELS) -> None:
    """See that a JSON text is not nested deeper than Spark reads it; it costs a pass over a text of many brackets.

    Raises  RecursionError, as Python's reader does beyond its own limit
    """
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
