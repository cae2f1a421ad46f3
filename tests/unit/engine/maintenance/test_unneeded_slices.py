from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.ledgers import ZERO, day, table
from waterclock.batches.records import Claim, ClaimRequest, Input
from waterclock.engine.maintenance.unneeded_slices import (
    RetentionFacts,
    find_replacement_times,
    find_retention_start,
    is_held_or_claimed,
    is_read,
    may_delete_slice,
)
from waterclock.flow.declarations import Place, Rule, Table
from waterclock.flow.enums import Action, Kind, Mode, Scope, TableType
from waterclock.storage.slices.inventory import SliceFolder
from waterclock.timelabel.duration import parse_duration

NOW = ZERO + timedelta(days=100)
SINCE = NOW - timedelta(days=30)
OLD = int((NOW - timedelta(days=60)).timestamp() * 1000)
NEW = int((NOW - timedelta(hours=2)).timestamp() * 1000)
KEPT = parse_duration("30 days")


def of(kind: Kind = Kind.TRANSFORM, *, mode: Mode = Mode.APPEND, kept: bool = False) -> Table:
    made = table("a.rows", kind=kind, mode=mode, partitioned=mode is Mode.APPEND)
    return replace(made, keep_versions=KEPT if kept else None)


def leaf(claim: int, label: datetime | None = None, *, sealed: bool = True) -> SliceFolder:
    at = label or day(1)
    return SliceFolder(f"_stage/{at:%Y%m%d}/c={claim}", claim, at, sealed)


def known(**parts: Any) -> RetentionFacts:
    usual: dict[str, Any] = {"claims": {OLD: "done", NEW: "done"}, "current": {day(1): OLD}, "kept_since": SINCE}
    return RetentionFacts(**(usual | {"now": NOW} | parts))


def test_versions_are_kept_for_thirty_days_by_default() -> None:
    assert find_retention_start(of(), NOW) == SINCE
    assert find_retention_start(replace(of(), keep_versions=parse_duration("7 days")), NOW) == NOW - timedelta(days=7)


def test_a_slice_is_replaced_when_the_next_revision_of_its_label_is_committed() -> None:
    revisions = [(day(1), 1, day(10)), (day(2), 2, day(11)), (day(1), 3, day(12)), (day(1), 4, day(13))]
    assert find_replacement_times(revisions) == {(day(1), 1): day(12), (day(1), 3): day(13)}


def test_slices_of_labels_that_do_not_exist_since_are_replaced_when_the_table_was_emptied() -> None:
    """A rebuild of all tables merged hours into days, so only the first hour has a later revision."""
    hour = day(1) + timedelta(hours=1)
    revisions = [(day(1), 1, day(10)), (hour, 1, day(10)), (day(1), 7, day(20)), (day(2), 8, day(21))]
    assert find_replacement_times(revisions, [(7, day(20))]) == {(day(1), 1): day(20), (hour, 1): day(20)}
    # a publish of states is only declared again
    assert find_replacement_times(revisions, [(0, day(20))]) == {(day(1), 1): day(20), (hour, 1): day(20)}


@pytest.mark.parametrize("kind", list(Kind))
def test_the_newest_slice_of_a_label_stays(kind: Kind) -> None:
    assert not may_delete_slice(of(kind, kept=True), leaf(OLD), known())


@pytest.mark.parametrize(
    ("kind", "kept", "goes"),
    [
        (Kind.TRANSFORM, False, True),
        (Kind.PUBLISH, False, True),
        (Kind.COLLECT, False, False),  # its source may no longer contain these rows
        (Kind.COLLECT, True, True),
    ],
)
def test_a_replaced_slice_is_deleted_once_no_kept_version_reads_it(kind: Kind, kept: bool, goes: bool) -> None:
    long_ago = known(current={day(1): NEW}, replaced={(day(1), OLD): SINCE - timedelta(seconds=1)})
    assert may_delete_slice(of(kind, kept=kept), leaf(OLD), long_ago) is goes
    lately = known(current={day(1): NEW}, replaced={(day(1), OLD): SINCE})
    assert not may_delete_slice(of(kind, kept=kept), leaf(OLD), lately)


def test_a_slice_superseded_by_an_unchanged_recollection_is_deleted() -> None:
    again = int((NOW - timedelta(days=2)).timestamp() * 1000)
    claims = {OLD: "done", again: "done", NEW: "done"}
    assert may_delete_slice(of(Kind.COLLECT), leaf(again), known(claims=claims))
    assert not may_delete_slice(of(Kind.COLLECT), leaf(NEW), known(claims=claims))


def test_a_slice_that_the_table_reads_is_kept_even_if_the_ledger_calls_it_replaced() -> None:
    found = leaf(OLD)
    replaced = {(day(1), OLD): day(2)}
    assert may_delete_slice(of(), found, known(current={day(1): NEW}, replaced=replaced))
    assert not may_delete_slice(of(), found, known(current={day(1): NEW}, replaced=replaced, live={found.path}))


@pytest.mark.parametrize("sealed", [True, False])
def test_nothing_of_an_open_claim_is_touched(sealed: bool) -> None:
    assert not may_delete_slice(of(), leaf(OLD, sealed=sealed), known(claims={OLD: "open"}))


def test_an_unsealed_slice_is_deleted_once_its_claim_has_ended() -> None:
    assert may_delete_slice(of(Kind.COLLECT), leaf(NEW, sealed=False), known(claims={NEW: "lost"}))
    assert may_delete_slice(of(Kind.COLLECT), leaf(OLD, sealed=False), known(claims={}))
    assert not may_delete_slice(
        of(Kind.COLLECT), leaf(NEW, sealed=False), known(claims={})
    )  # perhaps still being written


def test_a_sealed_slice_of_an_unknown_claim_is_kept() -> None:
    assert not may_delete_slice(of(), leaf(OLD), known(claims={}))


@pytest.mark.parametrize("status", ["failed", "held", "lost"])
def test_slices_of_failed_claims_are_kept_for_a_while(status: str) -> None:
    assert not may_delete_slice(of(), leaf(NEW), known(claims={NEW: status}))
    assert may_delete_slice(of(), leaf(OLD), known(claims={OLD: status}))


def test_an_old_state_is_deleted_only_with_keep_versions_and_if_readers_use_a_later_one() -> None:
    made = {(day(at), OLD): day(20) for at in (1, 2, 90)}
    states = known(current={day(1): OLD, day(2): OLD, day(90): OLD}, made=made)
    said = of(mode=Mode.REPLACE, kept=True)
    assert may_delete_slice(said, leaf(OLD, day(1)), states)
    assert not may_delete_slice(said, leaf(OLD, day(2)), states)  # read until that of the 90th exists
    assert not may_delete_slice(said, leaf(OLD, day(90)), states)
    assert not may_delete_slice(of(mode=Mode.REPLACE), leaf(OLD, day(1)), states)
    lately = replace(states, made={(day(1), OLD): NOW})
    assert not may_delete_slice(said, leaf(OLD, day(1)), lately)


def test_a_delivered_slice_is_deleted_once_a_later_label_is_delivered() -> None:
    made = {(day(at), OLD): day(20) for at in (1, 2)}
    assert may_delete_slice(of(Kind.PUBLISH), leaf(OLD, day(1)), known(current={day(1): OLD, day(2): OLD}, made=made))
    assert not may_delete_slice(
        of(Kind.PUBLISH), leaf(OLD, day(2)), known(current={day(1): OLD, day(2): OLD}, made=made)
    )


@pytest.mark.parametrize(("kind", "kept", "goes"), [(Kind.TRANSFORM, False, True), (Kind.COLLECT, False, False),
                                                   (Kind.COLLECT, True, True)])  # fmt: skip
def test_the_slices_of_dropped_windows_go(kind: Kind, kept: bool, goes: bool) -> None:
    current = {day(1): OLD, day(99): NEW}
    assert may_delete_slice(of(kind, kept=kept), leaf(OLD), known(current=current, dropped_before=day(50))) is goes
    assert not may_delete_slice(of(kind, kept=kept), leaf(OLD), known(current=current, dropped_before=day(1)))


def test_slices_of_a_merge_stay_for_its_fold() -> None:
    current = {day(1): OLD, day(99): NEW}
    made = {(day(1), OLD): day(2)}
    assert not may_delete_slice(of(mode=Mode.MERGE, kept=True), leaf(OLD), known(current=current, made=made))


def test_an_older_state_stays_while_a_batch_that_is_to_be_made_reads_it() -> None:
    states = {"current": {day(1): OLD, day(2): OLD + 1, day(3): NEW}, "made": {(day(1), OLD): day(3)}}
    kept = of(mode=Mode.REPLACE, kept=True)
    assert may_delete_slice(kept, leaf(OLD), known(**states))
    assert may_delete_slice(kept, leaf(OLD), known(**states, needed=day(3)))
    assert not may_delete_slice(kept, leaf(OLD), known(**states, needed=day(2)))


@pytest.mark.parametrize(("mode", "found"), [(Mode.APPEND, [False, True, False]), (Mode.REPLACE, [True, True, False])])
def test_slices_that_a_running_batch_reads_are_found_by_its_inputs(mode: Mode, found: list[bool]) -> None:
    read = Input("a.rows", "a.rows", "slices", day(2), day(3), "", 7, "0.0")
    assert [is_read(of(mode=mode), leaf(OLD, day(number)), [read]) for number in (1, 2, 3)] == found


def test_a_slice_of_a_held_batch_is_kept() -> None:
    claims = {"claims": {OLD: "held"}}
    assert may_delete_slice(of(), leaf(OLD, day(2)), known(**claims))
    assert not may_delete_slice(of(), leaf(OLD, day(2)), known(**claims, held={OLD}))


@pytest.mark.parametrize(("scope", "goes"), [(Scope.BATCH, True), (Scope.TABLE, False)])
def test_a_table_rule_of_a_publish_keeps_the_staged_slice_of_every_label(scope: Scope, goes: bool) -> None:
    published = replace(of(Kind.PUBLISH), rules=(Rule("count(*) > 0", "some", scope, Action.FAIL, Place("f", 1, 1)),))
    both = known(current={day(1): OLD, day(2): NEW}, made={(day(1), OLD): day(2)})
    assert may_delete_slice(published, leaf(OLD), both) is goes
    of_state = replace(published, mode=Mode.REPLACE, type=TableType.REGULAR)
    assert may_delete_slice(of_state, leaf(OLD), both)  # the destination contains a complete state


@pytest.mark.parametrize(("keys", "goes"), [(("id",), False), (("id", "timelabel"), True)])
def test_a_merge_publish_keeps_staged_slices_unless_its_key_has_the_timelabel(
    keys: tuple[str, ...], goes: bool
) -> None:
    """A label that is delivered again reads the keys of its earlier delivery, and the rows of older labels."""
    published = table("a.rows", kind=Kind.PUBLISH, mode=Mode.MERGE, partitioned=True, keys=keys)
    both = known(current={day(1): OLD, day(2): NEW}, made={(day(1), OLD): day(2)})
    assert may_delete_slice(published, leaf(OLD), both) is goes


def test_a_formerly_held_slice_is_kept_while_its_label_is_claimed_or_held_again() -> None:
    """A process that scanned while the claim was open saw no held rows."""
    was_held = leaf(OLD, day(2))
    assert may_delete_slice(of(), was_held, known(claims={OLD: "held"}))
    request = ClaimRequest("a.rows", (day(2),), "c", "f", "here", "ann", NOW, 60, 0)
    open_ = [Claim(NEW, request, NOW)]
    assert is_held_or_claimed(was_held, frozenset(), open_, "a.rows")
    assert is_held_or_claimed(was_held, {OLD}, [], "a.rows")
    assert not is_held_or_claimed(leaf(OLD, day(3)), {NEW}, open_, "a.rows")
    assert not is_held_or_claimed(was_held, frozenset(), open_, "a.others")
