"""Maintenance frees unneeded files and changes no result: of current tables, of promised ticks, and of later runs."""

from __future__ import annotations

import shutil
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.engine.maintenance.test_ledger_rebuild import lose, rebuilt
from tests.tiny import Heard, Tiny, day, described
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.engine.ledger_export import export_ledger
from waterclock.engine.maintenance.maintain import TableMaintenance, find_maintenance, maintain_table
from waterclock.engine.maintenance.user_drop import drop
from waterclock.engine.maintenance.user_drop import find_droppable_windows as droppable
from waterclock.engine.reads.as_of import frame_as_of
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.selection import Labels
from waterclock.storage import file_maintenance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.orders PARTITIONED (id INT, at TIMESTAMP, amount INT) FROM shop.orders
  EVERY DAY BY DATA TIME at LOOKBACK 1 DAY RETAIN 3 DAYS KEEP VERSIONS 7 DAYS;
COLLECT shop.items (id INT KEY, at TIMESTAMP, price INT) FROM shop.items
  EVERY DAY BY DATA TIME at MERGE ORDER BY at;
COLLECT shop.notes (id INT, at TIMESTAMP) FROM shop.notes
  EVERY DAY BY DATA TIME at LOOKBACK 1 DAY APPEND;
TRANSFORM marts.sums PARTITIONED AS SELECT id, sum(amount) AS total FROM shop.orders GROUP BY id;
TRANSFORM marts.prices KEEP VERSIONS 7 DAYS AS SELECT count(*) AS n, sum(price) AS total FROM shop.items;
TRANSFORM marts.seen PARTITIONED AS SELECT n, total FROM marts.prices;
PUBLISH marts.sums TO out.sums;
"""
TABLES = ("shop.orders", "shop.items", "shop.notes", "marts.sums", "marts.prices", "marts.seen", "out.sums")
HEADS = {
    "shop.orders": "SELECT timelabel, id, amount FROM shop.orders ORDER BY ALL",
    "shop.items": "SELECT id, price FROM shop.items ORDER BY ALL",
    "shop.notes": "SELECT timelabel, id FROM shop.notes ORDER BY ALL",
    "marts.sums": "SELECT timelabel, id, total FROM marts.sums ORDER BY ALL",
    "marts.prices": "SELECT n, total FROM marts.prices",
    "marts.seen": "SELECT timelabel, n, total FROM marts.seen ORDER BY ALL",
}
MUCH_LATER = datetime.now(UTC) + timedelta(days=60)


@pytest.fixture(scope="module")
def eight_days(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return eight days of a flow, one of them with late rows."""
    tiny = Tiny(tmp_path_factory.mktemp("lived"), spark)
    tiny.declare(FLOW)
    for name, columns in (("orders", "amount INT"), ("items", "price INT"), ("notes", "n INT")):
        tiny.source(name, f"id INT, at TEXT, {columns}")
    for of_day in range(1, 9):
        fill(tiny, of_day, of_day)
        if of_day == 7:
            fill(tiny, of_day - 1, 100)
        outcome = tiny.run(day(of_day + 1))
        assert not outcome.failed, described(outcome)
    return tiny


@pytest.fixture
def lived(eight_days: Tiny, tmp_path: Path) -> Tiny:
    """Return a copy of the project in its own folder, in which tests may move any file."""
    shutil.copytree(eight_days.root, tmp_path / "project")
    return Tiny(tmp_path / "project", eight_days.spark)


def fill(tiny: Tiny, of_day: int, value: int) -> None:
    for name in ("orders", "items", "notes"):
        tiny.shop(f"INSERT INTO {name} VALUES ({value % 3}, '2020-01-{of_day:02d} 10:00:00', {value})")


def maintain(tiny: Tiny, now: datetime = MUCH_LATER, *, dry: bool = False) -> dict[str, TableMaintenance]:
    with tiny.opened() as work:
        found = find_maintenance(work, TABLES, now)
        if not dry:
            for each in found:
                maintain_table(work, each, now)
    assert not [each.failed for each in found if each.failed]
    return {each.table: each for each in found}


def answers(tiny: Tiny) -> dict[str, Any]:
    return {name: tiny.rows(sql) for name, sql in HEADS.items()}


def as_of(tiny: Tiny, name: str, tick: datetime) -> list[tuple[Any, ...]]:
    with tiny.opened() as work:
        frame = frame_as_of(work, work.sessions.own(), work.flow.tables[name], tick)
        return sorted(tuple(row) for row in frame.collect())


def files(tiny: Tiny, pattern: str) -> int:
    return sum(1 for _ in (tiny.root / tiny.storage).glob(pattern))


def test_nothing_is_old_enough_at_first(lived: Tiny) -> None:
    found = maintain(lived, datetime.now(UTC))
    assert all(not each.unneeded.count and not each.slices.count for each in found.values())
    assert found["shop.orders"].drop_before == day(6)


def test_a_dry_run_changes_nothing(lived: Tiny) -> None:
    before = files(lived, "**/*")
    found = maintain(lived, dry=True)
    assert found["shop.orders"].dropped.count == 5
    assert files(lived, "**/*") == before


def test_maintenance_removes_unneeded_files_and_changes_no_query_result(
    lived: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_maintenance, "_MANY_IN_TABLE", 4)
    before = answers(lived)
    states = {tick: as_of(lived, "shop.items", day(tick)) for tick in (4, 8)}
    sums = as_of(lived, "marts.sums", day(7))
    found = maintain(lived)
    assert found["shop.orders"].dropped.count == 5
    # seven windows that LOOKBACK read again, six without changes; one was replaced, and KEEP VERSIONS is declared
    assert found["shop.orders"].slices.count == 7
    assert found["shop.items"].unneeded.count > 0
    assert found["shop.notes"].joined.count == 8
    assert found["shop.notes"].slices.count == 6  # not the replaced one: this COLLECT has no KEEP VERSIONS
    assert found["marts.sums"].slices.count == 1
    assert found["marts.prices"].slices.count == 7
    assert files(lived, "tables/shop/items/state/**/*.parquet") < 3
    assert answers(lived) == before
    assert {tick: as_of(lived, "shop.items", day(tick)) for tick in states} == states
    assert files(lived, "history/shop/items/*/*") == 2  # their versions were removed
    assert maintain(lived)["shop.items"].states.count == 2
    assert {tick: as_of(lived, "shop.items", day(tick)) for tick in states} == states
    assert as_of(lived, "marts.sums", day(7)) == sums

    fill(lived, 8, 50)  # late rows, for a table with compacted files and for one with dropped windows
    fill(lived, 9, 9)
    outcome = lived.run(day(10))
    assert not outcome.failed, described(outcome)
    assert lived.rows("SELECT count(*) FROM shop.notes") == [(11,)]
    assert lived.rows("SELECT count(*) FROM shop.notes WHERE timelabel = '20200108000000'") == [(2,)]
    assert lived.rows("SELECT sum(total) FROM marts.sums WHERE timelabel = '20200108000000'") == [(58,)]
    assert lived.delivered("SELECT sum(total) FROM sums WHERE timelabel = '20200108000000'") == [(58,)]


def test_dropped_windows_are_removed_from_table_and_stage_and_never_made_again(lived: Tiny) -> None:
    maintain(lived)
    assert len(lived.rows("SELECT DISTINCT timelabel FROM shop.orders")) == 3
    assert files(lived, "tables/shop/orders/_stage/y=2020/m=01/d=01/*/*/*/*.parquet") == 1
    with lived.ledger() as ledger:
        # as if the windows had been dropped long ago
        with ledger.maintenance.database.write() as write:
            write.connection.exec_driver_sql("UPDATE events SET at = 0 WHERE kind = 'dropped'")
        assert ledger.reads.snapshot(lived.load().flow).of("shop.orders").dropped_before == day(6)
    found = maintain(lived)
    assert found["shop.orders"].slices.count == 5
    assert files(lived, "tables/shop/orders/_stage/y=2020/m=01/d=01/*/*/*/*.parquet") == 0
    assert lived.run(day(9)).done == 0


def test_a_table_with_an_open_claim_is_left_alone(lived: Tiny) -> None:
    with lived.opened() as work:
        claim = lived.claim(work, "shop.items", 9)
    before = files(lived, "tables/shop/items/**/*")
    scratch = lived.root / lived.storage / "tables/shop/items/_stage" / f"c={claim.number}"
    scratch.mkdir()
    found = maintain(lived)
    assert found["shop.items"].is_busy
    assert files(lived, "tables/shop/items/**/*") == before + 1
    with lived.ledger() as ledger:
        ledger.claims.close_lost(claim, why="a test")
    found = maintain(lived)
    assert found["shop.items"].left_behind.count == 1
    assert not scratch.exists()


@pytest.mark.soak
def test_a_ledger_is_rebuilt_from_before_an_upkeep_as_from_after_it(
    lived: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_maintenance, "_MANY_IN_TABLE", 4)
    with lived.ledger() as ledger:
        export_ledger(ledger, lived.load().storage)
    maintain(lived)
    with lived.ledger() as ledger:
        heads = ledger.reads.tables()
        dropped = ledger.reads.snapshot(lived.load().flow).of("shop.orders").dropped_before
    before = answers(lived)
    lose(lived)
    rebuilt(lived)
    with lived.ledger() as ledger:
        assert ledger.reads.tables() == heads
        assert ledger.reads.snapshot(lived.load().flow).of("shop.orders").dropped_before == dropped
    assert answers(lived) == before


def test_a_late_row_of_a_dropped_window_restores_no_row_of_it(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", "id INT, at TEXT", [(number, f"2020-01-0{number} 10:00:00") for number in (1, 2, 3)])
    tiny.declare(
        "COLLECT shop.orders PARTITIONED (id INT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at "
        "LOOKBACK 7 DAYS;"
    )
    assert not tiny.run(day(4)).failed
    with tiny.opened() as work:
        drop(work, droppable(work, work.flow.tables["shop.orders"], Labels.from_range(day(1), day(1)), day(4)), why="")
    tiny.shop("INSERT INTO orders VALUES (4, '2020-01-04 10:00:00'), (11, '2020-01-01 11:00:00'), "
              "(12, '2020-01-02 11:00:00')")  # fmt: skip
    assert not tiny.run(day(5)).failed
    assert tiny.rows("SELECT id FROM shop.orders ORDER BY id") == [(2,), (3,), (4,), (12,)]


class Keeping(Heard):
    """Maintains all tables, and drops all droppable windows, at each point that batches pass."""

    def __init__(self, tiny: Tiny) -> None:
        super().__init__()
        self.tiny, self.table, self.is_at_work = tiny, "", False
        self.points: defaultdict[str, set[str]] = defaultdict(set)
        self.failed: list[str] = []

    def step(self, group: Any, name: str) -> None:
        del name
        self.table = group.table

    def strike(self, point: str) -> None:
        if self.is_at_work or point in self.points[self.table]:
            return
        self.is_at_work = True
        self.points[self.table].add(point)
        other = Tiny(self.tiny.root, self.tiny.spark, toml=None)
        with other.opened() as work:
            for found in find_maintenance(work, TABLES, MUCH_LATER):
                maintain_table(work, found, MUCH_LATER)
                self.failed += found.failed
            with suppress(WaterclockError):  # inputs that are still read are not dropped
                drop(
                    work,
                    droppable(work, work.flow.tables["shop.orders"], Labels.from_range(day(1), day(2)), day(10)),
                    why="old",
                )
        self.is_at_work = False


def made_again(tiny: Tiny) -> None:
    """Have old states and old windows read again and a new day made, each batch in one attempt."""
    fill(tiny, 8, 50)
    fill(tiny, 9, 9)
    with tiny.ledger() as ledger:
        for table, label in (("marts.prices", 3), ("marts.prices", 5), ("marts.sums", 3), ("marts.seen", 4)):
            ledger.decisions.request_restate(table, [day(label)], verb=RECOMPUTE, who="a test", why="a test")
    tiny.settings = replace(tiny.settings, attempts=1, threads=1)
    outcome = tiny.run(day(10))
    assert not outcome.failed, described(outcome)


@pytest.mark.soak
def test_maintenance_at_each_step_of_each_batch_changes_no_result(lived: Tiny, tmp_path: Path) -> None:
    calm = lived.copied(tmp_path / "calm")
    made_again(calm)
    lived.heard = maintenance = Keeping(lived)
    with inject_faults(maintenance.strike):
        made_again(lived)
    steps = {"claimed", "make", "sealed", "audited", "before_commit", "after_commit", "committed"}
    assert all(steps <= maintenance.points[name] for name in TABLES if name != "out.sums")
    assert not maintenance.failed
    for tiny in (calm, lived):
        maintain(tiny)
    assert answers(lived) == answers(calm)
    assert lived.delivered("SELECT * FROM sums ORDER BY 1, 2") == calm.delivered("SELECT * FROM sums ORDER BY 1, 2")
    for tick in (4, 6, 9):
        assert as_of(lived, "shop.items", day(tick)) == as_of(calm, "shop.items", day(tick)), tick
