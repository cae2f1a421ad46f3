"""Persons are erased from tables of every mode, killed at every step, and never reappear; the others stay."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.keys import DECLARED, VARIABLES
from tests.tiny import Tiny, day, described
from waterclock.engine.erasing import slices
from waterclock.engine.erasing.erasing import ErasureResult, erase, plan_erasure
from waterclock.engine.erasing.request import build_request
from waterclock.engine.erasing.search import search_table, searched_places
from waterclock.engine.maintenance.ledger_rebuild import rebuild_ledger
from waterclock.engine.maintenance.maintain import find_maintenance, maintain_table
from waterclock.engine.run_opening import apply_flow
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = (
    DECLARED
    + """
COLLECT raw.orders PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, at TIMESTAMP, amount BIGINT)
  FROM shop.orders EVERY DAY BY DATA TIME at LOOKBACK 2 DAYS EXPECT amount >= 0 AS positive ELSE QUARANTINE;
COLLECT raw.customers (id BIGINT KEY SUBJECT customer, name STRING) FROM shop.customers EVERY DAY;
TRANSFORM marts.sold AS SELECT buyer AS client, id, amount FROM raw.orders;
TRANSFORM marts.newest (id BIGINT KEY, client BIGINT, amount BIGINT, at TIMESTAMP) MERGE ORDER BY at
AS SELECT id % 3 AS id, buyer AS client, amount, at FROM raw.orders;
TRANSFORM marts.past (client BIGINT KEY, amount BIGINT, at TIMESTAMP) TEMPORAL AT at
AS SELECT buyer AS client, amount, at FROM raw.orders;
TRANSFORM marts.known AS SELECT client, count(*) AS n FROM marts.newest GROUP BY client;
TRANSFORM marts.sums PARTITIONED AS SELECT count(*) AS n, sum(amount) AS total FROM raw.orders;
PUBLISH marts.sold TO out.sold;
"""
)
TABLES = ("raw.orders", "raw.customers", "marts.sold", "marts.newest", "marts.past", "marts.known")
ERASED, OTHER = 4242420042, 4242420043
WHO = (ERASED, OTHER, 7)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def project(root: Path, spark: SparkSession, *, without: tuple[int, ...] = (), flow: str = FLOW) -> Tiny:
    """Return a project with orders of two days and three persons; some of them never ordered."""
    tiny = Tiny(root, spark)
    tiny.declare(flow)
    numbers = itertools.count()
    rows = [
        (number, who, f"2020-01-{of_day:02d} 10:00:{number:02d}", -1 if number % 5 == 4 else 10 + number)
        for of_day in (1, 2)
        for who in WHO
        for number in (next(numbers),)
    ]
    tiny.source("orders", "id INT, buyer INT, at TEXT, amount INT", [row for row in rows if row[1] not in without])
    tiny.source("customers", "id INT, name TEXT", [(who, f"name of {who}") for who in WHO if who not in without])
    return tiny


def run(tiny: Tiny, until: int = 3) -> None:
    outcome = tiny.run(day(until))
    assert not outcome.failed, described(outcome)


def erased(tiny: Tiny, *values: int, continues: bool = False) -> ErasureResult:
    with tiny.opened() as work:
        request = build_request(work, "customer", [str(value) for value in values])
        return erase(work, plan_erasure(work, request, continues=continues), why="on request")


def content(tiny: Tiny, tables: Iterable[str] = TABLES) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(tiny.rows(f"SELECT * FROM {name}"), key=repr) for name in tables}


def places_with(tiny: Tiny, value: int | str) -> Iterator[str]:
    """Yield the files below the storage that contain a value: in rows and bounds of Parquet files, or as text."""
    for path in sorted((tiny.root / tiny.storage).rglob("*")):
        if path.is_dir() or path.name.startswith("ledger.db"):
            continue
        if path.suffix == ".parquet":
            with pq.ParquetFile(path) as parquet:
                text = str(parquet.read().to_pylist()) + str(
                    [
                        parquet.metadata.row_group(group).column(column).statistics
                        for group in range(parquet.metadata.num_row_groups)
                        for column in range(parquet.metadata.num_columns)
                    ]
                )
        else:
            text = path.read_bytes().decode("latin-1")
        if str(value) in text:
            yield str(path.relative_to(tiny.root / tiny.storage))


def found(tiny: Tiny, value: int) -> list[str]:
    with tiny.opened() as work:
        request = build_request(work, "customer", [str(value)])
        places = searched_places(work, request)
        return [table.name for of_table, table in places if not search_table(of_table, request, table).is_empty]


def test_a_person_is_erased_from_every_kind_of_table(tmp_path: Path, spark: SparkSession) -> None:
    tiny, clean = project(tmp_path / "a", spark), project(tmp_path / "b", spark, without=(ERASED,))
    run(tiny)
    run(clean)
    assert set(found(tiny, ERASED)) == {*TABLES, "out.sold"}
    digests = {key: of for key, of in tiny.digests().items() if key[0] == "marts.sums"}
    result = erased(tiny, ERASED)
    assert content(tiny) == content(clean)
    assert found(tiny, ERASED) == ["out.sold"]
    assert {each.place for each in result.left} >= {"publish out.sold", "marts.sums"}
    run(tiny)
    assert content(tiny) == content(clean)
    assert {key: of for key, of in tiny.digests().items() if key[0] == "marts.sums"} == digests, "a batch became stale"
    rows = "SELECT client, id, amount FROM sold ORDER BY id"
    assert tiny.delivered(rows) == clean.delivered(rows) != []
    again = erased(tiny, ERASED, continues=True)
    assert found(tiny, ERASED) == []
    assert "publish out.sold" not in {each.place for each in again.left}
    assert list(places_with(tiny, ERASED)) == []


SMALL = (
    DECLARED
    + """
COLLECT raw.orders PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, at TIMESTAMP, amount BIGINT)
  FROM shop.orders EVERY DAY BY DATA TIME at LOOKBACK 2 DAYS EXPECT amount >= 0 AS positive ELSE QUARANTINE;
TRANSFORM marts.newest (id BIGINT KEY, client BIGINT, amount BIGINT, at TIMESTAMP) MERGE ORDER BY at
AS SELECT id % 3 AS id, buyer AS client, amount, at FROM raw.orders;
"""
)
SMALL_TABLES = ("raw.orders", "marts.newest")
POINTS = (
    "erase.begun", "erase.stored", "erase.held", "erase.sealed", "erase.committed", "erase.recorded", "erase.rewritten",
    "erase.slices_purged", "erase.files_purged", "erase.log_purged", "erase.purged", "erase.originals", "erase.texts",
    "erase.searched",
)  # fmt: skip


def test_an_erased_person_never_reappears(prepared: tuple[Tiny, dict[str, Any]], tmp_path: Path) -> None:
    """They do not reappear with a recollect, late rows, new rows, or a rebuild of the ledger."""
    tiny = prepared[0].copied(tmp_path / "a")
    erased(tiny, ERASED)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.orders", [day(1)], "recollect", who="ann")
    run(tiny)
    assert tiny.runs_of("raw.orders") > 2, "it was not collected again"
    assert content(tiny, SMALL_TABLES) == prepared[1]
    for path in (tiny.root / tiny.storage).glob("ledger*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    rebuild_ledger(tiny.load(), settings=tiny.settings)
    tiny.shop(f"INSERT INTO orders VALUES (90, {ERASED}, '2020-01-03 10:00:00', 5), (91, 7, '2020-01-03 11:00:00', 6)")
    tiny.shop(f"INSERT INTO orders VALUES (92, {ERASED}, '2020-01-02 10:00:00', 5), (93, 7, '2020-01-02 11:00:00', 6)")
    run(tiny, 4)
    assert found(tiny, ERASED) == []
    assert {row[0] for row in tiny.rows("SELECT id FROM raw.orders")} >= {91, 93}


def test_a_flow_without_the_subject_collects_no_erased_person(
    prepared: tuple[Tiny, dict[str, Any]], tmp_path: Path
) -> None:
    """The columns are recorded with the erasure, also in the storage, from which a lost ledger is rebuilt."""
    tiny = prepared[0].copied(tmp_path / "a")
    erased(tiny, ERASED)
    tiny.declare(SMALL.replace(" SUBJECT customer", ""))
    for path in (tiny.root / tiny.storage).glob("ledger*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    rebuild_ledger(tiny.load(), settings=tiny.settings)
    tiny.shop(f"INSERT INTO orders VALUES (90, {ERASED}, '2020-01-03 10:00:00', 5), (91, 7, '2020-01-03 11:00:00', 6)")
    run(tiny, 4)
    buyers = {row[0] for row in tiny.rows("SELECT buyer FROM raw.orders WHERE timelabel = '20200103000000'")}
    assert buyers == {7}
    assert ERASED not in {row[0] for row in tiny.rows("SELECT client FROM marts.newest")}


def test_a_table_that_declares_no_subject_is_found_by_its_files(
    prepared: tuple[Tiny, dict[str, Any]], tmp_path: Path
) -> None:
    """Once the column is declared, the erasure of the same persons continues, and finishes."""
    tiny = prepared[0].copied(tmp_path / "a")
    more = "COLLECT raw.customers (id BIGINT KEY{}, name STRING) FROM shop.customers EVERY DAY;"
    tiny.declare(SMALL + more.format(""))
    run(tiny)
    [left] = erased(tiny, ERASED).left
    assert left.place == "raw.customers"
    assert left.fix.startswith("add SUBJECT")
    tiny.declare(SMALL + more.format(" SUBJECT customer"))
    with tiny.opened() as work:
        apply_flow(work, day(3))
    assert erased(tiny, ERASED, continues=True).left == ()
    assert ERASED not in {row[0] for row in tiny.rows("SELECT id FROM raw.customers")}


def test_a_reason_with_the_value_is_refused(prepared: tuple[Tiny, dict[str, Any]]) -> None:
    with prepared[0].opened() as work:
        plan = plan_erasure(work, build_request(work, "customer", [str(ERASED)]), continues=False)
        with pytest.raises(WaterclockError, match="the reason contains the value of a person"):
            erase(work, plan, why=f"customer {ERASED} asked")
        assert not work.ledger.erasures.list()


class Killed(BaseException):
    """The process ends here: nothing after it runs, in particular no pause ends."""


@contextmanager
def killed(point: str, monkeypatch: pytest.MonkeyPatch, nth: int = 1) -> Iterator[list[str]]:
    """End the block at the nth passing of a fault point, like kill -9; yield the list of points that struck."""
    passed, struck, release = itertools.count(1), list[str](), slices._release

    def strike(name: str) -> None:
        if name == point and next(passed) == nth:
            struck.append(name)
            raise Killed

    with monkeypatch.context() as patch, inject_faults(strike):
        patch.setattr(slices, "_release", lambda *given: None if struck else release(*given))
        try:
            yield struck
        except Killed:
            return


def maintain(tiny: Tiny, now: int = 3) -> None:
    with tiny.opened() as work:
        for each in find_maintenance(work, list(work.flow.tables), day(now)):
            maintain_table(work, each, day(now))
            assert not each.failed


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Tiny, dict[str, Any]]:
    """Return a project with two done days, and the content of one without the person."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        root = tmp_path_factory.mktemp("killed")
        tiny, clean = project(root / "a", spark, flow=SMALL), project(root / "b", spark, flow=SMALL, without=(ERASED,))
        run(tiny)
        run(clean)
        return tiny, content(clean, SMALL_TABLES)


def test_batches_go_on_after_several_kills_while_the_past_is_removed(
    prepared: tuple[Tiny, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each continuation commits that the killed one is void. The ledger does not know these versions."""
    tiny, expected = prepared[0].copied(tmp_path / "a"), prepared[1]
    for attempt in range(3):
        with killed("erase.slices_purged", monkeypatch) as struck:
            erased(tiny, ERASED, continues=attempt > 0)
        assert struck
    erased(tiny, ERASED, continues=True)
    tiny.shop(f"INSERT INTO orders VALUES (99, {OTHER}, '2020-01-02 12:00:00', 99)")
    run(tiny, 4)
    for table in SMALL_TABLES:
        assert len(tiny.rows(f"SELECT * FROM {table}")) >= len(expected[table])
        assert tiny.rows(f"SELECT count(*) FROM {table} WHERE amount = 99") == [(1,)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_erasure_loses_nothing_and_continues(
    point: str, prepared: tuple[Tiny, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the kill, runs and maintenance by other commands come before the continuation."""
    tiny, expected = prepared[0].copied(tmp_path / "a"), prepared[1]
    with killed(point, monkeypatch) as struck:
        erased(tiny, ERASED)
    assert struck == [point]
    run(tiny)
    maintain(tiny)
    others = [row for row in tiny.rows("SELECT id, buyer FROM raw.orders") if row[1] != ERASED]
    assert sorted(others) == sorted((row[1], row[2]) for row in expected["raw.orders"])
    with pytest.raises(WaterclockError, match="is not finished"):
        erased(tiny, ERASED)
    erased(tiny, ERASED, continues=True)
    run(tiny)
    maintain(tiny)
    assert content(tiny, SMALL_TABLES) == expected
    assert found(tiny, ERASED) == []
    assert list(places_with(tiny, ERASED)) == []
