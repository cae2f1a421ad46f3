from __future__ import annotations

from tests.unit.cli.conftest import Shop


def test_a_tables_lineage_is_two_trees(busy_shop: Shop) -> None:
    found = busy_shop.ask("lineage", "sales.by_country").stdout
    up, down = found.index("made from 2 tables"), found.index("went into 1 table")
    assert "shop.orders  collect from shop.orders" in found[up:down]
    assert "out.by_country  publish" in found[down:]


def test_a_columns_lineage_goes_up_to_the_source_and_down_to_what_is_published(busy_shop: Shop) -> None:
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


def test_the_impact_of_a_column_is_told_table_by_table_with_how(busy_shop: Shop) -> None:
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


def test_impact_is_asked_of_a_column_that_there_is(busy_shop: Shop) -> None:
    told = busy_shop.ask("lineage", "shop.orders", "--impact")
    assert "E378 shop.orders is a table, and --impact is asked of a column" in told.stderr
    assert "did you mean amount?" in busy_shop.ask("lineage", "shop.orders.amuont", "--impact").stderr
    assert busy_shop.ask("lineage", "shop.orders.amount", "--impact", "--depth", "1").exit_code == 2
    nothing = busy_shop.ask("lineage", "out.by_country.revenue", "--impact")
    assert "nothing depends on it" in nothing.stdout
