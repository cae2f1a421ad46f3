from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tests import stocks
from waterclock.cli.app import app


def sentence(told: list[dict[str, str]]) -> str:
    return "".join(part["text"] for part in told)


def test_the_title_names_the_failures_and_counts_the_batches_they_block(page: TestClient) -> None:
    told = page.get("/grid.json").json()
    said = "Two failures hold up 11 batches: raw.inventory @ 9 Nov and raw.prices @ 20 Nov."
    assert sentence(told["title"]) == said
    assert told["counts"] == {"failed": 2, "blocked": 11, "warned": 4}
    assert said in page.get("/").text.replace('<em class="is-failed">', "").replace("</em>", "")


def test_neighbours_in_one_state_are_one_piece_and_a_blocked_one_names_its_cause(page: TestClient) -> None:
    told = page.get("/grid.json", params={"t": "marts.stock_health"}).json()
    [layer] = told["layers"]
    [row] = layer["rows"]
    assert [(piece["state"], piece["columns"]) for piece in row["pieces"]] == [("ok", 48), ("blocked", 1), ("ok", 11)]
    assert row["pieces"][1]["cause"] == "raw.inventory@20261109000000"
    assert row["fresh_to"] == "20 Nov · 1 gap"
    assert layer["fresh"] == 0


def test_windows_longer_and_shorter_than_a_day_lie_on_one_axis(page: TestClient) -> None:
    told = page.get("/grid.json", params={"t": "raw.orders raw.suppliers raw.sites"}).json()
    rows = {row["name"]: row for layer in told["layers"] for row in layer["rows"]}
    assert [(piece["column"], piece["columns"]) for piece in rows["suppliers"]["pieces"]] == [(8, 31)]  # October
    assert rows["orders"]["pieces"][-1]["part"] == 0.04  # an hour of the current day
    assert rows["suppliers"]["cadence"] == "month"


def test_requested_labels_are_the_columns_of_the_grid(page: TestClient) -> None:
    told = page.get("/grid.json", params={"l": "2026-11-01..2026-11-07", "t": "marts.*"}).json()
    assert [column["labels"] for column in told["columns"]] == [f"2026-11-0{day}" for day in range(1, 8)]
    assert told["tables"] == 8


def test_a_table_that_is_not_there_is_answered_with_the_nearest_name(page: TestClient) -> None:
    answer = page.get("/", params={"t": "marts.revenu"})
    assert answer.status_code == 404
    assert "marts.revenue" in answer.text
    assert page.get("/grid.json", params={"t": "marts.revenu"}).json()["errors"][0]["code"] == "E511"


def test_all_is_well_is_one_sentence(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    shop = stocks.make(tmp_path / "well", flow=stocks.DAILY)
    shop.fails = {}
    shop.fill(until=stocks.NOW)
    told = served(shop.folder).get("/grid.json").json()
    assert sentence(told["title"]) == "All 6 tables are fresh to 20 Nov."
    assert told["counts"] == {"warned": 2}


def test_a_project_that_never_ran_is_reported_as_such(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    page = served(stocks.make(tmp_path / "new").folder)
    assert sentence(page.get("/grid.json").json()["title"]).startswith("No batch was made yet: ")
    assert page.get("/").status_code == 200


def test_a_broken_project_shows_its_errors_until_it_is_fixed(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    page = served(shop.folder)
    file = shop.folder / "flows" / "shop.dpl"
    good = file.read_text()
    file.write_text(good + "\nTRANSFORM marts.bad AS SELECT 1 FROM raw.nowhere;\n")
    answer = page.get("/")
    assert answer.status_code == 503
    assert "raw.nowhere" in answer.text
    file.write_text(good)
    assert page.get("/").status_code == 200


def test_an_unchanged_grid_is_not_sent_again(shop: stocks.Stocks, served: Callable[..., TestClient]) -> None:
    page = served(shop.folder)
    first = page.get("/grid", headers={"HX-Request": "true"})
    again = page.get("/grid", headers={"HX-Request": "true", "If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.prices", [stocks.NOW.replace(day=20, hour=0, minute=0)], who="ann")
    changed = page.get("/grid", headers={"HX-Request": "true", "If-None-Match": first.headers["ETag"]})
    assert changed.status_code == 200
    assert "One " in changed.text


def test_batches_of_a_killed_runner_are_not_shown_as_running(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    shop = stocks.make(tmp_path / "shop")
    shop.fails = {}
    shop.fill(until=stocks.FIRST + timedelta(days=2), stop=lambda group: group.table == "raw.sites")
    page = served(shop.folder, now="2026-09-24")
    told = page.get("/batches/raw.sites/2026-09-22.json").json()
    says = "claimed by a runner that has ended; the next run takes it over"
    assert (told["state"], told["reason"], told["actions"]) == ("due", says, [])
    reader = page.get("/batches/core.calendar/2026-09-22.json").json()
    assert reader["reason"] == f"waits for raw.sites@20260922000000, {says}"
    grid = page.get("/grid.json").json()
    assert "running" not in grid["counts"]
    assert "running" not in "".join(part["text"] for part in grid["more"])
    block = page.get("/batches.json", params={"t": "raw.sites", "l": "2026-09"}).json()
    assert block["actions"] == []
    with shop.ledger() as ledger:
        shop.now = datetime.now(UTC)
        [held, *_] = ledger.claims.open()
        ledger.claims.renew(held)
    assert page.get("/batches/raw.sites/2026-09-22.json").json()["state"] == "running"


def test_the_drawer_shows_the_causes_of_a_blocked_batch_down_to_the_root(page: TestClient) -> None:
    told = page.get("/batches/reports.reorder_list/20261109000000.json").json()
    way = [step["table"] for step in told["way"]]
    assert (way[0], way[-1]) == ("reports.reorder_list", "raw.inventory")
    assert told["way"][-1]["is_root"]
    assert [each["verb"] for each in told["actions"]] == ["retry", "skip"]
    assert told["actions"][0]["words"] == "Retry inventory + 6 blocked…"
    failed = page.get("/batches/raw.inventory/2026-11-09.json").json()
    assert failed["error"]["what"] == "E731 23 sites came, 24 were promised: MUC2 is missing"
    assert failed["holds_up"] == 6


def test_a_day_of_an_hourly_table_shows_the_counts_of_its_hours(page: TestClient) -> None:
    told = page.get("/batches/raw.orders/2026-11-20.json").json()
    assert (told["of"], told["counts"]) == (24, {"ok": 24})


@pytest.mark.parametrize("labels", ["", "2026-11", "2026-09-22..2026-10-03", "2026-11-08T00:00Z..2026-11-09T23:00Z"])
def test_each_ribbon_equals_the_row_of_the_status_command_column_by_column(
    shop: stocks.Stocks, page: TestClient, labels: str
) -> None:
    told = page.get("/grid.json", params={"t": "* except raw.suppliers", "l": labels}).json()
    command = [
        "status",
        "* except raw.suppliers",
        "--now",
        "2026-11-21T01:30Z",
        "--project",
        str(shop.folder),
        "--json",
    ]
    wanted = json.loads(CliRunner().invoke(app, command + (["--labels", labels] if labels else [])).stdout)
    newest = len(told["columns"])
    rows = {row["table"]: row for layer in told["layers"] for row in layer["rows"]}
    for row in wanted["rows"]:
        states: list[str | None] = [None] * newest
        for piece in rows[row["table"]]["pieces"]:
            states[piece["column"] : piece["column"] + piece["columns"]] = [piece["state"]] * piece["columns"]
        cells = [cell and cell["state"] for cell in row["cells"]][-newest:]
        assert states[-len(cells) :] == cells, row["table"]


def test_a_ledger_put_in_the_place_of_another_is_the_one_that_is_read(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    page = served(shop.folder)
    file = shop.folder / ".waterclock" / "ledger.db"
    assert page.get("/grid.json").json()["counts"]["failed"] == 2
    away = file.rename(file.with_suffix(".away"))
    answer = page.get("/grid.json")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (503, "E421")
    file.write_bytes(away.read_bytes())
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.prices", [stocks.NOW.replace(day=20, hour=0, minute=0)], who="ann")
    assert page.get("/grid.json").json()["counts"]["failed"] == 1


def test_a_day_is_shown_by_the_hour_and_its_number_links_to_it(page: TestClient) -> None:
    assert 'href="/?l=2026-11-16"' in page.get("/").text
    assert 'href="/?t=raw.%2A&amp;l=2026-11-16"' in page.get("/", params={"t": "raw.*"}).text
    day = page.get("/grid.json", params={"l": "2026-11-16"}).json()
    assert [len(day["columns"]), day["leads_into_columns"]] == [24, False]
    rows = {row["table"]: row for layer in day["layers"] for row in layer["rows"]}
    assert [piece["columns"] for piece in rows["raw.inventory"]["pieces"]] == [24]  # one label that is the whole axis
    assert sum(piece["of"] for piece in rows["raw.orders"]["pieces"]) == 24
    daily = page.get("/grid.json", params={"t": "core.*", "l": "2026-11-16"}).json()
    assert len(daily["columns"]) == 1


def test_the_duration_of_each_column_is_shown_above_the_grid(
    page: TestClient, served: Callable[..., TestClient], shop: stocks.Stocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"t": "raw.orders core.orders_daily", "l": "2026-11-10..2026-11-12"}
    told = page.get("/grid.json", params=asked).json()
    assert [bar["labels"] for bar in told["took"]] == [column["labels"] for column in told["columns"]]
    assert max(bar["height"] for bar in told["took"]) == 12
    assert all(bar["seconds"] > 0 for bar in told["took"])
    assert "2026-11-11: " in page.get("/", params=asked).text
    monkeypatch.setattr("waterclock.ui.pages.grid._MOST_TIMED", 3 * 25 - 1)
    assert served(shop.folder).get("/grid.json", params=asked).json()["took"] == []
