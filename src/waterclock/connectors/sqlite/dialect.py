"""The SQL dialect of SQLite."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from typing import Any

from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.connectors.sql.sessions import SqlSession

_MOST_DIGITS = 15  # more would be rounded, as SQLite stores decimals as floats


def _bind(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else int(value) if isinstance(value, bool) else value


DIALECT = SqlDialect(
    types={
        **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "INTEGER"),
        **dict.fromkeys(("float", "double"), "REAL"),
        **dict.fromkeys(("timestamp", "timestamp_ntz"), "TIMESTAMP"),
    },
    nested="TEXT",
    other="TEXT",
    text="TEXT",
    as_text="{} COLLATE BINARY",
    bind=_bind,
    decimal=lambda digits, scale: f"DECIMAL({digits},{scale})" if digits <= _MOST_DIGITS else "TEXT",
)
quote_identifier, table_of, source_of = DIALECT.quote_identifier, DIALECT.table_of, DIALECT.source_of


def session_in(connection: sqlite3.Connection) -> SqlSession:
    """Return an object that runs statements in a connection."""
    return SqlSession(DIALECT, lambda sql, values: connection.execute(sql, values or ()))
