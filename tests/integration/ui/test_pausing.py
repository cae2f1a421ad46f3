"""Tables are paused and resumed on the pages, and every page with these tables shows by whom and why."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from starlette.testclient import TestClient

from tests import stocks
from waterclock.batches.records import ClaimRequest
from waterclock.ledger.ledger_errors import ClaimRefused

HERE = {"Origin": "http://localhost"}


def decided(page: TestClient, verb: str, table: str = "", **form: str) -> str:
    """Submit the decision that a plan shows, and return the message that follows."""
    asked = {"verb": verb, "t": table, "l": ""}
    digest = page.get("/plan.json", params=asked).json()["digest"]
    answer = page.post("/plan", data={**asked, "digest": digest, **form}, headers=HERE | {"HX-Request": "true"})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_table_is_paused_with_name_and_reason_and_the_pages_show_it(shop: stocks.Stocks, page: TestClient) -> None:
    before = page.get("/tables/core.stock_daily.json").json()
    assert (before["paused"], [one["words"] for one in before["can_pause"]]) == (None, ["Pause…"])
    [action] = before["can_pause"]
    told = page.get("/plan.json", params={key: action[key] for key in ("verb", "t", "l")}).json()
    assert (told["title"], told["needs_reason"], told["needs_runner"]) == ("Pause core.stock_daily", True, False)
    assert told["command"] == "waterclock pause '`core.stock_daily`'"
    assert "Recorded" in decided(page, "pause", "core.stock_daily", who="bo", why="the source lies")
    after = page.get("/tables/core.stock_daily.json").json()
    assert (after["paused"]["by"], after["paused"]["why"]) == ("bo", "the source lies")
    assert [one["words"] for one in after["can_pause"]] == ["Resume…"]
    for address in ("/tables/core.stock_daily", "/runs", "/today", "/"):
        text = page.get(address).text
        assert "paused by bo since" in text, address
        assert "the source lies" in text
    with shop.ledger() as ledger:
        assert ledger.past.pauses("core.stock_daily")[-1].who == "bo"
    assert "Recorded" in decided(page, "resume", "core.stock_daily", who="bo", why="mended")
    assert page.get("/tables/core.stock_daily.json").json()["paused"] is None
    kept = page.get("/tables/core.stock_daily/history.json").json()["pauses"]
    assert [(one["what"], one["why"]) for one in kept] == [("resumed", "mended"), ("paused", "the source lies")]


def test_a_waiting_batch_shows_the_pause_as_its_cause_and_offers_resume(shop: stocks.Stocks, page: TestClient) -> None:
    with shop.ledger() as ledger:
        failed = ledger.reads.snapshot(shop.project.flow).of("raw.inventory").troubles
        ledger.decisions.retry("raw.inventory", list(failed), who="ann")
    decided(page, "pause", "raw.inventory", who="bo", why="the source lies")
    told = page.get("/batches/marts.stock_health/2026-11-09.json").json()
    assert told["state"] == "due"
    root = told["way"][-1]
    assert (root["table"], root["state"]) == ("raw.inventory", "paused")
    assert "paused by bo since" in root["detail"]
    assert told["actions"][0]["words"] == "Resume inventory…"
    at_root = page.get("/batches/raw.inventory/2026-11-09").text
    assert "paused by bo since" in at_root
    grid = page.get("/grid.json", params={"t": "raw.inventory"}).json()
    assert set(grid["counts"]) == {"paused"}


def test_nothing_turns_red_by_a_pause(page: TestClient) -> None:
    before = page.get("/grid.json").json()["counts"]
    decided(page, "pause", who="bo", why="the disk is full")
    after = page.get("/grid.json").json()["counts"]
    assert {state: after.get(state) for state in ("failed", "held", "expired")} == {
        state: before.get(state) for state in ("failed", "held", "expired")
    }
    assert after.get("blocked", 0) <= before.get("blocked", 0)


def test_all_is_paused_and_resumed_on_the_page_of_runs(shop: stocks.Stocks, page: TestClient) -> None:
    assert [one["words"] for one in page.get("/runs.json").json()["can_pause"]] == ["Pause all…"]
    decided(page, "pause", "raw.sites", who="ann", why="one")
    decided(page, "pause", who="bo", why="the disk is full")
    runs = page.get("/runs.json").json()
    assert (runs["paused"]["all"], [one["words"] for one in runs["can_pause"]]) == (True, ["Resume all…"])
    assert [one["table"] for one in runs["paused_tables"]] == ["raw.sites"]
    assert "all is paused by bo" in page.get("/tables/raw.prices").text
    assert [one["words"] for one in page.get("/tables/raw.prices.json").json()["can_pause"]] == [
        "Pause…",
        "Resume all…",
    ]
    with shop.ledger() as ledger, pytest.raises(ClaimRefused, match="all is paused"):
        ledger.claims.take(stocks_request(shop))
    said = decided(page, "resume", who="bo")
    assert "paused by ann" in said
    assert page.get("/runs.json").json()["paused"] is None


def stocks_request(shop: stocks.Stocks) -> ClaimRequest:
    """Return the claim request of a runner that planned before the pause."""
    flow, label = shop.project.flow, datetime(2026, 11, 20, tzinfo=UTC)
    return ClaimRequest(
        table="raw.prices", labels=(label,), code="code", flow=flow.fingerprint, runner="here", who="ann",
        now=stocks.NOW, lease_seconds=60, target_version=-1,
    )  # fmt: skip


def test_a_plan_for_a_paused_table_states_that_requests_are_kept(page: TestClient) -> None:
    decided(page, "pause", "core.returns_daily", who="bo", why="the source lies")
    asked = {"verb": "recompute", "t": "core.returns_daily", "l": "2026-11-10..2026-11-12"}
    told = page.get("/plan.json", params=asked).json()
    assert told["kept"][-1] == "requests are kept, and carried out after `waterclock resume`"
    assert "paused by bo" in told["kept"][0]
    assert "the source lies" in page.get("/plan", params=asked).text
    answer = page.post("/plan", data={**asked, "digest": told["digest"]}, headers=HERE | {"HX-Request": "true"})
    assert "are kept, and carried out after" in answer.text
    assert page.get("/grid.json", params={"t": "core.returns_daily"}).json()["counts"] == {"stale": 3}


def test_a_pause_needs_a_reason_and_the_same_site(shop: stocks.Stocks, page: TestClient) -> None:
    asked = {"verb": "pause", "t": "core.stock_daily", "l": ""}
    form = {**asked, "digest": page.get("/plan.json", params=asked).json()["digest"], "who": "bo", "why": "x"}
    with shop.ledger() as ledger:
        before = ledger.sequence()
        assert "E903" in page.post("/plan", data={**form, "why": " "}, headers=HERE).text
        assert page.post("/plan", data=form, headers={"Origin": "http://elsewhere"}).status_code == 403
        assert ledger.sequence() == before
    assert page.get("/plan.json", params={**asked, "l": "2026-11-09"}).json()["errors"][0]["code"] == "E430"


def test_a_paused_table_cannot_be_paused_again(page: TestClient) -> None:
    decided(page, "pause", "core.stock_daily", who="bo", why="the source lies")
    asked = {"verb": "pause", "t": "core.stock_daily", "l": ""}
    told = page.get("/plan.json", params=asked).json()
    assert (told["is_possible"], told["title"]) == (False, "Nothing there to pause")
    assert "paused by bo since" in page.get("/plan", params=asked).text
    assert page.post("/plan", data={**asked, "digest": told["digest"], "why": "x"}, headers=HERE).status_code == 409
    asked = {"verb": "resume", "t": "raw.prices", "l": ""}
    assert "It is not paused." in page.get("/plan", params=asked).text
