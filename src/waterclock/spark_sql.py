"""Writes names, texts and paths so that Spark takes them for themselves.

Expressions are handed to Spark as text: built call by call, each call costs a third of a millisecond before anything
runs, and a table of twenty columns a tenth of a second.
"""

from __future__ import annotations

import re

_UNFIT = re.compile(r"[ ,;{}()\n\t\r=]+")
_OF_GLOBS = re.compile(r"([\\{}\[\]*?])")


def quoted(name: str) -> str:
    """Write a column's name so that Spark reads it whole."""
    return "`" + name.replace("`", "``") + "`"


def column_name(name: str) -> str:
    """Return a source's name of a column as a table bears it: what Delta takes in no name becomes `_`."""
    return _UNFIT.sub("_", name.strip())


def sql_text(text: str) -> str:
    """Write a text as a literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal_path(path: str) -> str:
    """Escape what Spark's readers, which take a path for a pattern of paths, would not take for itself."""
    return _OF_GLOBS.sub(r"\\\1", path)
