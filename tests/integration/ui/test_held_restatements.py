"""Labels that a limit of ON RESTATE holds, on the pages: shown as held, and released there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from starlette.testclient import TestClient

from tests import stocks
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest

HERE = {"Origin": "http://localhost"}
NAME, INPUT = "marts.margin", "marts.revenue"
LABELS = [datetime(2026, 11, number, tzinfo=UTC) for number in (4, 5)]
RELEASE = {"verb": "release", "t": NAME, "l": ""}


@pytest.fixture
def page(shop: stocks.Stocks, served: Callable[..., TestClient]) -> TestClient:
    """Return the pages of a shop with two restated days, whose reader may make one label again without a decision."""
    declared = shop.project.flow
    with shop.ledger() as ledger:
        ledger.decisions.request_restate(INPUT, LABELS, "recompute", who="ann")
        asked = PlanRequest(only=[INPUT], clock=ledger.now())
        for group in Planner(declared).ready(ledger.reads.snapshot(declared), shop.now, asked):
            stocks.record(ledger, stocks.take(ledger, shop.project, group, shop.now), group, rows=99)
    flow = shop.folder / "flows" / "shop.dpl"
    text = flow.read_text(encoding="utf-8")
    limit = "ON RESTATE RECOMPUTE AT MOST 1 LABEL ELSE HOLD"
    flow.write_text(text.replace(f"{NAME} PARTITIONED EVERY DAY", f"{NAME} PARTITIONED EVERY DAY {limit}"), "utf-8")
    return served(shop.folder)


def test_the_labels_are_held_for_a_reason_and_offer_no_retry(page: TestClient) -> None:
    answer = page.get("/batches/marts.margin/2026-11-04.json").json()
    assert (answer["state"], "AT MOST 1 LABEL" in page.get("/batches/marts.margin/2026-11-04").text) == ("held", True)
    verbs = [action["verb"] for action in answer["actions"]]
    assert verbs[0] == "release"
    assert not {"retry", "skip"} & set(verbs)
    [trouble] = [each for each in page.get("/errors.json").json()["troubles"] if each["table"] == NAME]
    assert (trouble["count"], trouble["can_release"], trouble["can_retry"]) == (2, True, False)


def test_they_are_released_with_their_cost_in_view(shop: stocks.Stocks, page: TestClient) -> None:
    answer = page.get("/plan.json", params=RELEASE).json()
    assert (answer["count"], answer["needs_reason"]) == (2, True)
    form = {**RELEASE, "digest": answer["digest"], "who": "bo"}
    assert page.post("/plan", data=form | {"why": ""}, headers=HERE).status_code == 422
    page.post("/plan", data=form | {"why": "prices were corrected"}, headers=HERE)
    with shop.ledger() as ledger:
        assert ledger.reads.snapshot(shop.project.flow).of(NAME).following == frozenset(LABELS)
        event = ledger.past.audit(NAME, LABELS[0]).events[-1]
    assert (event.kind, event.who) == ("restatement requested", "bo")
    assert page.get("/batches/marts.margin/2026-11-04.json").json()["state"] == "stale"
