"""The SQL dialect of PostgreSQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from waterclock.connectors.sql.delivery_record import StatementResult
from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.connectors.sql.sessions import SqlSession

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection


class PostgresDialect(SqlDialect):
    """The SQL dialect of PostgreSQL, which has array types."""

    __slots__ = ()

    def sql_type(self, spark_type: str) -> str:
        """Return the column type in which values of a Spark type are stored."""
        if re.fullmatch(r"(?:var)?char\s*\(\s*\d+\s*\)", spark_type.strip().lower()):
            return self.text
        if element := element_of(spark_type):
            inner = self.sql_type(element)
            return f"{inner}[]" if not inner.endswith("[]") and inner != self.nested else self.nested
        return SqlDialect.sql_type(self, spark_type)


def element_of(spark_type: str) -> str | None:
    """Return the element type of an array type; None for any other type."""
    found = re.fullmatch(r"array\s*<(.+)>", spark_type.strip(), re.IGNORECASE | re.DOTALL)
    return found[1] if found else None


DIALECT = PostgresDialect(
    types={
        "tinyint": "SMALLINT",
        "float": "REAL",
        "double": "DOUBLE PRECISION",
        "timestamp": "TIMESTAMPTZ",
        "timestamp_ntz": "TIMESTAMP",
        "binary": "BYTEA",
        "string": "TEXT",
    },
    nested="JSONB",
    other="JSONB",
    text="TEXT",
    as_text="{}::text",
    place="%s",
    null="NULL::{}",
    label="'{}'::text",
    decimal="NUMERIC({},{})".format,
)
quote_identifier, table_of, source_of = DIALECT.quote_identifier, DIALECT.table_of, DIALECT.source_of


def session_in(connection: Connection) -> SqlSession:
    """Return an object that runs statements in a connection."""

    def run(sql: str, values: Any) -> StatementResult:
        return connection.execute(sql, values)

    return SqlSession(DIALECT, run)
