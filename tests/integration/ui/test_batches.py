"""Ranges of batches: counted in the ledger as if each one were checked; and ranges too large for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests import stocks
from waterclock.operations.display_states import state_of
from waterclock.operations.formatting import number_words
from waterclock.operations.project_opening import open_read_only
from waterclock.planner.plan import Status
from waterclock.ui.page_query import PageQuery
from waterclock.ui.pages import batches as blocks
from waterclock.ui.pages import grid, plan
from waterclock.ui.pages.batches import is_done, states_of

NOW = "2026-11-21T01:30Z"


@pytest.fixture
def troubled(shop: stocks.Stocks) -> Path:
    """Return a project with requested batches, skipped ones, and some that failed while their old rows stay visible."""
    with shop.ledger() as ledger:
        day = datetime(2026, 11, 12, tzinfo=UTC)
        ledger.decisions.request_restate("raw.sites", [day], "recompute", who="ann")
        ledger.decisions.request_restate("core.returns_daily", [day, day.replace(day=13)], "recompute", who="ann")
    shop.fails = {("raw.sites", day): "E731 no"}
    shop.fill(until=stocks.NOW)
    with shop.ledger() as ledger:
        ledger.decisions.request_restate("marts.revenue", [day], "recompute", who="ann")
    return shop.folder


@pytest.mark.sampled(6)
@pytest.mark.parametrize("labels", ["2026-11-12", "2026-11", "2026", "2026-10-30..2026-11-12T06:00Z", "2031"])
@pytest.mark.parametrize("tables", ["", "raw.sites", "raw.* core.*", "marts.revenue raw.sites@2026-11-10..2026-11-13"])
def test_a_block_has_the_counts_and_actions_of_its_single_batches(troubled: Path, tables: str, labels: str) -> None:
    with open_read_only(troubled, None, NOW) as at:
        asked = PageQuery(tables, labels)
        found, meant = asked.tables(at)
        told = blocks.batches(at, asked)
        each = [(name, one) for name, of_table in states_of(at, found, meant).items() for one in of_table]
        assert at.ledger is not None
        warned = at.ledger.past.row_warnings([table.name for table in found])
    looks = [
        "warned" if one.status is Status.DONE and (name, one.label) in warned else str(state_of(one.status))
        for name, one in each
    ]
    assert told["counts"] == Counter(looks)
    assert told["of"] == len(each)
    failed = [name for name, one in each if one.status in {Status.FAILED, Status.HELD}]
    done = [name for name, one in each if is_done(one)]
    offered = {action["verb"]: (action["words"], action["t"].replace("`", "").split()) for action in told["actions"]}
    for verb, word, names in (("retry", "Retry", failed), ("recompute", "Recompute", done)):
        said = f"{word} {number_words(len(names))}…", list(dict.fromkeys(names))
        assert offered.get(verb) == (said if names else None)


def test_a_block_with_too_many_batches_is_refused_at_once(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"t": "raw.sites core.weather_site", "l": "2026-10"}
    assert page.get("/batches.json", params=asked).status_code == 200
    monkeypatch.setattr(blocks, "_MOST_COUNTED", 61)
    refused = page.get("/batches.json", params={"t": "raw.sites raw.returns", "l": "2026-10"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["code"] == "E525"


@pytest.mark.parametrize("verb", ["recompute", "recollect", "backfill", "skip"])
def test_a_plan_with_too_many_batches_is_refused(page: TestClient, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    asked = {"verb": verb, "t": "raw.returns", "l": "2026-10"}
    before = page.get("/plan.json", params=asked)
    monkeypatch.setattr(plan, "_MOST", 5)
    refused = page.get("/plan.json", params=asked)
    if verb == "backfill":  # there is none
        assert (before.json()["count"], refused.json()["count"]) == (0, 0)
    else:
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "E525")


def test_dependent_batches_count_towards_the_limit_of_a_plan(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"verb": "recompute", "t": "raw.sites", "l": "2026-11-12"}
    total = page.get("/plan.json", params=asked).json()["total"]
    assert total > 2
    monkeypatch.setattr(plan, "_MOST", 2)
    assert page.get("/plan", params=asked).status_code == 422
    monkeypatch.setattr(plan, "_MOST", total)
    assert page.get("/plan", params=asked).status_code == 200


def test_a_grid_of_too_many_labels_shows_the_newest(
    shop: stocks.Stocks, served: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = served(shop.folder)
    whole = page.get("/grid.json", params={"t": "raw.orders", "l": "2026-11"}).json()["columns"]
    monkeypatch.setattr(grid, "_MOST_LABELS", 24 * 6)
    part = served(shop.folder).get("/grid.json", params={"t": "raw.orders", "l": "2026-11"}).json()["columns"]
    assert [each["labels"] for each in part] == [each["labels"] for each in whole][-6:]


def test_labels_before_a_later_start_are_shown_with_allowed_actions_only(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    flow = stocks.FLOW.partition("TRANSFORM")[0] + (
        "TRANSFORM core.totals REPLACE EVERY DAY AS SELECT sku, count(*) AS n FROM HISTORY(raw.sites) GROUP BY sku;\n"
    )
    shop = stocks.make(tmp_path / "later", flow=flow)
    shop.fill()
    with shop.ledger() as ledger:  # nothing was ever stored for 17 November; the 16th has the requested rows
        ledger.decisions.request_backfill("core.totals", [datetime(2026, 11, 16, tzinfo=UTC)], who="ann")
    shop.folder.joinpath("waterclock.toml").write_text(stocks.HEADER.replace("2026-09-22", "2026-11-18"))
    page = served(shop.folder)
    nothing = page.get("/batches/core.totals/2026-11-17.json")
    assert (nothing.status_code, nothing.json()["errors"][0]["code"]) == (404, "E513")
    old = page.get("/batches/raw.sites/2026-11-15.json").json()
    assert (old["state"], old["actions"]) == ("ok", [])
    asked = page.get("/batches/core.totals/2026-11-16.json").json()
    assert [each["verb"] for each in asked["actions"]] == ["withdraw"]
    block = {"t": "raw.sites core.totals", "l": "2026-11-14..2026-11-17"}
    told = page.get("/batches.json", params=block).json()
    assert told["counts"] == {"ok": 4, "not needed": 2}  # from the 16th on
    assert [each["words"] for each in told["actions"]] == ["Withdraw 1…"]
    told = page.get("/batches.json", params=block | {"l": "2026-11-14..2026-11-19"}).json()
    assert [each["words"] for each in told["actions"]] == ["Make 2…", "Recompute 2…", "Withdraw 1…"]
    for action in told["actions"]:
        plan = page.get("/plan.json", params={key: action[key] for key in ("verb", "t", "l")}).json()
        assert f" {plan['count']}…" in action["words"]
