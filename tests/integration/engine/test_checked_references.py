"""REFERENCES with ELSE: rows without a parent get the declared ELSE action, and change with the parent table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.planner.plan import RECOLLECT
from waterclock.timelabel.label import instant_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOURCES = """
COLLECT shop.customers (id BIGINT KEY, at TIMESTAMP) FROM shop.customers EVERY DAY BY DATA TIME at MERGE ORDER BY at;
COLLECT shop.orders PARTITIONED (id BIGINT, customer BIGINT, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at;
"""
CHECKED = """
TRANSFORM shop.checked PARTITIONED (customer REFERENCES shop.customers ELSE {}, *)
AS SELECT id, customer FROM shop.orders;
TRANSFORM shop.sums PARTITIONED AS SELECT count(*) AS orders FROM shop.checked;
"""
RULE = "customer REFERENCES shop.customers"
Parents = dict[int, list[int]]  # the customers of each day
Orders = dict[int, list[int | None]]  # the customers of each day's orders


def fill(tiny: Tiny, parents: Parents, orders: Orders) -> None:
    """Rewrite the sources; an order's id encodes its day and position."""
    customers = [(id_, f"2020-01-{at:02} 0{n % 10}:00:00") for at, ids in parents.items() for n, id_ in enumerate(ids)]
    rows = [
        (100 * at + place, customer, f"2020-01-{at:02} 12:00:00")
        for at, of_day in orders.items()
        for place, customer in enumerate(of_day)
    ]
    tiny.source("customers", "id INTEGER, at TEXT", customers)
    tiny.source("orders", "id INTEGER, customer INTEGER, at TEXT", rows)


def counts(tiny: Tiny, label: str, table: str = "shop.checked") -> dict[str, Any]:
    with tiny.ledger() as ledger:
        made = ledger.past.audit(table, instant_of(label)).current
        assert made is not None
        assert made.revision is not None
        return dict(made.revision.measures)


def aside(tiny: Tiny) -> list[tuple[str, int, list[str]]]:
    """Return the quarantined rows: label, order id, broken rules."""
    rows = tiny.rows("SELECT timelabel, row, broken FROM shop.checked_quarantine")
    return sorted((label, json.loads(row)["id"], list(broken)) for label, row, broken in rows)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("together", [True, False], ids=["in one job", "one by one"])
def test_rows_without_a_parent_are_set_aside_and_come_in_with_it(
    tmp_path: Path, spark: SparkSession, together: bool
) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, {1: [1], 2: [2], 3: []}, {1: [1, 2, None], 2: [1, 2, 3], 3: [3, 3]})
    tiny.declare(SOURCES + CHECKED.format("QUARANTINE"))
    for now in [day(4)] if together else [day(2), day(3), day(4)]:
        outcome = tiny.run(now)
        assert not outcome.failed, described(outcome)
    first, second, third = labels(1, 2, 3)
    # each label reads the state at its own end: customer 2 appeared on the second day
    assert tiny.rows("SELECT id FROM shop.checked ORDER BY id") == [(100,), (102,), (200,), (201,)]
    assert aside(tiny) == [(first, 101, [RULE]), (second, 202, [RULE]), (third, 300, [RULE]), (third, 301, [RULE])]
    told = counts(tiny, first)
    assert (told["in"], told["quarantined"], told["broken"], told["first"]) == (3, 1, {RULE: 1}, {RULE: 1})
    with tiny.ledger() as ledger:
        audit = ledger.past.audit("shop.checked", day(2))
        assert audit.current is not None
        assert {each.table for each in audit.current.inputs} == {"shop.orders", "shop.customers"}
    fill(tiny, {1: [1, 2], 2: [2], 3: []}, {1: [1, 2, None], 2: [1, 2, 3], 3: [3, 3]})
    runs = tiny.runs_of("shop.sums")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.customers", [day(1)], RECOLLECT, who="ann")
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id FROM shop.checked ORDER BY id") == [(100,), (101,), (102,), (200,), (201,)]
    assert aside(tiny) == [(second, 202, [RULE]), (third, 300, [RULE]), (third, 301, [RULE])]
    assert tiny.rows("SELECT orders FROM shop.sums ORDER BY timelabel") == [(3,), (2,), (0,)]
    assert tiny.runs_of("shop.sums") == runs + 1  # a label with unchanged rows causes no further recomputation


def test_a_key_that_is_equal_to_several_of_the_parent_as_a_fraction_doubles_no_row(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("shops", "shop INTEGER", [(2**53,), (2**53 + 1,)])
    tiny.source("sales", "sale TEXT, shop REAL, at TEXT", [("s1", float(2**53), "2020-01-01 07:00:00")])
    tiny.declare("""
    COLLECT raw.shops (shop BIGINT KEY) FROM shop.shops EVERY DAY;
    COLLECT raw.sales PARTITIONED (sale KEY, shop DOUBLE, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;
    TRANSFORM marts.sales PARTITIONED (shop REFERENCES raw.shops ELSE QUARANTINE, *) AS SELECT * FROM raw.sales;
    """)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT sale FROM marts.sales") == [("s1",)]


@pytest.mark.parametrize(
    ("ladder", "shown", "told"),
    [
        ("DROP AT MOST 1 ELSE HOLD", [100, 102], {"dropped": 1}),
        ("WARN", [100, 101, 102], {"dropped": 0, "quarantined": 0}),
        ("HOLD", [], {}),
        ("FAIL", [], {}),
    ],
)
def test_a_broken_reference_follows_each_else_action(
    tmp_path: Path, spark: SparkSession, ladder: str, shown: list[int], told: dict[str, int]
) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, {1: [1]}, {1: [1, 7, None]})
    tiny.declare(SOURCES + CHECKED.format(ladder))
    outcome = tiny.run(day(2))
    found = tiny.rows("SELECT id FROM shop.checked ORDER BY id") if shown else []
    assert [id_ for (id_,) in found] == shown
    if told:
        assert not outcome.failed, described(outcome)
        assert counts(tiny, labels(1)[0]).items() >= told.items()
    else:
        code = {"HOLD": "E755", "FAIL": "E740"}[ladder]
        assert [report.error.code for report in outcome.failed if report.error] == [code]
        assert f"{RULE}: 1 of 3 rows have no row in shop.customers" in described(outcome)


def test_a_batch_waits_for_the_parent_and_is_blocked_by_it(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, {1: [1]}, {1: [1]})
    tiny.source("customers", "id INTEGER, at TEXT", [(None, "2020-01-01 01:00:00")])
    tiny.declare(SOURCES + CHECKED.format("QUARANTINE"))
    outcome = tiny.run(day(2))
    assert [report.group.table for report in outcome.failed] == ["shop.customers"]
    assert tiny.done("shop.orders") == labels(1)
    assert tiny.done("shop.checked") == []


def test_keys_of_several_columns_are_found_by_name_and_as_text(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("places", "land TEXT, zip TEXT, at TEXT", [("DE", "010", "2020-01-01"), ("FR", "20", "2020-01-01")])
    tiny.source(
        "orders",
        "id INTEGER, land TEXT, zip INTEGER, at TEXT",
        [
            (1, "DE", 10, "2020-01-01"), (2, "FR", 10, "2020-01-01"), (3, "FR", None, "2020-01-01"),
            (4, "FR", 20, "2020-01-01"), (5, None, 99, "2020-01-01"),
        ],
    )  # fmt: skip
    tiny.declare("""
COLLECT shop.places (land STRING KEY, zip STRING KEY, *) FROM shop.places EVERY DAY BY DATA TIME at MERGE;
COLLECT shop.orders PARTITIONED FROM shop.orders EVERY DAY BY DATA TIME at;
TRANSFORM shop.known AS SELECT land, zip FROM shop.places;
TRANSFORM shop.checked PARTITIONED
  (zip REFERENCES shop.known (zip) ROLE of ELSE QUARANTINE, land REFERENCES shop.known (land) ROLE of, id, *)
WHEN WINDOW_START() < '2020-01-02' AS SELECT * FROM shop.orders
ELSE AS SELECT id, land, zip, at FROM shop.orders;
""")
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id FROM shop.checked ORDER BY id") == [(1,), (3,), (4,), (5,)]
    assert [(id_, broken) for _, id_, broken in aside(tiny)] == [(2, ["(zip, land) REFERENCES shop.known ROLE of"])]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_each_row_is_kept_quarantined_or_dropped_also_after_restatements(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    """Property: random rows and parents, restated at random, give the same result as a lookup in plain Python."""
    chance = Random(seed)
    tiny = Tiny(tmp_path, spark)
    ladder = chance.choice(["QUARANTINE", "DROP"])
    parents: Parents = {at: chance.sample(range(9), chance.randint(0, 3)) for at in (1, 2, 3)}
    orders: Orders = {at: chance.choices([None, *range(9)], k=12) for at in (1, 2, 3)}
    tiny.declare(SOURCES + CHECKED.format(ladder))
    fill(tiny, parents, orders)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    _is_as_by_hand(tiny, parents, orders, ladder)
    for _ in range(2):
        changed = chance.choice([1, 2, 3])
        parents[changed] = chance.sample(range(9), chance.randint(0, 3))
        fill(tiny, parents, orders)
        with tiny.ledger() as ledger:
            ledger.decisions.request_restate("shop.customers", [day(changed)], RECOLLECT, who="ann")
        outcome = tiny.run(day(4))
        assert not outcome.failed, described(outcome)
        _is_as_by_hand(tiny, parents, orders, ladder)


def _is_as_by_hand(tiny: Tiny, parents: Parents, orders: Orders, ladder: str) -> None:
    shown: list[int] = []
    for at, customers in orders.items():
        label = labels(at)[0]
        known = {None, *(id_ for before, ids in parents.items() if before <= at for id_ in ids)}
        stay = [100 * at + place for place, customer in enumerate(customers) if customer in known]
        gone = len(customers) - len(stay)
        shown += stay
        told = counts(tiny, label)
        expected = (12, gone if ladder == "QUARANTINE" else 0, gone if ladder == "DROP" else 0)
        assert (told["in"], told["quarantined"], told["dropped"]) == expected
    assert _ids(tiny.rows("SELECT id FROM shop.checked ORDER BY id")) == shown
    everything = [100 * at + place for at, customers in orders.items() for place in range(len(customers))]
    set_aside = [id_ for _, id_, _ in aside(tiny)]
    assert set_aside == ([id_ for id_ in everything if id_ not in shown] if ladder == "QUARANTINE" else [])


def _ids(rows: Sequence[tuple[Any, ...]]) -> list[int]:
    return [row[0] for row in rows]
