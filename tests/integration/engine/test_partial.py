"""Batches that stop waiting (PARTIAL AFTER), on real Spark: late and missing sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, labels
from waterclock.cli.actions import retry
from waterclock.cli.actions.run import RunOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

AWAITED = """
COLLECT web.berlin PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.berlin EVERY DAY BY DATA TIME at;
COLLECT web.tokyo PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.tokyo EVERY DAY BY DATA TIME at
  AWAIT QUERY 'SELECT upto >= :window_end FROM loads';
TRANSFORM web.all PARTITIONED EVERY DAY PARTIAL AFTER 2 HOURS AS
SELECT id, IS_PARTIAL() AS is_partial FROM web.berlin UNION ALL BY NAME
SELECT id, IS_PARTIAL() AS is_partial FROM web.tokyo;
"""


def test_a_batch_is_made_without_a_late_source_and_again_once_it_arrives(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(AWAITED)
    for name, number in (("berlin", 1), ("tokyo", 2)):
        tiny.source(name, "id INT, at TEXT", [(number, "2020-01-01 12:00:00")])
    tiny.source("loads", "upto TEXT", [("2020-01-01 00:00:00",)])

    tiny.run(day(2, 1))
    assert tiny.done("web.all") == []
    tiny.run(day(2, 2))
    assert tiny.rows("SELECT id, is_partial FROM web.all") == [(1, True)]

    tiny.source("loads", "upto TEXT", [("2020-01-02 00:00:00",)])
    tiny.run(day(2, 3))
    assert tiny.done("web.tokyo") == labels(1)
    assert tiny.rows("SELECT id, is_partial FROM web.all ORDER BY id") == [(1, False), (2, False)]
    assert tiny.run(day(2, 4)).done == 0


FAILING = """
COLLECT web.berlin PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.berlin EVERY DAY BY DATA TIME at;
COLLECT web.tokyo PARTITIONED (id BIGINT EXPECT (id > 0) ELSE FAIL, at TIMESTAMP) FROM shop.tokyo
  EVERY DAY BY DATA TIME at;
TRANSFORM web.all PARTITIONED EVERY DAY PARTIAL AFTER 2 HOURS AS
SELECT id, IS_PARTIAL() AS is_partial FROM web.berlin UNION ALL BY NAME
SELECT id, IS_PARTIAL() AS is_partial FROM web.tokyo;
TRANSFORM web.counted PARTITIONED AS SELECT count(*) AS n FROM web.all;
"""


def test_the_run_of_a_retry_includes_batches_made_without_the_failed_input(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[RunOptions] = []

    def kept(_: object, found: RunOptions) -> int:
        asked.append(found)
        return 0

    monkeypatch.setattr(retry, "run_and_report", kept)
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FAILING)
    tiny.source("berlin", "id INT, at TEXT", [(1, "2020-01-01 12:00:00")])
    tiny.source("tokyo", "id INT, at TEXT", [(0, "2020-01-01 12:00:00")])
    tiny.run(day(2, 2))
    assert tiny.rows("SELECT id, is_partial FROM web.all") == [(1, True)]

    which = (None, None)
    assert retry.retry_batches(tmp_path, None, which, "2020-01-02T03:00Z", is_json=False, is_run=True) == 0
    [run] = asked
    assert run.only == ("web.all", "web.counted", "web.tokyo")
    assert {str(of_table) for of_table in run.labels.values()} == {"20200101000000"}
