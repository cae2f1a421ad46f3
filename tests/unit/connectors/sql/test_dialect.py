"""Names and types in the dialect of each database."""

from __future__ import annotations

import pytest

from tests.systems import query_of
from waterclock.connectors.duckdb.dialect import DIALECT as DUCKDB
from waterclock.connectors.mysql.dialect import DIALECT as MYSQL
from waterclock.connectors.postgres.dialect import DIALECT as POSTGRES
from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.connectors.sqlite.dialect import DIALECT as SQLITE

DIALECTS = (SQLITE, DUCKDB, POSTGRES, MYSQL)


@pytest.mark.parametrize(
    ("dialect", "quoted"),
    [(SQLITE, '"a""b`c%"'), (DUCKDB, '"a""b`c%"'), (POSTGRES, '"a""b`c%"'), (MYSQL, '`a"b``c%`')],
)
def test_a_name_keeps_every_character(dialect: SqlDialect, quoted: str) -> None:
    assert dialect.quote_identifier('a"b`c%') == quoted


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_percent_sign_is_doubled_where_it_would_be_a_placeholder(dialect: SqlDialect) -> None:
    assert dialect.escape("100%") == ("100%%" if dialect.place == "%s" else "100%")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_query_may_end_with_a_comment(dialect: SqlDialect) -> None:
    unit = query_of("db", "SELECT 1 -- one;")
    assert dialect.source_of(unit) == "(SELECT 1 -- one\n) AS waterclock_query"


@pytest.mark.parametrize(
    ("spark", "types"),
    [
        ("int", ("INTEGER", "INTEGER", "INTEGER", "INT")),
        ("LONG", ("INTEGER", "BIGINT", "BIGINT", "BIGINT")),
        ("decimal(20, 3)", ("TEXT", "DECIMAL(20,3)", "NUMERIC(20,3)", "DECIMAL(20,3)")),
        ("timestamp", ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "DATETIME(6)")),
        ("map<string, int>", ("TEXT", "JSON", "JSONB", "JSON")),
        ("array<int>", ("TEXT", "JSON", "INTEGER[]", "JSON")),
        ("varchar(9)", ("TEXT", "VARCHAR", "TEXT", "LONGTEXT")),
        ("binary", ("BLOB", "BLOB", "BYTEA", "LONGBLOB")),
    ],
)
def test_a_new_column_has_the_type_of_its_values(spark: str, types: tuple[str, ...]) -> None:
    assert tuple(dialect.sql_type(spark) for dialect in DIALECTS) == types
