"""A column with RETIRE: both schemas are valid until its date, and it ends and can be removed only without readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening, labels
from waterclock.batches.schemas import Side
from waterclock.engine.maintenance.rebuild_all import rebuild_all
from waterclock.operations.retirements import retirement_errors

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLLECTS = """
COLLECT shop.people PARTITIONED (
    id BIGINT, at TIMESTAMP, name STRING, full_name STRING AS (upper(name)) RETIRE '2020-01-03')
  FROM shop.people EVERY DAY BY DATA TIME at;
COLLECT shop.alone PARTITIONED (id BIGINT, at TIMESTAMP, full_name STRING AS (name) RETIRE '2020-01-03', *)
  FROM shop.people EVERY DAY BY DATA TIME at;
"""
READER = """
TRANSFORM sales.greeted PARTITIONED AS SELECT id, name FROM shop.people WHERE full_name <> 'BOB';
PUBLISH shop.people (id, full_name) TO out.people;
"""
MOVED = """
TRANSFORM sales.greeted PARTITIONED AS SELECT id, name FROM shop.people WHERE name <> 'bob';
PUBLISH shop.people (id, name) TO out.people;
"""
ROWS = [(number, f"2020-01-{number:02d} 12:00:00", name) for number, name in enumerate(["ann", "bob", "cyd"], 1)]


def run(tiny: Tiny, now: datetime) -> None:
    outcome = tiny.run(now)
    assert not outcome.failed, described(outcome)
    assert tiny.open_claims() == 0


def names(tiny: Tiny, table: str) -> list[tuple[object, ...]]:
    return tiny.rows(f"SELECT id, full_name FROM {table} ORDER BY id")


def test_a_retiring_column_is_kept_until_its_day_and_until_no_query_reads_it(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("people", "id INTEGER, at TEXT, name TEXT", ROWS)
    tiny.declare(COLLECTS + READER)
    run(tiny, day(2))
    assert names(tiny, "shop.people") == [(1, "ANN")]
    with tiny.ledger() as ledger:
        [version] = [each for each in ledger.reads.schemas("shop.people") if each.side is Side.TABLE]
    assert version.columns["full_name"] == "string RETIRE 2020-01-03"
    assert not retirement_errors(tiny.load(), day(2))

    run(tiny, day(4))  # two labels in one group, the day between them
    assert names(tiny, "shop.people") == [(1, "ANN"), (2, "BOB"), (3, "CYD")]
    assert names(tiny, "shop.alone") == [(1, "ann"), (2, "bob"), (3, None)]
    [error] = retirement_errors(tiny.load(), day(4))
    assert (error.code, error.where) == ("E451", "flows/flow.dpl:6:43")
    assert (
        error.why
        == "it is read by sales.greeted (by its name), the publish out.people (by its name); it stays until no query "
        "reads it"
    )
    assert any("shop.people.full_name does not retire on 2020-01-03" in said for said in tiny.heard.said_)

    tiny.declare(COLLECTS + MOVED)
    assert not retirement_errors(tiny.load(), day(4))
    tiny.shop("INSERT INTO people VALUES (4, '2020-01-04 12:00:00', 'dan')")
    run(tiny, day(5))
    assert names(tiny, "shop.people")[-1] == (4, None)

    # after its end it can be removed from the list, and does not reappear
    tiny.declare(COLLECTS.replace(", full_name STRING AS (upper(name)) RETIRE '2020-01-03'", "") + MOVED)
    tiny.shop("INSERT INTO people VALUES (5, '2020-01-05 12:00:00', 'eve')")
    run(tiny, day(6))
    assert names(tiny, "shop.people")[-2:] == [(4, None), (5, None)]
    assert tiny.done("shop.people") == labels(1, 2, 3, 4, 5)


def test_files_from_before_a_rename_keep_their_values(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(
        "COLLECT web.people PARTITIONED (id INT, name STRING, full_name STRING AS (name) RETIRE '2020-02-01') "
        "FROM land.acme.people EVERY DAY BY ARRIVAL TIME START '2020-01-01' ON SCHEMA CHANGE IGNORE;"
    )
    tiny.land("people", evening(1), "id,full_name\n1,ann\n")
    tiny.land("people", evening(2), "id,name\n2,bob\n")
    tiny.land("people", evening(3), "id,name,full_name\n3,cyd,Cyd Ray\n4,dan,\n")
    run(tiny, day(4))
    kept = [(1, "ann", None), (2, "bob", "bob"), (3, "Cyd Ray", "cyd"), (4, "dan", "dan")]
    assert tiny.rows("SELECT id, full_name, name FROM web.people ORDER BY id") == kept


FOLDS = """
COLLECT shop.newest (id BIGINT KEY, at TIMESTAMP, name STRING, full_name STRING AS (name) RETIRE '2020-01-03')
  FROM shop.people EVERY DAY BY DATA TIME at MERGE ORDER BY at;
COLLECT shop.rows PARTITIONED (id BIGINT, at TIMESTAMP, name STRING) FROM shop.people EVERY DAY BY DATA TIME at;
TRANSFORM sales.people PARTITIONED (id BIGINT, full_name STRING AS (name) RETIRE '2020-01-03', *)
AS SELECT id, name FROM shop.rows;
"""


@pytest.mark.soak
def test_merged_rows_lose_a_retired_column_when_they_change_also_after_a_rebuild(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("people", "id INTEGER, at TEXT, name TEXT", [*ROWS, (1, "2020-01-03 13:00:00", "anne")])
    tiny.declare(FOLDS)
    run(tiny, day(2))
    run(tiny, day(4))
    assert names(tiny, "shop.newest") == [(1, None), (2, "bob"), (3, None)]
    made = [(1, "ann"), (1, None), (2, "bob"), (3, None)]
    assert sorted(names(tiny, "sales.people"), key=str) == made
    with tiny.opened() as work:
        rebuild_all(work, day(4))
    assert sorted(names(tiny, "sales.people"), key=str) == made

    tiny.declare(FOLDS.replace(", full_name STRING AS (name) RETIRE '2020-01-03'", ""))
    run(tiny, day(4))
    with tiny.opened() as work:
        rebuild_all(work, day(4))
    assert [len(row) for row in tiny.rows("SELECT * EXCEPT (timelabel) FROM sales.people")] == [2] * 4


def test_an_end_in_the_past_is_refused_by_check_exactly_where_run_refuses_it(
    tmp_path: Path, spark: SparkSession
) -> None:
    plain = (
        "COLLECT shop.people PARTITIONED (id BIGINT, at TIMESTAMP, name STRING) "
        "FROM shop.people EVERY DAY BY DATA TIME at;"
    )
    ended = plain.replace("name STRING", "name STRING RETIRE '2020-01-02'")
    new = Tiny(tmp_path / "new", spark)  # no batch was made, so no reader needs to be warned
    new.source("people", "id INTEGER, at TEXT, name TEXT", ROWS)
    new.declare(ended)
    assert not retirement_errors(new.load(), day(4))
    run(new, day(4))
    assert new.rows("SELECT id, name FROM shop.people ORDER BY id") == [(1, "ann"), (2, None), (3, None)]
    assert not retirement_errors(new.load(), day(4))

    old = Tiny(tmp_path / "old", spark)  # also if the next label starts before the column's day
    old.source("people", "id INTEGER, at TEXT, name TEXT", ROWS)
    old.declare(plain)
    run(old, day(2))
    old.declare(plain.replace("name STRING", "name STRING RETIRE '2020-01-03'"))
    assert [error.code for error in retirement_errors(old.load(), day(3))] == ["E452"]
    outcome = old.run(day(3))
    assert [report.error.code for report in outcome.failed if report.error] == ["E452"]


def test_an_unannounced_past_retirement_and_an_early_removal_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    plain = (
        "COLLECT shop.people PARTITIONED (id BIGINT, at TIMESTAMP, name STRING) "
        "FROM shop.people EVERY DAY BY DATA TIME at;"
    )
    tiny.source("people", "id INTEGER, at TEXT, name TEXT", ROWS)
    tiny.declare(plain)
    run(tiny, day(2))
    tiny.declare(plain.replace("name STRING", "name STRING RETIRE '2020-01-02'"))
    [error] = retirement_errors(tiny.load(), day(3))
    assert error.code == "E452"
    outcome = tiny.run(day(3))
    assert [report.error.code for report in outcome.failed if report.error] == ["E452"]

    tiny.declare(plain.replace("name STRING", "name STRING RETIRE '2020-02-01'"))
    assert not retirement_errors(tiny.load(), day(3))
    tiny.source("people", "id INTEGER, at TEXT", [(2, "2020-01-02 12:00:00")])
    with tiny.opened() as work:
        work.ledger.decisions.retry("shop.people", [day(2)], who="ann")
    outcome = tiny.run(day(3))
    assert [report.error.code for report in outcome.failed if report.error] == ["E773"]
    assert "AS (the_new_column) RETIRE '2020-02-01'" in described(outcome)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("PARTITIONED (id BIGINT", ""),
        pytest.param("(id BIGINT KEY", "MERGE ORDER BY at", marks=pytest.mark.soak),
    ],
)
def test_a_lookback_leaves_out_windows_before_the_day_once_the_source_has_no_such_column(
    kind: str, mode: str, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    declared = (
        f"COLLECT shop.people {kind}, old STRING RETIRE '2020-01-03', at TIMESTAMP) FROM shop.people EVERY DAY\n"
        f"  BY DATA TIME at LOOKBACK 2 DAYS {mode};"
    )
    times = [f"2020-01-{number:02d} 12:00:00" for number in (1, 2, 3, 4)]
    tiny.source("people", "id INTEGER, old TEXT, at TEXT", [(1, "ann", times[0]), (2, "bob", times[1])])
    tiny.declare(declared)
    run(tiny, day(3))
    tiny.source("people", "id INTEGER, at TEXT", list(enumerate(times, 1)))
    run(tiny, day(4))
    kept = [(1, "ann"), (2, "bob"), (3, None)]
    assert tiny.rows("SELECT id, old FROM shop.people ORDER BY id") == kept
    said = [said for said in tiny.heard.said_ if "late rows" in said]
    early, why = ", ".join(labels(1, 2)), "the source no longer has old, which these windows contain"
    assert said == [f"shop.people: late rows of {early} are not collected: {why}"]

    # past labels keep the column, declared or not
    tiny.declare(declared.replace("old STRING RETIRE '2020-01-03', ", ""))
    run(tiny, day(5))
    assert tiny.rows("SELECT id, old FROM shop.people ORDER BY id") == [*kept, (4, None)]
