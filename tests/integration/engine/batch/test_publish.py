"""A destination has the content of its table after any history: every mode, from every mode, to files and databases."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.cli.actions.release import release_batches
from waterclock.errors import WaterclockError
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "id INTEGER, v INTEGER, gone INTEGER, at TEXT"
COLLECT = "COLLECT {} {} (id BIGINT, v BIGINT, gone BIGINT, at TIMESTAMP) FROM shop.facts EVERY DAY BY DATA TIME at {};"
FLOW = "\n".join(
    (
        COLLECT.format("raw.appended", "", "APPEND"),
        COLLECT.format("raw.parts", "PARTITIONED", ""),
        COLLECT.format("raw.merged", "", "MERGE ON (id) ORDER BY at DELETE WHEN gone = 1"),
        "TRANSFORM raw.replaced AS SELECT id, max(v) AS v FROM raw.appended GROUP BY id;",
        "TRANSFORM raw.timed TEMPORAL ON (id) AT at AS SELECT id, v, at FROM raw.parts;",
        "PUBLISH raw.appended TO files.appended;",
        "PUBLISH raw.appended (id, v) TO out.appended EXPECT id > 0 AS is_known;",
        "PUBLISH raw.appended TO out.appended_whole REPLACE;",
        "PUBLISH raw.appended TO out.appended_keyed MERGE ON (id);",
        "PUBLISH raw.parts TO files.parts OPTIONS (format 'json');",
        "PUBLISH raw.parts TO out.parts;",
        "PUBLISH raw.parts TO out.parts_keyed MERGE ON (id);",
        "PUBLISH raw.merged TO files.merged REPLACE;",
        "PUBLISH raw.merged TO out.merged;",
        "PUBLISH raw.replaced TO files.replaced;",
        "PUBLISH raw.replaced TO out.replaced MERGE ON (id);",
        "PUBLISH raw.timed TO out.timed;",
        "PUBLISH raw.timed TO out.timed_keyed MERGE;",
    )
)
Row = tuple[Any, ...]


def at(number: int) -> str:
    return f"2020-01-{number:02d} 12:00:00"


FIRST: dict[int, list[Row]] = {1: [(1, 10, 0), (2, 10, 0)], 2: [(1, 20, 0), (3, 20, 0)]}
# the source's rows by day, and the days that are requested again
HISTORY: Sequence[tuple[dict[int, list[Row]], Iterable[int]]] = (
    (FIRST, ()),
    ({**FIRST, 3: [(4, 30, 0)]}, [1, 2]),
    ({1: [(1, 11, 0), (5, 11, 0)], 2: [], 3: [(4, 30, 0)], 4: [(2, 40, 1)]}, [1, 2]),
    ({1: [(5, 12, 0)], 2: [(3, 21, 0), (1, 22, 0)], 3: [], 4: [(2, 40, 1)], 5: [(5, 50, 0)]}, [1, 2, 3]),
)


@pytest.fixture
def tiny(tmp_path: Path, spark: SparkSession) -> Tiny:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    return tiny


def fill(tiny: Tiny, days: dict[int, list[Row]]) -> None:
    tiny.source("facts", COLUMNS, [(*row, at(number)) for number, rows in days.items() for row in rows])


def restate(tiny: Tiny, numbers: Iterable[int]) -> None:
    asked = [day(number) for number in numbers]
    with tiny.ledger() as ledger:
        for table in ("raw.appended", "raw.parts", "raw.merged") if asked else ():
            ledger.decisions.request_restate(table, asked, "recollect", who="a test")


def last_by_key(rows: Iterable[Row]) -> list[Row]:
    """Return the row of the newest label for each id; a row is (label, id, …)."""
    return sorted({row[1]: row[1:] for row in sorted(rows)}.values())


def published_files(tiny: Tiny, unit: str) -> list[Row]:
    found: list[Row] = []
    for path in sorted((tiny.root / "files" / unit).glob("*.csv")):
        with path.open() as file:
            found += [tuple(row.values()) for row in csv.DictReader(file)]
    return sorted(found)


def assert_delivered(tiny: Tiny) -> None:
    """Assert that every destination equals its table."""
    rows = {
        name: sorted(tiny.rows(f"SELECT timelabel, id, v FROM raw.{name}")) for name in ("appended", "parts", "merged")
    }
    replaced = sorted(tiny.rows("SELECT id, v FROM raw.replaced"))
    timed = sorted(tiny.rows("SELECT id, cast(rec_eff_time AS STRING), v FROM raw.timed"))
    merged = [row[1:] for row in rows["merged"]]
    wanted = {
        "appended": rows["appended"],
        "appended_whole": sorted(row[1:] for row in rows["appended"]),
        "appended_keyed": last_by_key(rows["appended"]),
        "parts": rows["parts"],
        "parts_keyed": last_by_key(rows["parts"]),
        "merged": sorted(merged),
        "replaced": replaced,
        "timed": timed,
        "timed_keyed": timed,
    }
    columns = {"appended": "timelabel, id, v", "parts": "timelabel, id, v"} | dict.fromkeys(
        ("timed", "timed_keyed"), "id, rec_eff_time, v"
    )
    for name, expected in wanted.items():
        found = sorted(tiny.delivered(f"SELECT {columns.get(name, 'id, v')} FROM {name}"))
        assert found == expected, f"out.{name}"
    as_text = {name: [tuple(map(str, row)) for row in of] for name, of in (("merged", merged), ("replaced", replaced))}
    assert [(row[0], row[1]) for row in published_files(tiny, "merged")] == sorted(as_text["merged"])
    assert published_files(tiny, "replaced") == sorted(as_text["replaced"])
    by_label = sorted((row[-1], row[0], row[1]) for row in published_files(tiny, "appended"))
    assert by_label == sorted(tuple(map(str, row)) for row in rows["appended"])


@pytest.mark.soak
def test_every_destination_equals_its_table_after_every_step_of_a_history(tiny: Tiny) -> None:
    for number, (days, again) in enumerate(HISTORY, 3):
        fill(tiny, days)
        with tiny.ledger() as ledger:
            for table in ("raw.appended", "raw.parts"):  # a skipped label is delivered late, with the next step
                if number == 4:
                    ledger.decisions.skip(table, [Window(day(3), day(4))], who="a test", why="to come late")
                elif number == 5:
                    ledger.decisions.retry(table, [day(3)], who="a test")
        restate(tiny, again)
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
        assert_delivered(tiny)
    assert tiny.run(day(6)).done == 0
    assert sorted(path.name for path in (tiny.root / "files" / "parts").iterdir()) == [
        f"parts_{label}.json" for label in labels(1, 2, 3, 4, 5)
    ]


def test_a_lost_delivery_is_reported_and_restored_by_recompute(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(
        COLLECT.format("raw.appended", "", "APPEND")
        + "PUBLISH raw.appended TO files.appended; PUBLISH raw.appended TO out.appended;"
        + "PUBLISH raw.appended TO out.whole MERGE ON (id);"
    )
    publishes = ("files.appended", "out.appended", "out.whole")
    fill(tiny, FIRST)
    assert not tiny.run(day(3)).failed
    (tmp_path / "out.sqlite").unlink()
    shutil.rmtree(tmp_path / "files")
    fill(tiny, {**FIRST, 3: [(4, 30, 0)]})
    outcome = tiny.run(day(4))
    errors = {report.group.table: report.error for report in outcome.failed}
    assert {name: error and error.code for name, error in errors.items()} == dict.fromkeys(publishes[:2], "E824")
    told = errors["out.appended"]
    assert told is not None
    assert told.what == "out.appended differs from its last delivery: the file out.sqlite is gone"
    assert "waterclock recompute out.appended" in (told.fix or "")
    words = "out.whole: the file out.sqlite is gone; the whole table is delivered again"
    assert any(said.startswith(words) for said in tiny.heard.said_)
    assert tiny.delivered("SELECT id, v FROM whole ORDER BY id") == [(1, 20), (2, 10), (3, 20), (4, 30)]

    with tiny.ledger() as ledger:
        for name in publishes[:2]:
            ledger.decisions.request_restate(name, [day(1), day(2)], "recompute", who="a test")
            ledger.decisions.retry(name, [day(3)], who="a test")
    tiny.shop("DELETE FROM facts")  # the collected rows are delivered, not the current rows of the source
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    held = [(labels(1)[0], 1), (labels(1)[0], 2), (labels(2)[0], 1), (labels(2)[0], 3), (labels(3)[0], 4)]
    assert tiny.delivered("SELECT timelabel, id FROM appended ORDER BY 1, 2") == held
    files = sorted((row[-1], int(row[0])) for row in published_files(tiny, "appended"))
    assert files == held
    assert tiny.run(day(4)).done == 0


def test_a_held_delivery_is_not_released_after_an_earlier_label_was_delivered_again(
    tmp_path: Path, spark: SparkSession
) -> None:
    """It would restore the row of a lost key as that label had delivered it before."""
    tiny = Tiny(tmp_path, spark)
    tiny.declare(
        COLLECT.format("raw.parts", "PARTITIONED", "")
        + "PUBLISH raw.parts TO out.parts MERGE ON (id) EXPECT max(v) < 100 AS sane ELSE HOLD;"
    )
    fill(tiny, {1: [(1, 10, 0), (2, 10, 0)], 2: [(1, 20, 0)]})
    assert not tiny.run(day(3)).failed

    def recollect(number: int, days: dict[int, list[Row]]) -> None:
        fill(tiny, days)
        with tiny.ledger() as ledger:
            ledger.decisions.request_restate("raw.parts", [day(number)], "recollect", who="a test")
        tiny.run(day(3))

    recollect(2, {1: [(1, 10, 0), (2, 10, 0)], 2: [(3, 200, 0)]})
    assert tiny.batches()["out.parts", labels(2)[0]] == "held"
    recollect(1, {1: [(1, 11, 0), (2, 10, 0)], 2: [(3, 200, 0)]})
    with pytest.raises(WaterclockError, match="E756") as refused:
        release_batches(tmp_path, None, "out.parts", "it is right", None, yes=True, is_json=False)
    assert refused.value.why == f"{labels(1)[0]} was delivered since"
    recollect(2, {1: [(1, 11, 0), (2, 10, 0)], 2: [(3, 20, 0)]})
    with tiny.ledger() as ledger:
        ledger.decisions.retry("out.parts", [day(2)], who="a test")
    assert not tiny.run(day(3)).failed
    assert tiny.delivered("SELECT id, v FROM parts ORDER BY id") == [(1, 11), (2, 10), (3, 20)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["", "TEMPORAL"])
def test_a_column_added_later_is_delivered_with_the_changed_rows(
    tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(
        f"COLLECT raw.open (id BIGINT KEY, *) FROM shop.open EVERY DAY {mode}; PUBLISH raw.open TO out.open MERGE;"
    )
    tiny.source("open", "id INTEGER, a TEXT", [(1, "x")])
    assert not tiny.run(day(2)).failed
    tiny.source("open", "id INTEGER, a TEXT, b TEXT", [(1, "x", "new"), (2, "y", "new")])
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.delivered("SELECT id, a, b FROM open ORDER BY id") == [(1, "x", "new"), (2, "y", "new")]


def test_a_row_that_no_key_finds_is_refused_before_it_is_lost_or_doubled(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    publishes = ("out.labels", "out.state")
    tiny.declare(
        COLLECT.format("raw.parts", "PARTITIONED", "")
        + "TRANSFORM raw.state AS SELECT id, v FROM raw.parts;"
        + "PUBLISH raw.parts TO out.labels MERGE ON (id); PUBLISH raw.state TO out.state MERGE ON (id);"
    )
    fill(tiny, {1: [(1, 10, 0), (None, 11, 0)]})
    outcome = tiny.run(day(2))
    told = {report.group.table: report.error and report.error.what for report in outcome.failed}
    assert told == {name: f"{name} is not as expected: id is null in 1 of 2 rows" for name in publishes}


def test_rows_of_one_key_in_one_label_are_refused_before_one_of_them_is_lost(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    publishes = ("out.appended", "out.labels", "out.state")
    tiny.declare(
        COLLECT.format("raw.parts", "PARTITIONED", "")
        + COLLECT.format("raw.appended", "", "APPEND")
        + "TRANSFORM raw.state AS SELECT id, v FROM raw.parts;"
        + "PUBLISH raw.parts TO out.labels MERGE ON (id); PUBLISH raw.state TO out.state MERGE ON (id);"
        + "PUBLISH raw.appended TO out.appended MERGE ON (id);"
    )
    fill(tiny, {1: [(1, 10, 0), (1, 11, 0), (2, 20, 0)]})
    outcome = tiny.run(day(2))
    told = {report.group.table: report.error and report.error.what for report in outcome.failed}
    finding = "ON (id) is not unique: (1,) occur more than once"
    assert told == {name: f"{name} is not as expected: {finding}" for name in publishes}

    tiny.shop("DELETE FROM facts WHERE v = 10")
    with tiny.ledger() as ledger:
        for name in ("raw.parts", "raw.appended"):
            ledger.decisions.request_restate(name, [day(1)], "recollect", who="a test")
        for name in publishes:
            ledger.decisions.retry(name, [day(1)], who="a test")
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    for name in publishes:
        assert tiny.delivered(f"SELECT id, v FROM {name[4:]} ORDER BY id") == [(1, 11), (2, 20)]


@pytest.mark.soak
def test_a_row_that_a_label_lost_has_the_label_from_which_it_is(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare("""
    COLLECT raw.parts PARTITIONED (id BIGINT KEY, v BIGINT, at TIMESTAMP) FROM shop.facts EVERY DAY BY DATA TIME at;
    PUBLISH raw.parts (id, v) TO out.parts MERGE ON (id);
    """)
    first, second = "20200101000000", "20200102000000"
    for days, again, wanted in (
        ({1: [(1, 10, 0)], 2: [(1, 20, 0), (2, 20, 0)]}, None, [(1, 20, second), (2, 20, second)]),
        ({1: [(1, 10, 0)], 2: [(2, 21, 0)]}, 2, [(1, 10, first), (2, 21, second)]),
        ({1: [(1, 11, 0)], 2: [(2, 21, 0)]}, 1, [(1, 11, first), (2, 21, second)]),
    ):
        fill(tiny, days)
        if again:
            with tiny.ledger() as ledger:
                ledger.decisions.request_restate("raw.parts", [day(again)], "recollect", who="a test")
        outcome = tiny.run(day(3))
        assert not outcome.failed, described(outcome)
        assert tiny.delivered("SELECT id, v, timelabel FROM parts ORDER BY id") == wanted
