"""Slices that earlier code of a table made are searched by the columns that were the subject's at that time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.erasing.test_erasing import erased, keys, places_with, run
from tests.keys import DECLARED
from tests.tiny import Tiny, day
from waterclock.engine.erasing.erasing import plan_erasure
from waterclock.engine.erasing.request import build_request
from waterclock.engine.maintenance.reset import prepare_reset, reset
from waterclock.engine.run_opening import apply_flow
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["keys"]  # a fixture of all tests

# short numbers: the search of bytes counts them in columns of the subject only
ERASED, OTHER = 42424242, 53535353
ORDERS = """COLLECT raw.orders PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at;
"""
GOODS = """COLLECT raw.goods PARTITIONED (id BIGINT, owner BIGINT, at TIMESTAMP)
  FROM shop.goods EVERY DAY BY DATA TIME at;
"""
OF_ORDERS = "PARTITIONED AS SELECT id, buyer AS client FROM raw.orders"
OF_GOODS = "PARTITIONED AS SELECT id, owner AS client FROM raw.goods"
MERGED = "(id BIGINT KEY, *) MERGE AS SELECT id, buyer AS client FROM raw.orders"


def project(root: Path, spark: SparkSession) -> Tiny:
    tiny = Tiny(root, spark)
    times = ("2020-01-01 10:00:00", "2020-01-02 10:00:00")
    rows = [(2 * index + shift, who, at) for index, at in enumerate(times) for shift, who in enumerate((ERASED, OTHER))]
    tiny.source("orders", "id INT, buyer INT, at TEXT", rows)
    # the number of a person is that of an owner, too, who is no person
    tiny.source("goods", "id INT, owner INT, at TEXT", [(number + 100, who, at) for number, who, at in rows])
    return tiny


def declare(tiny: Tiny, *marts: str, orders: str = ORDERS) -> None:
    tables = "".join(f"TRANSFORM marts.t{number} {text};\n" for number, text in enumerate(marts))
    tiny.declare(DECLARED + orders + GOODS + tables)


def start_over(tiny: Tiny, *tables: str) -> None:
    with tiny.opened() as work:
        apply_flow(work, day(3))
        for table in tables:
            todo = prepare_reset(work, table)
            assert todo is not None
            reset(work, todo, why="a test")


def files_of_persons(tiny: Tiny) -> list[str]:
    return [place for place in places_with(tiny, ERASED) if "tables/raw/goods/" not in place]


@pytest.mark.parametrize(
    ("before", "after", "is_reset"),
    [
        pytest.param(OF_ORDERS, "PARTITIONED AS SELECT id, buyer AS person FROM raw.orders", True, id="other column"),
        pytest.param(OF_ORDERS, "PARTITIONED AS SELECT id, 7 AS client FROM raw.goods", True, id="other input"),
        pytest.param(OF_ORDERS, "PARTITIONED AS SELECT id, 7 AS client FROM raw.goods", False, id="mixed labels"),
        pytest.param(MERGED, "(id BIGINT KEY, *) MERGE AS SELECT id FROM raw.goods", False, id="state"),
    ],
)
@pytest.mark.sampled(2)
def test_no_slice_of_earlier_code_keeps_the_person(
    tmp_path: Path, spark: SparkSession, before: str, after: str, *, is_reset: bool
) -> None:
    tiny = project(tmp_path, spark)
    declare(tiny, before)
    run(tiny, 2)
    declare(tiny, after)
    if is_reset:
        start_over(tiny, "marts.t0")
    run(tiny, 3)
    kept = sorted(tiny.rows("SELECT * FROM marts.t0"), key=repr)
    assert [place for place in files_of_persons(tiny) if "marts/t0" in place]
    with tiny.opened() as work:
        found = plan_erasure(work, build_request(work, "customer", [str(ERASED)]), continues=False).tables
    assert "client" in {each.table: each.columns for each in found}["marts.t0"]
    assert erased(tiny, ERASED).left == ()
    assert files_of_persons(tiny) == []
    assert sorted(tiny.rows("SELECT * FROM marts.t0"), key=repr) == [row for row in kept if ERASED not in row]


def test_a_former_table_is_searched_by_all_its_codes(tmp_path: Path, spark: SparkSession) -> None:
    """Its last declaration read no rows of persons."""
    tiny = project(tmp_path, spark)
    declare(tiny, OF_ORDERS)
    run(tiny, 2)
    declare(tiny, "PARTITIONED AS SELECT id, 7 AS client FROM raw.goods")
    run(tiny, 3)
    declare(tiny)
    assert erased(tiny, ERASED).left == ()
    assert files_of_persons(tiny) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("is_declared", [True, False])
def test_an_equal_number_in_slices_of_earlier_code_stays(
    tmp_path: Path, spark: SparkSession, *, is_declared: bool
) -> None:
    """The column got its meaning later: its earlier values are those of owners, in this table and in a former one."""
    tiny = project(tmp_path, spark)
    declare(tiny, OF_GOODS, "PARTITIONED AS SELECT id, owner AS boss FROM raw.goods")
    run(tiny, 2)
    wanted = tiny.rows("SELECT id, client FROM marts.t0") + tiny.rows("SELECT id, boss FROM marts.t1")
    declare(tiny, *([OF_ORDERS] if is_declared else []))
    run(tiny, 3)
    erased(tiny, ERASED)
    declare(tiny, OF_GOODS, "PARTITIONED AS SELECT id, owner AS boss FROM raw.goods")
    rows = "SELECT id, {} FROM {} WHERE timelabel = '20200101000000'"
    assert tiny.rows(rows.format("client", "marts.t0")) + tiny.rows(rows.format("boss", "marts.t1")) == wanted


def test_a_table_that_is_declared_anew_keeps_equal_numbers(tmp_path: Path, spark: SparkSession) -> None:
    """The column of its name was recorded with the erasure, and copies now another one, which is no person's."""
    tiny = project(tmp_path, spark)
    declare(tiny, OF_ORDERS)
    run(tiny, 2)
    erased(tiny, ERASED)
    declare(tiny, OF_GOODS)
    run(tiny, 3)
    assert ERASED in {row[0] for row in tiny.rows("SELECT client FROM marts.t0")}
    assert ERASED not in {row[0] for row in tiny.rows("SELECT buyer FROM raw.orders")}


def test_a_subject_whose_type_changed_is_searched_in_both_types(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark)
    declare(tiny, OF_ORDERS)
    run(tiny)
    declare(tiny, orders=ORDERS.replace("buyer BIGINT", "buyer STRING"))
    start_over(tiny, "raw.orders")
    tiny.shop(f"UPDATE orders SET buyer = 'ada.lovelace' WHERE buyer = {ERASED} AND id > 1")
    run(tiny)
    with tiny.opened() as work:
        request = build_request(work, "customer", ["ada.lovelace", f"00{ERASED}"])
        assert request.values == {"ada.lovelace", f"00{ERASED}"}
        plan = plan_erasure(work, request, continues=False)
    # the text is that of another person, and the number is the same
    found = {each.table: (each.rows, each.older_rows) for each in plan.tables}
    assert found == {"raw.orders": (1, 2), "marts.t0": (2, 0)}
    with tiny.opened() as work, pytest.raises(WaterclockError, match="E460"):
        build_request(work, "clerk", ["7"])
