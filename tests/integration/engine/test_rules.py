"""Rules and DELETE WHEN may call the functions that a project declares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
CREATE FUNCTION cents(amount BIGINT) RETURNS BIGINT RETURN 100 * amount;
CREATE FUNCTION is_gone(state STRING) RETURNS BOOLEAN RETURN lower(state) = 'gone';
COLLECT shop.orders (id BIGINT KEY, amount BIGINT EXPECT (cents(amount) < 1000), state STRING, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at MERGE ORDER BY at DELETE WHEN is_gone(state)
  EXPECT cents(amount) > 100 AS worth ELSE WARN, max(cents(amount)) < 1000 AS sane;
"""


def test_rules_and_deletes_call_declared_functions(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    rows = [(1, 1, "new", "2020-01-01 12:00:00"), (2, 5, "new", "2020-01-01 13:00:00"),
            (2, 6, "Gone", "2020-01-02 13:00:00")]  # fmt: skip
    tiny.source("orders", "id INTEGER, amount INTEGER, state TEXT, at TEXT", rows)
    tiny.declare(FLOW)
    first = tiny.run(day(2))
    assert not first.failed, described(first)
    assert tiny.heard.finished_[0].warnings == ("worth: 1 of 2 rows violate (cents(amount) > 100)",)
    assert tiny.rows("SELECT id FROM shop.orders ORDER BY id") == [(1,), (2,)]
    second = tiny.run(day(3))
    assert not second.failed, described(second)
    assert tiny.rows("SELECT id FROM shop.orders") == [(1,)]

    tiny.shop("INSERT INTO orders VALUES (3, 50, 'new', '2020-01-03 12:00:00')")
    third = tiny.run(day(4))
    (failed,) = third.failed
    assert failed.error is not None
    assert failed.error.code == "E740"
    assert "cents(amount) < 1000" in failed.error.render()
