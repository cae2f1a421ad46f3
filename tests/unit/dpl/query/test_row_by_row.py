"""Queries whose rows are each made from one row of the table that they select from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.dpl.query.test_splice import query_of
from waterclock.dpl.query.row_by_row import find_row_source

TABLES = """
COLLECT a.clicks PARTITIONED (id BIGINT, name STRING, at TIMESTAMP, tags ARRAY<STRING>)
  FROM landing.clicks EVERY DAY START '2024-01-01' BY DATA TIME at;
COLLECT a.users PARTITIONED (id BIGINT, name STRING, at TIMESTAMP)
  FROM landing.users EVERY DAY START '2024-01-01' BY DATA TIME at;
CREATE VIEW a.few AS SELECT id FROM a.clicks WHERE id = 1;
CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN x * 2;
"""


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM a.clicks",
        "SELECT id + 1 AS id, upper(name) AS name FROM a.clicks c WHERE id > 3 AND name IN ('a', 'b')",
        "SELECT c.id, u.name FROM a.clicks c LEFT JOIN a.users u ON (c.id = u.id)",
        "SELECT c.id, u.name FROM a.clicks c JOIN a.users u USING (id) WHERE NOT (c.id = 3)",
        "SELECT id, explode(tags) AS tag FROM a.clicks",
        "SELECT CASE WHEN (id > 1) THEN (id) ELSE (0) END AS id, WINDOW_START() AS begins FROM a.clicks",
        "SELECT aggregate(tags, '', (l, r) -> concat(l, r)) AS tags, CAST(id AS STRING) AS id FROM a.clicks",
    ],
)
def test_rows_are_made_one_by_one(tmp_path: Path, query: str) -> None:
    found = find_row_source(query_of(query, tmp_path, TABLES))
    assert found is not None
    assert found.table == "a.clicks"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM a.clicks",
        "SELECT `count`(id) AS n FROM a.clicks",
        "SELECT any_value(id) AS id FROM a.clicks",
        "SELECT vector_sum(array(CAST(id AS FLOAT))) AS total FROM a.clicks",
        "SELECT vector_avg(array(CAST(id AS FLOAT))) AS mean FROM a.clicks",
        "SELECT schema_of_variant_agg(parse_json(name)) AS type FROM a.clicks",
        "SELECT DISTINCT id FROM a.clicks",
        "SELECT id FROM a.clicks GROUP BY id",
        "SELECT id FROM a.clicks GROUP BY ALL",
        "SELECT id, row_number() OVER (PARTITION BY id ORDER BY at) AS n FROM a.clicks",
        "SELECT id, sum(id) OVER w AS n FROM a.clicks WINDOW w AS (PARTITION BY id)",
        "SELECT id FROM a.clicks ORDER BY id LIMIT 1",
        "SELECT id FROM a.clicks UNION ALL SELECT id FROM a.users",
        "SELECT id FROM (SELECT id FROM a.clicks)",
        "WITH c AS (SELECT id FROM a.clicks) SELECT id FROM c",
        "SELECT id FROM a.clicks WHERE id = (SELECT max(id) FROM a.users)",
        "SELECT id FROM a.clicks c WHERE EXISTS (SELECT 1 FROM a.users u WHERE u.id = c.id)",
        "SELECT u.id FROM a.clicks c RIGHT JOIN a.users u ON c.id = u.id",
        "SELECT u.id FROM a.clicks c FULL JOIN a.users u ON c.id = u.id",
        "SELECT l.id FROM a.clicks l JOIN a.clicks r ON l.id = r.id",
        "SELECT * FROM a.few",
        "SELECT id FROM a.clicks, LATERAL (SELECT count(*) AS n FROM a.users)",
        "SELECT id FROM a.clicks HAVING count(*) > 1",
        "SELECT twice(id) AS id FROM a.clicks",  # the body may be a query
        "SELECT id FROM a.clicks |> AGGREGATE count(*) AS n",
        "SELECT /*+ REPARTITION(3) */ id FROM a.clicks",
    ],
)
def test_other_queries_are_left_out(tmp_path: Path, query: str) -> None:
    assert find_row_source(query_of(query, tmp_path, TABLES)) is None
