from __future__ import annotations

from tests.unit.cli.conftest import Shop
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.flow.code_lineage import COMPUTED, CodeLineage, Origin


def test_a_tables_lineage_is_two_trees(busy_shop: Shop) -> None:
    found = busy_shop.ask("lineage", "sales.by_country").stdout
    up, down = found.index("made from 2 tables"), found.index("went into 1 table")
    assert "shop.orders  collect from shop.orders" in found[up:down]
    assert "out.by_country  publish" in found[down:]


def test_column_lineage_reaches_up_to_the_source_and_down_to_published_columns(busy_shop: Shop) -> None:
    found = busy_shop.ask("lineage", "sales.by_country.revenue").stdout
    assert "sales.by_country.revenue = ROUND(SUM(o.amount), 2)" in found
    assert "shop.orders.amount  collected from shop.orders" in found
    found = busy_shop.ask("lineage", "shop.customers.country").stdout
    assert "out.by_country.country" in found[found.index("went into") :]


def test_depth_bounds_the_trees(busy_shop: Shop) -> None:
    assert busy_shop.json("lineage", "out.by_country", "--depth", "1")["made_from"] == ["sales.by_country"]
    assert set(busy_shop.json("lineage", "out.by_country")["made_from"]) == {
        "sales.by_country",
        "shop.orders",
        "shop.customers",
    }


def test_the_reads_are_named_with_their_functions(busy_shop: Shop) -> None:
    told = busy_shop.json("lineage", "sales.best_customers")
    assert {"from": "shop.orders", "to": "sales.best_customers", "read": "HISTORY(shop.orders)"} in told["arrows"]
    assert "HISTORY(shop.orders)" in busy_shop.ask("lineage", "sales.best_customers").stdout


def test_an_unknown_column_and_an_unknown_table_are_refused_with_the_nearest(busy_shop: Shop) -> None:
    found = busy_shop.ask("lineage", "shop.orders.amuont")
    assert found.exit_code == 1
    assert "E517 shop.orders has no column amuont" in found.stderr
    assert "did you mean amount?" in found.stderr
    assert "did you mean shop.orders" in busy_shop.ask("lineage", "shop.order.amount").stderr
    assert "did you mean shop.orders" in busy_shop.ask("lineage", "shop.ordres").stderr


def test_impact_of_a_column_lists_each_dependent_table_and_how_it_depends(busy_shop: Shop) -> None:
    found = busy_shop.ask("lineage", "shop.orders.amount", "--impact").stdout
    assert "depend on it" in found.splitlines()[0]
    assert "sales.by_country  transform  owner you@example.com" in found
    assert "revenue is computed from it" in found
    assert "out.by_country  publish to out.by_country" in found
    assert "through sales.by_country" in found


def test_the_impact_of_a_column_for_scripts(busy_shop: Shop) -> None:
    told = busy_shop.json("lineage", "shop.orders.amount", "--impact")
    assert told["column"] == "shop.orders.amount"
    by = {each["table"]: each for each in told["impact"]}
    assert by["sales.by_country"]["columns"] == {"revenue": "computed", "large": "computed"}
    assert by["sales.by_country"]["is_sure"] is True
    assert by["out.by_country"]["to"] == "out.by_country"
    assert by["out.by_country"]["through"] == ["sales.by_country"]


def test_impact_requires_an_existing_column(busy_shop: Shop) -> None:
    told = busy_shop.ask("lineage", "shop.orders", "--impact")
    assert "E378 shop.orders is a table, and --impact needs a column" in told.stderr
    assert "did you mean amount?" in busy_shop.ask("lineage", "shop.orders.amuont", "--impact").stderr
    assert busy_shop.ask("lineage", "shop.orders.amount", "--impact", "--depth", "1").exit_code == 2
    nothing = busy_shop.ask("lineage", "out.by_country.revenue", "--impact")
    assert "nothing depends on it" in nothing.stdout


GRADES = """
import waterclock as wc


def graded(batches):
    for rows in batches:
        yield rows.assign(grade=rows.amount.floordiv(100))


@wc.transform("sales.grades", partitioned=True)
def grades(orders: wc.DataFrame = wc.table("shop.orders")) -> wc.DataFrame:
    made = orders.select("order_id", "amount").mapInPandas(graded, "order_id BIGINT, amount DOUBLE, grade BIGINT")
    return orders.select("order_id", "customer_id").join(made, "order_id")
"""
ID, CUSTOMER, AMOUNT = (("shop.orders", name) for name in ("order_id", "customer_id", "amount"))
SHOWN = CodeLineage(
    {
        "order_id": Origin(frozenset({ID})),
        "customer_id": Origin(frozenset({CUSTOMER})),
        "grade": Origin(frozenset(), frozenset({ID, AMOUNT}), COMPUTED, frozenset({"mapInPandas"})),
    },
    {"join": frozenset({ID}), "may read": frozenset({ID, AMOUNT})},
)


def with_grades(shop: Shop, *, is_shown: bool) -> None:
    (shop.folder / "flows" / "grades.py").write_text(GRADES)
    if is_shown:
        code = load_project(shop.folder, capabilities=capabilities()).flow.tables["sales.grades"].fingerprint
        shop.ledger.lineage.record_code_lineage("sales.grades", code, SHOWN)


def test_lineage_follows_a_python_transform_and_marks_unknown_columns_as_maybe(busy_shop: Shop) -> None:
    with_grades(busy_shop, is_shown=True)
    found = busy_shop.ask("lineage", "sales.grades.customer_id", width=120).stdout
    assert "made from sales.grades.customer_id = shop.orders.customer_id  by grades in flows/grades.py" not in found
    assert "made from sales.grades.customer_id  by grades in flows/grades.py" in found
    assert "└── shop.orders.customer_id  collected from shop.orders" in found
    found = busy_shop.ask("lineage", "sales.grades.grade", width=120).stdout
    assert "sales.grades.grade  by grades in flows/grades.py, where mapInPandas cannot be looked into" in found
    assert "├── shop.orders.amount  maybe  collected from shop.orders" in found
    told = busy_shop.json("lineage", "sales.grades.grade")["made_from"]["beyond"]
    assert [(each["column"], each["is_unknown"]) for each in told] == [("amount", True), ("order_id", True)]
    down = busy_shop.json("lineage", "shop.orders.customer_id")["went_into"]["beyond"]
    assert ("sales.grades", "customer_id", False) in [(x["table"], x["column"], x["is_unknown"]) for x in down]


def test_impact_of_a_column_includes_python_transforms(busy_shop: Shop) -> None:
    with_grades(busy_shop, is_shown=True)
    by = {each["table"]: each for each in busy_shop.json("lineage", "shop.orders.amount", "--impact")["impact"]}
    assert by["sales.grades"]["columns"] == {"grade": "may read"}
    assert by["sales.grades"]["why"] == ["mapInPandas cannot be looked into"]
    assert by["sales.grades"]["is_sure"] is False
    by = {each["table"]: each for each in busy_shop.json("lineage", "shop.orders.customer_id", "--impact")["impact"]}
    assert by["sales.grades"]["columns"] == {"customer_id": "copied"}
    assert by["sales.grades"]["uses"] == []


def test_before_a_batch_has_shown_its_plan_all_of_a_python_transform_is_maybe(busy_shop: Shop) -> None:
    with_grades(busy_shop, is_shown=False)
    told = busy_shop.json("lineage", "sales.grades.grade")["made_from"]
    assert [(each["column"], each["is_unknown"]) for each in told["beyond"]] == [("*", True)]
    assert "cannot be looked into" in told["note"]
    busy_shop.ledger.close()
    busy_shop.ledger_file.write_bytes(b"no ledger")
    assert busy_shop.json("lineage", "sales.grades.grade")["made_from"] == told
