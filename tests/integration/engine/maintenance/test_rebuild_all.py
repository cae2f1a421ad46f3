"""`rebuild --all` makes every table again from one cut of the stage, next to the live ones, then replaces them."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from deltalake import DeltaTable

from tests.integration.engine.maintenance.test_ledger_rebuild import lose
from tests.integration.engine.maintenance.test_ledger_rebuild import rebuilt as ledger_rebuilt
from tests.tiny import Tiny, day, described, evening
from waterclock.engine.maintenance.rebuild_all import RebuildAllResult, forecast_rebuild, rebuild_all
from waterclock.engine.maintenance.user_drop import drop, find_droppable_windows
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick
from waterclock.engine.runner_name import runner_name
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.ledger.store.schema import batches
from waterclock.ledger.store.schema import ledger as tables
from waterclock.selection import parse_labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.items (id INT KEY, at TIMESTAMP, price INT) FROM shop.items EVERY DAY BY DATA TIME at MERGE ORDER BY at;
COLLECT shop.sales (id INT, at TIMESTAMP, qty INT) FROM shop.sales EVERY DAY BY DATA TIME at APPEND;
TRANSFORM marts.days PARTITIONED AS
  SELECT count(*) AS n, sum(qty) AS qty FROM shop.sales WHERE timelabel = TIMELABEL();
TRANSFORM marts.best (id INT KEY, qty INT) EVERY DAY MERGE AS
  SELECT id, max(qty) AS qty FROM shop.sales WHERE timelabel = TIMELABEL() GROUP BY id;
TRANSFORM marts.total AS
  SELECT sum(d.qty) AS qty, max(i.price) AS price FROM HISTORY(marts.days) d CROSS JOIN shop.items i;
PUBLISH marts.total TO out.total REPLACE;
PUBLISH marts.days TO out.days APPEND;
"""
TABLES = ("marts.days", "marts.best", "marts.total")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("made"), spark)
    tiny.source("items", "id INT, at TEXT, price INT", [(1, "2020-01-01 10:00:00", 10), (1, "2020-01-02 10:00:00", 11)])
    tiny.source(
        "sales",
        "id INT, at TEXT, qty INT",
        [(1, "2020-01-01 10:00:00", 1), (2, "2020-01-02 10:00:00", 2), (1, "2020-01-03 10:00:00", 3)],
    )
    tiny.declare(FLOW)
    for of_day in (2, 3, 4):
        outcome = tiny.run(day(of_day))
        assert not outcome.failed, described(outcome)
    return tiny


@pytest.fixture
def tiny(made: Tiny, tmp_path: Path) -> Tiny:
    return made.copied(tmp_path / "project")


def rebuilt(tiny: Tiny, now: int = 4) -> RebuildAllResult:
    with tiny.opened() as work:
        return rebuild_all(work, day(now))


def rows(tiny: Tiny, name: str) -> list[tuple[Any, ...]]:
    return tiny.rows(f"SELECT * FROM {name} ORDER BY ALL")


def in_delta(tiny: Tiny, name: str) -> list[dict[str, Any]]:
    table = DeltaTable(str(tiny.root / tiny.storage / "tables" / name.replace(".", "/")))
    return sorted(table.to_pyarrow_table().to_pylist(), key=str)


def test_rebuild_all_makes_all_tables_again_with_equal_rows(tiny: Tiny) -> None:
    before, digests = {name: rows(tiny, name) for name in TABLES}, tiny.digests()
    shown = {name: in_delta(tiny, name) for name in TABLES}
    found = rebuilt(tiny)
    assert found.tables == TABLES
    assert found.batches == 9
    assert {name: rows(tiny, name) for name in TABLES} == before
    assert {name: in_delta(tiny, name) for name in TABLES} == shown
    assert tiny.digests() == digests
    assert not (tiny.root / tiny.storage / "rebuild").exists()
    assert tiny.run(day(4)).done == 0  # no batch is stale, and nothing is delivered twice


def test_changed_code_holds_for_all_labels_at_once_and_publishes_follow(tiny: Tiny) -> None:
    [(before,)] = tiny.rows("SELECT qty FROM marts.total")
    tiny.declare(FLOW.replace("sum(qty) AS qty FROM shop.sales", "10 * sum(qty) AS qty FROM shop.sales"))
    with tiny.opened() as work:
        assert forecast_rebuild(work, day(4)).cost.batches == 9
        rebuild_all(work, day(4))
    assert tiny.rows("SELECT qty FROM marts.days ORDER BY qty") == [(10,), (20,), (30,)]
    assert tiny.rows("SELECT qty FROM marts.total") == [(10 * before,)]
    assert tiny.delivered("SELECT qty FROM total") == [(6,)]
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.delivered("SELECT qty FROM total") == [(60,)]


@pytest.mark.soak
def test_a_renamed_column_stops_the_next_batch_and_a_rebuild_renames_it_in_all_labels(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    sales = [(1, "2020-01-01 10:00:00"), (2, "2020-01-02 10:00:00")]
    tiny.source("sales", "id INT, at TEXT", sales)
    flow = """
    COLLECT shop.sales PARTITIONED (id INT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;
    TRANSFORM marts.days PARTITIONED AS SELECT count(*) AS n, max(id) AS newest FROM shop.sales;
    """
    tiny.declare(flow)
    assert not tiny.run(day(2)).failed
    tiny.declare(flow.replace("AS n, max(id)", "AS orders, CAST(max(id) AS STRING)"))  # the type changes as well
    outcome = tiny.run(day(3))
    assert [report.error.code for report in outcome.failed if report.error] == ["E610"], described(outcome)
    rebuilt(tiny, 3)
    assert tiny.rows("SELECT * EXCEPT (timelabel) FROM marts.days ORDER BY newest") == [(1, "1"), (1, "2")]


def forget_runner(tiny: Tiny) -> None:
    """Make the rebuild lock belong to an ended process, as this process plays the killed one."""
    with tiny.ledger() as ledger, ledger.maintenance.database.write() as write:
        assert write.rebuilding is not None
        ended = runner_name().replace(f":{os.getpid()}:", ":4194304:")
        write.execute(sa.update(tables).values(rebuilding=replace(write.rebuilding, runner=ended).to_json()))


def struck_at(tiny: Tiny, point: str, times: int = 1) -> None:
    """Rebuild all tables, and stop at a point without cleanup, as a killed process does."""
    passed: list[str] = []

    def strike(at: str) -> None:
        passed.append(at)
        if at == point and passed.count(point) == times:
            raise KeyboardInterrupt(at)

    with inject_faults(strike), pytest.raises(KeyboardInterrupt):
        rebuilt(tiny)


@pytest.mark.soak
def test_a_rebuild_killed_before_the_move_keeps_the_old_set_and_the_next_starts_over(tiny: Tiny) -> None:
    before, shown = {name: rows(tiny, name) for name in TABLES}, {name: in_delta(tiny, name) for name in TABLES}
    tiny.declare(FLOW.replace("sum(qty) AS qty FROM shop.sales", "10 * sum(qty) AS qty FROM shop.sales"))
    for point in ("rebuild.cut", "rebuild.made", "rebuild.linked"):
        struck_at(tiny, point)
        assert {name: rows(tiny, name) for name in TABLES} == before, point
        assert {name: in_delta(tiny, name) for name in TABLES} == shown, point
        # blocked until the lease ends, or until the process is known to have ended
        assert tiny.run(day(4)).done == 0
        forget_runner(tiny)
    assert rebuilt(tiny).tables == TABLES
    assert tiny.rows("SELECT qty FROM marts.total") == [(60,)]


def test_killed_within_the_move_queries_see_the_old_set_until_it_is_carried_on(tiny: Tiny) -> None:
    before = {name: rows(tiny, name) for name in TABLES}
    tiny.declare(FLOW.replace("sum(qty) AS qty FROM shop.sales", "10 * sum(qty) AS qty FROM shop.sales"))
    struck_at(tiny, "rebuild.moved", times=2)
    assert {name: rows(tiny, name) for name in TABLES} == before
    # tables are replaced one after the other
    assert sorted(row["qty"] for row in in_delta(tiny, "marts.days")) == [10, 20, 30]
    forget_runner(tiny)
    found = rebuilt(tiny)
    assert (found.tables, found.carried_on) == (TABLES, True)
    assert tiny.rows("SELECT qty FROM marts.total") == [(60,)]
    assert not (tiny.root / tiny.storage / "rebuild").exists()
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.delivered("SELECT qty FROM total") == [(60,)]


def test_requests_that_the_new_set_does_not_meet_stay(tiny: Tiny) -> None:
    tiny.declare(FLOW.replace("shop.items (id INT KEY, at TIMESTAMP, price INT)",
                              "shop.items (id INT KEY, at TIMESTAMP, price INT KEY)"))  # fmt: skip
    with tiny.opened() as work:
        decide = work.ledger.decisions
        decide.request_restate("marts.days", [day(1)], "recompute", who="anna")
        decide.request_restate("shop.items", [day(2)], "recollect", who="anna")

        def ask(at: str) -> None:
            if at == "rebuild.made":
                decide.request_restate("marts.days", [day(2)], "recompute", who="anna")

        with inject_faults(ask):
            rebuild_all(work, day(4))
        asked = sa.select(batches.c.table_name, batches.c.label, batches.c.requested).where(
            batches.c.requested.is_not(None)
        )
        with work.ledger.maintenance.database.read() as connection:
            found = {(row.table_name, row.label, row.requested) for row in connection.execute(asked)}
    assert found == {("marts.days", day(2), "recompute"), ("shop.items", day(2), "recollect")}
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.runs_of("marts.days") >= 1


@pytest.mark.soak
def test_a_set_that_is_not_whole_and_a_full_disk_leave_the_old_one(tiny: Tiny) -> None:
    before = {name: rows(tiny, name) for name in TABLES}
    tiny.declare(
        FLOW.replace("TRANSFORM marts.days PARTITIONED AS", "TRANSFORM marts.days PARTITIONED EXPECT qty < 3 AS")
    )
    with pytest.raises(WaterclockError, match="the new tables are incomplete") as refused:
        rebuilt(tiny)
    assert refused.value.code == "E433"
    assert "marts.days@20200103000000" in str(refused.value)
    tiny.declare(FLOW)

    def full(at: str) -> None:
        if at == "rebuild.linked":
            raise OSError(errno.ENOSPC, "No space left on device")

    with inject_faults(full), pytest.raises(WaterclockError, match="not enough space") as refused:
        rebuilt(tiny)
    assert refused.value.code == "E645"
    assert not (tiny.root / tiny.storage / "rebuild").exists()
    assert {name: rows(tiny, name) for name in TABLES} == before
    outcome = tiny.run(day(5))  # no batch is blocked, and no rows are lost
    assert not outcome.failed, described(outcome)
    assert outcome.done


HOURLY = """
COLLECT shop.hours (id INT, at TIMESTAMP, qty INT) FROM shop.hours EVERY 12 HOURS BY DATA TIME at APPEND;
COLLECT shop.held (id INT KEY, at TIMESTAMP, qty INT) FROM shop.hours EVERY 12 HOURS BY DATA TIME at MERGE ORDER BY at;
COLLECT land.seen (id INT) FROM land.`acme/seen/*.csv.gz` EVERY 12 HOURS BY ARRIVAL TIME APPEND;
TRANSFORM marts.sums PARTITIONED EVERY 12 HOURS AS SELECT sum(qty) AS qty FROM shop.hours WHERE timelabel = TIMELABEL();
TRANSFORM marts.top EVERY 12 HOURS AS SELECT max(qty) AS qty FROM shop.held;
"""
DAILY = HOURLY.replace("EVERY 12 HOURS", "EVERY DAY")


@pytest.fixture(scope="module")
def hourly(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("hourly"), spark)
    at = ("01 01", "01 13", "02 01", "02 13", "03 01")
    rows = [(number % 2, f"2020-01-{day_hour}:00:00", number) for number, day_hour in enumerate(at, 1)]
    tiny.source("hours", "id INT, at TEXT, qty INT", rows)
    tiny.land("seen", day(1, 13), "id\n1\n")
    tiny.land("seen", day(2, 1), "id\n2\n")
    tiny.land("seen", day(3, 1), "id\n3\n")
    tiny.declare(HOURLY)
    outcome = tiny.run(day(3, 12))
    assert not outcome.failed, described(outcome)
    return tiny


def test_rebuild_all_splits_rows_by_a_new_cadence_and_past_states_stay_readable(hourly: Tiny, tmp_path: Path) -> None:
    tiny = hourly.copied(tmp_path / "project")
    with tiny.ledger() as ledger:
        before = ledger.now()
    assert tiny.rows("SELECT count(*) FROM land.seen") == [(2,)]
    tiny.declare(DAILY)
    refused = tiny.run(day(3, 12))
    errors = {report.group.table: report.error for report in refused.failed}
    assert {error.code for error in errors.values() if error} == {"E405"}
    assert all("rebuild --all" in str(error.fix) for error in errors.values() if error)
    assert refused.done == 0
    rebuilt(tiny, 3)
    assert tiny.rows("SELECT timelabel, sum(qty) FROM shop.hours GROUP BY 1 ORDER BY 1") == [
        ("20200101000000", 3),
        ("20200102000000", 7),
    ]
    assert tiny.rows("SELECT id, qty FROM shop.held ORDER BY id") == [(0, 4), (1, 3)]
    assert tiny.rows("SELECT timelabel, qty FROM marts.sums ORDER BY 1") == [
        ("20200101000000", 3),
        ("20200102000000", 7),
    ]
    assert tiny.rows("SELECT timelabel, id FROM land.seen ORDER BY 1") == [("20200101000000", 1), ("20200102000000", 2)]
    with tiny.opened() as work:
        old = query(work, "SELECT sum(qty) FROM marts.sums", limit=9, as_of=RequestedTick("20200103000000", before))
        assert list(old.rows) == [(10,)]
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    # the incomplete day is collected from its source, as usual
    assert tiny.rows("SELECT qty FROM marts.sums ORDER BY timelabel") == [(3,), (7,), (5,)]
    tiny.land("seen", evening(3), "id\n4\n")
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id FROM land.seen ORDER BY 1") == [(1,), (2,), (3,), (4,)]
    lose(tiny)  # a ledger that is rebuilt from commits contains only the new windows
    ledger_rebuilt(tiny)
    assert tiny.run(day(4)).done == 0
    as_of = RequestedTick("20200104000000")
    with tiny.opened() as work:
        assert query(work, "SELECT sum(qty) FROM shop.hours", limit=9, as_of=as_of).rows == ((15,),)


def test_rebuild_all_refuses_a_finer_cadence_for_files_by_arrival(hourly: Tiny, tmp_path: Path) -> None:
    tiny = hourly.copied(tmp_path / "project")
    tiny.declare(HOURLY.replace("csv.gz` EVERY 12 HOURS", "csv.gz` EVERY HOUR"))
    with tiny.opened() as work, pytest.raises(WaterclockError, match="belongs to that window as a whole") as refused:
        forecast_rebuild(work, day(3, 12))
    assert refused.value.code == "E431"


def test_files_of_dropped_windows_are_not_collected_again_in_other_windows(hourly: Tiny, tmp_path: Path) -> None:
    """Regression: no label owned the files any more, so the oldest open window collected them as late."""
    tiny = hourly.copied(tmp_path / "project")
    with tiny.opened() as work:
        found = find_droppable_windows(
            work, work.flow.tables["land.seen"], parse_labels("..20200101120000"), day(3, 12)
        )
        drop(work, found, why="the licence ended")
    tiny.declare(DAILY)
    rebuilt(tiny, 3)
    tiny.land("seen", evening(3), "id\n4\n")
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id FROM land.seen ORDER BY 1") == [(2,), (3,), (4,)]


def test_windows_that_stay_dropped_stay_so_in_a_ledger_that_is_made_again(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("sales", "id INT, at TEXT", [(n, f"2020-01-0{n} 10:00:00") for n in (1, 2, 3)])
    flow = "COLLECT shop.sales (id INT, at TIMESTAMP) FROM shop.sales EVERY 12 HOURS BY DATA TIME at APPEND;"
    tiny.declare(flow)
    assert not tiny.run(day(4)).failed
    with tiny.opened() as work:
        wanted = parse_labels("..20200101120000")
        drop(
            work, find_droppable_windows(work, work.flow.tables["shop.sales"], wanted, day(4)), why="the licence ended"
        )
    tiny.declare(flow.replace("12 HOURS", "DAY"))
    rebuilt(tiny)
    left = [(2,), (3,)]
    assert rows(tiny, "(SELECT id FROM shop.sales)") == left
    with tiny.opened() as work:
        before = work.ledger.reads.snapshot(work.flow).of("shop.sales").dropped_before
    lose(tiny)
    ledger_rebuilt(tiny)
    with tiny.opened() as work:
        assert work.ledger.reads.snapshot(work.flow).of("shop.sales").dropped_before == before
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert rows(tiny, "(SELECT id FROM shop.sales)") == left
    tiny.shop("INSERT INTO sales VALUES (4, '2020-01-04 10:00:00')")
    assert not tiny.run(day(5)).failed
    assert rows(tiny, "(SELECT id FROM shop.sales)") == [*left, (4,)]


def test_rebuild_all_keeps_the_rows_of_a_released_batch_in_its_partial_reader(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("sales", "id INT, at TEXT", [(1, "2020-01-01 10:00:00")])
    tiny.declare("""
COLLECT shop.sales PARTITIONED (id INT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;
TRANSFORM marts.seen PARTITIONED EXPECT count(*) = 0 AS none ELSE HOLD AS SELECT id FROM shop.sales;
TRANSFORM marts.n PARTITIONED PARTIAL AFTER 1 DAY ON RESTATE REPORT AS SELECT count(*) AS n FROM marts.seen;
""")
    assert tiny.run(day(2)).failed
    with tiny.ledger() as ledger:
        ledger.decisions.request_release("marts.seen", [day(1)], who="ann", why="known")
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert rows(tiny, "marts.n") == [("20200101000000", 1)]
    rebuilt(tiny, now=4)  # the wait has expired: it is made at once, without the held batch
    assert rows(tiny, "marts.n") == [("20200101000000", 1)]


@pytest.mark.soak
def test_another_zone_a_snapshot_and_every_version_of_a_key(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("prices", "id INT, at TEXT, price INT", [(1, "2020-01-01 22:30:00", 1), (1, "2020-01-02 23:30:00", 2)])
    tiny.source("rates", "id INT, rate INT", [(1, 7)])
    flow = """
COLLECT shop.prices (id INT KEY, at TIMESTAMP, price INT) FROM shop.prices EVERY DAY BY DATA TIME at TEMPORAL AT at;
COLLECT shop.rates (id INT KEY, rate INT) FROM shop.rates EVERY 12 HOURS;
TRANSFORM marts.all EVERY DAY AS SELECT p.price, r.rate FROM shop.prices p JOIN shop.rates r USING (id);
"""
    tiny.declare(flow)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    zoned = flow.replace("EVERY DAY BY", "EVERY DAY ZONE 'Europe/Berlin' BY").replace("EVERY 12 HOURS", "EVERY 6 HOURS")
    tiny.declare(zoned.replace("marts.all EVERY DAY", "marts.all EVERY DAY ZONE 'Europe/Berlin'"))
    rebuilt(tiny)
    # the stage has no rows for one hour of the first day in Berlin: the next run collects it from the source
    assert tiny.rows("SELECT price FROM shop.prices") == [(2,)]
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, rate FROM shop.rates") == [(1, 7)]
    assert sorted(tiny.rows("SELECT price, rate FROM marts.all")) == [(1, 7), (2, 7)]
