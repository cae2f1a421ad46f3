"""Users query the rows of held batches, which no reader sees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, labels
from waterclock.errors import ProjectErrors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLE = """COLLECT shop.sales PARTITIONED (id BIGINT, amount {type}, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at
  EXPECT amount > 0 AS positive ELSE QUARANTINE AT MOST 20 PERCENT ELSE HOLD;
"""
ROWS = [(1, 10, "2020-01-01 10:00:00"), (2, 7, "2020-01-02 10:00:00"), (3, -1, "2020-01-02 11:00:00"),
        (4, 5, "2020-01-03 10:00:00"), (5, -2, "2020-01-03 11:00:00")]  # fmt: skip
HELD = "SELECT timelabel, id, amount, _row IS NULL, _broken FROM shop.sales_held ORDER BY timelabel, id NULLS LAST"


def test_held_rows_are_shown_with_those_that_broke_the_rule(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("sales", "id INTEGER, amount INTEGER, at TEXT", ROWS)
    tiny.declare(TABLE.format(type="INT"))
    tiny.run(day(2))
    assert tiny.rows(HELD) == []
    tiny.run(day(3))
    assert tiny.rows("SELECT id FROM shop.sales") == [(1,)]
    second = labels(2)[0]
    assert tiny.rows(HELD) == [(second, 2, 7, True, None), (second, None, None, False, ["positive"])]
    [(claim,)] = tiny.rows("SELECT DISTINCT _claim FROM shop.sales_held")
    assert claim is not None


def test_held_rows_can_be_queried_before_their_table_exists(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("sales", "id INTEGER, amount INTEGER, at TEXT", ROWS[1:])
    tiny.declare(TABLE.format(type="INT") + "TRANSFORM shop.daily APPEND AS SELECT id FROM shop.sales;")
    tiny.run(day(3))
    assert tiny.rows("SELECT id FROM shop.sales_held WHERE _row IS NULL") == [(2,)]
    tiny.declare(TABLE.format(type="INT") + "TRANSFORM shop.daily APPEND AS SELECT id FROM shop.sales_held;")
    with pytest.raises(ProjectErrors, match="a table that reads held rows"):
        tiny.run(day(3))


def test_a_column_that_is_called_like_one_of_the_view_is_the_tables(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("sales", "id INTEGER, amount INTEGER, _claim TEXT, _row INTEGER, at TEXT", [
        (2, 7, "c", 5, "2020-01-01 10:00:00"), (3, -1, "c", 5, "2020-01-01 11:00:00"),
    ])  # fmt: skip
    tiny.declare(TABLE.format(type="INT").replace(", at TIMESTAMP", ", at TIMESTAMP, *"))
    tiny.run(day(2))
    names = "id, _claim, _row, _broken, _waterclock_claim > 0, _waterclock_row LIKE '{%'"
    assert tiny.rows(f"SELECT {names} FROM shop.sales_held ORDER BY id NULLS LAST") == [
        (2, "c", 5, None, True, None),
        (None, None, None, ["positive"], True, True),
    ]
