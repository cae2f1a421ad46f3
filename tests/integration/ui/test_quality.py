from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests import stocks


def test_each_rule_is_shown_over_its_newest_batches_with_its_last_message(page: TestClient) -> None:
    told = page.get("/quality.json", params={"t": "raw.weather"}).json()
    [few, sku] = sorted(told["rules"], key=lambda rule: str(rule["rule"]))
    assert (few["rule"], few["expression"], few["else"]) == ("few_rows", "count(*) > 100", "warn")
    assert [(piece["state"], piece["columns"]) for piece in few["pieces"]] == [
        ("ok", 27), ("warned", 1), ("ok", 12), ("warned", 1), ("ok", 19),
    ]  # fmt: skip
    assert (few["message"], few["message_at"]) == ("few_rows: 3 of 9000 rows", "1 Nov")
    assert (sku["rule"], sku["else"]) == ("sku", "fail")
    assert told["broken"] == 0
    assert "All 2 rules hold" in page.get("/quality", params={"t": "raw.weather"}).text


def test_a_rule_that_failed_the_newest_batch_is_listed_first_as_newly_broken(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    shop = stocks.make(tmp_path / "shop", flow=stocks.DAILY)
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
    shop = stocks.make(tmp_path / "shop", flow=stocks.DAILY)
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


HERE = {"Origin": "http://localhost"}
NOTE = {"table": "raw.weather", "rule": "few_rows", "text": "known: the supplier sends late on Mondays", "who": "bo"}
REFUSED = "E740 raw.weather is not as expected: few_rows: the batch is not (count(*) > 100)"


def test_a_note_is_shown_with_its_rule_and_with_the_batch_that_broke_it(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    shop = stocks.make(tmp_path / "shop", flow=stocks.DAILY)
    shop.fails = {("raw.weather", stocks.NOW.replace(day=20, hour=0, minute=0)): REFUSED}
    shop.fill(until=stocks.NOW)
    page = served(shop.folder)
    answer = page.post("/quality", data=NOTE | {"t": "raw.*"}, headers=HERE, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/quality?t=raw.%2A")
    told = page.get("/quality.json").json()["rules"][0]
    assert (told["rule"], told["note"]["text"], told["note"]["who"]) == ("few_rows", NOTE["text"], "bo")
    assert page.get("/batches/raw.weather/2026-11-20.json").json()["notes"] == [told["note"]]
    assert page.get("/batches/raw.weather/2026-11-19.json").json()["notes"] == []
    for path in ("/quality", "/batches/raw.weather/2026-11-20"):
        assert NOTE["text"] in page.get(path).text
    with shop.ledger() as ledger:
        events = [event for event in ledger.past.rows("events") if event["kind"] == "rule noted"]
    assert [(event["table"], event["who"], event["data"]) for event in events] == [
        ("raw.weather", "bo", f'{{"rule": "few_rows", "text": "{NOTE["text"]}"}}')
    ]


def test_a_rule_is_noted_by_the_name_that_it_has(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    flow = stocks.FLOW.replace("AS few_rows", "AS `few  rows`")
    shop = stocks.make(tmp_path / "shop", flow=flow)
    shop.fill(until=stocks.FIRST + timedelta(days=2))
    page = served(shop.folder)
    page.post("/quality", data=NOTE | {"rule": "few  rows"}, headers=HERE)
    notes = {each["rule"]: each["note"] for each in page.get("/quality.json?t=raw.weather").json()["rules"]}
    assert notes["few  rows"]["text"] == NOTE["text"]


def test_a_newer_note_replaces_the_previous_one_and_an_empty_note_removes_it(page: TestClient) -> None:
    for text, kept in (("one", "one"), ("two", "two"), (" ", None)):
        page.post("/quality", data=NOTE | {"text": text}, headers=HERE)
        notes = {each["rule"]: each["note"] for each in page.get("/quality.json?t=raw.weather").json()["rules"]}
        assert (notes["few_rows"] or {}).get("text") == kept
        assert notes["sku"] is None


def test_a_note_on_an_unknown_rule_or_from_another_site_is_refused(page: TestClient) -> None:
    for form, status in ((NOTE | {"table": "raw.no"}, 404), (NOTE | {"rule": "no"}, 422), ({"text": "x"}, 422)):
        assert page.post("/quality", data=form, headers=HERE).status_code == status
    assert page.post("/quality", data=NOTE).status_code == 403
    assert page.post("/quality", data=NOTE, headers={"Origin": "http://evil.example"}).status_code == 403
    assert all(rule["note"] is None for rule in page.get("/quality.json").json()["rules"])


def test_a_note_is_shown_as_text_and_not_as_markup(page: TestClient) -> None:
    page.post("/quality", data=NOTE | {"text": "<b>bold</b>", "who": '"><script>'}, headers=HERE)
    text = page.get("/quality").text
    assert "<b>bold" not in text
    assert "<script>" not in text
    assert "&lt;b&gt;bold" in text


def test_suggested_rules_can_be_added_to_the_statements_of_their_tables(shop: stocks.Stocks, page: TestClient) -> None:
    told = page.get("/quality.json", params={"t": "raw.* core.* marts.*"}).json()
    flow = shop.project.flow
    assert told["without_rules"] == 24
    assert {"raw.inventory", "core.calendar"} <= {each["table"] for each in told["suggested"]}
    assert "raw.weather" not in {each["table"] for each in told["suggested"]}
    file = shop.folder / "flows" / "shop.dpl"
    text = file.read_text()
    for each in told["suggested"]:
        begin = text.index(f" {each['table']} ")
        at = text.index(" EVERY ", begin)
        text = f"{text[:at]} {each['text']}{text[at:]}"
    file.write_text(text)
    changed = shop.project.flow
    for each in told["suggested"]:
        assert each["rule"] in [rule.name for rule in changed.tables[each["table"]].rules]
        assert not flow.tables[each["table"]].rules
    assert page.get("/quality.json", params={"t": "raw.* core.* marts.*"}).json()["without_rules"] == 24 - len(
        {each["table"] for each in told["suggested"]}
    )


def test_of_rows_that_the_ledger_knows_the_least_and_the_most_are_let_pass(
    shop: stocks.Stocks, page: TestClient
) -> None:
    [some, usual] = page.get("/quality.json", params={"t": "raw.inventory"}).json()["suggested"]
    with shop.ledger() as ledger:
        rows = [cell.rows for cell in ledger.past.newest("raw.inventory", 60) if cell.rows is not None]
    assert some["text"] == "EXPECT count(*) > 0 AS some_rows ELSE WARN"
    least, most = (int(word) for word in usual["text"].split() if word.isdecimal())
    assert 0 < least <= min(rows) < max(rows) <= most
    assert some["text"] in page.get("/quality", params={"t": "raw.inventory"}).text.replace("&gt;", ">")


def test_nothing_is_suggested_of_a_table_with_an_empty_batch_or_with_few(
    tmp_path: Path, served: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = stocks.make(tmp_path / "few", flow=stocks.DAILY)
    few.fill(until=stocks.FIRST.replace(day=26))
    assert served(few.folder).get("/quality.json", params={"t": "raw.inventory"}).json()["suggested"] == []
    monkeypatch.setattr(stocks, "_rows", lambda label: label.day - 1)
    empty = stocks.make(tmp_path / "empty", flow=stocks.DAILY)
    empty.fill(until=stocks.NOW)
    assert served(empty.folder).get("/quality.json", params={"t": "raw.inventory"}).json()["suggested"] == []


def test_rules_for_a_table_declared_in_python_are_suggested_in_python(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    shop = stocks.make(tmp_path / "shop", flow="CREATE CONNECTION erp TYPE sqlite;\n")
    file = shop.folder / "flows" / "more.py"
    said = 'from_="erp.a", columns="sku STRING, at TIMESTAMP", by="data time at", every="day"'
    file.write_text(f'import waterclock as wc\nwc.collect("raw.a", partitioned=True, {said})\n')
    shop.fill(until=stocks.NOW)
    for each in served(shop.folder).get("/quality.json").json()["suggested"]:
        assert each["text"].startswith('expect="')
        file.write_text(f'import waterclock as wc\nwc.collect("raw.a", partitioned=True, {said}, {each["text"]})\n')
        assert [rule.name for rule in shop.project.flow.tables["raw.a"].rules] == [each["rule"]]
