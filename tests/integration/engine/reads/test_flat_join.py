"""Several sources on one timeline, facts that reference them by roles and times, and FLAT across all levels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.reads import flat_parents
from waterclock.storage.folds.version_counts import version_counts
from waterclock.temporal import FrameStatistics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def _large_parents() -> Iterator[None]:
    """Treat each parent as large, so that only referenced rows are looked up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat_parents, "LEAST_BYTES", 0)
        yield


CUSTOMERS = """
COLLECT raw.crm PARTITIONED (id NOT NULL, name, at TIMESTAMP) FROM shop.crm EVERY DAY BY DATA TIME at;
COLLECT raw.billing PARTITIONED (id NOT NULL, city, at TIMESTAMP) FROM shop.billing EVERY DAY BY DATA TIME at;
COLLECT raw.lands (city KEY, land, at TIMESTAMP) FROM shop.lands EVERY DAY BY DATA TIME at TEMPORAL AT at;
TRANSFORM dim.customer (id KEY, city STRING REFERENCES raw.lands, *) TEMPORAL AT at {nulls}
AS SELECT id, name, at FROM raw.crm UNION ALL BY NAME SELECT id, city, at FROM raw.billing;
"""
FACTS = """
COLLECT raw.shops (shop KEY, boss) FROM shop.shops EVERY DAY;
COLLECT raw.sales PARTITIONED (sale KEY, shop REFERENCES raw.shops, buyer REFERENCES dim.customer ROLE buyer AT sold_at,
  payer REFERENCES dim.customer ROLE payer AT billed_at, sold_at TIMESTAMP, billed_at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME billed_at;
TRANSFORM marts.sales PARTITIONED AS SELECT * FROM FLAT(raw.sales);
TRANSFORM marts.customers AS SELECT * FROM FLAT(dim.customer, 'exact');
"""
CRM = [("c1", "ann", "2020-01-01 06:00:00"), ("c1", "anna", "2020-01-03 06:00:00")]
BILLING = [("c1", "paris", "2020-01-01 08:00:00"), ("c1", "lyon", "2020-01-02 08:00:00")]
LANDS = [
    ("paris", "F", "2020-01-01 00:00:00"),
    ("lyon", "F", "2020-01-01 00:00:00"),
    ("lyon", "B", "2020-01-03 12:00:00"),
]
SALES = [
    ("s1", "x", "c1", "c1", "2020-01-01 07:00:00", "2020-01-02 09:00:00"),
    ("s2", "y", "c1", None, "2020-01-03 07:00:00", "2020-01-03 13:00:00"),
    ("s3", "x", "c9", "c1", "2020-01-03 07:00:00", "2020-01-03 13:00:00"),
]


def shop(root: Path, spark: SparkSession, flow: str) -> Tiny:
    tiny = Tiny(root, spark)
    tiny.source("crm", "id TEXT, name TEXT, at TEXT", CRM)
    tiny.source("billing", "id TEXT, city TEXT, at TEXT", BILLING)
    tiny.source("lands", "city TEXT, land TEXT, at TEXT", LANDS)
    tiny.source("shops", "shop TEXT, boss TEXT", [("x", "zoe")])
    tiny.source("sales", "sale TEXT, shop TEXT, buyer TEXT, payer TEXT, sold_at TEXT, billed_at TEXT", SALES)
    tiny.declare(flow)
    for number in range(2, 5):
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
    return tiny


@pytest.fixture(scope="module")
def sold(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    return shop(tmp_path_factory.mktemp("sold"), spark, CUSTOMERS.format(nulls="") + FACTS)


def test_sources_integrate_on_one_timeline_and_facts_see_it_as_it_was(sold: Tiny, spark: SparkSession) -> None:
    tiny = sold
    shown = "SELECT name, city, date_format(rec_eff_time, 'dd HH'), timelabel FROM dim.customer ORDER BY rec_eff_time"
    assert tiny.rows(shown) == [
        ("ann", "paris", "01 06", "20200101000000"),
        ("ann", "lyon", "02 08", "20200102000000"),
        ("anna", "lyon", "03 06", "20200103000000"),
    ]
    flat = "SELECT sale, boss, name_buyer, city_buyer, land_buyer, name_payer, city_payer, land_payer FROM marts.sales"
    assert sorted(tiny.rows(flat)) == [
        # the buyer as of the sale, the payer and the land of its city as of the bill
        ("s1", "zoe", "ann", "paris", "F", "ann", "lyon", "F"),
        ("s2", None, "anna", "lyon", "F", None, None, None),
        ("s3", "zoe", None, None, None, "anna", "lyon", "B"),
    ]
    with tiny.opened() as work:
        newest = work.ledger.reads.newest("dim.customer")
        assert newest is not None
        counted = version_counts(spark, work.lake.folder("dim.customer"), newest.version, ("id",))
        starts = spark.read.format("delta").load(work.lake.folder("dim.customer"))
        told = starts.selectExpr("unix_micros(min(rec_eff_time))", "unix_micros(max(rec_eff_time))").first()
        assert told is not None
    assert counted == FrameStatistics(3, 1, 3, 0, *told)
    spans = "SELECT name, city, land, date_format(rec_eff_time, 'dd HH'), rec_is_current FROM marts.customers"
    assert sorted(tiny.rows(f"{spans} ORDER BY rec_eff_time"), key=lambda row: row[3]) == [
        ("ann", "paris", "F", "01 06", False),
        ("ann", "lyon", "F", "02 08", False),
        ("anna", "lyon", "F", "03 06", False),
        ("anna", "lyon", "B", "03 12", True),
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rule", ["", "EXPECT id <> 'nobody' ELSE QUARANTINE"], ids=["bare", "with a sieve"])
def test_a_source_without_a_column_leaves_it_unchanged_under_nulls_value(
    tmp_path: Path, spark: SparkSession, rule: str
) -> None:
    tiny = shop(tmp_path, spark, CUSTOMERS.format(nulls=f"NULLS VALUE {rule}"))
    shown = "SELECT name, city, date_format(rec_eff_time, 'dd HH') FROM dim.customer ORDER BY rec_eff_time"
    assert tiny.rows(shown) == [("ann", "paris", "01 06"), ("ann", "lyon", "02 08"), ("anna", "lyon", "03 06")]
    tiny.shop("INSERT INTO billing VALUES ('c1', NULL, '2020-01-04 08:00:00')")
    assert not tiny.run(day(5)).failed
    assert tiny.rows(shown)[-1] == ("anna", None, "04 08")


def lacking(tiny: Tiny, table: str) -> list[object]:
    """Return the missing parents that the batches of a table recorded, in the order of labels."""
    with tiny.ledger() as ledger:
        kept = [row for row in ledger.past.rows("batches") if row["table"] == table]
    return [json.loads(row["measures"]).get("without parent") for row in sorted(kept, key=lambda row: row["timelabel"])]


@pytest.mark.soak
def test_facts_whose_parent_is_not_there_are_counted(sold: Tiny) -> None:
    # the payer of s2 is NULL, which is no missing parent
    assert lacking(sold, "marts.sales") == [None, None, {"raw.shops": 1, "dim.customer (buyer)": 1}]


@pytest.mark.soak
def test_windows_of_one_job_are_counted_each_for_itself(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("shops", "shop TEXT, town TEXT, opened TEXT", [("x", "rome", "2020-01-01 06:00:00")])
    tiny.source("towns", "town TEXT, land TEXT, built TEXT", [("oslo", "N", "2020-01-01 06:00:00")])
    sales: list[tuple[str, str | None, int, str]] = [
        ("s1", "x", 1, "2020-01-01 07:00:00"),
        ("s2", "y", 0, "2020-01-01 08:00:00"),
        ("s3", "y", 2, "2020-01-02 07:00:00"),
        ("s4", "y", 3, "2020-01-02 08:00:00"),
        ("s5", None, 4, "2020-01-02 09:00:00"),
    ]
    tiny.source("sales", "sale TEXT, shop TEXT, amount INT, at TEXT", sales)
    tiny.declare("""
    COLLECT raw.towns (town KEY, land, built TIMESTAMP) FROM shop.towns
      EVERY DAY BY DATA TIME built MERGE ORDER BY built;
    COLLECT raw.shops (shop KEY, town REFERENCES raw.towns, opened TIMESTAMP) FROM shop.shops
      EVERY DAY BY DATA TIME opened MERGE ORDER BY opened;
    COLLECT raw.sales PARTITIONED (sale KEY, shop REFERENCES raw.shops, amount INT, at TIMESTAMP) FROM shop.sales
      EVERY DAY BY DATA TIME at;
    TRANSFORM marts.sales PARTITIONED AS SELECT s.sale, s.land FROM FLAT(raw.sales) AS s;
    TRANSFORM marts.checked PARTITIONED EXPECT amount > 0 ELSE DROP AS SELECT * FROM FLAT(raw.sales);
    TRANSFORM marts.some PARTITIONED AS SELECT * FROM FLAT(raw.sales) WHERE amount > 0;
    TRANSFORM marts.sums PARTITIONED AS SELECT count(*) AS n FROM FLAT(raw.sales);
    """)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    # the town of x has no land; the missing shop y names no town
    of_each = [{"raw.shops": 1, "raw.towns": 1}, {"raw.shops": 2}]
    assert lacking(tiny, "marts.sales") == of_each
    assert lacking(tiny, "marts.checked") == of_each
    assert lacking(tiny, "marts.some") == [None, None]
    assert lacking(tiny, "marts.sums") == [None, None]


def test_facts_with_a_key_of_another_type_are_refused_before_they_are_doubled(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("shops", "shop TEXT, boss TEXT", [("1", "ann"), ("01", "bob")])
    tiny.source("sales", "sale TEXT, shop INTEGER, at TEXT", [("s1", 1, "2020-01-01 07:00:00")])
    tiny.declare("""
    COLLECT raw.shops (shop KEY, boss) FROM shop.shops EVERY DAY;
    COLLECT raw.sales PARTITIONED (sale KEY, shop REFERENCES raw.shops, at TIMESTAMP) FROM shop.sales
      EVERY DAY BY DATA TIME at;
    TRANSFORM marts.sales PARTITIONED AS SELECT * FROM FLAT(raw.sales);
    """)
    [report] = tiny.run(day(2)).failed
    assert report.error is not None
    assert (report.error.code, report.group.table) == ("E305", "marts.sales")


def test_a_fraction_finds_the_one_parent_that_it_is(tmp_path: Path, spark: SparkSession) -> None:
    """As a DOUBLE it is equal to both keys."""
    tiny = Tiny(tmp_path, spark)
    tiny.source("shops", "shop INTEGER, boss TEXT", [(2**53, "ann"), (2**53 + 1, "bob"), (7, "eve")])
    sales = [("s1", float(2**53), "2020-01-01 07:00:00"), ("s2", 7.0, "2020-01-01 08:00:00")]
    tiny.source("sales", "sale TEXT, shop REAL, at TEXT", [*sales, ("s3", 7.5, "2020-01-01 09:00:00")])
    tiny.declare("""
    COLLECT raw.shops (shop KEY, boss) FROM shop.shops EVERY DAY;
    COLLECT raw.sales PARTITIONED (sale KEY, shop REFERENCES raw.shops, at TIMESTAMP) FROM shop.sales
      EVERY DAY BY DATA TIME at;
    TRANSFORM marts.sales PARTITIONED AS SELECT * FROM FLAT(raw.sales);
    """)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    found = tiny.rows("SELECT sale, boss FROM marts.sales ORDER BY sale")
    assert found == [("s1", "ann"), ("s2", "eve"), ("s3", None)]


def test_late_rows_of_a_parent_reach_the_facts_that_read_it(sold: Tiny, tmp_path: Path) -> None:
    tiny = sold.copied(tmp_path / "late")
    tiny.shop("INSERT INTO billing VALUES ('c1', 'rome', '2020-01-02 08:30:00')")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.billing", [day(2)], "recollect", who="a test")
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    flat = "SELECT sale, city_payer FROM marts.sales"
    assert sorted(tiny.rows(flat)) == [("s1", "rome"), ("s2", None), ("s3", "rome")]


def test_attributes_of_parents_may_have_the_names_of_internal_join_columns(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    names = ("waterclock_there0", "waterclock_key0_0", "waterclock_alone0")
    tiny.source("parents", f"k INT, up INT, {', '.join(f'{name} INT' for name in names)}", [(7, 1, 70, 71, 72)])
    tiny.source("above", "top INT, name TEXT", [(1, "a")])
    tiny.source("facts", "id INT, k INT", [(1, 7), (2, 8)])
    tiny.declare("""
    COLLECT raw.above (top KEY, *) FROM shop.above EVERY DAY;
    COLLECT raw.parents (k KEY, up BIGINT REFERENCES raw.above, *) FROM shop.parents EVERY DAY;
    COLLECT raw.facts (id KEY, k BIGINT REFERENCES raw.parents) FROM shop.facts EVERY DAY;
    TRANSFORM marts.facts AS SELECT * FROM FLAT(raw.facts);
    """)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    found = tiny.rows(f"SELECT id, {', '.join(names)}, name FROM marts.facts ORDER BY id")
    assert found == [(1, 70, 71, 72, "a"), (2, None, None, None, None)]
