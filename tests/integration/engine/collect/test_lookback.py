"""LOOKBACK reads back once, and makes anew only what changed, and what was made of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = "id INTEGER, amount INTEGER, at TEXT"
FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at LOOKBACK 2 DAYS;
TRANSFORM sales.revenue PARTITIONED AS SELECT sum(amount) AS revenue FROM shop.orders;
"""


def test_late_rows_within_the_lookback_restate_their_own_window_and_its_readers_alone(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", ORDERS, [(n, 10, f"2020-01-{n:02d} 12:00:00") for n in range(1, 5)])
    tiny.declare(FLOW)
    first = tiny.run(day(4))
    assert not first.failed, described(first)
    before = tiny.digests()

    tiny.shop("INSERT INTO orders VALUES (11, 5, '2020-01-01 13:00:00')")  # beyond the LOOKBACK of the 4th
    tiny.shop("INSERT INTO orders VALUES (13, 7, '2020-01-03 13:00:00')")  # within it
    second = tiny.run(day(5))
    assert not second.failed, described(second)

    after = tiny.digests()
    changed = sorted(key for key in before if after[key] != before[key])
    assert changed == [("sales.revenue", labels(3)[0]), ("shop.orders", labels(3)[0])]
    assert tiny.rows("SELECT timelabel, revenue FROM sales.revenue ORDER BY timelabel") == list(
        zip(labels(1, 2, 3, 4), (10, 10, 17, 10), strict=True)
    )
    assert second.done == 3  # the 4th, and the 3rd and 4th of what reads it: the 2nd was read again and is as it was
