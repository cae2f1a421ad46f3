"""Restatements that a limit of ON RESTATE holds: shown with their cost, and released."""

from __future__ import annotations

import re

import pytest

from tests.unit.cli.conftest import Shop, day, texts
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.proposals import decide, propose
from waterclock.permissions.users_and_roles import owner

NAME = "sales.by_country"
BOTH = ["20241117000000", "20241118000000"]


@pytest.fixture
def held_shop(busy_shop: Shop) -> Shop:
    """Return a shop with two restated days of orders, whose reader makes at most one label again without a decision."""
    for path in (busy_shop.folder / "flows").glob("*.dpl"):
        text = path.read_text(encoding="utf-8")
        limited = f"TRANSFORM {NAME} PARTITIONED ON RESTATE RECOMPUTE AT MOST 1 LABEL ELSE HOLD COMMENT"
        path.write_text(text.replace(f"TRANSFORM {NAME} PARTITIONED COMMENT", limited), encoding="utf-8")
    busy_shop.done("shop.orders", 17, 18, rows=11)
    return busy_shop


def following(shop: Shop, table: str = NAME) -> list[str]:
    return texts(sorted(shop.ledger.reads.snapshot(shop.project.flow).of(table).following))


def test_plan_shows_the_labels_the_reason_the_cost_and_the_command(held_shop: Shop) -> None:
    shown = " ".join(held_shop.ask("plan").stdout.split())
    assert "sales.by_country: 2 labels held (2024-11-17" in shown
    assert (
        "its inputs were restated; up to 2 labels would be made again, more than ON RESTATE ... AT MOST 1 LABEL"
        in shown
    )
    assert re.search(r"cost: 20 rows now, \d+(\.\d)? s of work `waterclock release", shown)
    assert "`waterclock release sales.by_country --why '…'` makes them again" in shown
    assert held_shop.ask("plan", "--detailed-exitcode").exit_code == 11


def test_status_shows_the_same_once(held_shop: Shop) -> None:
    shown = held_shop.ask("status").stdout
    assert shown.count("2 labels held") == 1
    assert "cost: 20 rows now" in shown
    assert "sales.by_country@20241117000000 held" not in shown


def test_json_has_the_labels_and_the_cost(held_shop: Shop) -> None:
    plan, status = held_shop.json("plan"), held_shop.json("status")
    [held] = plan["held_restatements"].values()
    assert status["held_restatements"] == plan["held_restatements"]
    assert (held["labels"], held["changed"], held["limit"], held["total"]) == (BOTH, 2, 1, 2)
    assert (held["rows"], held["is_of_run"], held["following"]) == (20, False, {})
    assert held["seconds"] > 0
    batches = {batch["label"]: batch for batch in plan["batches"] if batch["table"] == NAME and batch["is_over_limit"]}
    assert list(batches) == BOTH
    assert {batch["status"] for batch in batches.values()} == {"held"}


def test_plan_with_at_most_shows_the_restatements_that_it_would_hold(busy_shop: Shop) -> None:
    busy_shop.done("shop.orders", 17, 18, rows=11)
    assert busy_shop.json("plan", "--at-most", "2")["held_restatements"] == {}
    [held] = busy_shop.json("plan", "--at-most", "1")["held_restatements"].values()
    assert (held["labels"], held["limit"], held["total"], held["is_of_run"]) == (BOTH, 1, 2, True)
    shown = busy_shop.ask("plan", "--at-most", "1").stdout
    assert "`waterclock run` without --at-most makes them again" in shown


def test_release_shows_the_cost_and_requires_confirmation(held_shop: Shop) -> None:
    asked = held_shop.ask("release", NAME, "--why", "the source was corrected")
    assert "cost: 20 rows now" in asked.stdout
    assert "Make 2 labels of sales.by_country again?" in asked.stderr
    assert following(held_shop) == []


def test_released_labels_are_made_again_and_the_reason_is_kept(held_shop: Shop) -> None:
    done = held_shop.ask("release", NAME, "--why", "the source was corrected", "--yes")
    assert done.exit_code == 0
    assert "released: 2 labels of sales.by_country: the source was corrected" in done.stdout
    assert following(held_shop) == BOTH
    plan = held_shop.json("plan")
    assert plan["held_restatements"] == {}
    assert [
        batch["status"] for batch in plan["batches"] if (batch["table"], batch["label"] in BOTH) == (NAME, True)
    ] == ["ready"] * 2
    [event] = [it for it in held_shop.json("audit", f"{NAME}@2024-11-17")["events"] if "requested" in it["kind"]]
    assert (event["kind"], event["data"]["why"]) == ("restatement requested", "the source was corrected")


def test_some_of_the_labels_can_be_released(held_shop: Shop) -> None:
    answer = held_shop.json("release", f"{NAME}@2024-11-17", "--why", "only this day", "--yes")
    assert answer == {"table": NAME, "released": BOTH[:1], "rows": 0, "others": {}, "why": "only this day"}
    assert held_shop.json("plan")["held_restatements"] == {}  # one label remains, which the limit allows


def test_nothing_is_released_where_nothing_is_held(busy_shop: Shop) -> None:
    assert "E440" in busy_shop.ask("release", NAME, "--why", "x", "--yes").stderr


def test_labels_that_change_after_the_release_are_held_again(held_shop: Shop) -> None:
    held_shop.ask("release", NAME, "--why", "the source was corrected", "--yes")
    held_shop.done(NAME, 17, 18)
    assert held_shop.json("plan")["held_restatements"] == {}
    held_shop.done("shop.orders", 17, 18, rows=12)
    assert list(held_shop.json("plan")["held_restatements"]) == [NAME]


def test_the_pages_propose_the_release_with_its_cost(held_shop: Shop) -> None:
    with open_read_only(held_shop.folder, None, "2024-11-20T08:00") as at:
        proposal = propose(at, "release", NAME, None)
        assert (proposal.count, proposal.cost.batches, proposal.may_differ) == (2, 2, True)
        decide(at, proposal, by=owner("bo"), why="the source was corrected")
    assert following(held_shop) == BOTH


def test_a_reason_is_needed(held_shop: Shop) -> None:
    assert "E903" in held_shop.ask("release", NAME, "--why", " ", "--yes").stderr


def test_a_request_of_the_labels_decides_too(held_shop: Shop) -> None:
    held_shop.ledger.decisions.request_restate(NAME, [day(17), day(18)], "recompute", who="ann")
    assert held_shop.json("plan")["held_restatements"] == {}
