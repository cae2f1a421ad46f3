"""The SQL dialect of DuckDB."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.connectors.sql.sessions import SqlResult, SqlSession

if TYPE_CHECKING:
    import duckdb

DIALECT = SqlDialect(
    types={"timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP"},
    nested="JSON",
    other="VARCHAR",
    text="VARCHAR",
    as_text="CAST({} AS VARCHAR)",
    bind=lambda value: str(value) if isinstance(value, Decimal) else value,
    null="CAST(NULL AS {})",
    local="'{}'::TIMESTAMP",
    micros="epoch_us(CAST({} AS TIMESTAMPTZ))",
)
quote_identifier, table_of, source_of = DIALECT.quote_identifier, DIALECT.table_of, DIALECT.source_of


def session_in(connection: duckdb.DuckDBPyConnection) -> SqlSession:
    """Return an object that runs statements in a connection.

    It reads each result to its end, as an unfinished one would block the next statement.
    """

    def run(sql: str, values: Any) -> SqlResult:
        rows = connection.execute(sql, values or None).fetchall()
        return SqlResult(rows, rows[0][0] if rows and isinstance(rows[0][0], int) else -1)

    return SqlSession(DIALECT, run)
