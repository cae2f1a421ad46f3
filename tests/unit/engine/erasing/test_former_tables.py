"""Tables that the flow does not declare any more are found by their last declarations, or named with the reason."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.keys import DECLARED, VARIABLES
from waterclock.dpl.former_tables import compile_former_flow
from waterclock.engine.erasing import former_tables
from waterclock.engine.erasing.former_tables import FormerTable, find_former_tables
from waterclock.engine.erasing.request import ErasureRequest, build_request
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import open_project

NOW = datetime(2024, 1, 3, tzinfo=UTC)
ORDERS = """COLLECT raw.orders PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, seller BIGINT)
  FROM project.`data/*.csv` EVERY DAY START '2024-01-01' BY ARRIVAL TIME;
"""
SOLD = "TRANSFORM marts.sold PARTITIONED AS SELECT buyer AS client FROM raw.orders;\n"
VIEW = "CREATE VIEW raw.some AS SELECT buyer AS client, id FROM raw.orders;\n"
OF_VIEW = "TRANSFORM marts.sold PARTITIONED AS SELECT client FROM raw.some;\n"
PYTHON = """import waterclock as wc

@wc.transform("marts.sold", partitioned=True)
def sold(orders: wc.DataFrame = wc.table("raw.orders")) -> wc.DataFrame:
    return orders
"""


class Shop:
    """A project whose flows were applied one after another; each table once made has a folder. No Spark."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "flows").mkdir()
        (root / "waterclock.toml").write_text('[project]\nname = "shop"\n')

    def declare(self, *statements: str, python: str = "") -> None:
        (self.root / "flows" / "all.dpl").write_text("".join([DECLARED, "\n", *statements]))
        code = self.root / "flows" / "code.py"
        code.unlink(missing_ok=True)
        if python:
            code.write_text(python)
        with open_workplace(open_project(self.root, None)) as work:
            apply_flow(work, NOW)
            for table in work.flow.tables.values():
                Path(work.folder(table)).mkdir(parents=True, exist_ok=True)

    def request(self, *values: str, subject: str = "customer") -> ErasureRequest:
        with open_workplace(open_project(self.root, None)) as work:
            return build_request(work, subject, values or ("42",))

    def former(self) -> dict[str, FormerTable]:
        return {each.name: each for each in self.request().former}

    def reason(self, table: str = "marts.sold") -> str:
        return self.former()[table].reason


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return Shop(tmp_path)


def test_a_removed_table_has_the_columns_of_its_last_declaration(shop: Shop) -> None:
    shop.declare(ORDERS, SOLD.replace("client", "reader"))
    shop.declare(ORDERS, SOLD)
    assert shop.former() == {}
    shop.declare(ORDERS)
    request = shop.request()
    [found] = request.former
    assert (found.name, found.columns, found.reason) == ("marts.sold", ("client",), "")
    assert request.columns.columns["marts.sold"] == ("client",)
    assert request.persons("marts.sold", ["raw.orders"]).columns == ("client",)
    shutil.rmtree(found.folder)
    assert shop.former() == {}


def test_rows_of_its_inputs_are_searched_by_the_columns_of_that_time(shop: Shop) -> None:
    shop.declare(ORDERS.replace("buyer", "who"), SOLD.replace("buyer", "who"))
    shop.declare(ORDERS)
    request = shop.request()
    assert set(request.persons("marts.sold", ["raw.orders"]).inputs["raw.orders"]) == {"who", "buyer"}
    assert request.persons("raw.orders").columns == ("buyer",)


def test_a_subject_that_was_declared_later_is_found_as_well(shop: Shop) -> None:
    shop.declare(ORDERS.replace(" SUBJECT customer", ""), SOLD)
    shop.declare(ORDERS)
    assert shop.former()["marts.sold"].columns == ("client",)


def test_a_subject_that_no_table_declares_any_more_can_be_erased(shop: Shop) -> None:
    shop.declare(ORDERS, SOLD)
    shop.declare(ORDERS.replace("raw.orders", "raw.other").replace(" SUBJECT customer", ""))
    request = shop.request("0042")
    assert request.columns.columns == {"raw.orders": ("buyer",), "marts.sold": ("client",)}
    assert request.values == {"42"}, "the type is that of the former column"
    with pytest.raises(WaterclockError) as caught:
        shop.request(subject="clerk")
    assert caught.value.code == "E460"


def test_a_table_without_rows_of_persons_is_no_place(shop: Shop) -> None:
    shop.declare(ORDERS, ORDERS.replace("raw.orders", "raw.items").replace(" SUBJECT customer", ""))
    shop.declare(ORDERS)
    assert (shop.former()["raw.items"].columns, shop.reason("raw.items")) == ((), "")


def test_a_declaration_that_does_not_compile_is_a_reason(shop: Shop) -> None:
    shop.declare(ORDERS, VIEW, OF_VIEW)
    shop.declare(ORDERS)
    assert shop.reason().startswith("its last declaration has errors: E213 unknown table raw.some")


def test_a_view_that_changed_is_a_reason(shop: Shop) -> None:
    shop.declare(ORDERS, VIEW, OF_VIEW)
    shop.declare(ORDERS, VIEW.replace("buyer AS client", "id AS client"))
    assert shop.reason() == "its last declaration reads a view, function or variable that changed since"


def test_a_changed_view_between_two_removed_tables_is_a_reason_for_both(shop: Shop) -> None:
    reader = "TRANSFORM marts.top PARTITIONED AS SELECT client FROM marts.sold;\n"
    shop.declare(ORDERS, VIEW, OF_VIEW, reader)
    shop.declare(ORDERS, VIEW.replace("buyer AS client", "id AS client"))
    why = "reads a view, function or variable that changed since"
    assert shop.reason("marts.top") == f"the declaration of marts.sold at that time {why}"
    assert shop.reason() == f"its last declaration {why}"


def test_a_column_that_got_another_name_is_a_reason(shop: Shop) -> None:
    old = ORDERS.replace("buyer BIGINT SUBJECT customer", "who BIGINT")
    shop.declare(old, SOLD.replace("buyer", "who"))
    shop.declare(ORDERS)
    assert shop.reason() == "it cannot be searched: made from raw.orders; no column identifies the person"


def test_a_table_in_python_is_a_reason(shop: Shop) -> None:
    shop.declare(ORDERS, python=PYTHON)
    shop.declare(ORDERS)
    assert shop.reason() == "its last declaration is no COLLECT or TRANSFORM in SQL"


def test_a_view_of_the_same_name_hides_no_table(shop: Shop) -> None:
    shop.declare(ORDERS, SOLD)
    shop.declare(ORDERS, "CREATE VIEW marts.sold AS SELECT seller AS client FROM raw.orders;\n")
    assert shop.former()["marts.sold"].columns == ("client",)


def test_a_link_is_followed_unless_it_leads_nowhere(shop: Shop, tmp_path: Path) -> None:
    shop.declare(ORDERS, SOLD)
    shop.declare(ORDERS)
    folder, disk = Path(shop.former()["marts.sold"].folder), tmp_path / "disk"
    folder.rename(disk)
    folder.symlink_to(disk, target_is_directory=True)
    assert shop.former()["marts.sold"].columns == ("client",)
    disk.rename(tmp_path / "unmounted")
    assert shop.reason() == "its folder is a link that leads nowhere"


def test_many_removed_tables_need_one_compilation(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [SOLD.replace("marts.sold", f"marts.sold_{number}") for number in range(12)]
    shop.declare(ORDERS, *tables)
    for kept in range(10, 0, -3):
        shop.declare(ORDERS, *tables[:kept])
    changed = tables[0].replace("client", "person")
    shop.declare(ORDERS, changed)
    shop.declare(ORDERS)
    compiled = []

    def counted(*given: Any) -> Any:
        compiled.append(given[1])
        return compile_former_flow(*given)

    monkeypatch.setattr(former_tables, "compile_former_flow", counted)
    found = shop.former()
    assert {name: each.columns for name, each in found.items()} == {
        f"marts.sold_{number}": ("client",) if number else ("person",) for number in range(12)
    }
    assert compiled == ["marts.sold_0"], "its declaration is the last one, and the others are known at that time"


def test_without_removed_tables_no_declaration_is_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.declare(ORDERS, SOLD)
    known = shop.request().columns
    with open_workplace(open_project(shop.root, None)) as work:
        monkeypatch.setattr(former_tables, "_History", None)
        assert find_former_tables(work, "customer", known) == ()


def test_a_delivery_of_the_same_name_hides_no_table(shop: Shop) -> None:
    """Another kind of table is refused with E405, unless the table was reset before."""
    publish = "CREATE CONNECTION marts TYPE sqlite OPTIONS (path 'out.sqlite');\nPUBLISH raw.orders TO marts.sold;\n"
    shop.declare(ORDERS, publish)
    assert shop.former() == {}
    shop.declare(ORDERS, SOLD.replace("sold", "old"))
    assert shop.former() == {}
    shop.declare(ORDERS, publish.replace("marts.sold", "marts.old"))
    assert shop.reason("marts.old") == "its last declaration is no COLLECT or TRANSFORM in SQL"
