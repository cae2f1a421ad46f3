"""A request is withdrawn before a runner carries it out."""

from __future__ import annotations

from tests.unit.cli.conftest import Runs, Shop, day


def asked(shop: Shop) -> dict[str, object]:
    """Return the requested labels by table."""
    tables = shop.ledger.reads.snapshot(shop.project.flow).tables
    found = {name: {*facts.requested, *facts.following, *facts.wanted} for name, facts in tables.items()}
    return {name: labels for name, labels in found.items() if labels}


def test_a_withdrawn_request_is_removed_and_shown_in_the_audit(busy_shop: Shop, runs: Runs) -> None:
    busy_shop.ask("recompute", "shop.orders", "2024-11-17..2024-11-18", "--yes", "--no-run")
    assert "recompute requested" in busy_shop.ask("plan").stdout
    told = busy_shop.ask("withdraw", "shop.orders", "2024-11-18", "--why", "the wrong day")
    assert told.stdout == "no longer requested: 1 batch of shop.orders (20241118000000)\n"
    assert asked(busy_shop) == {"shop.orders": {day(17)}}
    audit = busy_shop.ask("audit", "shop.orders@2024-11-18").stdout
    assert "request withdrawn" in audit
    assert "the wrong day" in audit
    assert runs.asked == []


def test_the_plan_is_unchanged_after_a_request_is_withdrawn(busy_shop: Shop) -> None:
    before = busy_shop.json("plan")["batches"]
    busy_shop.ask("recompute", "shop.orders", "2024-11-18", "--yes", "--no-run")
    assert busy_shop.json("plan")["batches"] != before
    assert busy_shop.json("withdraw", "shop.*", "--why", "no") == {
        "withdrawn": {"shop.orders": ["20241118000000"]}, "why": "no",
    }  # fmt: skip
    assert busy_shop.json("plan")["batches"] == before
    assert asked(busy_shop) == {}


def test_a_backfill_request_before_a_later_start_can_be_withdrawn(busy_shop: Shop) -> None:
    busy_shop.ledger.decisions.request_backfill("web.per_order", [day(17), day(18)], who="ann")
    header = busy_shop.folder / "waterclock.toml"
    header.write_text(header.read_text().replace('start = "2024-11-17"', 'start = "2024-11-19"'), encoding="utf-8")
    assert "2024-11-19" in header.read_text()
    told = busy_shop.json("withdraw", "web.per_order")
    assert told["withdrawn"] == {"web.per_order": ["20241117000000", "20241118000000"]}
    assert asked(busy_shop) == {}


def test_withdrawing_without_a_request_is_refused_and_lists_existing_requests(busy_shop: Shop) -> None:
    refused = busy_shop.ask("withdraw", "shop.orders")
    assert refused.exit_code == 1
    assert "E428 there is nothing to withdraw" in refused.stderr
    assert "no batch of the project is requested" in refused.stderr
    busy_shop.ledger.decisions.request_backfill("web.per_order", [day(17)], who="ann")
    assert "requested: web.per_order@20241117000000" in busy_shop.ask("withdraw", "shop.orders").stderr
    assert "E511" in busy_shop.ask("withdraw", "shop.ordres").stderr


def test_a_request_that_a_runner_has_claimed_cannot_be_withdrawn(busy_shop: Shop) -> None:
    busy_shop.ledger.decisions.request_restate("shop.orders", [day(18)], "recompute", who="ann")
    busy_shop.ledger.claims.take(busy_shop._request(busy_shop._batch("shop.orders", 18)))
    refused = busy_shop.ask("withdraw", "shop.orders")
    assert "a runner is making the requested batch" in refused.stderr
    assert asked(busy_shop) == {"shop.orders": {day(18)}}
