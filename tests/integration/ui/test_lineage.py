from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from starlette.testclient import TestClient

from tests import stocks


def told(page: TestClient, path: str, **asked: str) -> dict[str, Any]:
    found: dict[str, Any] = page.get(f"{path}.json", params=asked).json()
    return found


def tables(found: dict[str, Any]) -> set[str]:
    return {node["id"] for node in found["nodes"] if node["kind"] == "table"}


def bad(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(edge["from"], edge["to"]) for edge in found["edges"] if edge["is_bad"]}


def sentence(parts: list[dict[str, str]]) -> str:
    return "".join(part["text"] for part in parts)


def test_all_tables_are_drawn_from_left_to_right_each_in_its_state(page: TestClient) -> None:
    found = told(page, "/lineage")
    nodes = {node["id"]: node for node in found["nodes"]}
    assert len(nodes) == 29
    assert all(nodes[edge["from"]]["x"] < nodes[edge["to"]]["x"] for edge in found["edges"])
    states = {name: nodes[name]["state"] for name in ("raw.inventory", "marts.revenue", "raw.sites")}
    assert states == {"raw.inventory": "failed", "marts.revenue": "blocked", "raw.sites": "ok"}
    assert [bar["state"] for bar in nodes["marts.revenue"]["strip"]] == ["ok", "blocked"]
    assert sentence(found["title"]).startswith("Two failures hold up 11 batches")


def test_edges_from_a_failed_table_to_the_blocked_ones_are_marked(page: TestClient) -> None:
    assert bad(told(page, "/lineage", t="+marts.margin")) == {
        ("raw.prices", "core.price_history"),
        ("core.price_history", "marts.revenue"),
        ("marts.revenue", "marts.margin"),
    }


def test_around_a_table_are_its_neighbours_and_how_much_more_there_is(page: TestClient) -> None:
    found = told(page, "/lineage/marts.revenue")
    near = {"core.sales_daily", "core.price_history", "marts.revenue", "marts.margin", "reports.board_kpis"}
    assert tables(found) == near
    assert sentence(found["title"]) == "marts.revenue is made from 5 tables and went into 2 tables."
    assert sentence(found["more"]) == "Fresh to 19 Nov · 1 late; a batch is blocked by raw.prices."
    more = {node["id"]: node for node in found["nodes"] if node["kind"] == "more"}
    assert {key: node["name"] for key, node in more.items()} == {
        "<core.price_history": "+1 more",
        "<core.sales_daily": "+2 more",
        "<reports.board_kpis": "+1 more",
        ">core.price_history": "+1 more",
        ">core.sales_daily": "+4 more",
    }
    assert ("<core.price_history", "core.price_history") in bad(found)  # the failure is beyond it
    opened = page.get(more["<core.sales_daily"]["address"].replace("?", ".json?")).json()
    assert tables(opened) >= near | {"raw.sales_lines", "raw.products"}


def test_steps_are_counted_each_way_and_end_where_there_is_no_more(page: TestClient) -> None:
    one = told(page, "/lineage/raw.inventory")
    assert (one["fewer"], one["further"]) == ("", "/lineage/raw.inventory?depth=2")
    two = told(page, "/lineage/raw.inventory", depth="2")
    assert tables(two) == {"raw.inventory", "core.stock_daily", "marts.stock_health", "marts.forecast_input"}
    assert two["fewer"] == "/lineage/raw.inventory"
    assert told(page, "/lineage/raw.inventory", depth="4")["further"] == ""
    for depth in ("0", "-1", "x", "²", "9" * 5000):
        answer = page.get("/lineage/raw.inventory", params={"depth": depth})
        assert (answer.status_code, "cannot be drawn" in answer.text) == (422, True)


def test_the_path_between_two_tables_is_the_same_in_both_directions(page: TestClient) -> None:
    between = {"raw.inventory", "core.stock_daily", "marts.forecast_input", "marts.stock_health", "marts.out_of_stock"}
    found = told(page, "/lineage/raw.inventory", to="reports.reorder_list")
    assert tables(found) == between | {"reports.reorder_list"}
    assert sentence(found["title"]) == "4 tables are between raw.inventory and reports.reorder_list."
    assert tables(told(page, "/lineage/reports.reorder_list", to="raw.inventory")) == tables(found)
    apart = told(page, "/lineage/raw.sites", to="raw.orders")
    assert sentence(apart["title"]) == "Neither of raw.sites and raw.orders is made from the other."
    assert page.get("/lineage/raw.sites", params={"to": "raw.ordrs"}).status_code == 404


def test_the_list_view_has_the_same_tables_indented_below_their_inputs(page: TestClient) -> None:
    found = told(page, "/lineage", view="list", t="raw.inventory+")
    rows = [(row["indent"], row["id"]) for row in found["rows"]]
    assert rows[:3] == [(0, "raw.inventory"), (1, "core.stock_daily"), (2, "marts.stock_health")]
    assert {name for _, name in rows} == tables(found)
    as_page = page.get("/lineage", params={"view": "list", "t": "raw.inventory+"}).text
    assert "<svg id" not in as_page
    assert 'href="/lineage/core.stock_daily?view=list"' in as_page


def test_the_drawing_is_made_of_links_and_needs_no_script(page: TestClient) -> None:
    text = page.get("/lineage/marts.revenue").text
    assert 'href="/lineage/marts.margin"' in text
    assert 'href="/tables/marts.revenue"' in text  # the table in the center links to its own page
    assert "style=" not in text
    assert text.count("<script") == text.count("<script src=")
    assert 'aria-label="marts.margin: blocked, fresh to 19 Nov · 1 late"' in text


def test_a_column_is_followed_both_ways_with_its_expressions(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    flow = stocks.FLOW + (
        "TRANSFORM core.sales PARTITIONED EVERY DAY AS SELECT sku, qty * 2 AS double FROM raw.prices;\n"
        "TRANSFORM marts.sales PARTITIONED EVERY DAY AS SELECT sku, sum(double) AS total FROM core.sales "
        "GROUP BY sku;\n"
    )
    page = served(stocks.make(tmp_path / "new", flow=flow).folder)
    found = told(page, "/lineage/core.sales", column="DOUBLE")
    assert sentence(found["title"]) == "core.sales.double is made from 1 column and went into 1 column."
    made = {node["id"]: node["expression"] for node in found["nodes"]}
    assert (made["core.sales.double"], made["marts.sales.total"]) == ("prices.qty * 2", "SUM(sales.double)")
    assert {(edge["from"], edge["to"]) for edge in found["edges"]} == {
        ("raw.prices.qty", "core.sales.double"),
        ("core.sales.double", "marts.sales.total"),
    }
    assert [tree["name"] for tree in found["trees"]] == ["Made from", "Went into"]
    assert page.get("/lineage/core.sales", params={"column": "double"}).status_code == 200
    wrong = page.get("/lineage/core.sales", params={"column": "dubble"})
    assert (wrong.status_code, "did you mean double?" in wrong.text) == (404, True)


@pytest.mark.parametrize("path", ["/lineage", "/lineage/marts.revenue"])
def test_a_drawing_can_be_taken_away_with_its_colours(page: TestClient, path: str) -> None:
    answer = page.get(f"{path}.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "attachment" in answer.headers["content-disposition"]
    drawn = ET.fromstring(answer.text)
    assert not [each for each in drawn.iter() if {"class", "style", "href"} & set(each.attrib)]
    assert "#a3123a" in answer.text


def test_many_tables_are_drawn_as_their_schemas_first(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    many = "".join(stocks.statement(f"core.t{number}", ("raw.sites",)) for number in range(150))
    flow = stocks.FLOW + many + stocks.statement("marts.all", ("core.t1", "core.t2"))
    page = served(stocks.make(tmp_path / "many", flow=flow).folder)
    found = told(page, "/lineage")
    assert {node["id"]: node["under"] for node in found["nodes"]} == {
        "raw": "9 tables", "core": "150 tables", "marts": "1 table",
    }  # fmt: skip
    assert {(edge["from"], edge["to"], edge["read"]) for edge in found["edges"]} == {
        ("raw", "core", "150 arrows"), ("core", "marts", "2 arrows"),
    }  # fmt: skip
    text = page.get("/lineage").text
    assert "160 tables are drawn as their 3 schemas" in text
    assert 'href="/lineage?t=core.%2A"' in text
    assert len(tables(told(page, "/lineage", all="1"))) == 160
    assert len(tables(told(page, "/lineage", t="core.*"))) == 150


def test_expressions_are_written_as_text_in_the_drawing_too(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    flow = stocks.FLOW + (
        "TRANSFORM core.odd PARTITIONED EVERY DAY AS SELECT concat(sku, '<b>&') AS marked FROM raw.sites;\n"
    )
    page = served(stocks.make(tmp_path / "odd", flow=flow).folder)
    for path in ("/lineage/core.odd", "/lineage/core.odd.svg"):
        answer = page.get(path, params={"column": "marked"})
        assert "&lt;b&gt;&amp;" in answer.text
        assert "<b>&" not in answer.text
    ET.fromstring(answer.text)
    assert "<script>" not in page.get("/lineage", params={"t": "raw.sites", "l": "<script>"}).text


def test_every_page_of_a_table_leads_to_its_lineage(page: TestClient) -> None:
    assert re.search(r'<a href="/lineage"[^>]*>Lineage</a>', page.get("/").text)
    for path in ("/tables/marts.revenue", "/batches/marts.revenue/2026-11-09"):
        assert 'href="/lineage/marts.revenue"' in page.get(path).text
