"""Older states with restated inputs: every command shows them, and how to make them again."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Runs, Shop, day, ranges

STATE = "sales.best_customers"
BEHIND = ["20241117000000", "20241118000000"]


@pytest.fixture
def late_shop(shop: Shop) -> Shop:
    """Return a shop in which all is made, and a day whose orders were restated; only the newest state has followed."""
    shop.done("shop.customers", 19)
    shop.done("shop.orders", 17, 18, 19)
    shop.done(STATE, 17, 18, 19)
    shop.done("shop.orders", 17, rows=12)
    shop.done(STATE, 19, rows=12)
    return shop


def following(shop: Shop) -> dict[str, set[int]]:
    snapshot = shop.ledger.reads.snapshot(shop.project.flow)
    return {name: {label.day for label in it.following} for name, it in snapshot.tables.items() if it.following}


def test_plan_and_status_list_states_that_are_behind_and_the_command_that_remakes_them(late_shop: Shop) -> None:
    for command in ("plan", "status"):
        found = late_shop.ask(command, width=200).stdout
        assert "sales.best_customers: 2 older states are behind, 20241117000000..20241118000000" in found
        assert "`waterclock recompute sales.best_customers --behind`" in found
        assert late_shop.json(command)["behind"] == {STATE: BEHIND}
    assert late_shop.json("plan")["summary"]["behind"] == 2
    rows = late_shop.json("status")["rows"]
    [cells] = [row["cells"] for row in rows if row["table"] == STATE]
    assert [cell["state"] for cell in cells[-3:]] == ["behind", "behind", "ok"]


def test_audit_marks_batches_that_are_behind(late_shop: Shop) -> None:
    found = late_shop.ask("audit", f"{STATE}@2024-11-18", width=200).stdout
    assert "◧ behind: its inputs were restated since" in found
    assert f"`waterclock recompute {STATE} 20241118000000` makes it again" in found
    listed = late_shop.ask("audit", STATE, width=200).stdout.splitlines()
    assert ["behind" in line for line in listed[1:]] == [True, True, False]
    assert [it["status"] for it in late_shop.json("audit", STATE)["batches"]] == ["behind", "behind", "done"]


def test_audit_marks_batches_made_from_a_replaced_revision(late_shop: Shop) -> None:
    found = late_shop.ask("audit", "shop.orders@2024-11-17", width=200).stdout
    told = found[found.index("went into 3 batches") :].splitlines()
    assert "sales.best_customers@20241117000000..20241118000000" in told[1]
    assert "made from a revision that was replaced since" in told[1]
    assert "sales.best_customers@20241119000000" in told[2]
    assert "replaced" not in told[2]
    went = late_shop.json("audit", "shop.orders@2024-11-17")["went_into"]
    assert [link["is_replaced"] for link in went] == [True, True, False]
    assert "▨ replaced since" in late_shop.ask("audit", f"{STATE}@2024-11-18", width=200).stdout


def test_recompute_behind_requests_only_the_batches_that_are_behind(late_shop: Shop, runs: Runs) -> None:
    found = late_shop.ask("recompute", STATE, "--behind", "--yes")
    assert found.exit_code == 0
    assert "recompute: 2 batches\n" in found.stdout
    assert following(late_shop) == {STATE: {17, 18}}
    [asked] = runs.asked
    assert ranges(asked)[STATE] == "20241117000000..20241118000000"


def test_the_ripple_of_recompute_holds_older_states_and_has_them_follow(late_shop: Shop, runs: Runs) -> None:
    late_shop.done(STATE, 17, 18, rows=12)
    assert late_shop.json("plan")["behind"] == {}
    found = late_shop.ask("recompute", "shop.orders", "2024-11-18", "--yes")
    assert "sales.best_customers      2 labels  2024-11-18 .. 2024-11-19" in found.stdout
    assert following(late_shop) == {STATE: {18}}
    [asked] = runs.asked
    assert ranges(asked)[STATE] == "20241118000000..20241119000000"


def test_recompute_behind_requests_nothing_if_no_state_is_behind(late_shop: Shop, runs: Runs) -> None:
    late_shop.done(STATE, 17, 18, rows=12)
    assert late_shop.ask("recompute", STATE, "--behind").stdout.startswith("there are no done batches to make again")
    assert (following(late_shop), runs.asked) == ({}, [])
    assert day(17) not in late_shop.ledger.reads.snapshot(late_shop.project.flow).of(STATE).requested
