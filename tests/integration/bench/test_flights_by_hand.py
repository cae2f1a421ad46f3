from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench import flights_by_hand
from examples.flights import make_data, oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 2

pytestmark = [pytest.mark.spark, pytest.mark.bench]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("data")
    make_data.put_days(folder, make_data.FIRST_DAY, DAYS)
    return folder


def about(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows rounded, because a sum of fractions may differ in its last digits."""
    return [
        {name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


@pytest.mark.parametrize("is_idempotent", [True, False], ids=["idempotent", "plain"])
def test_the_handwritten_script_equals_the_result_of_duckdb_over_the_raw_files(
    spark: SparkSession, data: Path, tmp_path: Path, is_idempotent: bool
) -> None:
    days = [make_data.FIRST_DAY + timedelta(days=offset) for offset in range(DAYS)]

    timings = flights_by_hand.run(spark, data, tmp_path, days, is_idempotent=is_idempotent)

    for question in oracle.QUESTIONS:
        path = tmp_path / "tables" / question.table.replace(".", "/")
        asked = question.asked.replace(f"FROM {question.table}", f"FROM delta.`{path}`")
        rows = [row.asDict() for row in spark.sql(asked).collect()]
        assert rows == about(oracle.expected(question.table, DAYS)), question.table
    with closing(sqlite3.connect(tmp_path / "reports.sqlite")) as reports:
        for table, query in oracle.PUBLISHED.values():
            wanted = [tuple(row.values()) for row in about(oracle.expected(table, DAYS))]
            found = [
                tuple(value[:16].replace("T", " ") if str(value).startswith("2013-") else value for value in row)
                for row in reports.execute(query)
            ]
            assert found == wanted, table
    assert len(timings) == DAYS * (24 + 14)
