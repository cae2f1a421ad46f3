"""Parts of a destination: rows of a condition, versions and labels in tables of their own behind a view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT raw.parts PARTITIONED (id BIGINT, v BIGINT, land STRING, at TIMESTAMP) FROM shop.facts
  EVERY DAY BY DATA TIME at RETAIN 30 DAYS;
TRANSFORM raw.lands AS SELECT land, sum(v) AS v FROM HISTORY(raw.parts) GROUP BY land;
TRANSFORM raw.own AS SELECT * FROM raw.lands WHERE land IN ('DE', 'FR');
PUBLISH raw.own TO out.lands REPLACE WHERE land IN ('DE', 'FR');
PUBLISH raw.lands TO out.refused REPLACE WHERE land = 'DE';
"""
COLUMNS = "id INTEGER, v INTEGER, land TEXT, at TEXT"


def at(number: int) -> str:
    return f"2020-01-{number:02d} 12:00:00"


def test_rows_that_are_not_of_the_condition_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    tiny.source("facts", COLUMNS, [(1, 10, "DE", at(1)), (2, 20, "US", at(1)), (3, 30, "FR", at(1))])
    outcome = tiny.run(day(2))
    assert [report.group.table for report in outcome.failed] == ["out.refused"], described(outcome)
    error = outcome.failed[0].error
    assert error is not None
    assert (error.code, "REPLACE WHERE: 2 of 3 rows are not (land = 'DE')" in error.what) == ("E740", True)
    assert sorted(tiny.delivered("SELECT land, v FROM lands")) == [("DE", 10), ("FR", 30)]
    assert not tiny.delivered("SELECT 1 FROM sqlite_master WHERE name = 'refused'")
