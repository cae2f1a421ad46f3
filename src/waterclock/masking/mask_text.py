"""The rules of `mask_text`, shared by the DataFrame function and the SQL function."""

from __future__ import annotations

from collections.abc import Mapping

SIGNS = r"\p{Punct} \t\r\n"
"""The characters that are not masked, in Java's regex syntax: ASCII punctuation, spaces, tabs and line breaks."""

STEPS = (
    (rf"[^\p{{Lu}}\p{{Lt}}\p{{Nd}}{SIGNS}]", "x"),  # first, so that it does not replace the letters of the other steps
    (r"[\p{Lu}\p{Lt}]", "X"),
    (r"\p{Nd}", "n"),
)
"""Patterns and the replacement of each matching character, in order. Java treats a surrogate pair as one character."""

PARAMETERS: Mapping[str, str] = {
    "value": "STRING",
    "keep_first": "INT DEFAULT 0",
    "keep_last": "INT DEFAULT 0",
}


def mask_sql() -> str:
    """Return the body of `mask_text`, an expression over its parameters. For literals Spark plans only one branch."""
    masked = "value"
    for pattern, letter in STEPS:
        masked = f"regexp_replace({masked}, r'{pattern}', '{letter}')"
    first, last = (f"greatest(coalesce(CAST({name} AS BIGINT), 0L), 0L)" for name in ("keep_first", "keep_last"))
    between = f"substring({masked}, CAST({first} + 1 AS INT), CAST(length(value) - {first} - {last} AS INT))"
    kept = f"concat(left(value, CAST({first} AS INT)), {between}, right(value, CAST({last} AS INT)))"
    return f"CASE WHEN {first} + {last} BETWEEN 1 AND length(value) - 1 THEN {kept} ELSE {masked} END"
