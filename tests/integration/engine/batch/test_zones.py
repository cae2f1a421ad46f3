"""Instants that a transform declares are interpreted in the zone of its table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.days PARTITIONED (id INT, since DATE, said STRING, at TIMESTAMP) FROM shop.days EVERY DAY BY DATA TIME at;
TRANSFORM made.berlin PARTITIONED (id INT, began TIMESTAMP, said TIMESTAMP) EVERY DAY ZONE 'Europe/Berlin'
  AS SELECT id, since AS began, said FROM HISTORY(shop.days);
TRANSFORM made.utc PARTITIONED (id INT, began TIMESTAMP, said TIMESTAMP)
  AS SELECT id, since AS began, said FROM shop.days;
"""


def test_dates_and_texts_become_instants_in_the_zone_of_the_table(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    tiny.source(
        "days", "id INT, since TEXT, said TEXT, at TEXT", [(1, "2020-07-01", "2020-01-01 12:00", "2020-01-01 12:00:00")]
    )
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    asked = "SELECT DISTINCT CAST(began AS STRING), CAST(said AS STRING) FROM"
    assert tiny.rows(f"{asked} made.berlin") == [("2020-06-30 22:00:00", "2020-01-01 11:00:00")]
    assert tiny.rows(f"{asked} made.utc") == [("2020-07-01 00:00:00", "2020-01-01 12:00:00")]
