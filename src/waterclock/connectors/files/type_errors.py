"""Puts the file and the value of a type mismatch into Spark's error message, where the driver finds them."""

from __future__ import annotations

from waterclock.spark_sql import sql_text

TYPE_MISMATCH = "waterclock-misfit"
REFUSED = "waterclock-refused"
PATH = "_waterclock_path"


def build_raise_sql(path: str, what: str, value: str) -> str:
    """Return SQL that raises an error with a file (SQL), a column or problem (plain text), and a value (SQL)."""
    return f"raise_error(concat_ws('|', '{TYPE_MISMATCH}', {path}, {sql_text(what)}, {value}))"
