"""A MERGE publish by the keys in sealed slices gives the result of comparing whole states."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described
from waterclock.cli.actions.skip import skip_batches
from waterclock.engine.batch import publish_changes
from waterclock.engine.maintenance.rebuild import plan_rebuild, rebuild_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "id INTEGER, name TEXT, gone INTEGER, at TEXT"
# the rule needs all delivered rows with their values, so the states are compared
FLOW = """
COLLECT shop.people (id BIGINT KEY, name, gone BIGINT, at TIMESTAMP) FROM shop.people
  EVERY DAY BY DATA TIME at MERGE ORDER BY at {deletes};
PUBLISH shop.people (id, name) TO out.touched MERGE;
PUBLISH shop.people (id, name) TO out.compared MERGE EXPECT id > 0 AS is_person;
"""
Row = tuple[int, str, int, str]


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Record how each publish was made."""
    found: dict[str, list[str]] = {"_select_changed_rows": [], "_compare_states": []}

    def noted(way: str) -> Any:
        real = getattr(publish_changes, way)

        def call(work: Any, spark: Any, table: Any, *rest: Any) -> Any:
            found[way].append(table.name)
            return real(work, spark, table, *rest)

        return call

    for way in found:
        monkeypatch.setattr(publish_changes, way, noted(way))
    return found


def some_rows(random: Random, number: int) -> list[Row]:
    """Return changes of one day: each key once, some of them deletes."""
    keys = random.sample(range(1, 9), random.randint(0, 4))
    return [
        (
            key,
            random.choice("abc"),
            int(random.random() < 0.3),
            f"2020-01-{number:02d} {random.randrange(24):02d}:00:00",
        )
        for key in keys
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("deletes", ["DELETE WHEN gone = 1", ""])
def test_changed_keys_and_state_comparison_deliver_equal_rows_after_restatements(
    tmp_path: Path, spark: SparkSession, ways: dict[str, list[str]], deletes: str
) -> None:
    random = Random(f"{deletes} of people")
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW.format(deletes=deletes))
    days: dict[int, list[Row]] = {}
    for number in range(1, 7):
        days[number] = some_rows(random, number)
        again = random.sample(range(1, number), min(number - 1, random.randint(0, 2)))
        for other in again:
            days[other] = some_rows(random, other)
        tiny.source("people", COLUMNS, [row for rows in days.values() for row in rows])
        with tiny.ledger() as ledger:
            for other in again:
                ledger.decisions.request_restate("shop.people", [day(other)], "recollect", who="a test")
        outcome = tiny.run(day(number + 1))
        assert not outcome.failed, described(outcome)
        touched, compared = (
            tiny.delivered(f"SELECT id, name FROM {name} ORDER BY id") for name in ("touched", "compared")
        )
        assert touched == compared == tiny.rows("SELECT id, name FROM shop.people ORDER BY id")
    assert set(ways["_select_changed_rows"]) == {"out.touched"}
    assert set(ways["_compare_states"]) == {"out.compared"}


def test_rows_with_maps_are_delivered_again_and_lost_keys_are_deleted(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare("""
    COLLECT shop.people PARTITIONED (id BIGINT, name, gone BIGINT, at TIMESTAMP) FROM shop.people
      EVERY DAY BY DATA TIME at;
    TRANSFORM marts.people (id KEY, *) AS SELECT id, map(name, gone) AS said FROM shop.people;
    PUBLISH marts.people TO out.people MERGE;
    """)
    rows = [(1, "a", 0, "2020-01-01 01:00:00"), (2, "b", 1, "2020-01-01 02:00:00"), (2, "c", 2, "2020-01-02 01:00:00")]
    tiny.source("people", COLUMNS, rows)
    for number in (2, 3):
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
    assert tiny.delivered("SELECT id, said FROM people") == [(2, '{"c": 2}')]


def test_a_missing_slice_is_replaced_by_a_comparison_of_states(
    tmp_path: Path, spark: SparkSession, ways: dict[str, list[str]]
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW.format(deletes="").replace("EXPECT id > 0 AS is_person", ""))
    rows = [(1, "a", 0, "2020-01-01 01:00:00"), (2, "b", 0, "2020-01-02 01:00:00")]
    for number in (1, 2):
        tiny.source("people", COLUMNS, rows[:number])
        assert not tiny.run(day(number + 1)).failed
    assert not ways["_compare_states"]

    tiny.source("people", COLUMNS, [(1, "c", 0, rows[0][3]), rows[1]])
    with tiny.ledger() as ledger:
        first = ledger.reads.committed_slices("shop.people")[0]
        ledger.decisions.request_restate("shop.people", [day(1)], "recollect", who="a test")
    outcome = tiny.run(day(3), only=["shop.people"])
    assert not outcome.failed, described(outcome)
    for file in (tmp_path / ".waterclock" / "tables" / "shop" / "people" / first.slice_path).glob("*.parquet"):
        file.unlink()  # as the stage's cleanup does, once the slice is not current any more
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.delivered("SELECT id, name FROM touched ORDER BY id") == [(1, "c"), (2, "b")]
    assert "out.touched" in ways["_compare_states"]


def test_a_state_that_is_not_kept_any_more_is_made_up_for_by_delivering_all(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW.format(deletes="").replace("EXPECT id > 0 AS is_person", ""))
    rows = [(number, "abc"[number - 1], 0, f"2020-01-{number:02d} 01:00:00") for number in (1, 2, 3)]
    folder, copy = tmp_path / ".waterclock" / "tables" / "shop" / "people", tmp_path / "copy"
    for number in (1, 2, 3):
        tiny.source("people", COLUMNS, rows[:number])
        assert not tiny.run(day(number + 1)).failed
        if number == 2:
            shutil.copytree(folder, copy)
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)  # restore an older copy
    tiny.source("people", COLUMNS, [*rows[:2], (4, "d", 0, rows[2][3])])
    assert {report.error.code for report in tiny.run(day(5)).failed if report.error} == {"E754"}
    with tiny.opened() as work:
        rebuild_table(work, "shop.people", plan_rebuild(work, ["shop.people"])["shop.people"])
    for _ in range(2):  # first the lost rows are collected again, then delivered
        outcome = tiny.run(day(5))
    assert not outcome.failed, described(outcome)
    wanted = tiny.rows("SELECT id, name FROM shop.people ORDER BY id")
    assert wanted == [(1, "a"), (2, "b"), (4, "d")]
    assert tiny.delivered("SELECT id, name FROM touched ORDER BY id") == wanted
    with tiny.ledger() as ledger:
        newest = ledger.reads.newest("out.touched")
        assert newest is not None
        made = ledger.past.audit("out.touched", newest.label).current
    assert made is not None
    assert made.revision is not None
    assert made.revision.source["is_whole"]


def test_a_slice_that_was_damaged_and_given_up_is_made_up_for_by_delivering_all(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare("""
    COLLECT shop.people (id BIGINT KEY, name, gone BIGINT, at TIMESTAMP) FROM shop.people
      EVERY DAY BY DATA TIME at APPEND;
    PUBLISH shop.people (id, name) TO out.people MERGE ON (id);
    """)
    rows = [(number, "abc"[number - 1], 0, f"2020-01-{number:02d} 01:00:00") for number in (1, 2, 3)]
    tiny.source("people", COLUMNS, rows[:2])
    assert not tiny.run(day(3)).failed
    with tiny.ledger() as ledger:
        first = ledger.reads.committed_slices("shop.people")[0]
    for file in (tmp_path / ".waterclock" / "tables" / "shop" / "people" / first.slice_path).glob("*.parquet"):
        file.write_bytes(b"PAR1")
    where = ("shop.people@20200101000000", "")
    skip_batches(tmp_path, None, where, "a disk", day(3).isoformat(), yes=True, is_json=False)
    tiny.source("people", COLUMNS, rows)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, name FROM shop.people ORDER BY id") == [(2, "b"), (3, "c")]
    assert tiny.delivered("SELECT id, name FROM people ORDER BY id") == [(2, "b"), (3, "c")]


@pytest.mark.soak
def test_columns_may_have_the_names_of_those_that_a_delivery_adds(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare("""
    COLLECT shop.merged (id BIGINT KEY, at TIMESTAMP, *) FROM shop.facts
      EVERY DAY BY DATA TIME at MERGE ORDER BY at DELETE WHEN _key0 < 0;
    COLLECT shop.added (at TIMESTAMP, *) FROM shop.facts EVERY DAY BY DATA TIME at APPEND;
    PUBLISH shop.merged TO out.merged MERGE;
    PUBLISH shop.added TO out.keyed MERGE ON (id);
    PUBLISH shop.added TO out.added;
    """)
    columns = "id INT, _key0 INT, _rank INT, _deleted INT, at TEXT"
    days = (
        [(1, 11, 12, 13, "2020-01-01 10:00:00"), (2, 21, 22, 23, "2020-01-01 10:00:00")],
        [(1, 111, 112, 0, "2020-01-02 10:00:00"), (2, -1, 0, 1, "2020-01-02 10:00:00")],
    )
    for number, rows in enumerate(days, 2):
        tiny.source("facts", columns, rows)
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
    newest = [(1, 111, 112, 0), (2, -1, 0, 1)]
    shown = "SELECT id, _key0, _rank, _deleted FROM"
    assert tiny.delivered(f"{shown} merged") == newest[:1]
    assert tiny.delivered(f"{shown} keyed ORDER BY id") == newest
    assert tiny.delivered(f"{shown} added ORDER BY timelabel, id") == [(1, 11, 12, 13), (2, 21, 22, 23), *newest]
