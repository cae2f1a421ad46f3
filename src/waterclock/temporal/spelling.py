"""The spellings of a text attribute, for the function on columns and for the one of that name in SQL."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.temporal.stops import UNSPELT, stop_text

# Unicode's white space: Java's \s lacks the no-break space and its like (\p{Z}), and the next line (\x85)
BLANKS = r"[\s\p{Z}\x85]+"
AS_IT_IS = "none"
FORMATS = ("upper", "lower", "initcap", AS_IT_IS)
"""Functions of Spark by their names, and what leaves a text as it is."""

PARAMETERS: Mapping[str, str] = {
    "value": "STRING",
    "format": f"STRING DEFAULT '{AS_IT_IS}'",
    "nullreplacement": "STRING DEFAULT NULL",
}


def format_sql() -> str:
    """Write `format_attribute` as an expression of Spark SQL over its parameters.

    Of a format that is a literal Spark keeps the one branch when it plans; a row of another format stops the query.
    """
    single = f"trim(regexp_replace(value, r'{BLANKS}', ' '))"
    branches = " ".join(f"WHEN '{each}' THEN {single if each == AS_IT_IS else f'{each}({single})'}" for each in FORMATS)
    stop = f"raise_error(concat('{stop_text(UNSPELT)} [', coalesce(format, 'NULL'), ']'))"
    return f"coalesce(nullif(CASE format {branches} ELSE {stop} END, ''), nullreplacement)"
