from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests import stocks
from waterclock.timelabel.window import Window

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
    assert told["command"] == "waterclock retry raw.inventory 2026-11-09 --no-run"


def test_looking_at_a_plan_changes_nothing(shop: stocks.Stocks, page: TestClient) -> None:
    with shop.ledger() as ledger:
        before = ledger.sequence()
        page.get("/plan", params=RETRY)
        assert ledger.sequence() == before


def test_a_confirmed_plan_is_recorded_with_name_and_reason(shop: stocks.Stocks, page: TestClient) -> None:
    digest = page.get("/plan.json", params=RETRY).json()["digest"]
    form = {**RETRY, "digest": digest, "why": "MUC2 sent its file", "who": "bo"}
    answer = page.post("/plan", data=form, headers=HERE | {"HX-Request": "true"})
    assert answer.status_code == 200
    assert "Recorded" in answer.text
    with shop.ledger() as ledger:
        events = ledger.past.audit("raw.inventory", FAILED).events
    assert [(event.kind, event.who, event.data) for event in events][-1] == (
        "retried", "bo", {"why": "MUC2 sent its file"},
    )  # fmt: skip


def test_a_plan_that_has_changed_since_is_refused_with_a_conflict(shop: stocks.Stocks, page: TestClient) -> None:
    digest = page.get("/plan.json", params=RETRY).json()["digest"]
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.inventory", [FAILED], who="ann")
        before = ledger.sequence()
        answer = page.post("/plan", data={**RETRY, "digest": digest}, headers=HERE)
        assert (answer.status_code, ledger.sequence()) == (409, before)


def test_a_recompute_requests_its_batches(page: TestClient) -> None:
    asked = {"verb": "recompute", "t": "core.returns_daily", "l": "2026-11-10..2026-11-12"}
    told = page.get("/plan.json", params=asked).json()
    assert (told["count"], told["may_differ"]) == (3, True)
    assert page.post("/plan", data={**asked, "digest": told["digest"]}, headers=HERE).status_code == 200
    grid = page.get("/grid.json", params={"t": "core.returns_daily"}).json()
    assert grid["counts"] == {"stale": 3}


def test_a_plan_contains_no_batches_requested_by_other_users(shop: stocks.Stocks, page: TestClient) -> None:
    with shop.ledger() as ledger:
        ledger.decisions.request_restate("raw.sites", [FAILED], "recompute", who="ann")
        ledger.decisions.request_restate(
            "core.returns_daily", [datetime(2026, 11, 3, tzinfo=UTC)], "recompute", who="a"
        )
    asked = {"verb": "recompute", "t": "core.returns_daily", "l": "2026-11-10"}
    told = page.get("/plan.json", params=asked).json()
    assert told["title"] == "Recompute core.returns_daily @ 10 Nov, and up to 2 batches that depend on it"
    assert [(step["table"], step["labels"]) for step in told["steps"]] == [
        (name, ["20261110000000"]) for name in ("core.returns_daily", "marts.returns_rate", "reports.site_report")
    ]  # fmt: skip


def test_requests_of_other_users_do_not_count_towards_the_limit_of_a_plan(
    shop: stocks.Stocks, page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.ui.pages.plan._MOST", 5)
    asked = {"verb": "recompute", "t": "core.returns_daily", "l": "2026-11-10"}
    assert page.get("/plan.json", params=asked).json()["total"] == 3
    days = [FAILED + timedelta(days=number) for number in range(2, 8)]
    with shop.ledger() as ledger:
        ledger.decisions.request_restate("raw.sites", days, "recompute", who="ann")
    assert page.get("/plan.json", params=asked).json()["total"] == 3
    assert page.get("/plan.json", params=asked | {"t": "raw.sites"}).json()["errors"][0]["code"] == "E525"


def test_a_request_is_withdrawn_by_a_plan_of_its_own(page: TestClient) -> None:
    block = {"t": "core.returns_daily", "l": "2026-11-10..2026-11-12"}
    told = page.get("/plan.json", params={"verb": "recompute", **block}).json()
    page.post("/plan", data={"verb": "recompute", **block, "digest": told["digest"]}, headers=HERE)
    offered = page.get("/batches.json", params=block).json()["actions"]
    assert [each["words"] for each in offered] == ["Recompute 3…", "Withdraw 3…"]
    [*_, one] = page.get("/batches/core.returns_daily/2026-11-11.json").json()["actions"]
    assert one["words"] == "Withdraw…"
    asked = {key: one[key] for key in ("verb", "t", "l")}
    told = page.get("/plan.json", params=asked).json()
    assert told["title"] == "Withdraw core.returns_daily @ 11 Nov"
    assert (told["total"], told["seconds"]) == (1, 0)
    assert told["command"] == "waterclock withdraw '`core.returns_daily`' 20261111000000"
    assert "waits for one" not in page.get("/plan", params=asked).text
    form = {**asked, "digest": told["digest"], "why": "the wrong day", "who": "bo"}
    answer = page.post("/plan", data=form, headers=HERE | {"HX-Request": "true"})
    assert answer.status_code == 200
    assert "waits for one" not in answer.text
    batch = page.get("/batches/core.returns_daily/2026-11-11.json").json()
    assert (batch["state"], [each["verb"] for each in batch["actions"]]) == ("ok", ["recompute"])
    assert next((each["what"], each["why"]) for each in batch["decided"]) == ("request withdrawn", "the wrong day")
    assert page.get("/grid.json", params={"t": "core.returns_daily"}).json()["counts"] == {"stale": 2}


def test_a_skip_states_how_many_batches_no_longer_wait(page: TestClient) -> None:
    told = page.get("/plan.json", params={"verb": "skip", "t": "raw.inventory", "l": "2026-11-09"}).json()
    assert told["title"] == "Skip raw.inventory @ 9 Nov; 6 batches no longer wait for it"
    assert "raw.inventory" not in told["unknown"]


def test_a_button_has_the_number_of_blocked_batches_of_its_plan(page: TestClient) -> None:
    for table, label in (("raw.inventory", "2026-11-09"), ("raw.prices", "2026-11-20"), ("marts.margin", "2026-11-20")):
        [retry, *_] = page.get(f"/batches/{table}/{label}.json").json()["actions"]
        plan = page.get("/plan.json", params={key: retry[key] for key in ("verb", "t", "l")}).json()
        assert f"+ {plan['total'] - plan['count']} blocked" in retry["words"]


def test_no_button_leads_to_a_refused_plan(shop: stocks.Stocks, served: Callable[..., TestClient]) -> None:
    failed = datetime(2026, 11, 12, tzinfo=UTC)
    with shop.ledger() as ledger:
        ledger.decisions.request_restate("raw.sites", [failed], "recompute", who="ann")
    shop.fails = {("raw.sites", failed): "E731 no"}
    shop.fill(until=stocks.NOW)
    with served(shop.folder) as page:  # it still has rows, and cannot be skipped
        told = page.get("/batches/raw.sites/2026-11-12.json").json()
        assert told["state"] == "failed"
        [holds] = [fact["text"] for fact in told["facts"] if fact["name"] == "Holds"]
        assert holds.endswith("rows, of an older revision: the attempt to make it again failed")
        assert page.get("/batches/raw.sites/2026-11-12").text.count("E731 no") == 1
        assert "skip" not in [each["verb"] for each in told["actions"]]
        for action in told["actions"]:
            assert page.get("/plan.json", params={key: action[key] for key in ("verb", "t", "l")}).json()["count"] == 1


def test_a_failed_state_that_is_no_longer_needed_can_be_retried(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    flow = stocks.FLOW.partition("TRANSFORM")[0] + (
        "TRANSFORM core.totals REPLACE EVERY DAY AS SELECT sku, count(*) AS n FROM HISTORY(raw.sites) GROUP BY sku;\n"
    )
    shop = stocks.make(tmp_path / "states", flow=flow)
    shop.fails = {("core.totals", datetime(2026, 11, 18, tzinfo=UTC)): "E731 no"}
    for day in (19, 20):
        shop.fill(until=datetime(2026, 11, day, 1, tzinfo=UTC))
    with served(shop.folder) as page:
        told = page.get("/batches/core.totals/2026-11-18.json").json()
        assert (told["state"], [each["words"] for each in told["actions"]]) == ("not needed", ["Retry…"])
        assert told["reason"] == "failed, and no longer needed"
        assert told["error"]["what"] == "E731 no"
        assert "failed" not in page.get("/grid.json", params={"t": "core.totals"}).json()["counts"]
        block = page.get("/batches.json", params={"t": "core.totals", "l": "2026-11-17..2026-11-18"}).json()
        assert [each["words"] for each in block["actions"]] == ["Retry 1…", "Make 1…"]
        for action in block["actions"]:
            assert page.get("/plan.json", params={key: action[key] for key in ("verb", "t", "l")}).json()["count"] == 1


def test_addresses_that_name_the_same_in_another_way_do_not_answer_for_each_other(page: TestClient) -> None:
    asked = {"t": "raw.inventory", "l": "2026-11-09"}
    one = page.get("/batches/raw.inventory/2026-11-09.json", params=asked).json()
    other = page.get("/batches.json", params=asked | {"table": "raw.inventory", "labels": "2026-11-09"}).json()
    assert (one["kind"], other["kind"]) == ("one", "several")
    unbounded = page.get("/batches", params={"t": "raw.inventory"})
    assert (unbounded.status_code, "no label is given" in unbounded.text) == (422, True)
    assert page.get("/batches", params={"t": "raw.inventory", "l": "2026-11"}).status_code == 200
    assert page.get("/batches", params={"t": "raw.* marts.*", "l": "2031-11"}).status_code == 200


def test_a_skip_needs_a_reason(page: TestClient) -> None:
    asked = {"verb": "skip", "t": "raw.inventory", "l": "2026-11-09"}
    digest = page.get("/plan.json", params=asked).json()["digest"]
    answer = page.post("/plan", data={**asked, "digest": digest, "why": " "}, headers=HERE)
    assert answer.status_code == 422
    assert "a reason is needed" in answer.text


def test_a_verb_that_there_is_not_is_refused(page: TestClient) -> None:
    assert page.get("/plan", params={"verb": "drop", "t": "raw.inventory"}).status_code == 422


def test_requests_from_pages_of_other_sites_are_refused(shop: stocks.Stocks, served: Callable[..., TestClient]) -> None:
    page = served(shop.folder)
    digest = page.get("/plan.json", params=RETRY).json()["digest"]
    form = {**RETRY, "digest": digest}
    with shop.ledger() as ledger:
        before = ledger.sequence()
        for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            assert page.post("/plan", data=form, headers=headers).status_code == 403
        assert page.post("/plan", data=form, headers=HERE | {"Host": "evil.example"}).status_code == 421
        assert ledger.sequence() == before


def test_a_block_of_batches_is_counted_by_state_and_acted_on_by_kind(page: TestClient) -> None:
    block = {"t": "`raw.inventory` `core.stock_daily` `raw.suppliers`", "l": "2026-11-08..2026-11-10"}
    told = page.get("/batches.json", params=block).json()
    assert told["counts"] == {"failed": 1, "blocked": 1, "ok": 4}
    assert [(each["table"], each["label"], each["state"]) for each in told["shown"]] == [
        ("raw.inventory", "20261109000000", "failed"), ("core.stock_daily", "20261109000000", "blocked"),
    ]  # fmt: skip
    assert [(each["words"], each["t"]) for each in told["actions"]] == [
        ("Retry 1…", "`raw.inventory`"), ("Recompute 4…", "`raw.inventory` `core.stock_daily`"),
    ]  # fmt: skip
    for action in told["actions"]:  # each leads to a plan: no month starts in the block
        assert page.get("/plan.json", params={key: action[key] for key in ("verb", "t", "l")}).json()["count"] > 0


def test_an_unneeded_state_is_requested_together_with_its_inputs(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    flow = stocks.FLOW.partition("TRANSFORM")[0] + (
        "TRANSFORM core.totals REPLACE EVERY DAY AS SELECT sku, count(*) AS n FROM HISTORY(raw.sites) GROUP BY sku;\n"
        "TRANSFORM marts.top REPLACE EVERY DAY AS SELECT sku, n FROM core.totals;\n"
    )
    shop = stocks.make(tmp_path / "states", flow=flow)
    shop.fill()
    with served(shop.folder) as page:
        batch = page.get("/batches/marts.top/2026-11-12.json").json()
        assert (batch["state"], [each["words"] for each in batch["actions"]]) == ("not needed", ["Make it…"])
        asked = {key: batch["actions"][0][key] for key in ("verb", "t", "l")}
        told = page.get("/plan.json", params=asked).json()
        assert told["title"] == "Make marts.top @ 12 Nov, and 1 batch that it needs"
        assert [(step["table"], step["labels"]) for step in told["steps"]] == [
            ("core.totals", ["20261112000000"]), ("marts.top", ["20261112000000"]),
        ]  # fmt: skip
        assert told["command"] == "waterclock backfill '`marts.top`' 20261112000000"
        form = {**asked, "digest": told["digest"], "why": "the audit asks", "who": "bo"}
        assert page.post("/plan", data=form, headers=HERE | {"HX-Request": "true"}).status_code == 200
        shop.fill()  # as a runner that finds it in the ledger
        assert page.get("/batches/marts.top/2026-11-12.json").json()["state"] == "ok"
        assert page.get("/batches/marts.top/2026-11-11.json").json()["state"] == "not needed"


def test_a_backfill_is_refused_while_there_is_no_ledger(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    with served(stocks.make(tmp_path / "new").folder) as page:
        asked = {"verb": "backfill", "t": "raw.sites", "l": "2026-11-19"}
        told = page.get("/plan.json", params=asked).json()
        assert told["count"] == 1
        answer = page.post("/plan", data={**asked, "digest": told["digest"]}, headers=HERE)
        assert "`waterclock run` makes the due batches" in answer.text.replace("<code>", "`").replace("</code>", "`")
        assert answer.status_code == 422


def test_a_retry_of_a_batch_that_was_read_lists_the_batches_that_may_follow(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    label = datetime(2026, 11, 12, tzinfo=UTC)
    with shop.ledger() as ledger:
        ledger.decisions.request_restate("raw.sites", [label], "recompute", who="ann")
    shop.fails = {("raw.sites", label): "E731 it is broken now"}
    shop.fill()
    page = served(shop.folder)
    told = page.get("/plan.json", params={"verb": "retry", "t": "raw.sites", "l": "2026-11-12"}).json()
    assert told["title"].startswith("Retry raw.sites @ 12 Nov, and up to")
    assert told["may_differ"]
    labels = {step["table"]: step["labels"] for step in told["steps"]}
    assert labels["reports.site_report"] == ["20261112000000"]  # it is delivered
    assert told["steps"][0]["table"] == "raw.sites"


def test_a_retry_of_a_skipped_batch_lists_the_batches_made_without_its_rows(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    with shop.ledger() as ledger:
        ledger.decisions.skip("raw.inventory", [Window(FAILED, FAILED + timedelta(days=1))], who="ann", why="lost")
    shop.fails = {}
    shop.fill(until=stocks.NOW)
    page = served(shop.folder)
    told = page.get("/plan.json", params=RETRY).json()
    assert told["title"] == "Retry raw.inventory @ 9 Nov, and up to 6 batches that wait for it or depend on it"
    assert (told["count"], told["total"], told["may_differ"]) == (1, 7, True)
    page.post("/plan", data={**RETRY, "digest": told["digest"]}, headers=HERE)
    before = page.get("/batches/core.stock_daily/2026-11-09.json").json()["record"]["claim"]
    shop.fill(until=stocks.NOW)
    after = page.get("/batches/core.stock_daily/2026-11-09.json").json()["record"]["claim"]
    assert after > before  # readers follow


def test_an_old_snapshot_that_was_skipped_is_not_offered_to_be_made(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    flow = "CREATE CONNECTION erp TYPE sqlite;\nCOLLECT raw.stock (sku STRING KEY) FROM erp.stock EVERY DAY;\n"
    shop = stocks.make(tmp_path / "snapshots", flow=flow)
    with shop.ledger() as ledger:
        ledger.declared.apply(shop.project.flow, who="ann", now=stocks.NOW, runner="vm:1:a")
        ledger.decisions.skip("raw.stock", [Window(FAILED, FAILED + timedelta(days=1))], who="ann", why="lost")
    page, address = served(shop.folder), "/batches/raw.stock/2026-11-09.json"
    assert [each["words"] for each in page.get(address).json()["actions"]] == ["Make it after all…"]
    shop.fill()
    told = page.get(address).json()
    assert (told["state"], told["actions"]) == ("skipped", [])


def test_decisions_are_shown_with_their_batch(shop: stocks.Stocks, page: TestClient) -> None:
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.inventory", [FAILED], who="bo", why="MUC2 sent its file")
    told = page.get("/batches/raw.inventory/2026-11-09.json").json()
    assert [(each["what"], each["who"], each["why"]) for each in told["decided"]] == [
        ("retried", "bo", "MUC2 sent its file")
    ]
    assert "MUC2 sent its file" in page.get("/batches/raw.inventory/2026-11-09").text


def test_a_retry_of_several_batches_leaves_a_skipped_one_skipped(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    day = stocks.NOW.replace(hour=0, minute=0)
    shop.now = stocks.NOW + timedelta(days=4)
    said = {0: "E731 no file", 1: "E731 price is no number", 3: "E731 no file"}
    shop.fails = {("raw.returns", day + timedelta(days=after)): text for after, text in said.items()}
    with shop.ledger() as ledger:
        skipped = day + timedelta(days=2)
        ledger.decisions.skip("raw.returns", [Window(skipped, skipped + timedelta(days=1))], who="ann", why="lost")
    shop.fill()
    page = served(shop.folder, now="2026-11-25T01:30Z")
    [trouble] = [each for each in page.get("/errors.json").json()["troubles"] if "no file" in each["reason"]]
    assert (trouble["count"], trouble["retried"]) == (2, 3)  # another failure is between them
    block = {"t": "raw.returns", "l": "2026-11-21..2026-11-24"}
    [retry] = [each for each in page.get("/batches.json", params=block).json()["actions"] if each["verb"] == "retry"]
    assert retry["words"] == "Retry 3…"
    assert page.get("/plan.json", params={"verb": "retry", **block}).json()["count"] == 3
    alone = page.get("/plan.json", params={"verb": "retry", "t": "raw.returns", "l": "2026-11-23"}).json()
    assert alone["count"] == 1  # requested alone, the skip is withdrawn
