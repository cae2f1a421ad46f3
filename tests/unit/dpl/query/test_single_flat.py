"""Queries that return the rows of one FLAT, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.dpl.query.test_splice import query_of
from waterclock.dpl.query.single_flat import find_single_flat

SALES = """
COLLECT raw.sales PARTITIONED (id BIGINT KEY, customer BIGINT REFERENCES raw.customers, at TIMESTAMP)
  FROM landing.sales EVERY DAY START '2024-01-01' BY DATA TIME at;
"""
ALONE = """
SELECT * FROM FLAT(raw.sales)
SELECT o.id, o.id + 1 AS next FROM FLAT(raw.sales) AS o
SELECT id FROM FLAT(raw.sales) o
SELECT * EXCEPT (id), 'x' AS x FROM FLAT(raw.sales)
"""
NOT_ALONE = """
SELECT * FROM raw.orders
SELECT DISTINCT id FROM FLAT(raw.sales)
SELECT id FROM FLAT(raw.sales) WHERE id = 1
SELECT id FROM FLAT(raw.sales) o WHERE o.id = 1
SELECT id FROM FLAT(raw.sales) GROUP BY id
SELECT id FROM FLAT(raw.sales) LIMIT 1
SELECT id FROM FLAT(raw.sales) UNION ALL SELECT id FROM FLAT(raw.sales)
SELECT id FROM (SELECT * FROM FLAT(raw.sales))
SELECT o.id FROM FLAT(raw.sales) o JOIN raw.customers c ON o.customer = c.id
SELECT o.id FROM raw.customers c, FLAT(raw.sales) o
WITH o AS (SELECT * FROM FLAT(raw.sales)) SELECT id FROM o
SELECT (SELECT max(id) FROM FLAT(raw.sales)) AS id
SELECT id FROM FLAT(raw.sales) LATERAL VIEW explode(array(1, 2)) t AS x
"""


@pytest.mark.parametrize("text", ALONE.strip().splitlines())
def test_the_rows_of_one_flat(tmp_path: Path, text: str) -> None:
    found = find_single_flat(query_of(text, tmp_path, SALES))
    assert found is not None
    assert found.read.table == "raw.sales"


@pytest.mark.parametrize("text", NOT_ALONE.strip().splitlines())
def test_rows_that_are_fewer_or_more(tmp_path: Path, text: str) -> None:
    assert find_single_flat(query_of(text, tmp_path, SALES)) is None
