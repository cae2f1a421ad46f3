from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from starlette.testclient import TestClient

from tests import stocks


def test_each_rule_is_shown_over_its_newest_batches_with_what_it_said_last(page: TestClient) -> None:
    told = page.get("/quality.json", params={"t": "raw.weather"}).json()
    [few, sku] = sorted(told["rules"], key=lambda rule: str(rule["rule"]))
    assert (few["rule"], few["expression"], few["else"]) == ("few_rows", "count(*) > 100", "warn")
    assert [(piece["state"], piece["columns"]) for piece in few["pieces"]] == [
        ("ok", 27), ("warned", 1), ("ok", 12), ("warned", 1), ("ok", 19),
    ]  # fmt: skip
    assert (few["said"], few["said_at"]) == ("few_rows: 3 of 9000 rows", "1 Nov")
    assert (sku["rule"], sku["else"]) == ("sku", "fail")
    assert told["broken"] == 0
    assert "All 2 rules hold" in page.get("/quality", params={"t": "raw.weather"}).text


def test_a_rule_that_refused_the_newest_batch_comes_first_and_is_newly_broken(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    shop = stocks.make(tmp_path / "shop")
    error = "E740 raw.weather is not as expected: few_rows: the batch is not (count(*) > 100)"
    shop.fails = {("raw.weather", stocks.NOW.replace(day=20, hour=0, minute=0)): error}
    shop.fill(until=stocks.NOW)
    told = served(shop.folder).get("/quality.json").json()
    assert (told["rules"][0]["rule"], told["rules"][0]["state"], told["rules"][0]["since"]) == (
        "few_rows", "failed", "20 Nov",
    )  # fmt: skip
    assert [each["rule"] for each in told["newly_broken"]] == ["few_rows"]


def test_a_rule_that_holds_back_an_older_batch_is_broken_though_newer_ones_hold(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    shop = stocks.make(tmp_path / "shop")
    error = "E740 raw.weather is not as expected: few_rows: the batch is not (count(*) > 100)"
    shop.fails = {("raw.weather", stocks.NOW.replace(day=12, hour=0, minute=0)): error}
    shop.fill(until=stocks.NOW)
    told = served(shop.folder).get("/quality.json").json()
    assert (told["rules"][0]["rule"], told["rules"][0]["since"], told["broken"]) == ("few_rows", "12 Nov", 1)
    assert (told["newly_broken"], told["newly_mended"]) == ([], [])


def test_a_project_without_rules_is_shown_how_to_write_one(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    collect = "COLLECT raw.orders PARTITIONED (sku STRING, at TIMESTAMP) FROM erp.orders EVERY DAY BY DATA TIME at;"
    flow = f"CREATE CONNECTION erp TYPE sqlite;\n{collect}\n"
    page = served(stocks.make(tmp_path / "shop", flow=flow).folder)
    assert "No rule is declared yet" in page.get("/quality").text
