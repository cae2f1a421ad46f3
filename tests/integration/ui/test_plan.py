from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from starlette.testclient import TestClient

from tests import stocks

HERE = {"Origin": "http://localhost"}
FAILED = datetime(2026, 11, 9, tzinfo=UTC)
RETRY = {"verb": "retry", "t": "raw.inventory", "l": "2026-11-09"}


def test_a_plan_names_each_batch_its_step_and_the_same_command(page: TestClient) -> None:
    told = page.get("/plan.json", params=RETRY).json()
    steps = {step["table"]: step["step"] for step in told["steps"]}
    assert steps == {
        "raw.inventory": 1, "core.stock_daily": 2, "marts.stock_health": 3, "marts.forecast_input": 3,
        "marts.out_of_stock": 4, "reports.board_kpis": 4, "reports.reorder_list": 5,
    }  # fmt: skip
    assert (told["count"], told["total"]) == (1, 7)
    assert told["command"] == "waterclock retry raw.inventory 2026-11-09"


def test_looking_at_a_plan_changes_nothing(shop: stocks.Stocks, page: TestClient) -> None:
    with shop.ledger() as ledger:
        before = ledger.sequence()
        page.get("/plan", params=RETRY)
        assert ledger.sequence() == before


def test_what_was_shown_is_done_with_name_and_reason(shop: stocks.Stocks, page: TestClient) -> None:
    digest = page.get("/plan.json", params=RETRY).json()["digest"]
    form = {**RETRY, "digest": digest, "why": "MUC2 sent its file", "who": "bo"}
    answer = page.post("/plan", data=form, headers=HERE | {"HX-Request": "true"})
    assert answer.status_code == 200
    assert "Asked for" in answer.text
    with shop.ledger() as ledger:
        events = ledger.past.audit("raw.inventory", FAILED).events
    assert [(event.kind, event.who, event.data) for event in events][-1] == (
        "retried", "bo", {"why": "MUC2 sent its file"},
    )  # fmt: skip


def test_a_plan_that_has_changed_since_is_shown_anew_and_not_done(shop: stocks.Stocks, page: TestClient) -> None:
    digest = page.get("/plan.json", params=RETRY).json()["digest"]
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.inventory", [FAILED], who="ann")
        before = ledger.sequence()
        answer = page.post("/plan", data={**RETRY, "digest": digest}, headers=HERE)
        assert (answer.status_code, ledger.sequence()) == (409, before)


def test_a_recompute_asks_for_its_batches(page: TestClient) -> None:
    asked = {"verb": "recompute", "t": "core.returns_daily", "l": "2026-11-10..2026-11-12"}
    told = page.get("/plan.json", params=asked).json()
    assert (told["count"], told["may_differ"]) == (3, True)
    assert page.post("/plan", data={**asked, "digest": told["digest"]}, headers=HERE).status_code == 200
    grid = page.get("/grid.json", params={"t": "core.returns_daily"}).json()
    assert grid["counts"] == {"stale": 3}


def test_a_skip_needs_a_reason(page: TestClient) -> None:
    asked = {"verb": "skip", "t": "raw.inventory", "l": "2026-11-09"}
    digest = page.get("/plan.json", params=asked).json()["digest"]
    answer = page.post("/plan", data={**asked, "digest": digest, "why": " "}, headers=HERE)
    assert answer.status_code == 422
    assert "a reason is needed" in answer.text


def test_a_verb_that_there_is_not_is_refused(page: TestClient) -> None:
    assert page.get("/plan", params={"verb": "drop", "t": "raw.inventory"}).status_code == 404


def test_nothing_is_done_for_pages_of_others(shop: stocks.Stocks, served: Callable[..., TestClient]) -> None:
    page = served(shop.folder)
    digest = page.get("/plan.json", params=RETRY).json()["digest"]
    form = {**RETRY, "digest": digest}
    with shop.ledger() as ledger:
        before = ledger.sequence()
        for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            assert page.post("/plan", data=form, headers=headers).status_code == 403
        assert page.post("/plan", data=form, headers=HERE | {"Host": "evil.example"}).status_code == 421
        assert ledger.sequence() == before
