"""No runner claims a paused table, and requests for it are kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ledgers import Desk, day, desk, table
from waterclock.batches.audit_records import PauseEvent
from waterclock.batches.ledger_snapshot import Pause
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.timelabel.window import Window


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b", partitioned=True))


def paused(at_desk: Desk, name: str) -> Pause | None:
    return at_desk.ledger.reads.snapshot(at_desk.flow).pause_of(name)


def test_a_paused_table_cannot_be_claimed_until_it_is_resumed(at_desk: Desk) -> None:
    planned_before = at_desk.request("raw.a", 0)
    assert at_desk.ledger.decisions.pause_tables(["raw.a"], who="ann", why="the source lies") == ("raw.a",)
    with pytest.raises(ClaimRefused, match=r"raw\.a is paused") as refused:
        at_desk.ledger.claims.take(planned_before)
    assert refused.value.code == "E429"
    assert refused.value.why == "paused by ann since 2026-01-01 00:00 +00:00: the source lies"
    at_desk.done("raw.b", 0)
    at_desk.ledger.decisions.resume_tables(["raw.a"], who="bob")
    at_desk.done("raw.a", 0)


def test_a_batch_that_is_running_ends(at_desk: Desk) -> None:
    held = at_desk.claim("raw.a", 0)
    at_desk.ledger.decisions.pause_tables(["raw.a"], who="ann", why="x")
    at_desk.ledger.claims.renew(held)
    at_desk.done("raw.a", 0, claim=held)
    assert at_desk.ledger.claims.open() == []


def test_the_pause_of_all_holds_for_tables_that_are_declared_later(at_desk: Desk) -> None:
    at_desk.ledger.decisions.pause_all(who="ann", why="the disk is full")
    at_desk.apply(table("raw.a", partitioned=True), table("raw.new", partitioned=True), fingerprint="flow 2")
    for name in ("raw.a", "raw.new"):
        with pytest.raises(ClaimRefused, match="all is paused"):
            at_desk.claim(name, 0)
    found = paused(at_desk, "raw.new")
    assert found == Pause(at_desk.clock(), "ann", "the disk is full", is_of_all=True)
    at_desk.ledger.decisions.resume_all(who="ann")
    at_desk.done("raw.new", 0)


def test_a_table_that_is_paused_by_name_stays_so_when_all_is_resumed(at_desk: Desk) -> None:
    at_desk.ledger.decisions.pause_tables(["raw.a"], who="ann", why="one")
    at_desk.ledger.decisions.pause_all(who="bob", why="all")
    assert paused(at_desk, "raw.a") == Pause(at_desk.clock(), "ann", "one")
    at_desk.ledger.decisions.resume_all(who="bob")
    with pytest.raises(ClaimRefused):
        at_desk.claim("raw.a", 0)
    assert paused(at_desk, "raw.b") is None


def test_requests_for_a_paused_table_are_kept(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.ledger.claims.record_failed(at_desk.claim("raw.a", 1), error="no", is_transient=False)
    decisions = at_desk.ledger.decisions
    decisions.pause_tables(["raw.a"], who="ann", why="x")
    decisions.request_restate("raw.a", [day(0)], "recompute", who="ann")
    decisions.retry("raw.a", [day(1)], who="ann")
    decisions.request_backfill("raw.a", [day(2)], who="ann")
    decisions.skip("raw.a", [Window(day(3), day(4))], who="ann", why="x")
    decisions.resume_tables(["raw.a"], who="ann")
    facts = at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a")
    assert facts.requested == {day(0): "recompute"}
    assert (facts.troubles, facts.wanted) == ({}, frozenset({day(2)}))
    assert facts.covered.covers(day(3), day(4))


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        (lambda of: of.pause_tables(["raw.a"], who="bob", why="y"), "raw.a is paused already"),
        (lambda of: of.resume_tables(["raw.b"], who="bob"), "raw.b is not paused"),
        (lambda of: of.resume_all(who="bob"), "the project is not paused"),
    ],
)
def test_pausing_a_paused_table_or_resuming_an_unpaused_one_is_refused(
    at_desk: Desk, asked: Callable[..., object], what: str
) -> None:
    at_desk.ledger.decisions.pause_tables(["raw.a"], who="ann", why="x")
    before = at_desk.ledger.sequence()
    with pytest.raises(WaterclockError) as refused:
        asked(at_desk.ledger.decisions)
    assert (refused.value.code, refused.value.what) == ("E430", what)
    assert at_desk.ledger.sequence() == before
    assert paused(at_desk, "raw.a") == Pause(at_desk.clock(), "ann", "x")


def test_resuming_a_table_while_the_whole_project_is_paused_is_refused(at_desk: Desk) -> None:
    at_desk.ledger.decisions.pause_all(who="ann", why="the disk is full")
    with pytest.raises(WaterclockError, match="all is paused") as refused:
        at_desk.ledger.decisions.resume_tables(["raw.a"], who="bob")
    assert "the disk is full" in (refused.value.why or "")
    with pytest.raises(WaterclockError, match="all is paused already"):
        at_desk.ledger.decisions.pause_all(who="ann", why="y")


def test_of_several_tables_those_are_paused_that_were_not(at_desk: Desk) -> None:
    at_desk.ledger.decisions.pause_tables(["raw.a"], who="ann", why="x")
    assert at_desk.ledger.decisions.pause_tables(["raw.a", "raw.b"], who="bob", why="y") == ("raw.b",)
    assert at_desk.ledger.decisions.resume_tables(["raw.a", "raw.b"], who="bob") == ("raw.a", "raw.b")
    with pytest.raises(WaterclockError, match=r"knows no table raw\.c"):
        at_desk.ledger.decisions.pause_tables(["raw.a", "raw.c"], who="bob", why="y")
    assert paused(at_desk, "raw.a") is None


def test_who_paused_and_resumed_is_kept(at_desk: Desk) -> None:
    decisions, at = at_desk.ledger.decisions, at_desk.clock()
    decisions.pause_tables(["raw.a"], who="ann", why="x")
    decisions.pause_tables(["raw.b"], who="ann", why="no part of it")
    decisions.pause_all(who="bob", why="y")
    decisions.resume_all(who="bob", why="mended")
    decisions.resume_tables(["raw.a"], who="ann")
    assert at_desk.ledger.past.pauses("raw.a") == (
        PauseEvent(at, "paused", is_of_all=False, who="ann", why="x"),
        PauseEvent(at, "paused", is_of_all=True, who="bob", why="y"),
        PauseEvent(at, "resumed", is_of_all=True, who="bob", why="mended"),
        PauseEvent(at, "resumed", is_of_all=False, who="ann", why=""),
    )


def test_a_ledger_that_is_taken_up_from_its_export_is_as_paused(at_desk: Desk) -> None:
    at_desk.ledger.decisions.pause_tables(["raw.a"], who="ann", why="one")
    at_desk.ledger.decisions.pause_all(who="bob", why="all")
    lines = list(at_desk.ledger.maintenance.export_lines())
    with desk().ledger as other:
        other.maintenance.load([lines])
        found = other.reads.snapshot(at_desk.flow)
    assert found.of("raw.a").paused == Pause(at_desk.clock(), "ann", "one")
    assert found.paused == Pause(at_desk.clock(), "bob", "all", is_of_all=True)
