"""Defines the spellings (upper, lower, …) that `format_attribute` gives a text, and its SQL for flows."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.temporal.query_refusals import UNSPELT, stop_text

# Unicode's white space: Java's \s does not include the no-break space and its like (\p{Z}), nor the next line (\x85)
BLANKS = r"[\s\p{Z}\x85]+"
AS_IT_IS = "none"
FORMATS = ("upper", "lower", "initcap", AS_IT_IS)
"""Functions of Spark by their names, and the format that leaves a text unchanged."""

PARAMETERS: Mapping[str, str] = {
    "value": "STRING",
    "format": f"STRING DEFAULT '{AS_IT_IS}'",
    "nullreplacement": "STRING DEFAULT NULL",
}


def format_sql() -> str:
    """Return the body of the SQL function `format_attribute`, an expression over its parameters.

    If the format is a literal, Spark plans only its branch. A row with an unknown format makes the query fail.
    """
    single = f"trim(regexp_replace(value, r'{BLANKS}', ' '))"
    branches = " ".join(f"WHEN '{each}' THEN {single if each == AS_IT_IS else f'{each}({single})'}" for each in FORMATS)
    stop = f"raise_error(concat('{stop_text(UNSPELT)} [', coalesce(format, 'NULL'), ']'))"
    return f"coalesce(nullif(CASE format {branches} ELSE {stop} END, ''), nullreplacement)"
