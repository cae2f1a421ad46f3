from __future__ import annotations

import re

import pytest

from tests.unit.cli.conftest import Runs, Shop, day, ranges, texts
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.proposals import decide, propose
from waterclock.permissions.users_and_roles import owner


def requested(shop: Shop, table: str) -> dict[str, str]:
    facts = shop.ledger.reads.snapshot(shop.project.flow).of(table)
    return dict(zip(texts(facts.requested), facts.requested.values(), strict=True))


def test_recompute_shows_dependent_batches_and_their_cost_before_confirmation(busy_shop: Shop, runs: Runs) -> None:
    found = busy_shop.ask("recompute", "shop.orders", "2024-11-17")
    assert found.exit_code == 1
    assert "recompute: 1 batch\n" in found.stdout
    assert "then, if rows differ, up to 1 batch\n  sales.by_country" in found.stdout
    assert re.search(r"^estimate: \d+\.\d s of work, if all of them are made$", found.stdout, re.MULTILINE)
    assert "Recompute 1 batch?" in found.stderr
    assert requested(busy_shop, "shop.orders") == {}
    assert runs.asked == []


def test_recompute_requests_done_labels_and_runs_them_with_their_readers(busy_shop: Shop, runs: Runs) -> None:
    assert busy_shop.ask("recompute", "shop.orders", "--yes").exit_code == 0
    assert requested(busy_shop, "shop.orders") == {"20241117000000": "recompute", "20241118000000": "recompute"}
    [asked] = runs.asked
    assert ranges(asked) == {
        "shop.orders": "20241117000000..20241118000000",
        "sales.by_country": "20241117000000..20241118000000",
    }


@pytest.mark.usefixtures("runs")
def test_labels_hidden_by_retain_are_reported_before_they_are_made_again(busy_shop: Shop) -> None:
    flow = busy_shop.folder / "flows" / "1_collect.dpl"
    said = flow.read_text(encoding="utf-8")
    flow.write_text(
        said.replace("BY DATA TIME ordered_at\n", "BY DATA TIME ordered_at RETAIN 1 DAY\n"), encoding="utf-8"
    )
    told = " ".join(busy_shop.ask("recompute", "shop.orders", "--yes").stdout.split())
    assert "RETAIN 1 DAY of shop.orders hides labels before 20241118000000: 1 label of these" in told
    told = busy_shop.ask("recompute", "shop.orders", "2024-11-18", "--yes").stdout
    assert "RETAIN" not in told


def test_recompute_tries_a_done_batch_again_whose_attempt_failed(busy_shop: Shop, runs: Runs) -> None:
    ledger, name = busy_shop.ledger, "sales.by_country"
    ledger.decisions.request_restate(name, [day(18)], "recompute", who="ann")
    busy_shop.failed(name, 18)
    assert [it["status"] for it in busy_shop.json("plan", name)["batches"] if it["is_revision"]] == ["failed"]
    told = busy_shop.ask("recompute", name, "2024-11-18", "--no-run", "--yes").stdout
    assert "requested; the next run makes 1 batch again" in told
    assert [it["status"] for it in busy_shop.json("plan", name)["batches"] if it["is_revision"]] == ["ready"]
    kinds = [event["kind"] for event in busy_shop.json("audit", f"{name}@2024-11-18")["events"]]
    assert kinds[-1] == "retried"
    assert runs.asked == []


def test_a_plan_of_the_pages_tries_a_done_batch_again_whose_attempt_is_held(busy_shop: Shop) -> None:
    ledger, name = busy_shop.ledger, "sales.by_country"
    ledger.decisions.request_restate(name, [day(18)], "recompute", who="ann")
    claim = ledger.claims.take(busy_shop._request(busy_shop._batch(name, 18)))
    ledger.claims.record_failed(claim, error="E755 it is held", is_transient=False, status=BatchStatus.HELD)
    ledger.decisions.request_release(name, [day(18)], who="ann", why="it may")
    with open_read_only(busy_shop.folder, None, "2024-11-20T08:00") as at:
        decide(at, propose(at, "recompute", name, "2024-11-18"), by=owner("bo"), why="")
    [again] = [it for it in busy_shop.json("plan", name)["batches"] if it["is_revision"]]
    assert (again["status"], again["verb"]) == ("ready", "recompute")


def test_an_empty_request_with_no_run_starts_no_run(shop: Shop, runs: Runs) -> None:
    told = shop.json("recompute", "shop.orders", "--no-run")
    assert (told["verb"], told["requested"], told["following"]) == ("recompute", {}, {})
    assert runs.asked == []
    shop.ask("recompute", "shop.orders", "--json")
    assert [asked.only for asked in runs.asked] == [()]


def test_recompute_with_no_run_only_records_its_requests(busy_shop: Shop, runs: Runs) -> None:
    told = busy_shop.json("recompute", "sales.by_country", "2024-11-18", "--no-run", "--yes")
    assert told["verb"] == "recompute"
    assert told["requested"] == {"sales.by_country": ["20241118000000"]}
    assert told["following"] == {}
    assert runs.asked == []
    plan = busy_shop.json("plan", "sales.by_country")
    [again] = [batch for batch in plan["batches"] if batch["is_revision"]]
    assert plan["following"] == {}
    assert (again["label"], again["verb"], again["reason"]) == ("20241118000000", "recompute", "recompute requested")


def test_labels_that_were_never_done_are_not_recomputed(busy_shop: Shop, runs: Runs) -> None:
    assert busy_shop.ask("recompute", "shop.orders", "2024-11-19", "--yes").stdout.startswith(
        "there are no done batches to make again"
    )
    assert runs.asked == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("shop.orders", "2019-01"), "E513"),
        (("shop.orders", "2031-01-01"), "E513"),
        (("sales.by_country", "2024-11-18"), "E519 sales.by_country contains no COLLECT"),
        (("web.visits", "2024-11-18"), "sources do not send them again"),
        (("shop.customers", "2024-11-18..2024-11-19"), None),
    ],
)
def test_recollect_refuses_labels_that_no_source_can_deliver_again(
    busy_shop: Shop, runs: Runs, arguments: tuple[str, str], said: str | None
) -> None:
    found = busy_shop.ask("recollect", *arguments, "--yes")
    if said is None:
        assert found.exit_code == 0, found.stderr
    else:
        assert found.exit_code == 1
        assert said in found.stderr
        assert runs.asked == []


def test_a_snapshot_that_is_not_the_newest_is_not_collected_again(shop: Shop) -> None:
    shop.done("shop.customers", 19)
    found = shop.ask("recollect", "shop.customers", "2024-11-19", "--yes", "--now", "2024-11-21T08:00")
    assert found.exit_code == 1
    assert "E519 only the newest label of shop.customers can be collected again" in found.stderr
    assert "recollect shop.customers@20241120000000" in found.stderr


def test_a_source_by_data_time_is_recollected(busy_shop: Shop, runs: Runs) -> None:
    assert busy_shop.ask("recollect", "shop.orders+", "2024-11-17", "--yes").exit_code == 0
    assert requested(busy_shop, "shop.orders") == {"20241117000000": "recollect"}
    assert requested(busy_shop, "sales.by_country") == {}
    [asked] = runs.asked
    assert set(asked.only or ()) == {"shop.orders", "sales.by_country"}


def test_backfill_changed_makes_batches_that_ran_under_older_code(busy_shop: Shop, runs: Runs) -> None:
    assert (
        "there are no done batches to make again"
        in busy_shop.ask("backfill", "sales.by_country", "--changed", "--yes").stdout
    )
    path = next(path for path in busy_shop.folder.rglob("*.dpl") if "sales.by_country" in path.read_text())
    path.write_text(path.read_text().replace("sum(", "2 * sum("))
    found = busy_shop.ask("backfill", "sales.by_country", "--changed", "--yes")
    assert "recompute: 2 batches" in found.stdout
    [asked] = runs.asked
    assert (asked.command, asked.only) == ("backfill", ("sales.by_country",))


def test_backfill_wants_labels_unless_code_changed(busy_shop: Shop) -> None:
    assert busy_shop.ask("backfill", "shop.orders").exit_code == 2


def test_plan_shows_batches_that_may_be_remade_after_a_requested_batch(busy_shop: Shop) -> None:
    busy_shop.ask("recompute", "shop.orders", "2024-11-17..2024-11-18", "--no-run", "--yes")
    found = busy_shop.ask("plan").stdout
    assert "then, if rows differ, up to 2 batches: sales.by_country (2)" in found
