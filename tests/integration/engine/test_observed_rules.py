"""Rules of the batch are checked while its rows are written, one label at a time or many in one job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at
  EXPECT count_if(amount IS NULL) < 0.5 * count(*) AS mostly_known, count(DISTINCT id) = count(*) AS all_different;
"""


def test_a_batch_that_is_not_as_expected_is_refused_alone(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    rows = [(n, None if n == 3 else 10, f"2020-01-{n:02d} 12:00:00") for n in range(1, 5)]
    tiny.source("orders", "id INTEGER, amount INTEGER, at TEXT", [*rows, (4, 11, "2020-01-04 13:00:00")])
    tiny.declare(FLOW)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    outcome = tiny.run(day(5))
    said = {report.group.batches[0].window.label: report.error.what for report in outcome.failed if report.error}
    assert tiny.done("shop.orders") == labels(1, 2)
    told = "mostly_known: the batch is not (count_if(amount IS NULL) < 0.5 * count(*)), where "
    assert said[labels(3)[0]].endswith(f"{told}count_if(amount IS NULL) is 1; count(*) is 1")
    assert said[labels(4)[0]].endswith("where count(DISTINCT id) is 1; count(*) is 2")
