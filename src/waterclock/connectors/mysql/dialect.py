"""The SQL dialect of MariaDB and MySQL."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from waterclock.connectors.mysql.statements import run_statement
from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.connectors.sql.sessions import SqlSession

if TYPE_CHECKING:
    from waterclock.connectors.mysql.statements import Connection

DIALECT = SqlDialect(
    types={
        **dict.fromkeys(("timestamp", "timestamp_ntz"), "DATETIME(6)"),
        "int": "INT",
        "binary": "LONGBLOB",
    },
    nested="JSON",
    other="LONGTEXT",
    text="LONGTEXT",
    # compares texts byte by byte, as Spark does, and not by the column's collation
    as_text="CAST(CONVERT({} USING utf8mb4) AS BINARY)",
    as_record_text="CONVERT({} USING utf8mb4) COLLATE utf8mb4_bin",
    sign="`",
    escapes_backslashes=True,
    place="%s",
    micros="TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {})",
    bind=lambda value: int(value) if isinstance(value, bool) else value,
)
quote_identifier, table_of, source_of = DIALECT.quote_identifier, DIALECT.table_of, DIALECT.source_of


def session_in(connection: Connection) -> SqlSession:
    """Return an object that runs statements in a connection."""
    return SqlSession(DIALECT, partial(run_statement, connection))
