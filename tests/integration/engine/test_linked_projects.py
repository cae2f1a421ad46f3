"""Two projects, each with its own ledger and storage, linked at each other's ticks on real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.batches.ledger_snapshot import RECOMPUTE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

UPSTREAM = """
COLLECT raw.orders PARTITIONED (id BIGINT, cents BIGINT, at TIMESTAMP) FROM shop.orders EVERY 12 HOURS
  START '2020-01-01' BY DATA TIME at LOOKBACK 3 DAYS;
TRANSFORM shop.orders PARTITIONED AS SELECT id, cents FROM raw.orders WHERE cents >= 0;
TRANSFORM shop.prices MERGE ON (id) AS SELECT id, cents FROM raw.orders;
TRANSFORM shop.totals EVERY DAY AS SELECT sum(cents) AS cents FROM HISTORY(raw.orders);
"""
HERE = """
CREATE CONNECTION upstream TYPE waterclock;
COLLECT here.orders PARTITIONED FROM upstream.shop.orders EVERY DAY START '2020-01-01' BY DATA TIME timelabel;
COLLECT here.prices FROM upstream.shop.prices EVERY DAY START '2020-01-01';
COLLECT here.totals FROM upstream.shop.totals EVERY DAY START '2020-01-01';
TRANSFORM marts.sums PARTITIONED AS SELECT sum(cents) AS cents FROM here.orders;
TRANSFORM marts.newest AS SELECT t.cents, count(p.id) AS prices FROM here.totals t CROSS JOIN here.prices p GROUP BY 1;
"""
LINKED = """
[project]
name = "here"
[env.dev]
storage = ".waterclock"
connections.upstream = {{ path = "../upstream" }}
connections.shop = {{ path = "shop.sqlite" }}
connections.out = {{ path = "out.sqlite", create = true }}
connections.land = {{ path = "landing/new" }}
connections.files = {{ path = "files" }}
"""


def projects(folder: Path, spark: SparkSession) -> tuple[Tiny, Tiny]:
    upstream = Tiny(folder / "upstream", spark, "upstream")
    here = Tiny(folder / "here", spark, "here", toml=LINKED)
    rows = [(number, 100 * number, f"2020-01-0{number} 1{number}:00") for number in (1, 2, 3)]
    upstream.source("orders", "id INTEGER, cents INTEGER, at TEXT", [*rows, (9, 9, "2020-01-01 01:00")])
    upstream.declare(UPSTREAM)
    here.declare(HERE)
    return upstream, here


def test_two_projects_are_made_at_each_others_ticks_and_a_restatement_there_is_one_here(
    tmp_path: Path, spark: SparkSession
) -> None:
    upstream, here = projects(tmp_path, spark)
    waiting = here.run(day(3))
    assert not waiting.failed, described(waiting)
    assert not here.done("here.orders")
    outcome = upstream.run(day(3))
    assert not outcome.failed, described(outcome)
    before = files_of(upstream)
    outcome = here.run(day(4))
    assert not outcome.failed, described(outcome)
    assert outcome.plan
    assert {batch.reason for batch in outcome.plan.batches if batch.table == "here.orders"} == {
        "waits for upstream.shop.orders@20200103000000, which is not made there yet"
    }
    assert here.done("here.orders") == labels(1, 2)
    assert here.rows("SELECT timelabel, id, cents FROM here.orders ORDER BY id") == [
        (labels(1)[0], 1, 100), (labels(2)[0], 2, 200), (labels(1)[0], 9, 9),
    ]  # fmt: skip
    assert here.rows("SELECT id, cents FROM here.prices ORDER BY id") == [(1, 100), (2, 200), (9, 9)]
    assert here.rows("SELECT cents FROM marts.sums ORDER BY timelabel") == [(109,), (200,)]
    assert here.rows("SELECT cents, prices FROM marts.newest") == [(309, 3)]
    with here.ledger() as ledger:
        (read,) = ledger.reads.inputs("here.orders", day(1))
        with upstream.ledger() as theirs:
            (pin,) = theirs.reads.pins([("shop.orders", day(1), day(2))])
    assert (read.table, read.low, read.high, read.content) == ("upstream.shop.orders", day(1), day(2), pin.content)
    assert files_of(upstream) == before

    upstream.shop("UPDATE orders SET cents = 150 WHERE id = 1")
    assert not upstream.run(day(4)).failed
    runs = {name: here.runs_of(name) for name in ("here.orders", "here.totals", "marts.sums")}
    outcome = here.run(day(4))
    assert not outcome.failed, described(outcome)
    assert here.done("here.orders") == labels(1, 2, 3)
    assert here.rows("SELECT cents FROM marts.sums ORDER BY timelabel") == [(159,), (200,), (300,)]
    assert here.rows("SELECT cents, prices FROM marts.newest") == [(659, 4)]
    runs = {name: here.runs_of(name) - count for name, count in runs.items()}
    assert runs["here.orders"] == 2
    again = here.run(day(4))
    assert again.done == 0


@pytest.mark.soak
def test_a_recomputed_label_still_follows_restatements_in_the_linked_project(
    tmp_path: Path, spark: SparkSession
) -> None:
    upstream, here = projects(tmp_path, spark)
    here.declare(HERE[: HERE.index("COLLECT here.prices")])
    for tiny in (upstream, here):
        outcome = tiny.run(day(3))
        assert not outcome.failed, described(outcome)
    with here.ledger() as ledger:
        before = ledger.reads.inputs("here.orders", day(1))
        ledger.decisions.request_restate("here.orders", [day(1)], RECOMPUTE, who="ann")
    assert here.run(day(3)).done == 1
    with here.ledger() as ledger:
        assert ledger.reads.inputs("here.orders", day(1)) == before
    upstream.shop("UPDATE orders SET cents = 150 WHERE id = 1")
    assert not upstream.run(day(4)).failed
    outcome = here.run(day(3))
    assert not outcome.failed, described(outcome)
    assert here.rows("SELECT cents FROM here.orders WHERE id = 1") == [(150,)]


def files_of(tiny: Tiny) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(tiny.root.rglob("*")) if path.is_file()}
