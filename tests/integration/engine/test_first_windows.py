"""Rows of the first window reach the end of a chain, without declared columns and earlier scans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import TOML, Tiny, day, described, evening, labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHAIN = """
COLLECT web.clicks PARTITIONED (id BIGINT, *) FROM land.acme.clicks EVERY DAY BY ARRIVAL TIME;
TRANSFORM web.one PARTITIONED AS SELECT id FROM PREVIOUS(web.clicks);
TRANSFORM web.two APPEND AS SELECT id FROM PREVIOUS(web.one);
"""


def test_two_hops_of_previous_lose_no_rows_of_the_first_window(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark, toml=TOML.replace('start = "2020-01-01"', ""))
    tiny.declare(CHAIN)
    tiny.land("clicks", evening(1), "id\n1\n")
    first = tiny.run(day(2, 6))
    assert not first.failed, described(first)
    assert tiny.done("web.clicks") == labels(1)  # without START, its first run collects all existing rows

    for number in (2, 3):
        tiny.land("clicks", evening(number), f"id\n{number}\n")
    outcome = tiny.run(day(4, 6))

    assert not outcome.failed, described(outcome)
    assert [tiny.done(name) for name in ("web.clicks", "web.one", "web.two")] == [labels(1, 2, 3)] * 3
    assert tiny.rows("SELECT timelabel, id FROM web.one ORDER BY id") == [(labels(2)[0], 1), (labels(3)[0], 2)]
    assert tiny.rows("SELECT timelabel, id FROM web.two") == [(labels(3)[0], 1)]
