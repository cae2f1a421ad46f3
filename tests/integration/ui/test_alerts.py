from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests import stocks
from waterclock.alerts.checking import RunFindings, check_alerts
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.batches.records import BatchResult
from waterclock.engine.batch.claim_record import write_claim_record
from waterclock.operations.project_opening import open_project
from waterclock.planner.plan import Batch, Group, Status
from waterclock.storage.lake import Lake
from waterclock.timelabel.window import Window

HERE = {"Origin": "http://localhost"}
FAILED = datetime(2026, 11, 9, tzinfo=UTC)
RELEASE = {"verb": "release", "t": "raw.inventory", "l": "2026-11-09"}
ALERTS = """
[alerts.targets.desk]
webhook = "http://127.0.0.1:9/alerts"
"""


def hold(shop: stocks.Stocks, rows: int = 2) -> None:
    """Turn the failed batch into one that a rule holds."""
    window = Window(FAILED, FAILED + timedelta(days=1))
    group = Group("raw.inventory", (Batch("raw.inventory", window, Status.READY, "due"),))
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.inventory", [FAILED], who="ann")
        claim = stocks.take(ledger, shop.project, group, stocks.NOW)
        lake = Lake(shop.project.storage)
        folder, path = lake.folder("raw.inventory"), lake.slice_path(FAILED, claim.number)
        Path(folder, path).mkdir(parents=True)
        counts = {"in": 5, "quarantined": 3}
        write_claim_record(
            folder, claim, [BatchResult(FAILED, window.end, -1, rows, 2400, None, path, measures=counts)]
        )
        ledger.claims.record_failed(claim, error="E755 few rows", is_transient=False, status=BatchStatus.HELD)


def told_of(shop: stocks.Stocks) -> None:
    """Send alerts about the current problems; no server listens at the target."""
    file = shop.folder / "waterclock.toml"
    said = file.read_text(encoding="utf-8").replace("[env.dev]\n", "[env.dev]\nalerts = true\n", 1)
    file.write_text(f"{said}{ALERTS}", encoding="utf-8")
    project = open_project(shop.folder, None)
    with shop.ledger() as ledger:
        check_alerts(project, ledger, lambda: ledger.reads.snapshot(project.flow), stocks.NOW, RunFindings())


def test_an_alert_is_shown_on_the_page_of_today_and_can_be_acknowledged(shop: stocks.Stocks, page: TestClient) -> None:
    assert page.get("/today.json").json()["alerts"] == []
    told_of(shop)
    alerts = page.get("/today.json").json()["alerts"]
    [one] = [alert for alert in alerts if "raw.inventory" in alert["line"]]
    assert (one["severity"], one["acknowledged"]) == ("error", None)
    assert one["blocks"]
    assert "Acknowledge…" in page.get("/today").text

    form = {"alert": str(one["number"]), "why": "MUC2 sends its file tonight", "who": "bo"}
    assert page.post("/alerts", data=form).status_code == 403  # another site's form
    assert page.post("/alerts", data=form | {"why": " "}, headers=HERE).status_code == 422
    assert page.post("/alerts", data=form | {"alert": "9999"}, headers=HERE).status_code in {404, 422}
    assert page.post("/alerts", data=form | {"alert": "one"}, headers=HERE).status_code == 422
    answer = page.post("/alerts", data=form, headers=HERE, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/today")
    alerts = page.get("/today.json").json()["alerts"]
    assert [alert["number"] for alert in alerts][-1] == one["number"]
    known = alerts[-1]["acknowledged"]
    assert (known["by"], known["why"]) == ("bo", "MUC2 sends its file tonight")
    assert "MUC2 sends its file tonight" in page.get("/today").text


def test_held_rows_are_reported_as_not_visible_before_they_are_released(shop: stocks.Stocks, page: TestClient) -> None:
    hold(shop)
    told = page.get("/batches/raw.inventory/2026-11-09.json").json()
    facts = {fact["name"]: fact["text"] for fact in told["facts"]}
    assert facts["Held back"] == "2 rows, and 3 rows quarantined: not visible"
    assert "Holds" not in facts


@pytest.mark.parametrize("rows", [0, 2])
def test_the_bar_of_a_held_batch_is_as_high_as_its_sealed_rows(
    shop: stocks.Stocks, page: TestClient, rows: int
) -> None:
    hold(shop, rows)
    bars = page.get("/tables/raw.inventory.json").json()["bars"]
    [held] = [bar for bar in bars["each"] if bar["state"] == "held"]
    assert (held["rows"], held["words"]) == (None, f"9 Nov: {rows} rows, held")
    assert held["height"] == max(0.02, rows / bars["most"])


def test_a_held_batch_is_released_for_a_reason(shop: stocks.Stocks, page: TestClient) -> None:
    hold(shop)
    asked = page.get("/batches/raw.inventory/20261109000000.json").json()
    first = asked["actions"][0]
    assert (first["verb"], first["words"]) == ("release", "Release inventory…")
    assert "Release 1 batch…" in page.get("/errors").text
    block = page.get("/batches.json", params={"t": "raw.inventory", "l": "2026-11-08..2026-11-10"}).json()
    assert "Release 1…" in [each["words"] for each in block["actions"]]
    told = page.get("/plan.json", params=RELEASE).json()
    assert (told["count"], told["total"], told["needs_reason"]) == (1, 7, True)
    assert told["command"] + told["why_option"] == "waterclock release raw.inventory@2026-11-09 --why '…'"
    form = {**RELEASE, "digest": told["digest"], "who": "bo"}
    assert page.post("/plan", data=form | {"why": ""}, headers=HERE).status_code == 422
    page.post("/plan", data=form | {"why": "the shop was closed"}, headers=HERE)
    with shop.ledger() as ledger:
        audit = ledger.past.audit("raw.inventory", FAILED)
        snapshot = ledger.reads.snapshot(shop.project.flow)
    assert (audit.cell.status, audit.cell.requested) == ("held", "release")
    assert (audit.events[-1].kind, audit.events[-1].who) == ("release requested", "bo")
    facts = snapshot.of("raw.inventory")
    assert (facts.requested, FAILED in facts.troubles) == ({FAILED: "release"}, False)
    # a withdrawn release leaves the batch held as before
    withdraw = {**RELEASE, "verb": "withdraw"}
    digest = page.get("/plan.json", params=withdraw).json()["digest"]
    page.post("/plan", data={**withdraw, "digest": digest}, headers=HERE)
    with shop.ledger() as ledger:
        assert FAILED in ledger.reads.snapshot(shop.project.flow).of("raw.inventory").troubles


def test_a_retry_of_a_held_batch_clears_its_release_request_and_its_trouble(shop: stocks.Stocks) -> None:
    hold(shop)
    with shop.ledger() as ledger:
        ledger.decisions.request_release("raw.inventory", [FAILED], who="ann", why="known")
        ledger.decisions.retry("raw.inventory", [FAILED], who="ann")
        facts = ledger.reads.snapshot(shop.project.flow).of("raw.inventory")
    assert (facts.requested, facts.wanted, facts.troubles) == ({}, frozenset(), {})


def test_nothing_can_be_replayed_where_no_row_is_set_aside(page: TestClient) -> None:
    told = page.get("/plan.json", params={"verb": "replay", "t": "raw.weather", "l": ""}).json()
    assert (told["count"], told["is_possible"]) == (0, False)
