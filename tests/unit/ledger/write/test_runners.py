from __future__ import annotations

from datetime import timedelta

import pytest

from tests.ledgers import Desk, day, table
from waterclock.ledger.ledger_errors import ClaimRefused


def register(at_desk: Desk, name: str = "here") -> None:
    at_desk.ledger.runners.register(name, who="ann", command="run --watch", flow="flow 1", lease_seconds=60)


def test_a_runner_is_listed_with_its_claims_until_it_leaves(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    begun = at_desk.clock()
    register(at_desk)
    at_desk.clock.pass_by(seconds=10)
    claim = at_desk.claim("raw.a", 0, 1)
    at_desk.ledger.runners.see("here", flow="flow 1")
    [seen] = at_desk.ledger.runners.all()
    assert (seen.runner, seen.who, seen.command, seen.started_at) == ("here", "ann", "run --watch", begun)
    assert seen.alive_until == begun + timedelta(seconds=70)
    [held] = seen.held
    assert (held.claim, held.table, held.labels) == (claim.number, "raw.a", (day(0), day(1)))
    at_desk.done("raw.a", 0, 1, claim=claim)
    at_desk.ledger.runners.leave("here")
    assert at_desk.ledger.runners.all() == []


def test_a_runner_known_only_by_its_claims_is_listed(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a"))
    at_desk.claim("raw.a", 0, runner="elsewhere")
    [seen] = at_desk.ledger.runners.all()
    assert (seen.runner, seen.seen_at, seen.alive_until) == ("elsewhere", None, at_desk.clock() + timedelta(seconds=60))


def test_heartbeats_of_a_runner_do_not_wake_other_runners(at_desk: Desk) -> None:
    before = at_desk.ledger.sequence()
    register(at_desk)
    at_desk.ledger.runners.see("here", flow="flow 1")
    at_desk.ledger.runners.leave("here")
    assert at_desk.ledger.sequence() == before


def test_runners_not_seen_for_a_day_are_forgotten(at_desk: Desk) -> None:
    register(at_desk, "old")
    at_desk.clock.pass_by(hours=25)
    register(at_desk, "new")
    assert [seen.runner for seen in at_desk.ledger.runners.all()] == ["new"]


def test_a_pool_bounds_the_batches_of_all_runners_together(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b", partitioned=True))
    first = at_desk.claim("raw.a", 0, pool=("heavy", 2), runner="one")
    at_desk.claim("raw.b", 0, pool=("heavy", 2), runner="two")
    at_desk.claim("raw.b", 1, pool=("light", 2), runner="two")
    with pytest.raises(ClaimRefused, match="the pool heavy is full") as refused:
        at_desk.claim("raw.a", 1, pool=("heavy", 2), runner="two")
    assert (refused.value.code, refused.value.transient) == ("E427", True)
    at_desk.done("raw.a", 0, claim=first)
    at_desk.claim("raw.a", 1, pool=("heavy", 2), runner="two")


def test_a_larger_pool_size_of_a_claim_admits_more_claims(at_desk: Desk) -> None:
    """Each claim has its own pool size: a changed project file applies from the next claim on."""
    at_desk.apply(table("raw.a", partitioned=True))
    at_desk.claim("raw.a", 0, pool=("heavy", 1))
    at_desk.claim("raw.a", 1, pool=("heavy", 2))


def test_a_claim_whose_lease_is_out_holds_no_place_in_a_pool(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    at_desk.claim("raw.a", 0, pool=("heavy", 1), lease_seconds=60)
    at_desk.clock.pass_by(seconds=61)
    at_desk.claim("raw.a", 1, pool=("heavy", 1))
