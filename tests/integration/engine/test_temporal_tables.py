"""TEMPORAL tables in the engine: late, restated and split histories give the same result as all rows at once."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from tests.tiny import Tiny, day, described
from waterclock.engine.maintenance.rebuild import plan_rebuild, rebuild_table
from waterclock.engine.query.query import query
from waterclock.engine.reads.as_of import frame_as_of
from waterclock.engine.run_opening import apply_flow
from waterclock.ledger.store.schema import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.customers (customer KEY, name, city, gone BIGINT, at TIMESTAMP) FROM shop.customers
  EVERY DAY BY DATA TIME at TEMPORAL AT at DELETE WHEN gone = 1;
TRANSFORM marts.cities (city KEY, *) MERGE ORDER BY customers
  AS SELECT city, count(*) AS customers FROM shop.customers WHERE rec_is_current AND city IS NOT NULL GROUP BY city;
"""
COLUMNS = "customer TEXT, name TEXT, city TEXT, gone INTEGER, at TEXT"
ROWS = [
    ("c1", "ann", None, 0, "2020-01-01 09:00:00"),
    ("c2", "bob", "Paris", 0, "2020-01-01 10:00:00"),
    ("c1", "anna", "Lyon", 0, "2020-01-02 09:00:00"),
    ("c2", None, None, 1, "2020-01-03 09:00:00"),
    ("c3", "cid", "Paris", 0, "2020-01-03 10:00:00"),
    ("c3", "cid", "Paris", 0, "2020-01-04 10:00:00"),
    ("c2", "bob", "Rome", 0, "2020-01-05 10:00:00"),
]
VERSIONS = [
    ("c1", "2020-01-01 09", "ann", "Lyon", "2020-01-02 09", False, "20200101000000"),
    ("c1", "2020-01-02 09", "anna", "Lyon", "9999-12-31 00", True, "20200102000000"),
    ("c2", "2020-01-01 10", "bob", "Paris", "2020-01-03 09", False, "20200101000000"),
    ("c2", "2020-01-05 10", "bob", "Rome", "9999-12-31 00", True, "20200105000000"),
    ("c3", "2020-01-03 10", "cid", "Paris", "9999-12-31 00", True, "20200103000000"),
]
SHOWN = """
SELECT customer, date_format(rec_eff_time, 'yyyy-MM-dd HH'), name, city, date_format(rec_exp_time, 'yyyy-MM-dd HH'),
       rec_is_current, timelabel FROM shop.customers ORDER BY customer, rec_eff_time
"""
LAST = day(6)


def started(root: Path, spark: SparkSession, rows: Sequence[tuple[Any, ...]], flow: str = FLOW) -> Tiny:
    tiny = Tiny(root, spark)
    tiny.source("customers", COLUMNS, rows)
    tiny.declare(flow)
    return tiny


def run_all(tiny: Tiny) -> Tiny:
    for number in range(2, 7):
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
    return tiny


def as_of(tiny: Tiny, table: str, tick: datetime, known_at: datetime | None = None) -> list[tuple[Any, ...]]:
    with tiny.opened() as work:
        frame = frame_as_of(work, tiny.spark, work.flow.tables[table], tick, known_at=known_at)
        return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return a project with all rows in their windows; tests never change it."""
    return run_all(started(tmp_path_factory.mktemp("whole"), spark, ROWS))


def test_a_table_keeps_every_version_of_its_keys(whole: Tiny) -> None:
    tiny = whole
    assert tiny.rows(SHOWN) == VERSIONS
    assert sorted(tiny.rows("SELECT city, customers FROM marts.cities")) == [("Lyon", 1), ("Paris", 1), ("Rome", 1)]
    assert tiny.open_claims() == 0


@pytest.mark.soak
def test_a_restated_label_yields_the_versions_of_a_clean_run(whole: Tiny, tmp_path: Path, spark: SparkSession) -> None:
    late = [row for row in ROWS if row[4] != "2020-01-02 09:00:00"]
    tiny, wanted = run_all(started(tmp_path, spark, late)), whole
    with tiny.ledger() as ledger:
        before = ledger.now()
    known = [as_of(tiny, "shop.customers", day(number)) for number in range(1, 7)]
    tiny.source("customers", COLUMNS, ROWS)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.customers", [day(2)], "recollect", who="a test")
    outcome = tiny.run(LAST)
    assert not outcome.failed, described(outcome)
    assert tiny.rows(SHOWN) == VERSIONS
    for number in range(1, 7):
        now = as_of(tiny, "shop.customers", day(number))
        assert now == as_of(wanted, "shop.customers", day(number)), number
        assert as_of(tiny, "shop.customers", day(number), known_at=before) == known[number - 1], number
    assert as_of(tiny, "marts.cities", LAST) == as_of(wanted, "marts.cities", LAST)
    assert tiny.run(LAST).done == 0


def test_rows_without_a_key_or_a_valid_time_are_left_out_and_reported(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("visits", "customer TEXT, city TEXT, seen TEXT, at TEXT", VISITS)
    tiny.declare(
        "COLLECT shop.visits (customer, city, seen TIMESTAMP, at TIMESTAMP) FROM shop.visits EVERY DAY "
        "BY DATA TIME at TEMPORAL ON (customer) AT seen TRACK (city);"
    )
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT customer, city FROM shop.visits") == [("c1", "Paris")]
    assert tiny.heard.finished_[-1].warnings == (
        "left out, without a key: 1 of 4",
        "left out, without a time: 2 of 4",
    )
    tiny.source("visits", "customer TEXT, city TEXT, seen TEXT, at TEXT", SENTINELS)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert sorted(tiny.rows("SELECT customer, city, rec_is_current FROM shop.visits")) == [
        ("c1", "Paris", False),
        ("c1", "Rome", True),
    ]
    assert tiny.heard.finished_[-1].warnings == ("left out, at or after the open end, or before year 1: 2 of 3",)


SENTINELS = [
    ("c1", "Rome", "2020-01-02 08:00:00", "2020-01-02 09:00:00"),
    ("c1", "Oslo", "9999-12-31 00:00:00", "2020-01-02 09:00:00"),
    ("c1", "Bern", "9999-12-31 23:59:59", "2020-01-02 09:00:00"),
]
VISITS = [
    ("c1", "Paris", "2020-01-01 08:00:00", "2020-01-01 09:00:00"),
    (None, "Lyon", "2020-01-01 08:00:00", "2020-01-01 09:00:00"),
    ("c1", "Rome", None, "2020-01-01 09:00:00"),
    ("c2", "Rome", None, "2020-01-01 09:00:00"),
]


OWN = """
COLLECT shop.visits (customer STRING KEY, city STRING, at TIMESTAMP) FROM shop.visits
  EVERY DAY BY DATA TIME at TEMPORAL AT at;
TRANSFORM dim.seen (customer STRING KEY, city STRING, times INT, since TIMESTAMP) TEMPORAL AT since
  AS SELECT v.customer, v.city, coalesce(p.times, 0) + 1 AS times, WINDOW_START() AS since
     FROM shop.visits v LEFT JOIN PREVIOUS(dim.seen) p ON p.customer = v.customer AND p.rec_is_current
     WHERE v.rec_is_current AND (p.rec_eff_time IS NULL OR p.rec_eff_time < WINDOW_START());
"""


def test_a_table_is_read_before_its_first_state_as_one_that_keeps_versions(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("visits", "customer TEXT, city TEXT, at TEXT", [("c1", "Rome", "2020-01-02 09:00:00")])
    tiny.declare(OWN)
    asked = "SELECT customer, rec_eff_time, city, rec_exp_time, rec_is_current FROM shop.visits"
    with tiny.opened() as work:
        apply_flow(work, day(2))
        assert query(work, asked, limit=1).rows == ()
        window = work.flow.tables["shop.visits"].cadence.window_of(day(1))
        work.ledger.decisions.skip("shop.visits", [window], who="a test", why="no such day")
    assert tiny.run(day(2)).done == 1
    assert tiny.rows(asked) == as_of(tiny, "shop.visits", day(2)) == []
    for number in (3, 4):
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
    seen = "SELECT times, rec_is_current FROM dim.seen ORDER BY rec_eff_time"
    assert tiny.rows(seen) == [(1, False), (2, True)]


@pytest.mark.soak
def test_another_way_of_keeping_versions_needs_a_rebuild(tmp_path: Path, spark: SparkSession) -> None:
    tiny = run_all(started(tmp_path / "changed", spark, ROWS))
    other = FLOW.replace("DELETE WHEN gone = 1", "DELETE WHEN gone = 1 TRACK (name)")
    wanted = run_all(started(tmp_path / "clean", spark, ROWS, other))
    tiny.declare(other)
    assert {report.error.code for report in tiny.run(LAST).failed if report.error} == {"E405"}
    with tiny.opened() as work:
        changes = plan_rebuild(work, ["shop.customers"])
        rebuild_table(work, "shop.customers", changes["shop.customers"])
        apply_flow(work, LAST)
    assert tiny.rows(SHOWN) == wanted.rows(SHOWN)
    assert as_of(tiny, "shop.customers", day(3)) == as_of(wanted, "shop.customers", day(3))
    assert not tiny.run(LAST).failed


STOCK: tuple[list[tuple[Any, ...]], ...] = (
    [("a", "red", 1), ("b", "blue", 2), ("c", None, 3)],
    [("a", None, 1), ("b", "blue", None), ("c", None, 3)],
)
STANDING = "SELECT sku, colour, size FROM shop.stock WHERE rec_is_current ORDER BY sku"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("nulls", "current", "versions"),
    [
        ("", STOCK[1], 5),
        ("NULLS VALUE", STOCK[1], 5),
        ("NULLS VALUE (colour)", [("a", None, 1), ("b", "blue", 2), ("c", None, 3)], 4),
        ("NULLS MISSING", STOCK[0], 3),
    ],
)
def test_a_null_in_a_snapshot_is_a_value_unless_declared_otherwise(
    tmp_path: Path, spark: SparkSession, nulls: str, current: list[tuple[Any, ...]], versions: int
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(f"COLLECT shop.stock (sku KEY, colour, size BIGINT, *) FROM shop.stock EVERY DAY TEMPORAL {nulls};")
    for number, rows in enumerate(STOCK, start=2):
        tiny.source("stock", "sku TEXT, colour TEXT, size INTEGER", rows)
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
    assert tiny.rows(STANDING) == current
    assert tiny.rows("SELECT count(*) FROM shop.stock") == [(versions,)]


@pytest.mark.soak
def test_a_column_added_to_a_snapshot_starts_no_new_version(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare("COLLECT shop.stock (sku KEY, *) FROM shop.stock EVERY DAY TEMPORAL;")
    tiny.source("stock", "sku TEXT, colour TEXT", [("a", "red"), ("b", "blue")])
    assert not tiny.run(day(2)).failed
    tiny.source("stock", "sku TEXT, colour TEXT, size TEXT", [("a", "red", "L"), ("b", "blue", None)])
    assert not tiny.run(day(3)).failed
    shown = "SELECT sku, size, timelabel FROM shop.stock ORDER BY sku, rec_eff_time"
    assert tiny.rows(shown) == [("a", "L", "20200101000000"), ("b", None, "20200101000000")]


def test_a_date_as_the_time_of_a_version_is_refused_without_a_declared_zone(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = started(tmp_path, spark, ROWS)
    tiny.declare(
        "COLLECT raw.people PARTITIONED (customer, at TIMESTAMP) FROM shop.customers EVERY DAY BY DATA TIME at;"
        "TRANSFORM dim.a (customer KEY, since TIMESTAMP) TEMPORAL AT since "
        "AS SELECT customer, date(at) AS since FROM raw.people;"
    )
    (failed, *_) = tiny.run(day(2)).failed
    assert failed.error is not None
    assert failed.error.render() == (
        "E302 since is of type date, which is not an instant\n"
        "  dim.a (dim.a@20200101000000)\n"
        "why  as a TIMESTAMP it would be read in UTC, and the zone of these values is not declared\n"
        "fix  declare it where it is collected, or convert it in the query with its zone"
    )


PRODUCTS = """
COLLECT dim.product (sku STRING KEY, colour STRING) FROM shop.products EVERY DAY TEMPORAL;
COLLECT fact.sale PARTITIONED (sale BIGINT, sku STRING REFERENCES dim.product AT sold, sold TIMESTAMP, came TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME came;
TRANSFORM marts.sales PARTITIONED
  EXPECT count_if(sku IS NOT NULL AND colour IS NULL) <= 0.4 * count(*) AS known_products ELSE WARN
AS SELECT * FROM FLAT(fact.sale);
"""


SALES = "sale INTEGER, sku TEXT, sold TEXT, came TEXT"


def test_facts_of_a_window_find_the_keys_that_arrived_within_it(tmp_path: Path, spark: SparkSession) -> None:
    """In the first snapshot, in that of the next day, and in the first one after an outage of two days."""
    tiny = Tiny(tmp_path, spark)
    tiny.declare(PRODUCTS)
    told = [(1, "a", 1, 1), (2, "b", 2, 2), (3, "a", 2, 2), (4, "c", 3, 5), (5, "d", 4, 5), (6, "d", 5, 5)]
    tiny.source(
        "sales",
        SALES,
        [(*sale, f"2020-01-0{sold} 10:00:00", f"2020-01-0{came} 11:00:00") for *sale, sold, came in told],
    )
    for number, products in ((2, "a red"), (3, "a blue, b red"), (6, "a blue, b red, c red, d red")):
        tiny.source("products", "sku TEXT, colour TEXT", [tuple(each.split()) for each in products.split(", ")])
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
    # a change holds from its snapshot on: on the second day, a has its earlier value
    found = tiny.rows("SELECT sale, colour FROM marts.sales ORDER BY sale")
    assert found == [(number, "red") for number in range(1, 7)]
    since = "SELECT sku, colour, date_format(rec_eff_time, 'dd HH') FROM dim.product ORDER BY sku, rec_eff_time"
    assert tiny.rows(since) == [
        ("a", "red", "01 00"),
        ("a", "blue", "03 00"),
        ("b", "red", "02 00"),
        ("c", "red", "03 00"),
        ("d", "red", "03 00"),
    ]


def test_a_rule_warns_of_facts_without_a_parent_beyond_a_share(tmp_path: Path, spark: SparkSession) -> None:
    """The first snapshot is of the second day: facts of the first day are older than all known parents."""
    tiny = Tiny(tmp_path, spark)
    tiny.declare(PRODUCTS)
    tiny.source("products", "sku TEXT, colour TEXT", [("a", "red")])
    days = (("2020-01-01", "aa"), ("2020-01-02", "aaz"))
    sales = [
        (number, sku, f"{date} 10:00:00", f"{date} 11:00:00") for date, skus in days for number, sku in enumerate(skus)
    ]
    tiny.source("sales", SALES, sales)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    reports = [report for report in tiny.heard.finished_ if report.group.table == "marts.sales"]
    (warning,) = (warning for report in reports for warning in report.warnings)
    assert warning.startswith("known_products: the batch is not (count_if(sku IS NOT NULL AND colour IS NULL) <= 0.4 *")
    with tiny.ledger() as ledger:
        batches = [row for row in ledger.past.rows("batches") if row["table"] == "marts.sales"]
    counted = {row["timelabel"]: json.loads(row["measures"])["without parent"] for row in batches}
    assert counted == {"20200101000000": {"dim.product": 2}, "20200102000000": {"dim.product": 1}}


def test_keys_of_a_snapshot_begin_at_midnight_of_its_zone(tmp_path: Path, spark: SparkSession) -> None:
    """The clocks of Berlin change on 29 March 2020: that day has 23 hours."""
    tiny = Tiny(tmp_path, spark)
    tiny.declare("COLLECT dim.product (sku STRING KEY) FROM shop.products EVERY DAY ZONE 'Europe/Berlin' TEMPORAL;")
    for number, products in ((29, "a"), (30, "ab"), (31, "a")):
        tiny.source("products", "sku TEXT", [(sku,) for sku in products])
        outcome = tiny.run(datetime(2020, 3, number, 23, tzinfo=UTC))
        assert not outcome.failed, described(outcome)
    shown = "date_format(rec_eff_time, 'dd HH'), date_format(rec_exp_time, 'dd HH')"
    assert tiny.rows(f"SELECT sku, {shown} FROM dim.product ORDER BY sku") == [
        ("a", "28 23", "31 00"),
        ("b", "29 22", "31 22"),
    ]


def test_a_table_of_snapshots_from_an_older_release_is_refused_until_it_is_rebuilt(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(PRODUCTS)
    tiny.source("products", "sku TEXT, colour TEXT", [("a", "red")])
    tiny.source("sales", SALES)
    assert not tiny.run(day(2)).failed
    with tiny.ledger() as ledger, ledger._database.write() as write:
        write.execute(sa.update(tables).where(tables.c.name == "dim.product").values(keys="ON (sku) NULLS VALUE"))
    (failed, *_) = tiny.run(day(3)).failed
    assert failed.error is not None
    assert failed.error.code == "E405"
    assert "is now ON (sku) NULLS VALUE, new keys since the snapshot before" in str(failed.error.why)
    with tiny.opened() as work:
        changes = plan_rebuild(work, ["dim.product"])
        rebuild_table(work, "dim.product", changes["dim.product"])
        apply_flow(work, day(3))
    assert not tiny.run(day(3)).failed
