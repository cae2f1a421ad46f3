"""The Spark jobs of a tick: a fixed number for each kind of table, with any history; none without new rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.integration.engine.test_continuous import Stream, minute
from tests.tiny import Tiny
from waterclock.engine.continuous.tick import _Tick
from waterclock.flow.declarations import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT web.clicks PARTITIONED (id BIGINT NOT NULL ELSE DROP, user STRING) FROM land.acme.clicks
  EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS;
TRANSFORM web.rows PARTITIONED CONTINUOUS AS SELECT id + 1 AS id, upper(user) AS user FROM web.clicks WHERE id > 0;
TRANSFORM web.per_user PARTITIONED CONTINUOUS AS SELECT user, count(*) AS clicks FROM web.clicks GROUP BY user;
"""


@contextmanager
def counted_jobs(spark: SparkSession) -> Iterator[Counter[str]]:
    """Count the Spark jobs of each table's part of a tick, and those of the whole block under ""."""
    scheduler: Any = spark.sparkContext._jsc.sc().dagScheduler()
    found: Counter[str] = Counter()

    def count(make: Callable[[_Tick, Table], Any]) -> Callable[[_Tick, Table], Any]:
        def counting(tick: _Tick, table: Table) -> Any:
            before = scheduler.numTotalJobs()
            try:
                return make(tick, table)
            finally:
                found[table.name] += scheduler.numTotalJobs() - before

        return counting

    before = scheduler.numTotalJobs()
    with patch.object(_Tick, "read", count(_Tick.read)), patch.object(_Tick, "transform", count(_Tick.transform)):
        yield found
    found[""] = scheduler.numTotalJobs() - before


def test_a_tick_has_a_fixed_number_of_jobs_for_each_kind_of_table(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(FLOW)
    stream.click(minute(1), (1, "a"), (2, "b"))
    expected = {"web.clicks": 1, "web.rows": 1, "web.per_user": 2, "": 4}  # the aggregate has a shuffle
    with counted_jobs(spark) as jobs:
        assert stream.tick(minute(2)) == 1
    assert jobs == expected
    with counted_jobs(spark) as jobs:
        assert stream.tick(minute(3)) is None
    assert jobs.total() == 0
    stream.click(minute(60), *((number, "abc"[number % 3]) for number in range(30)))
    stream.run(minute(61))
    with counted_jobs(spark) as jobs:
        assert stream.tick(minute(62)) is not None
    assert jobs == expected  # also with a history
