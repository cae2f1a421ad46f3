"""Late rows that a batch found by LOOKBACK before it was held: each is in its table after the release."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, evening
from waterclock.operations.skipping import skip
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

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


@pytest.mark.parametrize(
    ("lookback", "mode"),
    [
        ("LOOKBACK 1 DAY CHANGED BY m", "PARTITIONED"),
        ("LOOKBACK 1 DAY", "PARTITIONED"),
        ("LOOKBACK 1 DAY", "MERGE ORDER BY at"),
    ],
)
def test_late_rows_that_only_a_skipped_batch_would_have_read_are_not_lost(
    lookback: str, mode: str, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    first = [(1, 1, "2020-01-01 01:00:00", "2020-01-01 01:00:00"), (2, 1, "2020-01-02 01:00:00", "2020-01-02 01:00:00")]
    tiny.source("o", "id INTEGER, amount INTEGER, at TEXT, m TEXT", first)
    kind, merge = ("PARTITIONED ", "") if mode == "PARTITIONED" else ("", mode)
    tiny.declare(
        f"COLLECT raw.o {kind}(id BIGINT KEY, amount INT, at TIMESTAMP, m TIMESTAMP) FROM shop.o EVERY DAY\n"
        f"  BY DATA TIME at {lookback} {merge} EXPECT count_if(amount > 10) = 0 AS sane ELSE HOLD;"
    )
    tiny.run(day(3, 1))
    put(
        tiny,
        (3, 99, "2020-01-03 01:00:00", "2020-01-03 01:00:00"),
        (6, 7, "2020-01-02 09:00:00", "2020-01-03 02:00:00"),
    )
    tiny.run(day(4, 1))
    with tiny.ledger() as ledger:
        table = tiny.load().flow.tables["raw.o"]
        again = skip(ledger, table, [Window(day(3), day(4))], who="ann", why="lost")
    assert again == (day(2),)
    put(tiny, (7, 1, "2020-01-04 01:00:00", "2020-01-04 01:00:00"))
    for number in (5, 6):
        tiny.run(day(number, 2))
    assert tiny.rows("SELECT day(at), id FROM raw.o ORDER BY ALL") == [(1, 1), (2, 2), (2, 6), (4, 7)]


@pytest.mark.parametrize(
    ("lookback", "mode"),
    [
        ("LOOKBACK 5 DAYS CHANGED BY m", "PARTITIONED"),
        ("LOOKBACK 5 DAYS", "PARTITIONED"),
        ("LOOKBACK 5 DAYS", "MERGE ORDER BY at"),
    ],
)
def test_a_late_row_that_breaks_a_rule_holds_its_window_alone(
    lookback: str, mode: str, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    first = [(1, 1, "2020-01-01 01:00:00", "2020-01-01 01:00:00"), (2, 1, "2020-01-02 01:00:00", "2020-01-02 01:00:00")]
    tiny.source("o", "id INTEGER, amount INTEGER, at TEXT, m TEXT", first)
    kind, merge = ("PARTITIONED ", "") if mode == "PARTITIONED" else ("", mode)
    tiny.declare(
        f"COLLECT raw.o {kind}(id BIGINT KEY, amount INT, at TIMESTAMP, m TIMESTAMP) FROM shop.o EVERY DAY\n"
        f"  BY DATA TIME at {lookback} {merge} EXPECT count_if(amount > 10) = 0 AS sane ELSE HOLD;"
    )
    tiny.run(day(3, 1))
    put(
        tiny,
        (3, 1, "2020-01-03 01:00:00", "2020-01-03 01:00:00"),
        (6, 99, "2020-01-02 09:00:00", "2020-01-03 02:00:00"),
        (7, 7, "2020-01-01 09:00:00", "2020-01-03 02:00:00"),
    )
    ids = "SELECT id FROM raw.o ORDER BY id"
    outcome = tiny.run(day(4, 1))
    assert [report.group.batches[0].label for report in outcome.failed] == [day(2)]
    assert tiny.batches()["raw.o", label_of(day(2))] == "held"
    assert tiny.rows(ids) == [(1,), (2,), (3,), (7,)], "the batch itself, and the other windows that its LOOKBACK found"
    put(tiny, (4, 1, "2020-01-04 01:00:00", "2020-01-04 01:00:00"))
    assert not tiny.run(day(5, 1)).failed, "it is already held with these rows"
    # a further late row of the window: the held slice is made again and includes it
    put(
        tiny, (5, 1, "2020-01-05 01:00:00", "2020-01-05 01:00:00"), (8, 8, "2020-01-02 10:00:00", "2020-01-05 01:00:00")
    )
    assert [report.group.batches[0].label for report in tiny.run(day(6, 1)).failed] == [day(2)]
    assert tiny.rows(ids) == [(number,) for number in (1, 2, 3, 4, 5, 7)]
    with tiny.ledger() as ledger:
        ledger.decisions.request_release("raw.o", [day(2)], who="ann", why="known")
    for number in (7, 8):
        assert not tiny.run(day(number, 1)).failed
    assert tiny.rows(ids) == [(number,) for number in range(1, 9)]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("lookback", "mode"),
    [("2 DAYS CHANGED", "PARTITIONED"), ("2 DAYS", "PARTITIONED"), ("2 DAYS", "MERGE ORDER BY at")],
)
def test_a_late_row_of_a_later_file_than_the_windows_own_holds_it(
    lookback: str, mode: str, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    kind, merge = ("PARTITIONED ", "") if mode == "PARTITIONED" else ("", mode)
    tiny.declare(
        f"COLLECT raw.o {kind}(id BIGINT KEY, at TIMESTAMP) FROM land.acme.o EVERY DAY BY DATA TIME at\n"
        f"  LOOKBACK {lookback} {merge} EXPECT count_if(id > 10) = 0 AS small ELSE HOLD;"
    )
    for number in (1, 2):
        tiny.land("o", evening(number), f"id,at\n{number},2020-01-{number:02d} 05:00:00\n")
    tiny.run(day(3))
    for number in (3, 4, 5):
        tiny.land("o", evening(number), f"id,at\n{number},2020-01-{number:02d} 05:00:00\n")
    tiny.land("o", day(5, 12), "id,at\n12,2020-01-01 07:00:00\n")
    for _ in range(2):  # labels 3 to 5 in one group, and the first one alone
        tiny.run(day(6))
    assert tiny.rows("SELECT id FROM raw.o ORDER BY id") == [(n,) for n in range(1, 6)]
    assert tiny.rows("SELECT id FROM raw.o_held ORDER BY id") == [(1,), (12,)]


@pytest.mark.parametrize(
    ("kind", "merge"),
    [("PARTITIONED ", ""), pytest.param("", "MERGE ORDER BY at", marks=pytest.mark.soak)],
    ids=["partitioned", "merge"],
)
def test_a_late_row_of_a_window_that_was_held_is_not_lost_if_it_is_released_after_its_lookback(
    kind: str, merge: str, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("o", "id INTEGER, amount INTEGER, at TEXT, m TEXT", [(1, 99, "2020-01-01 01:00:00", "")])
    tiny.declare(
        f"COLLECT raw.o {kind}(id BIGINT KEY, amount INT, at TIMESTAMP) FROM shop.o EVERY DAY\n"
        f"  BY DATA TIME at LOOKBACK 1 DAY {merge} EXPECT count_if(amount > 10) = 0 AS sane ELSE HOLD;"
    )
    tiny.run(day(2))
    put(tiny, (2, 1, "2020-01-02 01:00:00", ""), (6, 7, "2020-01-01 20:00:00", ""))
    tiny.run(day(3))
    with tiny.ledger() as ledger:
        ledger.decisions.request_release("raw.o", [day(1)], who="ann", why="known")
    releasing = tiny.run(day(3))  # with MERGE, the second window is collected now, after the first one's release
    ids = "SELECT day(at), id FROM raw.o ORDER BY ALL"
    assert tiny.rows(ids) == [(1, 1), (2, 2)]
    # the next batch reads the window again, and the rule holds it unchanged with the late row
    failed = [*releasing.failed, *tiny.run(day(4)).failed]
    assert [report.group.batches[0].label for report in failed] == [day(1)]
    assert tiny.rows(ids) == [(1, 1), (2, 2)], "released rows stay"
    with tiny.ledger() as ledger:
        ledger.decisions.request_release("raw.o", [day(1)], who="ann", why="known")
    for number in (4, 5, 6):
        assert not tiny.run(day(number)).failed
    assert tiny.rows(ids) == [(1, 1), (1, 6), (2, 2)]
