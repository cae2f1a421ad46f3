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


def literal_path(path: str) -> str:
    """Escape what Spark's readers, which take a path for a pattern of paths, would not take for itself."""
    return _OF_GLOBS.sub(r"\\\1", path)
