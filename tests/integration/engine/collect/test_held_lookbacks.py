"""Late rows that a batch found by its LOOKBACK before it was held: each is in its table after the release."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def put(tiny: Tiny, *rows: tuple[Any, ...]) -> None:
    with closing(sqlite3.connect(tiny.root / "shop.sqlite")) as connection, connection:
        connection.executemany("INSERT INTO o VALUES (?, ?, ?, ?)", rows)


@pytest.mark.parametrize("later", [False, True], ids=["the next batch after the release", "the next batch before it"])
@pytest.mark.parametrize("lookback", ["LOOKBACK 5 DAYS CHANGED BY m", "LOOKBACK 5 DAYS", "LOOKBACK 1 DAY"])
def test_late_rows_that_a_held_batch_read_are_not_lost(
    lookback: str, later: bool, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    first = [(1, 1, "2020-01-01 01:00:00", "2020-01-01 01:00:00"), (2, 1, "2020-01-02 01:00:00", "2020-01-02 01:00:00")]
    tiny.source("o", "id INTEGER, amount INTEGER, at TEXT, m TEXT", first)
    tiny.declare(
        "COLLECT raw.o PARTITIONED (id BIGINT, amount INT, at TIMESTAMP, m TIMESTAMP) FROM shop.o EVERY DAY\n"
        f"  BY DATA TIME at {lookback} EXPECT count_if(amount > 10) = 0 AS sane ELSE HOLD;"
    )
    tiny.run(day(3, 1))
    put(
        tiny,
        (3, 99, "2020-01-03 01:00:00", "2020-01-03 01:00:00"),
        (6, 7, "2020-01-02 09:00:00", "2020-01-03 02:00:00"),
    )
    tiny.run(day(4, 1))
    put(tiny, (7, 1, "2020-01-04 01:00:00", "2020-01-04 01:00:00"))
    if later:
        tiny.run(day(5, 1))
    with tiny.ledger() as ledger:
        ledger.decisions.request_release("raw.o", [day(3)], who="ann", why="known")
    for number in (5, 6, 7):
        tiny.run(day(number, 2))
    found = tiny.rows("SELECT day(at), id FROM raw.o ORDER BY ALL")
    assert found == [(1, 1), (2, 2), (2, 6), (3, 3), (4, 7)]
