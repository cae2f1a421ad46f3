"""Late and restated labels in the engine: the result equals a clean run over the same sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.data_commits import records_in_log
from tests.tiny import Tiny, day, described
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick
from waterclock.engine.reads.as_of import frame_as_of
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.storage.log.content_as_of import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.customers (customer KEY, name, gone BIGINT, at TIMESTAMP) FROM shop.customers
  EVERY DAY BY DATA TIME at MERGE ORDER BY at DELETE WHEN gone = 1;
TRANSFORM marts.seen PARTITIONED (customer KEY, *)
  AS SELECT customer, name FROM shop.customers;
TRANSFORM marts.counted (name KEY, *) MERGE ORDER BY customers
  AS SELECT name, count(*) AS customers FROM shop.customers GROUP BY name;
TRANSFORM marts.total (customers BIGINT, days BIGINT)
  AS SELECT t.customers + p.customers AS customers, p.days + 1 AS days
  FROM (SELECT count(*) AS customers FROM shop.customers) t
  CROSS JOIN (SELECT coalesce(max(customers), 0) AS customers, coalesce(max(days), 0) AS days
              FROM PREVIOUS(marts.total)) p;
"""
TABLES = ("shop.customers", "marts.seen", "marts.counted", "marts.total")
COLUMNS = "customer TEXT, name TEXT, gone INTEGER, at TEXT"
ROWS = [
    ("c1", "ann", 0, "2020-01-01 09:00:00"),
    ("c2", "bob", 0, "2020-01-01 10:00:00"),
    ("c1", "anna", 0, "2020-01-02 09:00:00"),
    ("c2", "bob", 1, "2020-01-03 09:00:00"),
    ("c3", "cid", 0, "2020-01-03 10:00:00"),
    ("c3", "sid", 0, "2020-01-05 10:00:00"),
]
OTHER = [
    ("c1", "ann", 0, "2020-01-01 09:00:00"),
    ("c2", "bob", 0, "2020-01-01 10:00:00"),
    ("c1", "anna", 1, "2020-01-02 09:00:00"),
    ("c4", "dan", 0, "2020-01-02 11:00:00"),
    ("c2", "bob", 1, "2020-01-03 09:00:00"),
    ("c3", "cid", 0, "2020-01-03 10:00:00"),
    ("c3", "sid", 0, "2020-01-05 10:00:00"),
]
LAST = day(6)


def started(root: Path, spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> Tiny:
    tiny = Tiny(root, spark)
    tiny.source("customers", COLUMNS, rows)
    tiny.declare(FLOW)
    return tiny


def clean(root: Path, spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> Tiny:
    tiny = started(root, spark, rows)
    run_all(tiny)
    return tiny


def run_all(tiny: Tiny) -> None:
    for number in range(2, 7):
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)


def ask_again(tiny: Tiny, table: str, *numbers: int) -> None:
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate(table, [day(number) for number in numbers], "recollect", who="a test")


def standing(tiny: Tiny) -> dict[str, Any]:
    seen: dict[str, Any] = {table: sorted(tiny.rows(f"SELECT * FROM {table}"), key=repr) for table in TABLES}
    return seen | {"digests": dict(tiny.digests()), "open claims": tiny.open_claims()}


def as_of(tiny: Tiny, table: str, tick: datetime, known_at: datetime | None = None) -> list[tuple[Any, ...]]:
    with tiny.opened() as work:
        frame = frame_as_of(work, tiny.spark, work.flow.tables[table], tick, known_at=known_at)
        return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return a clean run of `ROWS`; tests copy it and never change it."""
    return clean(tmp_path_factory.mktemp("done"), spark, ROWS)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return a clean run of `OTHER`; tests never change it."""
    return clean(tmp_path_factory.mktemp("wanted"), spark, OTHER)


@pytest.mark.soak
@pytest.mark.sampled(1)
def test_a_restated_merge_label_and_all_that_read_it_end_as_in_a_clean_run(
    done: Tiny, wanted: Tiny, tmp_path: Path, *, is_long: bool
) -> None:
    tiny = done.copied(tmp_path / "restated")
    with tiny.ledger() as ledger:
        before = ledger.now()
    known = {table: as_of(tiny, table, day(4)) for table in TABLES}
    tiny.source("customers", COLUMNS, OTHER)
    ask_again(tiny, "shop.customers", 2)
    outcome = tiny.run(LAST)
    assert not outcome.failed, described(outcome)
    assert standing(tiny) == standing(wanted)
    for table in TABLES:
        for number in range(1, 7) if is_long else (3, 6):
            assert as_of(tiny, table, day(number)) == as_of(wanted, table, day(number)), (table, number)
        assert as_of(tiny, table, day(4), known_at=before) == known[table]
    assert tiny.runs_of("shop.customers") == 6
    assert tiny.run(LAST).done == 0


@pytest.mark.soak
def test_a_skipped_label_that_is_retried_later_yields_the_rows_of_a_clean_run(
    done: Tiny, tmp_path: Path, spark: SparkSession
) -> None:
    tiny, wanted = started(tmp_path, spark, ROWS), done
    assert not tiny.run(day(2)).failed
    with tiny.opened() as work:
        window = work.flow.tables["shop.customers"].cadence.window_of(day(3))
        work.ledger.decisions.skip("shop.customers", [window], who="a test", why="to come late")
    assert not tiny.run(LAST).failed
    with tiny.ledger() as ledger:
        ledger.decisions.retry("shop.customers", [day(3)], who="a test")
    outcome = tiny.run(LAST)
    assert not outcome.failed, described(outcome)
    assert standing(tiny) == standing(wanted)


@pytest.mark.soak
def test_an_older_replace_state_is_its_slice_and_the_head_stays(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "asked")
    head, older = tiny.rows("SELECT * FROM marts.total"), as_of(tiny, "marts.total", day(3))
    with tiny.ledger() as ledger:
        version = ledger.reads.table("marts.total").head_version
    ask_again(tiny, "marts.total", 2)
    assert not tiny.run(LAST).failed
    assert tiny.rows("SELECT * FROM marts.total") == head
    assert as_of(tiny, "marts.total", day(3)) == older
    with tiny.opened() as work:
        assert sorted(work.ledger.reads.versions("marts.total")) == [day(1), day(3), day(4), day(5)]
        folder = work.folder(work.flow.tables["marts.total"])
        found = records_in_log(folder, project="tiny")[-1]
        place = resolve(work.flow.tables["marts.total"], day(3), records_in_log(folder, project="tiny"))
    assert (found.version, list(found.slices)) == (version + 1, [day(2)])
    assert [step.slice_path for step in place.steps] == list(found.slices.values())


@pytest.mark.soak
def test_commit_records_in_the_delta_log_equal_those_in_the_ledger(done: Tiny, tmp_path: Path) -> None:
    from waterclock.engine.reads.as_of import commit_records

    tiny = done.copied(tmp_path / "asked")
    tiny.source("customers", COLUMNS, OTHER)
    ask_again(tiny, "shop.customers", 2)
    assert not tiny.run(LAST).failed
    with tiny.opened() as work:
        for name in TABLES:
            told = commit_records(work.ledger, name)
            logged = records_in_log(work.lake.folder(name), project="tiny")
            assert [(each.version, each.slices) for each in told] == [(each.version, each.slices) for each in logged]
            for number in range(1, 8):
                table = work.flow.tables[name]
                assert resolve(table, day(number), told) == resolve(table, day(number), logged)


@pytest.mark.soak
def test_a_merge_publish_equals_its_table_after_each_restatement(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare("""
        COLLECT shop.customers (customer KEY, name, at TIMESTAMP) FROM shop.customers
          EVERY 8 HOURS BY DATA TIME at MERGE ORDER BY at;
        PUBLISH shop.customers TO out.customers EVERY DAY MERGE ON (customer);
    """)
    first = ("c1", "ann", "2020-01-01 01:00:00")
    second = ("c2", "bob", "2020-01-01 09:00:00")
    later = ("c3", "cid", "2020-01-02 01:00:00")
    columns = "customer TEXT, name TEXT, at TEXT"
    # the table is one label ahead of the published state, so after the restatement no version contains that state: the
    # second restatement is compared with a state that is made again
    for rows, label in (
        ([first, second, later], None),
        ([first, later], day(1, 8)),
        ([("c1", "anna", first[2]), ("c4", "dan", first[2]), later], day(1)),
        ([("c4", "dan", first[2]), later], day(1)),
    ):
        tiny.source("customers", columns, rows)
        if label is not None:
            with tiny.ledger() as ledger:
                ledger.decisions.request_restate("shop.customers", [label], "recollect", who="a test")
        outcome = tiny.run(day(2, 8))
        assert not outcome.failed, described(outcome)
        delivered = tiny.delivered("SELECT customer, name FROM customers ORDER BY customer")
        assert delivered == [row[:2] for row in rows if row[2] < "2020-01-02"]


@pytest.mark.slow
@pytest.mark.soak
def test_a_fault_at_every_step_of_a_restatement_changes_nothing_in_the_end(
    done: Tiny, wanted: Tiny, tmp_path: Path
) -> None:
    tiny = done.copied(tmp_path / "struck")
    tiny.settings = type(tiny.settings)(threads=1, attempts=60, retry_wait=0.0, lease=0.5, who="a test")
    tiny.source("customers", COLUMNS, OTHER)
    ask_again(tiny, "shop.customers", 2)
    passed: set[str] = set()

    def strike(point: str) -> None:
        if point not in passed:
            passed.add(point)
            raise ConnectionError(f"{point} is temporarily unavailable")

    with inject_faults(strike):
        for _ in range(60):
            outcome = tiny.run(LAST)
            if not (tiny.open_claims() or outcome.failed or (outcome.plan and outcome.plan.groups)):
                break
    assert standing(tiny) == standing(wanted)
    assert {"merge", "looked", "before_commit", "after_commit", "history", "history_written", "settling"} <= passed


def test_a_truncated_file_of_an_earlier_revision_is_named_with_a_fix(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("visits", "id INTEGER, at TEXT", [(1, "2020-01-01 01:00:00")])
    tiny.declare("COLLECT web.visits PARTITIONED (id, at TIMESTAMP) FROM shop.visits EVERY DAY BY DATA TIME at;")
    assert not tiny.run(day(2)).failed
    [former] = (tiny.root / ".waterclock/tables/web/visits/_stage").rglob("*.parquet")
    with tiny.ledger() as ledger:
        before = ledger.now()
    tiny.source("visits", "id INTEGER, at TEXT", [(2, "2020-01-01 01:00:00")])
    ask_again(tiny, "web.visits", 1)
    assert not tiny.run(day(2)).failed
    size = former.stat().st_size
    former.write_bytes(former.read_bytes()[:-20])
    assert tiny.rows("SELECT id FROM web.visits") == [(2,)]
    with tiny.opened() as work, pytest.raises(WaterclockError) as raised:
        query(work, "SELECT id FROM web.visits", limit=10, as_of=RequestedTick("latest", before))
    assert raised.value.render().splitlines()[0].startswith("E605 web.visits@20200101000000 is damaged: its revision")
    assert raised.value.why == f"{former.name} has {size - 20} bytes, but was written with {size} bytes"
    assert raised.value.fix is not None
