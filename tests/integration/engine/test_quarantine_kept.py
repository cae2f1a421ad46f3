"""Quarantined rows belong to their batch: of a publish, of a MERGE, as of a tick, and after the ledger was lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.engine.maintenance.test_ledger_rebuild import lose, rebuilt
from tests.tiny import Tiny, day, described, labels
from waterclock.engine.query.quarantine import quarantine_frame
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick
from waterclock.planner.plan import RECOLLECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT, amount INT ELSE QUARANTINE, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at;
TRANSFORM shop.newest (id BIGINT KEY, amount INT) MERGE EXPECT amount < 50 AS small ELSE QUARANTINE
AS SELECT id, max(amount) AS amount FROM shop.orders GROUP BY id;
PUBLISH shop.orders TO out.orders EXPECT amount > 0 AS positive ELSE QUARANTINE;
"""
AT = "2020-01-{:02d} 12:00:00"


def aside(tiny: Tiny, table: str, **as_of: Any) -> list[tuple[str, Any, list[str]]]:
    sql = f"SELECT timelabel, row, broken FROM {table}_quarantine"
    with tiny.opened() as work:
        asked = RequestedTick(**as_of) if as_of else None
        rows = query(work, sql, limit=100, as_of=asked).rows
    return sorted((label, json.loads(row)["amount"], list(broken)) for label, row, broken in rows)


def test_rows_set_aside_stay_with_their_batch(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source(
        "orders", "id INTEGER, amount TEXT, at TEXT",
        [(1, "5", AT.format(1)), (2, "x", AT.format(1)), (3, "-1", AT.format(2)), (4, "70", AT.format(2))],
    )  # fmt: skip
    tiny.declare(FLOW)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    first, second = labels(1, 2)
    assert aside(tiny, "shop.orders") == [(first, "x", ["amount INT"])]
    assert aside(tiny, "shop.newest") == [(second, 70, ["small"])]
    assert aside(tiny, "out.orders") == [(second, -1, ["positive"])]
    assert tiny.rows("SELECT id, amount FROM shop.newest ORDER BY id") == [(1, 5), (3, -1)]
    assert sorted(tiny.delivered("SELECT id, amount FROM orders")) == [(1, 5), (4, 70)]

    with tiny.opened() as work:
        before = work.ledger.now()
    tiny.shop("UPDATE orders SET amount = 'y' WHERE id = 2")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(1)], RECOLLECT, who="ann")
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert aside(tiny, "shop.orders") == [(first, "y", ["amount INT"])]
    assert aside(tiny, "shop.orders", tick="2020-01-02", known_at=before) == [(first, "x", ["amount INT"])]
    assert aside(tiny, "shop.newest", tick="2020-01-02") == []

    counted = {name: counts(tiny, name) for name in ("shop.orders", "shop.newest", "out.orders")}
    assert counted["shop.orders"] == {first: 1}
    lose(tiny)
    rebuilt(tiny)
    assert {name: counts(tiny, name) for name in counted} == counted
    assert aside(tiny, "shop.orders") == [(first, "y", ["amount INT"])]


def counts(tiny: Tiny, table: str) -> dict[str, int]:
    with tiny.ledger() as ledger:
        return {labels(label.day)[0]: rows for label, (rows, _) in ledger.reads.list_quarantined_labels(table).items()}


def test_quarantined_rows_are_read_in_one_scan_for_each_set_of_rules(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    rows = [(at, f"{at if at % 2 else 'x'}", AT.format(at)) for at in range(1, 10)]
    tiny.source("orders", "id INTEGER, amount TEXT, at TEXT", rows)
    tiny.declare(FLOW.partition("TRANSFORM")[0])
    assert not tiny.run(day(6)).failed
    assert scans(tiny, spark, "shop.orders") == 1
    assert [label for label, _, _ in aside(tiny, "shop.orders")] == labels(2, 4)
    tiny.declare(FLOW.partition("TRANSFORM")[0].replace("at;", "at EXPECT amount < 9 AS small ELSE QUARANTINE;"))
    assert not tiny.run(day(10)).failed
    assert scans(tiny, spark, "shop.orders") == 2
    found = aside(tiny, "shop.orders")
    first, last = labels(2, 4, 6, 8), labels(9)[0]
    assert found == [
        *((it, "x", ["amount INT"]) for it in first[:2]),
        *((it, "x", ["amount INT", "small"]) for it in first[2:]),
        (last, "9", ["small"]),
    ]
    asked = "SELECT q.timelabel FROM shop.orders_quarantine q JOIN waterclock.batches b "
    asked += "ON b.table = 'shop.orders' AND b.timelabel = q.timelabel AND b.claim = q.claim AND b.code = q.code"
    assert len(tiny.rows(asked)) == 5


def scans(tiny: Tiny, spark: SparkSession, name: str) -> int:
    """Count the file scans in a query of all quarantined rows of a table."""
    with tiny.opened() as work:
        rows = quarantine_frame(work, spark, work.flow.tables[name], None)
        return str(rows._jdf.queryExecution().optimizedPlan().toString()).count("Relation [")
