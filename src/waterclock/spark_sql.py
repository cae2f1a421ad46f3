"""Writes names, texts and paths so that Spark takes them for themselves.

Expressions are handed to Spark as text: built call by call, each call costs a third of a millisecond before anything
runs, and a table of twenty columns a tenth of a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ILLEGAL = " ,;{}()\n\t="
_UNFIT = re.compile(rf"[{re.escape(_ILLEGAL)}\r]+")
_OF_GLOBS = re.compile(r"([\\{}\[\]*?])")
_DECIMAL = re.compile(r"\s*(?:decimal|dec|numeric)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", re.IGNORECASE)
_DECIMAL_WITHIN = re.compile(
    r"(?<=[:<\s,])(?:decimal|dec|numeric)\b\s*(?:\([\d\s,]*\))?(?=\s*[,>]|\s+(?:not|comment)\b)", re.IGNORECASE
)


def quoted(name: str) -> str:
    """Write a column's name so that Spark reads it whole."""
    return "`" + name.replace("`", "``") + "`"


def ddl_of(columns: Iterable[tuple[str, str]]) -> str:
    """Write names and types as a schema."""
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)


def column_name(name: str) -> str:
    """Return a source's name of a column as a table bears it: what Delta takes in no name becomes `_`."""
    return _UNFIT.sub("_", name.strip())


def illegal_signs(name: str) -> tuple[str, ...]:
    """Return the signs of a column's name that Parquet and Delta take in none, each once, as they come."""
    return tuple(dict.fromkeys(sign for sign in name if sign in _ILLEGAL))


def sql_text(text: str) -> str:
    """Write a text as a literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def decimal_of(type_text: str) -> tuple[int, int] | None:
    """Return the digits of a DECIMAL and how many of them stand behind the point; None for other types."""
    found = _DECIMAL.fullmatch(type_text)
    return (int(found[1] or 10), int(found[2] or 0)) if found else None


def parsed(text: str, type_text: str) -> str:
    """Write what a text (SQL) means as a type: NULL where it means nothing, or more than the type holds.

    Spark would round digits behind a DECIMAL's last place; zeros there mean nothing.
    Cost: of a DECIMAL one look at the text more.
    """
    cast, decimal = f"try_cast({text} AS {type_text})", decimal_of(type_text)
    if decimal is None:
        return cast
    digit, places = r"\p{Nd}", decimal[1]
    beyond = rf"\.{digit}{{{places}}}{digit}*[{digit}&&[^0]]"
    if_powers = _with_power_of_ten(text, places)
    return f"CASE WHEN NOT {text} RLIKE {sql_text(f'[eE]|{beyond}')} THEN {cast} WHEN {if_powers} THEN {cast} END"


def read_within(type_text: str) -> str:
    """Return as what a value of a nested type is read, so that no DECIMAL in it is rounded: with all digits there are.

    A MAP stays as it is: its values cannot be compared with what becomes of them.
    """
    if decimal_of(type_text) or re.search(r"\bmap\s*<", type_text, re.IGNORECASE):
        return type_text

    def whole(found: re.Match[str]) -> str:
        digits, places = decimal_of(found[0]) or (0, 0)
        return f"DECIMAL(38,{38 - (digits - places)})"

    return _DECIMAL_WITHIN.sub(whole, type_text)


def narrowed(value: str, type_text: str) -> str:
    """Write what was read as `read_within` says as the type itself; NULL where a DECIMAL in it would be rounded."""
    narrow = f"try_cast({value} AS {type_text})"
    return f"CASE WHEN try_cast({narrow} AS {read_within(type_text)}) <=> {value} THEN {narrow} END"


def _with_power_of_ten(text: str, places: int) -> str:
    """Write whether a text such as 7125e-3 is a number of so many digits behind the point, or fewer."""
    parts = sql_text(r"^\s*[+-]?([0-9]*)\.?([0-9]*)[eE]([+-]?[0-9]+)\s*$")
    whole, fraction, power = (f"regexp_extract({text}, {parts}, {at})" for at in (1, 2, 3))
    digits = f"trim(TRAILING '0' FROM concat({whole}, {fraction}))"
    behind = f"length({digits}) - length({whole}) - try_cast({power} AS INT)"
    return f"{power} != '' AND ({digits} = '' OR {behind} <= {places})"


def literal_path(path: str) -> str:
    """Escape what Spark's readers, which take a path for a pattern of paths, would not take for itself."""
    return _OF_GLOBS.sub(r"\\\1", path)
