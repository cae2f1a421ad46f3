"""Destinations lose an erased person with the next deliveries, in each mode, completely."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.erasing.test_erasing import ERASED, OTHER, erased, places_with, project, run
from tests.keys import DECLARED, VARIABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = (
    DECLARED
    + """
COLLECT raw.orders PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, at TIMESTAMP, amount BIGINT)
  FROM shop.orders EVERY DAY BY DATA TIME at;
TRANSFORM marts.newest (client BIGINT KEY, amount BIGINT, at TIMESTAMP) MERGE ORDER BY at
AS SELECT buyer AS client, amount, at FROM raw.orders;
TRANSFORM marts.state (client BIGINT KEY, n BIGINT) AS SELECT buyer AS client, count(*) AS n FROM raw.orders GROUP BY 1;
PUBLISH raw.orders TO out.orders;
PUBLISH marts.newest TO out.newest MERGE;
PUBLISH marts.state TO out.state MERGE;
"""
)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def test_a_person_leaves_destinations_of_every_mode(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark, flow=FLOW)
    run(tiny, 2)
    run(tiny, 3)
    places = {"orders": "buyer", "newest": "client", "state": "client"}
    for table, column in places.items():
        assert {ERASED, OTHER} <= {row[0] for row in tiny.delivered(f"SELECT {column} FROM {table}")}, table
    assert {each.place for each in erased(tiny, ERASED).left} == {f"publish out.{table}" for table in places}
    run(tiny, 3)
    for table, column in places.items():
        there = {row[0] for row in tiny.delivered(f"SELECT {column} FROM {table}")}
        assert ERASED not in there, table
        assert OTHER in there, table
    assert erased(tiny, ERASED, continues=True).left == ()
    assert list(places_with(tiny, ERASED)) == []
