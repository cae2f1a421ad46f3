"""Rows that arrive after their window was closed are stored; they reopen it in time, or a recompute includes them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.test_closing import fill
from tests.tiny import Tiny, day, described, labels
from tests.unit.cli.conftest import ask
from waterclock.cli.actions import restate
from waterclock.cli.actions.run import RunOptions
from waterclock.engine.batch.late_rows import find_rejected_late_rows
from waterclock.engine.maintenance.maintain import find_maintenance, maintain_table
from waterclock.engine.maintenance.rebuild_all import rebuild_all
from waterclock.errors import WaterclockError
from waterclock.operations.restating import done_labels
from waterclock.planner.plan import Batch, Status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT web.readings PARTITIONED (device STRING, id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.readings EVERY 6 HOURS BY DATA TIME came;
TRANSFORM web.daily PARTITIONED EVERY DAY CLOSE WHEN watermark(at) >= WINDOW_END()
AS SELECT id FROM UNTIL(web.readings, '1 day') WHERE at >= WINDOW_START() AND at < WINDOW_END();
TRANSFORM web.patient PARTITIONED EVERY DAY CLOSE WHEN watermark(at) >= WINDOW_END() MAX LATENESS 30 HOURS
AS SELECT id FROM UNTIL(web.readings, '1 day') WHERE at >= WINDOW_START() AND at < WINDOW_END();
"""

MUCH_LATER = day(1) + timedelta(days=100)
MADE = ("web.daily", "web.daily_late", "web.patient", "web.patient_late")


def test_late_rows_are_kept_or_open_their_window_again(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    rows: list[tuple[str, int, datetime, datetime]] = [
        ("a", 1, day(1, 5), day(1, 5)),
        ("a", 2, day(2, 1), day(2, 1)),  # closes the first day at day 2, 06:00
        ("a", 3, day(1, 23), day(2, 7)),  # late for it, within a slice
        ("a", 4, day(4, 1), day(2, 8)),  # a clock that is ahead: early, and closes day 2 at its end
        ("a", 5, day(1, 22), day(3, 7)),  # later than 30 hours after the first day
    ]
    fill(tiny, rows)
    first = tiny.run(day(3, 12))
    assert not first.failed, described(first)
    assert tiny.done("web.daily") == labels(1, 2)
    assert tiny.rows("SELECT timelabel, id FROM web.daily ORDER BY id") == [
        ("20200101000000", 1),
        ("20200102000000", 2),
    ]
    assert tiny.rows("SELECT id, late_reason FROM web.daily_late ORDER BY id") == [
        (3, "late"),
        (4, "early"),
        (5, "late"),
    ]
    with tiny.ledger() as ledger:
        warned = ledger.past.audit("web.daily_late", day(2, 6)).current
        assert warned is not None
        assert warned.revision is not None
        assert warned.revision.measures["warnings"] == [
            "2 rows of web.readings arrived too late for web.daily, or too early"
        ]
    # within 30 hours the window was reopened, after that it was not
    assert tiny.rows("SELECT id FROM web.patient ORDER BY id") == [(1,), (2,), (3,)]
    assert tiny.rows("SELECT id, late_reason FROM web.patient_late ORDER BY id") == [(4, "early"), (5, "late")]

    # a recompute of a closed window moves its late rows from the companion table into it, in the same run
    asked: list[RunOptions] = []

    def kept(_: object, found: RunOptions) -> int:
        asked.append(found)
        return 0

    monkeypatch.setattr(restate, "run_and_report", kept)
    wish = restate.RestateCommand("recompute", "recompute", "web.daily@20200101000000", None, done_labels)
    now = "2020-01-03T12:00Z"
    assert restate.restate_batches(tmp_path, None, wish, now, yes=True, is_run=True, is_json=False) == 0
    [run] = asked
    assert run.only == ("web.daily", "web.daily_late")
    assert str(run.labels["web.daily_late"]) == "20200102000000..20200103060000"
    second = tiny.run(day(3, 12))
    assert not second.failed, described(second)
    assert tiny.rows("SELECT id FROM web.daily ORDER BY id") == [(1,), (2,), (3,), (5,)]
    assert tiny.rows("SELECT id, late_reason FROM web.daily_late ORDER BY id") == [(4, "early")]

    # a reset starts the table over with its late rows, some of which are in its windows
    found = ask("reset", "web.daily", "--yes", "--json", "--project", str(tmp_path))
    assert json.loads(found.stdout)["late"] == ["web.daily_late"], found.output
    assert tiny.done("web.daily_late") == []
    again = tiny.run(day(3, 12))
    assert not again.failed, described(again)
    ids = [row for name in ("web.daily", "web.daily_late") for row in tiny.rows(f"SELECT id FROM {name} ORDER BY id")]
    assert sorted(ids) == [(1,), (2,), (3,), (4,), (5,)]

    # a rebuilt second set closes its windows at the same boundaries
    before = {name: tiny.rows(f"SELECT timelabel, id FROM {name} ORDER BY id") for name in MADE}
    with tiny.opened() as work:
        rebuild_all(work, day(3, 12))
    assert {name: tiny.rows(f"SELECT timelabel, id FROM {name} ORDER BY id") for name in MADE} == before
    third = tiny.run(day(3, 12))
    assert third.done == 0, described(third)


@pytest.mark.soak
def test_a_window_that_opens_again_reads_the_state_of_its_own_day(tmp_path: Path, spark: SparkSession) -> None:
    """MAX LATENESS in a reader of a REPLACE table: none of the first 240 random lives contains both."""
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW.partition("TRANSFORM")[0] + """
        TRANSFORM web.counts EVERY DAY AS SELECT count(*) AS n FROM web.readings;
        TRANSFORM web.patient PARTITIONED EVERY DAY CLOSE WHEN watermark(at) >= WINDOW_END() MAX LATENESS 30 HOURS
        AS SELECT r.id, c.n FROM UNTIL(web.readings, '1 day') r CROSS JOIN web.counts c
          WHERE r.at >= WINDOW_START() AND r.at < WINDOW_END();
    """)  # fmt: skip
    first: list[tuple[str, int, datetime, datetime]] = [
        ("a", 1, day(1, 5), day(1, 5)),
        ("a", 2, day(2, 1), day(2, 1)),  # closes the first day
    ]
    fill(tiny, first)
    assert not tiny.run(day(2, 6)).failed
    assert tiny.rows("SELECT id, n FROM web.patient") == [(1, 1)]
    late: list[tuple[str, int, datetime, datetime]] = [
        ("a", 3, day(1, 23), day(2, 7)),  # reopens it
        ("a", 4, day(3, 1), day(3, 1)),  # closes the second day
    ]
    fill(tiny, [*first, *late])
    outcome = tiny.run(day(3, 6))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, n FROM web.patient ORDER BY id") == [(1, 1), (2, 2), (3, 1)]
    assert tiny.run(day(3, 6)).done == 0


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ("id INT, ta TIMESTAMP", "web.readings has no column at"),
        ("id INT, at STRING", "at of web.readings is string, not TIMESTAMP"),
        ("at TIMESTAMP, Late_Reason STRING", "web.readings has a column late_reason"),
    ],
)
def test_late_rows_without_a_usable_time_or_with_reserved_columns_are_refused(
    tmp_path: Path, spark: SparkSession, columns: str, what: str
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    with tiny.opened() as work:
        table = work.flow.tables["web.daily_late"]
        assert table.late_rows is not None
        batch = Batch(table.name, table.cadence.window_of(day(1)), Status.READY, "due")
        rows = spark.createDataFrame([], columns)
        with pytest.raises(WaterclockError) as refused:
            find_rejected_late_rows(work, table, table.late_rows, batch, rows)
    assert (refused.value.code, refused.value.what) == ("E717", what)
    assert refused.value.fix


@pytest.mark.soak
def test_late_rows_stay_where_their_window_cannot_be_made_again(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW.replace("BY DATA TIME came;", "BY DATA TIME came RETAIN 4 DAYS;").replace("30 HOURS", "30 DAYS"))
    rows = [("a", number, day(number, 1), day(number, 1)) for number in range(1, 10)]
    fill(tiny, [*rows, ("a", 20, day(1, 2), day(8, 7))])
    first = tiny.run(day(8, 6))
    assert not first.failed, described(first)
    with tiny.opened() as work:
        for found in find_maintenance(work, ["web.readings"], MUCH_LATER):
            maintain_table(work, found, MUCH_LATER)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("web.daily", [day(1)], "recompute", who="ann", why="late rows")
    second = tiny.run(day(9, 6))
    assert not second.failed, described(second)
    for name in ("web.daily", "web.patient"):
        assert tiny.rows(f"SELECT id FROM {name}_late") == [(20,)]
        assert tiny.rows(f"SELECT id FROM {name} WHERE timelabel < '20200102'") == [(1,)]
