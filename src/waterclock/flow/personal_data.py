"""The tags of columns with personal data, and the functions that remove or add such a tag."""

from __future__ import annotations

from waterclock.flow.declarations import Column

PII, NO_PII = "pii", "no_pii"

HIDING = frozenset({"mask_text", "hash_keyed", "encrypt", "generalize"})
"""Functions whose result does not inherit the tag `pii` of their arguments."""

COUNTING = frozenset({"count", "count_if", "approx_count_distinct", "approx_distinct"})
"""Aggregates whose result is a number of rows or values, and contains no personal data."""

REVEALING = frozenset({"decrypt", "detokenize"})
"""Functions whose result always has the tag `pii`, for all arguments."""


def declared_tag(column: Column) -> str | None:
    """Return the tag that a column declares, `pii` or `no_pii`, or None. If it declares both, return `pii`.

    A column with TOKENS has `no_pii` unless it declares `pii`: its values are random.
    """
    tags = {tag.lower() for tag in column.tags}
    return PII if PII in tags else NO_PII if NO_PII in tags or column.is_token else None
