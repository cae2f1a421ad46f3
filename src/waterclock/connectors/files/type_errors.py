"""Encodes a type mismatch in Spark's error message, from which the driver finds the file and the value."""

from __future__ import annotations

from waterclock.spark_sql import sql_text

MISFIT = "waterclock-misfit"
REFUSED = "waterclock-refused"
PATH = "_waterclock_path"


def build_raise_sql(path: str, what: str, value: str) -> str:
    """Return SQL that raises an error: with the file (SQL), the column or problem (a text), and the value (SQL)."""
    return f"raise_error(concat_ws('|', '{MISFIT}', {path}, {sql_text(what)}, {value}))"
