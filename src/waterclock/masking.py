"""How `mask_text` writes a text so that it cannot be read, for the function on columns and for the one of SQL."""

from __future__ import annotations

from collections.abc import Mapping

SIGNS = r"\p{Punct} \t\r\n"
"""What stays as it is, as Java's expressions have it: the punctuation of ASCII, blanks, tabs and ends of lines."""

STEPS = (
    (rf"[^\p{{Lu}}\p{{Lt}}\p{{Nd}}{SIGNS}]", "x"),  # first: what the others put in place is none of its own
    (r"[\p{Lu}\p{Lt}]", "X"),
    (r"\p{Nd}", "n"),
)
"""Patterns and what stands for each of their characters, in order. Java takes a pair of surrogates for one."""

PARAMETERS: Mapping[str, str] = {
    "value": "STRING",
    "keep_first": "INT DEFAULT 0",
    "keep_last": "INT DEFAULT 0",
}


def mask_sql() -> str:
    """Write `mask_text` as an expression of Spark SQL over its parameters.

    Of literals Spark keeps the one branch when it plans.
    """
    masked = "value"
    for pattern, letter in STEPS:
        masked = f"regexp_replace({masked}, r'{pattern}', '{letter}')"
    first, last = (f"greatest(coalesce(CAST({name} AS BIGINT), 0L), 0L)" for name in ("keep_first", "keep_last"))
    between = f"substring({masked}, CAST({first} + 1 AS INT), CAST(length(value) - {first} - {last} AS INT))"
    kept = f"concat(left(value, CAST({first} AS INT)), {between}, right(value, CAST({last} AS INT)))"
    return f"CASE WHEN {first} + {last} BETWEEN 1 AND length(value) - 1 THEN {kept} ELSE {masked} END"
