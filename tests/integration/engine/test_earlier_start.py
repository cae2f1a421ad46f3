"""START moves back: batches that read the whole past are made again, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.engine.earlier_starts import snapshot_once_applied
from waterclock.engine.run_opening import apply_flow
from waterclock.planner.planning import Planner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT raw.o PARTITIONED (id BIGINT, amount INT, at TIMESTAMP) FROM shop.o EVERY DAY START '{start}' BY DATA TIME at;
TRANSFORM d.firsts PARTITIONED (id KEY PAST 3 DAYS ORDER BY at ELSE DROP, *) AS SELECT * FROM raw.o;
TRANSFORM d.chain PARTITIONED (n BIGINT, before BIGINT) AS
    SELECT count(*) AS n, (SELECT max(n) FROM PREVIOUS(d.chain)) AS before FROM raw.o;
TRANSFORM d.past PARTITIONED AS SELECT count(*) AS n FROM PAST(raw.o, '3 days');
TRANSFORM d.past_again PARTITIONED AS SELECT sum(n) AS n FROM PAST(d.past, '2 days');
TRANSFORM d.ever PARTITIONED AS SELECT count(*) AS n FROM HISTORY(raw.o);
TRANSFORM d.total REPLACE AS SELECT count(*) AS n FROM HISTORY(raw.o);
TRANSFORM d.own PARTITIONED AS SELECT count(*) AS n FROM raw.o;
TRANSFORM d.report PARTITIONED ON RESTATE REPORT AS SELECT count(*) AS n FROM PAST(raw.o, '3 days');
"""
ROWS = [(1, 1, 1), (1, 2, 2), (1, 3, 3), (2, 1, 1), (2, 2, 4), (3, 9, 6)]  # id, amount, day of January
TABLES = ("firsts", "chain", "past", "past_again", "ever", "own")


def made(root: Path, spark: SparkSession, start: str) -> Tiny:
    tiny = Tiny(root, spark)
    tiny.source("o", "id INTEGER, amount INTEGER, at TEXT", [(id_, n, f"2020-01-{at:02} 12:00") for id_, n, at in ROWS])
    tiny.declare(FLOW.format(start=start))
    return tiny


def held(tiny: Tiny) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(tiny.rows(f"SELECT * FROM d.{name}"), key=repr) for name in (*TABLES, "total")}


def run(tiny: Tiny, now: int) -> None:
    outcome = tiny.run(day(now))
    assert not outcome.failed, described(outcome)


def test_batches_that_read_back_to_start_are_made_again(tmp_path: Path, spark: SparkSession) -> None:
    tiny = made(tmp_path / "moved", spark, "2020-01-03")
    run(tiny, 7)
    own = tiny.runs_of("d.own"), tiny.runs_of("d.report")
    tiny.declare(FLOW.format(start="2020-01-01"))
    with tiny.ledger() as ledger:
        flow = tiny.load().flow
        plan = Planner(flow).plan(snapshot_once_applied(ledger, flow, day(7)), day(7))
    told = {(batch.table, batch.window.label) for batch in plan.batches}
    assert {label for name, label in told if name == "d.past"} == set(labels(1, 2, 3, 4))
    assert {label for name, label in told if name == "d.firsts"} == set(labels(1, 2, 3, 4))
    assert {label for name, label in told if name == "d.own"} == set(labels(1, 2))
    run(tiny, 7)
    clean = made(tmp_path / "clean", spark, "2020-01-01")
    run(clean, 7)
    assert held(tiny) == held(clean)
    # batches that cannot read more are not made again: only the two new days
    assert (tiny.runs_of("d.own"), tiny.runs_of("d.report")) == (own[0] + 2, own[1] + 2)
    before = {name: tiny.runs_of(f"d.{name}") for name in TABLES}
    run(tiny, 7)
    assert {name: tiny.runs_of(f"d.{name}") for name in TABLES} == before


def test_withdrawn_requests_are_not_made_again(tmp_path: Path, spark: SparkSession) -> None:
    tiny = made(tmp_path, spark, "2020-01-03")
    run(tiny, 5)
    tiny.declare(FLOW.format(start="2020-01-02"))
    with tiny.opened() as work:
        apply_flow(work, day(5))
    with tiny.ledger() as ledger:
        asked = {
            name: sorted(facts.requested) for name, facts in ledger.reads.snapshot(tiny.load().flow).tables.items()
        }
        assert asked["d.past"] == [day(3), day(4)]
        ledger.decisions.withdraw("d.past", asked["d.past"], who="ann")
    with tiny.opened() as work:
        apply_flow(work, day(5))
    with tiny.ledger() as ledger:
        assert not ledger.reads.snapshot(tiny.load().flow).of("d.past").requested


CLOSED = """
COLLECT raw.o PARTITIONED (id BIGINT, at TIMESTAMP, came TIMESTAMP) FROM shop.o EVERY DAY START '{start}'
  BY DATA TIME came;
TRANSFORM d.closed PARTITIONED EVERY DAY CLOSE WHEN watermark(at) >= WINDOW_END()
AS SELECT id FROM UNTIL(raw.o, '1 day') WHERE at >= WINDOW_START() AND at < WINDOW_END();
"""


def test_a_closed_window_gets_its_early_rows_and_no_late_ones(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("o", "id INTEGER, at TEXT, came TEXT", [
        (1, "2020-01-01 01:00", "2020-01-01 01:00"), (9, "2020-01-02 00:30", "2020-01-01 23:59"),
        (2, "2020-01-02 01:00", "2020-01-02 01:00"), (3, "2020-01-03 01:00", "2020-01-03 01:00"),
        (8, "2020-01-02 02:00", "2020-01-04 01:00"),
    ])  # fmt: skip
    tiny.declare(CLOSED.format(start="2020-01-02"))
    run(tiny, 5)
    second = labels(2)[0]
    rows, late = "SELECT timelabel, id FROM d.closed ORDER BY ALL", "SELECT id, late_reason FROM d.closed_late"
    assert (tiny.rows(rows), tiny.rows(late)) == ([(second, 2)], [(8, "late")])
    tiny.declare(CLOSED.format(start="2020-01-01"))
    run(tiny, 5)
    assert (tiny.rows(rows), tiny.rows(late)) == ([(labels(1)[0], 1), (second, 2), (second, 9)], [(8, "late")])
