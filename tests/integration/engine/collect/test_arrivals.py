"""Files that one table archived are available to another; late files are collected once by each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening
from waterclock.connectors.files.connector import FilesCollector
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CLICKS = "COLLECT {} PARTITIONED (id BIGINT, *) FROM land.acme.clicks EVERY DAY BY ARRIVAL TIME;"
FIRST, SECOND = CLICKS.format("web.clicks"), CLICKS.format("web.again")


def test_a_new_table_collects_files_that_another_table_already_archived(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FIRST)
    for number in (1, 2):
        tiny.land("clicks", evening(number), f"id\n{number}\n")
    for number in (2, 3):
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)

    tiny.declare(FIRST + SECOND)  # its files are archived by now
    tiny.land("clicks", day(1, 12), "id\n12\n")  # late for the first table, and not for the second
    tiny.land("clicks", evening(3), "id\n3\n")
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)

    days = "SELECT id, dayofmonth(to_timestamp(timelabel, 'yyyyMMddHHmmss')) FROM {} ORDER BY id"
    assert tiny.rows(days.format("web.clicks")) == [(1, 1), (2, 2), (3, 3), (12, 3)]
    assert tiny.rows(days.format("web.again")) == [(1, 1), (2, 2), (3, 3), (12, 1)]
    assert not [path for path in (tmp_path / "landing" / "new").rglob("*") if path.is_file()]


def test_a_file_that_is_archived_while_another_table_reads_it_is_read_in_the_archive(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FIRST)
    tiny.land("clicks", evening(1), "id\n1\n")
    moved: list[int] = []
    with tiny.opened() as work:
        source = work.flow.tables["web.clicks"].source
        assert source is not None
        collector = work.connections.collector("land")
        assert isinstance(collector, FilesCollector)

        def archive(point: str) -> None:
            if point == "make" and not moved:  # the batch is planned with the file, and not yet read
                moved.append(1)
                assert not collector.archive(source.unit, collector.arrivals(source.unit).items)

        with inject_faults(archive):
            outcome = tiny.run(day(2))
    assert moved
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id FROM web.clicks") == [(1,)]
    assert any("cannot read acme_clicks" in said for said in tiny.heard.said_), "it was tried again"
