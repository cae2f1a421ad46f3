"""How a value that does not fit is told by Spark's error, so that the file can be named."""

from __future__ import annotations

from waterclock.spark_sql import sql_text

MISFIT = "waterclock-misfit"
REFUSED = "waterclock-refused"
PATH = "_waterclock_path"


def refused(path: str, what: str, value: str) -> str:
    """Return SQL that raises: the file (SQL), what is wrong there (a text), and the value (SQL)."""
    return f"raise_error(concat_ws('|', '{MISFIT}', {path}, {sql_text(what)}, {value}))"
