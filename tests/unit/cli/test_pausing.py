"""Tables are paused and resumed; commands that explain why a batch does not run show by whom and why."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Shop, day
from waterclock.ledger.ledger_errors import ClaimRefused

LIES = "the source lies"


def statuses(shop: Shop) -> dict[str, set[str]]:
    """Return the statuses of the planned batches by table."""
    found: dict[str, set[str]] = {}
    for batch in shop.json("plan")["batches"]:
        found.setdefault(batch["table"], set()).add(batch["status"])
    return found


def test_a_paused_table_is_shown_with_its_user_and_reason_in_every_view(shop: Shop) -> None:
    told = shop.ask("pause", "shop.orders", "--why", LIES)
    assert told.stdout == f"paused: shop.orders: {LIES}\n`waterclock resume shop.orders` ends the pause\n"
    assert (statuses(shop)["shop.orders"], statuses(shop)["sales.by_country"]) == ({"paused"}, {"waiting"})
    plan = shop.ask("plan", width=200).stdout
    assert "shop.orders is paused by" in plan
    assert "waits for shop.orders@20241117000000, paused by" in plan
    for command in (("plan",), ("status",), ("show", "shop.orders", "--rows", "0")):
        assert LIES in shop.ask(*command, width=200).stdout
    assert "P  P  P" in shop.ask("status").stdout
    said = shop.json("plan")["paused"]["shop.orders"]
    assert said["why"] == LIES
    assert shop.json("status")["paused"] == {"shop.orders": said}
    assert shop.json("show", "shop.orders", "--rows", "0")["paused"] == said | {"all": False}


def test_a_batch_of_a_paused_table_cannot_be_claimed_and_is_ready_after_resume(shop: Shop) -> None:
    batch = shop._batch("shop.orders", 17)
    shop.ask("pause", "shop.orders", "--why", LIES)
    with pytest.raises(ClaimRefused, match=r"shop\.orders is paused"):
        shop.ledger.claims.take(shop._request(batch))
    assert shop.ask("resume", "shop.orders").stdout == "resumed: shop.orders\n"
    assert statuses(shop)["shop.orders"] == {"ready"}
    shop.done("shop.orders", 17)


def test_a_run_of_paused_tables_reports_the_pause_and_exits_with_0(shop: Shop) -> None:
    shop.ask("pause", "--why", LIES)
    done = shop.ask("run", width=200)
    assert done.exit_code == 0
    assert "all is paused by" in done.stdout
    assert "17 due: 17 paused" in done.stdout
    told = shop.json("run", "shop.orders")
    assert (told["done"], told["left"], told["paused_all"]["why"]) == (0, {"paused": 3}, LIES)
    assert shop.ask("plan", "--detailed-exitcode").exit_code == 10


def test_all_is_paused_beside_tables_that_are_paused_by_name(shop: Shop) -> None:
    shop.ask("pause", "shop.orders", "--why", LIES)
    assert shop.json("pause", "--why", "the disk is full") == {
        "all": True, "tables": [], "already": [], "why": "the disk is full",
    }  # fmt: skip
    assert set.union(*statuses(shop).values()) == {"paused"}
    told = shop.json("resume")
    assert (told["all"], told["still_paused"]) == (True, ["shop.orders"])
    assert statuses(shop)["shop.customers"] == {"ready"}
    shop.ask("pause", "--why", "again")
    said = shop.ask("resume", "shop.orders", width=200).stdout
    assert "all is paused by" in said
    assert "no batch of shop.orders runs until `waterclock resume`" in said


def test_of_a_selection_those_are_paused_that_were_not(shop: Shop) -> None:
    shop.ask("pause", "shop.orders", "--why", LIES)
    told = shop.json("pause", "shop.*", "--why", "mending")
    assert (told["tables"], told["already"]) == (["shop.customers"], ["shop.orders"])
    assert shop.json("plan")["paused"]["shop.orders"]["why"] == LIES
    assert set(shop.json("resume", "shop.*")["tables"]) == {"shop.orders", "shop.customers"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pause", "shop.orders", "--why", "x"), "E430 shop.orders is paused already"),
        (("pause", "web.visits", "--why", " "), "E903 a reason is needed"),
        (("pause", "shop.ordres", "--why", "x"), "E511"),
        (("pause", "web.visits@2024-11-17", "--why", "x"), "E430 a pause is of whole tables"),
        (("resume", "web.visits"), "E430 web.visits is not paused"),
        (("resume",), "paused by name: shop.orders"),
    ],
)
def test_an_invalid_pause_or_resume_is_refused(shop: Shop, arguments: tuple[str, ...], said: str) -> None:
    shop.ask("pause", "shop.orders", "--why", LIES)
    refused = shop.ask(*arguments)
    assert refused.exit_code == 1
    assert said in refused.stderr
    assert list(shop.json("plan")["paused"]) == ["shop.orders"]


def test_a_pause_without_a_reason_is_refused(shop: Shop) -> None:
    refused = shop.ask("pause", "shop.orders")
    assert (refused.exit_code, "--why" in refused.stderr) == (2, True)


def test_a_batch_that_is_running_ends(shop: Shop) -> None:
    claim = shop.ledger.claims.take(shop._request(shop._batch("shop.orders", 17)))
    assert "1 running batch finishes" in shop.ask("pause", "shop.orders", "--why", LIES).stdout
    assert statuses(shop)["shop.orders"] == {"running", "paused"}
    shop.ledger.claims.record_failed(claim, error="no", is_transient=False)
    assert statuses(shop)["shop.orders"] == {"failed", "paused"}


@pytest.mark.usefixtures("runs")
def test_requests_for_a_paused_table_are_kept_and_reported_as_waiting(busy_shop: Shop) -> None:
    shop = busy_shop
    shop.ask("pause", "shop.orders", "web.per_order", "--why", LIES)
    for asked in (
        ("recompute", "shop.orders", "2024-11-17", "--yes"),
        ("retry", "shop.orders"),
        ("backfill", "web.per_order", "2024-11-17..2024-11-18", "--yes"),
    ):
        told = shop.ask(*asked, width=200).stdout
        assert "requests are kept, and carried out after `waterclock resume`" in told, asked
        assert LIES in told
    facts = shop.ledger.reads.snapshot(shop.project.flow)
    assert facts.of("shop.orders").requested == {day(17): "recompute"}
    assert facts.of("shop.orders").troubles == {}
    assert facts.of("web.per_order").wanted == {day(17), day(18)}
    shop.ask("resume", "*")
    found = {(batch["table"], batch["reason"]) for batch in shop.json("plan")["batches"]}
    assert {("shop.orders", "recompute requested"), ("shop.orders", "due")} <= found


def test_a_table_that_never_ran_can_be_paused_before(shop: Shop) -> None:
    more = shop.folder / "flows" / "9_more.dpl"
    more.write_text("TRANSFORM sales.more PARTITIONED AS SELECT count(*) AS n FROM shop.orders;\n", encoding="utf-8")
    shop.ask("pause", "sales.more", "--why", "not yet")
    assert statuses(shop)["sales.more"] == {"paused"}


def test_audit_of_a_table_shows_its_pauses_and_resumes(busy_shop: Shop) -> None:
    busy_shop.ask("pause", "shop.orders", "--why", LIES)
    busy_shop.ask("resume", "shop.orders", "--why", "mended")
    told = busy_shop.ask("audit", "shop.orders", width=200).stdout
    assert "paused by" in told
    assert LIES in told
    assert "resumed by" in told
    kept = busy_shop.json("audit", "shop.orders")["pauses"]
    assert [(one["kind"], one["all"], one["why"]) for one in kept] == [
        ("paused", False, LIES), ("resumed", False, "mended"),
    ]  # fmt: skip
