"""START moves back while runners of the former flow are active."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import ZERO, Desk, day, desk, flow, table
from waterclock.batches.ledger_snapshot import CONDITION, Closing
from waterclock.batches.records import Claim
from waterclock.engine.earlier_starts import find_shortened_reads
from waterclock.flow.closings import Closes
from waterclock.flow.declarations import Read, Table
from waterclock.flow.enums import ReadKind
from waterclock.operations.proposals import _withdraw
from waterclock.planner.planning import Planner

ORDERS = table("orders", partitioned=True, start=day(5))
TOTAL = replace(table("total", partitioned=True, start=day(5)), reads=(Read("orders", ReadKind.HISTORY),))
NOW = day(9)


@pytest.fixture
def shop() -> Iterator[Desk]:
    """Yield two days of orders, and their first total."""
    opened = desk()
    with opened.ledger:
        opened.apply(ORDERS, TOTAL)
        opened.done("orders", 5)
        opened.done("orders", 6)
        opened.done("total", 5, reads={5: [opened.read("orders", 5, 6, read="HISTORY(orders)")]})
        yield opened


def total_of_day_6(shop: Desk) -> Claim:
    return shop.claim("total", 6, reads={6: [shop.read("orders", 5, 7, read="HISTORY(orders)")]})


def begin_earlier(shop: Desk, total: Table = TOTAL, *, meanwhile: bool = False) -> list[Claim]:
    """Apply a flow in which orders start on the 2nd.

    If `meanwhile`, a batch is claimed after the search for labels to make again.
    """
    former, found = shop.flow, list[Claim]()
    earlier = flow(replace(ORDERS, start=day(2)), total, fingerprint="flow 2")

    def search() -> Mapping[str, Collection[datetime]]:
        again = find_shortened_reads(shop.ledger, earlier, NOW)
        if meanwhile and not found:
            assert shop.flow is former
            found.append(total_of_day_6(shop))
        return again

    shop.ledger.declared.apply(earlier, who="ann", now=ZERO, runner="here", reading_back=search)
    shop.flow = earlier
    return found


def requested(shop: Desk) -> dict[datetime, str]:
    return dict(shop.ledger.reads.snapshot(shop.flow).of("total").requested)


def test_a_batch_that_is_being_made_is_made_once_more(shop: Desk) -> None:
    claim = total_of_day_6(shop)
    begin_earlier(shop)
    shop.done("total", 6, claim=claim)
    assert requested(shop) == dict.fromkeys((day(5), day(6)), "recompute")


def test_a_closed_window_is_made_again_up_to_the_same_tick(shop: Desk) -> None:
    begin_earlier(shop, replace(TOTAL, closes=Closes("TRUE", "TRUE")))
    assert requested(shop) == {day(5): "reopen"}  # `recompute` would add late rows
    assert not shop.ledger.decisions.withdraw("total", [day(5)], who="ann")


def test_a_request_to_recompute_a_closed_window_stays(shop: Desk) -> None:
    shop.ledger.decisions.request_restate("total", [day(5)], "recompute", who="ann")
    begin_earlier(shop, replace(TOTAL, closes=Closes("TRUE", "TRUE")))
    assert requested(shop) == {day(5): "recompute"}


@pytest.mark.parametrize("is_earlier_first", [True, False, None])
def test_a_closed_window_is_made_again_also_if_its_recompute_is_withdrawn(
    shop: Desk, *, is_earlier_first: bool | None
) -> None:
    closed = replace(TOTAL, closes=Closes("TRUE", "TRUE"))
    shop.apply(ORDERS, closed, fingerprint="flow 1b")
    shop.ledger.decisions.close_books("total", [(day(5), Closing(day(6), reason=CONDITION))], who="ann")
    if is_earlier_first is True:
        begin_earlier(shop, closed)
    shop.ledger.decisions.request_restate("total", [day(5)], "recompute", who="ann")
    if is_earlier_first is False:
        begin_earlier(shop, closed)
    assert requested(shop) == {day(5): "recompute"}
    snapshot = shop.ledger.reads.snapshot(shop.flow)
    at: Any = SimpleNamespace(flow=shop.flow, planner=Planner(shop.flow), snapshot=snapshot, now=NOW)
    _withdraw(at, shop.ledger, {"total": [day(5)]}, who="ann", why="")
    assert requested(shop) == ({} if is_earlier_first is None else {day(5): "reopen"})


def test_so_is_one_that_was_claimed_in_between(shop: Desk) -> None:
    [claim] = begin_earlier(shop, meanwhile=True)
    shop.done("total", 6, claim=claim)
    assert requested(shop) == dict.fromkeys((day(5), day(6)), "recompute")


def test_one_that_is_lost_instead_is_made_from_all_rows_and_can_be_requested(shop: Desk) -> None:
    claim = total_of_day_6(shop)
    begin_earlier(shop)
    shop.ledger.claims.close_lost(claim, "its runner has ended")
    assert shop.ledger.decisions.request_backfill("total", [day(6)], who="ann") == (day(6),)
    assert not shop.ledger.decisions.request_backfill("total", [day(6)], who="ann")
    facts = shop.ledger.reads.snapshot(shop.flow).of("total")
    assert list(facts.requested) == [day(5)]
    assert list(facts.wanted) == [day(6)]
