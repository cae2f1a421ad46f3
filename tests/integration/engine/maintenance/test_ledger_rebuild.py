"""A lost ledger is rebuilt from its export, the Delta logs, the stage and the destination's deliveries."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.ledger_export import export_ledger
from waterclock.engine.maintenance.ledger_rebuild import LedgerRebuildResult, rebuild_ledger
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.orders PARTITIONED (id INT, at TIMESTAMP, amount INT) FROM shop.orders
  EVERY DAY BY DATA TIME at LOOKBACK 2 DAYS EXPECT count(*) < 12 AS few;
COLLECT shop.items (id INT KEY, at TIMESTAMP, price INT) FROM shop.items
  EVERY DAY BY DATA TIME at MERGE ORDER BY at;
COLLECT shop.notes (id INT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at LOOKBACK 1 DAY APPEND;
COLLECT shop.lands (land STRING KEY) FROM shop.lands EVERY DAY;
TRANSFORM marts.sums PARTITIONED EXPECT total < 1000 ELSE WARN
AS SELECT o.id, sum(o.amount) AS total FROM shop.orders o CROSS JOIN shop.lands l GROUP BY o.id;
TRANSFORM marts.prices AS SELECT count(*) AS n, sum(price) AS total FROM shop.items;
PUBLISH marts.sums TO out.sums;
PUBLISH marts.prices TO out.prices;
"""
# columns that a rebuild cannot restore for batches after the newest export
UNKNOWN = {"attempts", "timings", "recorded_at", "claimed_at", "run", "who"}
TABLES = (
    "shop.orders",
    "shop.items",
    "shop.notes",
    "shop.lands",
    "marts.sums",
    "marts.prices",
    "out.sums",
    "out.prices",
)


def project(root: Path, spark: SparkSession) -> Tiny:
    tiny = Tiny(root, spark)
    tiny.declare(FLOW)
    tiny.source("orders", "id INT, at TEXT, amount INT")
    tiny.source("items", "id INT, at TEXT, price INT")
    tiny.source("lands", "land TEXT", [("de",), ("fr",)])
    return tiny


def order(tiny: Tiny, of_day: int, amount: int) -> None:
    tiny.shop(f"INSERT INTO orders VALUES ({of_day}, '2020-01-{of_day:02d} 10:00:00', {amount})")


def item(tiny: Tiny, of_day: int, key: int, price: int) -> None:
    tiny.shop(f"INSERT INTO items VALUES ({key}, '2020-01-{of_day:02d} 10:00:{price:02d}', {price})")


def ask_again(tiny: Tiny, drawn: random.Random) -> None:
    """Request some label of some table again; half of the time its source rows change before."""
    name = drawn.choice(["shop.items", "shop.notes", "marts.sums", "marts.prices"])
    with tiny.ledger() as ledger:
        done = [cell.label for cell in ledger.past.grid([name]) if cell.current_claim is not None]
        if done and drawn.random() < 0.7:
            verb = drawn.choice(["recompute", "recollect"]) if name.startswith("shop") else "recompute"
            ledger.decisions.request_restate(name, [drawn.choice(done)], verb, who="ann")
    if drawn.random() < 0.5:
        tiny.shop("UPDATE items SET price = price + 1 WHERE id = 1")


def rebuilt(tiny: Tiny, **options: Any) -> LedgerRebuildResult:
    return rebuild_ledger(tiny.load(), settings=tiny.settings, **options)


def lose(tiny: Tiny) -> None:
    for path in (tiny.root / tiny.storage).glob("ledger.db*"):
        path.unlink()


def told(tiny: Tiny, *, without: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    """Return all ledger content about done batches, and its plan for the tenth."""
    with tiny.ledger() as ledger:
        flow = tiny.load().flow
        snapshot = ledger.reads.snapshot(flow)
        plan = Planner(flow).plan(snapshot, day(10), PlanRequest(clock=ledger.now()))
        batches = [row for row in ledger.past.rows("batches") if row["status"]]
        return {
            "batches": [{key: value for key, value in row.items() if key not in without} for row in batches],
            "inputs": [row for row in ledger.past.rows("inputs") if row["is_current"]],
            "done": sorted(
                (e["table"], e["timelabel"], e["claim"]) for e in ledger.past.rows("events") if e["kind"] == "done"
            ),
            "tables": ledger.reads.tables(),
            "versions": {name: ledger.reads.versions(name) for name in TABLES},
            "covered": {name: snapshot.of(name).covered for name in TABLES},
            "codes": {name: snapshot.of(name).codes for name in TABLES},
            "suspects": {name: snapshot.of(name).suspects for name in TABLES},
            "plan": [(b.table, b.label, b.status, b.is_revision) for b in plan.batches],
        }


def assert_told(tiny: Tiny, before: dict[str, Any]) -> None:
    """Assert that the ledger has its former content, part by part and row by row, so that differences are readable."""
    after = told(tiny, without=UNKNOWN)
    for part, rows in before.items():
        if isinstance(rows, list):
            assert [row for row in after[part] if row not in rows] == [row for row in rows if row not in after[part]], (
                part
            )
        assert after[part] == rows, part


def test_a_ledger_without_an_export_is_rebuilt_from_the_commits(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark)
    for of_day in (1, 2, 3):
        order(tiny, of_day, of_day)
        item(tiny, of_day, of_day % 2, of_day)
        outcome = tiny.run(day(of_day + 1))
        assert not outcome.failed, described(outcome)
    order(tiny, 2, 50)  # late: LOOKBACK restates the second
    assert not tiny.run(day(5)).failed
    before = told(tiny, without=UNKNOWN)
    lose(tiny)
    found = rebuilt(tiny)
    assert found.export is None
    assert set(found.adopted) == set(TABLES)
    assert (found.missing, found.unknown, found.killed) == ({}, [], 0)
    assert_told(tiny, before)
    outcome = tiny.run(day(6))
    assert not outcome.failed, described(outcome)
    assert outcome.done == len(TABLES)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(3))
def test_after_an_export_all_is_known_again_and_the_flow_runs_on(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    drawn = random.Random(seed)
    tiny = project(tmp_path, spark)
    exported = drawn.randrange(2, 6)
    for of_day in range(1, 7):
        for _ in range(drawn.randrange(0, 3)):
            order(tiny, max(1, of_day - drawn.randrange(0, 3)), drawn.choice([1, 5, 2000]))
            item(tiny, of_day, drawn.randrange(3), drawn.randrange(9))
        if of_day < exported and drawn.random() < 0.5:  # more rows than the rule allows: the day's batch fails
            for key in range(11, 24):
                order(tiny, of_day, key)
            tiny.shop("UPDATE orders SET id = 11 WHERE amount BETWEEN 11 AND 24")
            assert tiny.run(day(of_day + 1)).failed
            tiny.shop("DELETE FROM orders WHERE id > 10")
            with tiny.ledger() as ledger:
                if drawn.random() < 0.5:
                    window = Window(day(of_day), day(of_day + 1))
                    ledger.decisions.skip("shop.orders", [window], who="ann", why="no such day")
                else:
                    ledger.decisions.retry("shop.orders", [day(of_day)], who="ann")
        tiny.run(day(of_day + 1))
        ask_again(tiny, drawn)
        tiny.run(day(of_day + 1))
        if of_day == exported:
            with tiny.ledger() as ledger:
                assert export_ledger(ledger, tiny.load().storage).name
    before = told(tiny, without=UNKNOWN)
    lose(tiny)
    found = rebuilt(tiny)
    assert found.export is not None
    assert not found.missing
    assert_told(tiny, before)
    outcome = tiny.run(day(9))
    assert not outcome.failed, described(outcome)
    sums = tiny.rows("SELECT id, sum(total) FROM marts.sums GROUP BY id ORDER BY id")
    assert sums == tiny.delivered("SELECT id, sum(total) FROM sums GROUP BY id ORDER BY id")


def test_an_older_copy_of_the_ledger_answers_nothing_of_tables_that_have_changed_since(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = project(tmp_path, spark)
    order(tiny, 1, 1)
    item(tiny, 1, 1, 5)
    assert not tiny.run(day(2)).failed
    place = tiny.root / tiny.storage / "ledger.db"
    older = place.read_bytes()
    order(tiny, 2, 2)
    assert not tiny.run(day(3)).failed
    before = told(tiny, without=UNKNOWN)
    delivered = tiny.delivered("SELECT id, total FROM sums ORDER BY id")
    lose(tiny)
    place.write_bytes(older)

    with pytest.raises(WaterclockError) as refused:
        tiny.rows("SELECT * FROM shop.orders")
    assert refused.value.code == "E758"
    outcome = tiny.run(day(4))
    codes = {report.group.table: report.error.code for report in outcome.failed if report.error}
    assert codes == dict.fromkeys((name for name in TABLES if name.startswith("shop.")), "E758")
    assert outcome.done == 0, "and their readers wait"
    assert tiny.delivered("SELECT id, total FROM sums ORDER BY id") == delivered

    assert rebuilt(tiny, force=True).aside is not None
    assert_told(tiny, before)
    assert not tiny.run(day(4)).failed
    assert tiny.rows("SELECT id, total FROM marts.sums ORDER BY id") == [(1, 2), (2, 4)]


def test_a_ledger_that_is_there_is_kept_unless_it_is_forced_aside(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark)
    order(tiny, 1, 1)
    tiny.run(day(2))
    before = told(tiny, without=UNKNOWN)
    with pytest.raises(WaterclockError, match="a ledger already exists") as refused:
        rebuilt(tiny)
    assert refused.value.code == "E417"
    found = rebuilt(tiny, force=True)
    assert found.aside is not None
    assert told(tiny, without=UNKNOWN) == before
    with Ledger.open(f"sqlite:///{found.aside}") as old:
        assert list(old.past.rows("batches"))
