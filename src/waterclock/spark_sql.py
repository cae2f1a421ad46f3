"""Quotes names, texts and paths for Spark, and builds SQL for casts.

Expressions are passed to Spark as SQL text, because each call of a function in `pyspark.sql.functions` takes 0.3 ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

INTERNAL_PREFIX = "_waterclock_"
"""The prefix of columns that computations add to rows. No column of a table begins with it, in any case."""
_ILLEGAL_CHARACTERS = " ,;{}()\n\t="
_INVALID_CHARACTERS = re.compile(rf"[{re.escape(_ILLEGAL_CHARACTERS)}\r]+")
_GLOB_CHARACTERS = re.compile(r"([\\{}\[\]*?])")
_DECIMAL = re.compile(r"\s*(?:decimal|dec|numeric)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", re.IGNORECASE)

_DATED = frozenset({"date", "timestamp", "timestamp_ltz", "timestamp_ntz"})
_UNDATED = r"^[\x00-\x20\x7f]*(T?[0-9]{1,2}:|[+-]?[0-9]{5}|-)"
"""Matches texts that Spark reads as times, although they begin with a time of day or a year beyond 1 to 9999."""


def is_internal(name: str) -> bool:
    """Return whether a name is reserved for columns that computations add to rows."""
    return name.lower().startswith(INTERNAL_PREFIX)


def quote_name(name: str) -> str:
    """Quote a column's name so that Spark reads it as one name."""
    return "`" + name.replace("`", "``") + "`"


def ddl_of(columns: Iterable[tuple[str, str]]) -> str:
    """Build a DDL schema, such as "`id` INT, `name` STRING", from pairs of name and type."""
    return ", ".join(f"{quote_name(name)} {kind}" for name, kind in columns)


def column_name(name: str) -> str:
    """Convert a source's column name to a valid one for a table: characters that Delta does not allow become `_`."""
    return _INVALID_CHARACTERS.sub("_", name.strip())


def fold_case(name: str) -> str:
    """Fold the case of a name, so that names are equal if Spark treats them as the same (Java's `equalsIgnoreCase`)."""
    return name.lower() if name.isascii() else "".join(map(_fold_character, name))


def _fold_character(sign: str) -> str:
    if sign == "\u0130":  # its lower case has two characters in Python
        return "i"
    upper = sign.upper() if len(sign.upper()) == 1 else sign
    return upper.lower() if len(upper.lower()) == 1 else upper


def illegal_characters(name: str) -> tuple[str, ...]:
    """Return the distinct characters of a column's name that Parquet and Delta do not allow, in order."""
    return tuple(dict.fromkeys(sign for sign in name if sign in _ILLEGAL_CHARACTERS))


def sql_text(text: str) -> str:
    """Return a text as a SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def option_text(value: object) -> str:
    """Return an option's value as text for Spark or an object store, with booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def decimal_of(type_text: str) -> tuple[int, int] | None:
    """Return the precision and scale of a DECIMAL, or None for other types."""
    found = _DECIMAL.fullmatch(type_text)
    return (int(found[1] or 10), int(found[2] or 0)) if found else None


def cast_text(text: str, type_text: str) -> str:
    """Build SQL that casts the text expression `text` to a type. It returns NULL for invalid text.

    Text with more decimal places than a DECIMAL allows is invalid too, unless they are zeros; Spark would round it. So
    is a time of day, to which Spark would add today's date, and a year of other than four digits, such as 202311.
    Cost: for a DECIMAL, a date or a time, the text is scanned once more.
    """
    cast, decimal = f"try_cast({text} AS {type_text})", decimal_of(type_text)
    if type_text.lower() in _DATED:
        return f"CASE WHEN NOT {text} RLIKE {sql_text(_UNDATED)} THEN {cast} END"
    if decimal is None:
        return cast
    digit, places = r"\p{Nd}", decimal[1]
    beyond = rf"\.{digit}{{{places}}}{digit}*[{digit}&&[^0]]"
    if_powers = _has_few_decimals_sql(text, places)
    return f"CASE WHEN NOT {text} RLIKE {sql_text(f'[eE]|{beyond}')} THEN {cast} WHEN {if_powers} THEN {cast} END"


def _has_few_decimals_sql(text: str, places: int) -> str:
    """Build SQL that is true if a text with an exponent, such as 7125e-3, has at most `places` decimal places.

    It is false for exponents of four digits or more: Spark would take seconds to minutes of CPU to parse them.
    """
    parts = sql_text(r"^\s*[+-]?([0-9]*)\.?([0-9]*)[eE]([+-]?0*[0-9]{1,3})\s*$")
    whole, fraction, power = (f"regexp_extract({text}, {parts}, {at})" for at in (1, 2, 3))
    digits = f"trim(TRAILING '0' FROM concat({whole}, {fraction}))"
    behind = f"length({digits}) - length({whole}) - try_cast({power} AS INT)"
    return f"{power} != '' AND ({digits} = '' OR {behind} <= {places})"


def literal_path(path: str) -> str:
    """Escape the characters of a path that Spark's readers would interpret as a glob pattern."""
    return _GLOB_CHARACTERS.sub(r"\\\1", path)
