from __future__ import annotations

from tests.unit.cli.conftest import Shop


def test_show_displays_a_tables_declaration_and_current_state(busy_shop: Shop) -> None:
    found = busy_shop.ask("show", "shop.orders", "--rows", "0").stdout
    assert found.startswith("shop.orders  partitioned collect, append, EVERY DAY\nOne row per order\n")
    assert "declared  flows/1_collect.dpl:6:9" in found
    assert "from      shop.orders, by data time" in found
    assert "holds     2 labels, 20 rows made in total" in found
    assert "newest    2024-11-18 (20241118000000), fresh to 2024-11-19 00:00Z" in found
    assert "✕ 1 label failed" in found


def test_columns_are_those_declared_until_there_is_a_table(busy_shop: Shop) -> None:
    told = busy_shop.json("show", "shop.orders", "--rows", "0")
    assert [column["name"] for column in told["columns"]] == ["order_id", "customer_id", "amount", "ordered_at"]
    assert told["columns"][0]["properties"] == "KEY"
    assert told["columns"][2] == {"name": "amount", "type": "DOUBLE", "properties": "EXPECT amount > 0", "comment": ""}
    assert told["is_open"] is False
    assert told["sample"] is None


def test_a_table_that_never_ran_shows_no_rows_and_starts_nothing(busy_shop: Shop) -> None:
    found = busy_shop.ask("show", "web.per_order")
    assert found.exit_code == 0
    assert "holds     nothing yet" in found.stdout
    assert "reads     web.visits, shop.orders" in found.stdout


def test_an_unknown_table_is_refused_with_the_nearest(busy_shop: Shop) -> None:
    found = busy_shop.ask("show", "shop.order")
    assert found.exit_code == 1
    assert "did you mean shop.orders" in found.stderr


def test_show_displays_when_the_first_window_of_an_empty_table_closes(busy_shop: Shop) -> None:
    found = busy_shop.ask("show", "web.per_order", "--rows", "0").stdout
    assert "first     window 2024-11-17, closes 2024-11-18 00:00Z" in found
    assert "first  " not in busy_shop.ask("show", "shop.orders", "--rows", "0").stdout
    assert busy_shop.json("show", "shop.orders", "--rows", "0")["first"]["due"] == "2024-11-18T00:00:00Z"


def test_versions_of_columns_are_shown_once_there_is_more_than_one(shop: Shop) -> None:
    first = {"order_id": "BIGINT", "amount": "BIGINT"}
    shop.done("shop.orders", 17, schema={"source": first, "table": {"order_id": "bigint KEY"}})
    assert "columns" not in shop.ask("show", "shop.orders", "--rows", "0").stdout.splitlines()[-1]
    shop.done("shop.orders", 18, schema={"source": {"order_id": "BIGINT", "amount": "DOUBLE", "note": "STRING"}})
    found = shop.ask("show", "shop.orders", "--rows", "0").stdout
    assert found.endswith(
        "its source's columns\n"
        "  1  since 2024-11-17  the first: 2 columns\n"
        "  2  since 2024-11-18  new: note STRING; changed: amount from BIGINT to DOUBLE\n"
    )
    told = shop.json("show", "shop.orders", "--rows", "0")["schemas"]
    assert [(each["of"], each["version"], each["label"]) for each in told] == [
        ("source", 1, "20241117000000"), ("source", 2, "20241118000000"), ("table", 1, "20241117000000")
    ]  # fmt: skip
    assert (told[1]["new"], told[1]["changed"]) == ({"note": "STRING"}, {"amount": ["BIGINT", "DOUBLE"]})


def test_audit_shows_the_schema_versions_and_new_columns_of_a_batch(shop: Shop) -> None:
    shop.done("shop.orders", 17, schema={"source": {"a": "BIGINT"}, "table": {"a": "bigint"}})
    shop.done("shop.orders", 18)
    shop.done("shop.orders", 19, schema={"source": {"a": "BIGINT", "b": "STRING"}})
    lines = shop.ask("audit", "shop.orders@2024-11-19").stdout
    assert "columns  version 1 of its own columns\n" in lines
    assert "           version 2 of its source's columns: new: b STRING\n" in lines
    assert shop.json("audit", "shop.orders@2024-11-18")["schemas"] == {"source": 1, "table": 1}
