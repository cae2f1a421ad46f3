"""Tables renamed with their history (WAS): nothing is made again, and all works under the new names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.ledger_export import list_exports
from waterclock.engine.maintenance.ledger_rebuild import rebuild_ledger
from waterclock.engine.maintenance.rebuild_all import rebuild_all
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT {orders} PARTITIONED (id BIGINT, at TIMESTAMP, amount INT ELSE QUARANTINE)
  FROM shop.orders EVERY DAY BY DATA TIME at LOOKBACK 2 DAYS{was_orders};
COLLECT shop.lands (land STRING KEY, name STRING) FROM shop.lands EVERY DAY;
TRANSFORM {daily} PARTITIONED EXPECT total < 1000 ELSE HOLD{was_daily}
AS SELECT sum(amount) AS total, count(*) AS n FROM {orders};
TRANSFORM marts.sum AS SELECT sum(total) AS total FROM HISTORY({daily});
TRANSFORM marts.week PARTITIONED AS SELECT sum(d.total) AS total FROM PAST({daily}, '3 days') AS d;
PUBLISH marts.sum TO out.sum;
"""
OLD = {"orders": "raw.orders", "daily": "shop.daily", "was_orders": "", "was_daily": ""}
NEW = {
    "orders": "sales.orders",
    "daily": "sales.per_day",
    "was_orders": " WAS raw.orders",
    "was_daily": " WAS shop.daily",
}
WITHOUT = NEW | {"was_orders": "", "was_daily": ""}


def started(root: Path, spark: SparkSession) -> Tiny:
    tiny = Tiny(root, spark)
    tiny.source("orders", "id INTEGER, at TEXT, amount TEXT")
    tiny.source("lands", "land TEXT, name TEXT", [("de", "Germany")])
    for number in range(1, 5):
        order(tiny, number, number * 10)
    tiny.shop("INSERT INTO orders VALUES (9, '2020-01-02 11:00:00', 'many')")
    tiny.declare(FLOW.format(**OLD))
    run(tiny, day(5))
    return tiny


def order(tiny: Tiny, of_day: int, amount: int) -> None:
    tiny.shop(f"INSERT INTO orders VALUES ({of_day}, '2020-01-{of_day:02d} 10:00:00', '{amount}')")


def run(tiny: Tiny, now: datetime) -> int:
    outcome = tiny.run(now)
    assert not outcome.failed, described(outcome)
    assert tiny.open_claims() == 0
    return outcome.done


def totals(tiny: Tiny, name: str, as_of: str | None = None) -> list[object]:
    with tiny.opened() as work:
        asked = None if as_of is None else RequestedTick(as_of)
        rows = query(work, f"SELECT total FROM {name} ORDER BY timelabel", limit=100, as_of=asked).rows
    return [row[0] for row in rows]


def test_a_renamed_table_keeps_its_history_and_is_not_made_again(tmp_path: Path, spark: SparkSession) -> None:
    tiny = started(tmp_path, spark)
    before = totals(tiny, "shop.daily")
    tiny.declare(FLOW.format(**NEW))
    assert run(tiny, day(5)) == 0  # neither the table nor its readers are made again
    assert totals(tiny, "sales.per_day") == before == [10, 20, 30, 40]
    [(row,)] = tiny.rows("SELECT row FROM sales.orders_quarantine")
    assert "many" in str(row)
    with tiny.ledger() as ledger:
        snapshot = ledger.reads.snapshot(tiny.load().flow)
        flow = tiny.load().flow
        for name, table in flow.tables.items():
            assert set(snapshot.of(name).codes) == {table.fingerprint}, name
    assert len(list_exports(str(tmp_path / tiny.storage))) == 1  # nothing else stores the location of the table

    order(tiny, 5, 50)
    order(tiny, 4, 5)  # late, within the LOOKBACK
    assert run(tiny, day(6)) > 0
    assert totals(tiny, "sales.per_day") == [10, 20, 30, 45, 50]
    assert tiny.rows("SELECT total FROM marts.sum") == [(155,)]
    assert totals(tiny, "sales.per_day", as_of="2020-01-04") == [10, 20, 30]  # before the rename

    tiny.declare(FLOW.format(**WITHOUT))
    tiny.shop("UPDATE orders SET amount = '11' WHERE id = 1")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("sales.orders", [day(1)], "recollect", who="ann")
    assert run(tiny, day(6)) > 0
    assert totals(tiny, "sales.per_day") == [11, 20, 30, 45, 50]
    assert tiny.rows("SELECT total FROM marts.sum") == [(156,)]
    assert not (tmp_path / tiny.storage / "tables" / "sales").exists()

    with tiny.opened() as work:
        rebuild_all(work, day(6))
    assert totals(tiny, "sales.per_day") == [11, 20, 30, 45, 50]
    assert run(tiny, day(6)) == 0

    order(tiny, 6, 5000)
    tiny.run(day(7))
    [(total,)] = tiny.rows("SELECT total FROM sales.per_day_held")
    assert total == 5000


def test_rows_held_before_a_rename_are_shown_and_released_after_it(tmp_path: Path, spark: SparkSession) -> None:
    tiny = started(tmp_path, spark)
    order(tiny, 5, 5000)
    tiny.run(day(6))
    tiny.declare(FLOW.format(**NEW))
    tiny.run(day(6))
    assert tiny.rows("SELECT total FROM sales.per_day_held") == [(5000,)]
    with tiny.ledger() as ledger:
        ledger.decisions.request_release("sales.per_day", [day(5)], who="ann", why="it was a fair")
    assert run(tiny, day(6)) > 0
    assert totals(tiny, "sales.per_day") == [10, 20, 30, 40, 5000]
    with tiny.ledger() as ledger:
        flow = tiny.load().flow
        assert set(ledger.reads.snapshot(flow).of("sales.per_day").codes) == {flow.tables["sales.per_day"].fingerprint}


@pytest.mark.parametrize("export", ["kept", "lost"])
def test_a_lost_ledger_finds_the_table_where_it_was(tmp_path: Path, spark: SparkSession, export: str) -> None:
    tiny = started(tmp_path, spark)
    tiny.declare(FLOW.format(**NEW))
    order(tiny, 5, 50)
    run(tiny, day(6))
    root = tmp_path / tiny.storage
    for path in root.glob("ledger.db*"):
        path.unlink()
    if export == "lost":
        for path in (root / "ledger").glob("*"):
            path.unlink()
    else:
        tiny.declare(FLOW.format(**WITHOUT))
    rebuild_ledger(tiny.load(), settings=tiny.settings)
    assert run(tiny, day(6)) == 0
    assert totals(tiny, "sales.per_day") == [10, 20, 30, 40, 50]


def test_a_query_before_the_next_run_uses_the_new_name_of_a_table(tmp_path: Path, spark: SparkSession) -> None:
    tiny = started(tmp_path, spark)
    tiny.declare(FLOW.format(**NEW))
    assert totals(tiny, "sales.per_day") == [10, 20, 30, 40]
    with tiny.ledger() as ledger:
        assert ledger.reads.find_table("shop.daily") is not None
