"""A past window whose late rows a rule holds is skipped by the batch that read it, and held separately. No Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import Desk, day, desk, table
from tests.unit.engine.fakes import collect, group, manifest
from waterclock.batches.ledger_snapshot import LOOK_AGAIN, BatchStatus
from waterclock.engine.batch import audit as auditing
from waterclock.engine.batch.expectations import HeldBackError, RuleVerdict
from waterclock.engine.batch.held_windows import leave_out_held_windows
from waterclock.engine.batch.results import Notes
from waterclock.engine.batch.seal import SealedGroup
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.flow.merge_settings import Merge
from waterclock.planner.plan import RECOLLECT
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import seal
from waterclock.storage.slices.writer import WrittenSlices

NAME = "raw.o"
HOLDS = RuleVerdict(holds=("few: 1 row",))


def sealed_group(*labels: int) -> SealedGroup:
    manifests = tuple(manifest(NAME, label, digest=f"1:{label}:0") for label in labels)
    return SealedGroup(WrittenSlices(manifests, {it.label: {} for it in manifests}), Notes({}))


def audited(monkeypatch: pytest.MonkeyPatch, own: tuple[int, ...], held: set[int]) -> auditing.GroupAudit:
    """Audit slices of days 1 to 5, some of them read again, with a rule that holds some of them."""

    def judge(_: Any, __: Table, ___: str, piece: Any, *____: Any, **_____: Any) -> RuleVerdict:
        return HOLDS if piece.label in {day(label) for label in held} else RuleVerdict()

    monkeypatch.setattr(auditing, "evaluate_audit", judge)
    monkeypatch.setattr(auditing, "measure_again", lambda *given: given[-1])
    claim: Any = SimpleNamespace(request=SimpleNamespace(labels=()))
    attempt: Any = SimpleNamespace(
        work=None, table=table(NAME), group=group(NAME, *own), held=None, adopted=(), spark=None, folder="", where=NAME
    )
    return auditing.audit(attempt, claim, SimpleNamespace(pins={}), sealed_group(1, 2, 3, 4, 5))  # type: ignore[arg-type]


def test_held_past_windows_hold_no_batch_and_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for own in ((5,), (4, 5)):
        found = audited(monkeypatch, own, {1, 3})
        assert (found.hold, sorted(found.past)) == (None, [day(1), day(3)])
    assert not audited(monkeypatch, (5,), set()).past


def test_a_batch_that_is_held_itself_commits_no_past_window_either(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audited(monkeypatch, (5,), {3, 5})
    # the past window is removed first, then the batch is checked without it
    assert (found.hold, list(found.past)) == (None, [day(3)])
    assert list(audited(monkeypatch, (4, 5), {3, 5}).past) == [day(3)]
    assert audited(monkeypatch, (5,), {5}).hold == HOLDS
    with pytest.raises(HeldBackError) as caught:
        audited(monkeypatch, (4, 5), {5})
    assert caught.value.labels == {day(5)}


def leave_out(at: Desk, root: Path, past: int, digest: str, *, fold: bool = False) -> tuple[datetime, ...]:
    """Let a batch of day 5 find late rows in past windows; return the labels of the slices that it may commit."""
    declared = replace(collect(NAME), mode=Mode.MERGE, fold=Merge(("id",))) if fold else collect(NAME)
    claim = at.claim(NAME, past, 5, restates="late rows within LOOKBACK")
    lake = Lake(str(root))
    work = SimpleNamespace(ledger=at.ledger, lake=lake, settings=SimpleNamespace(who="ann"), report_once=lambda _: None)
    attempt: Any = SimpleNamespace(work=work, table=declared, group=group(NAME, 5), folder=lake.folder(NAME))
    found = sealed_group(past, 5)
    late = replace(found.manifests[0], digest=digest)
    found = replace(found, written=replace(found.written, manifests=(late, found.manifests[1])))
    left = leave_out_held_windows(attempt, claim, found, {day(past): HOLDS})
    at.done(NAME, 5, claim=claim)
    return tuple(it.label for it in left.manifests)


def hold(at: Desk, root: Path, past: int, digest: str) -> None:
    """Hold the requested batch of a past window."""
    claim, lake = at.claim(NAME, past), Lake(str(root))
    path = lake.slice_path(day(past), claim.number)
    Path(lake.folder(NAME), path).mkdir(parents=True)
    seal(lake.folder(NAME), replace(manifest(NAME, past, digest=digest), claim=claim.number, slice_path=path))
    at.ledger.claims.record_failed(claim, error="held", is_transient=False, status=BatchStatus.HELD)


def state(at: Desk, label: int) -> tuple[str | None, bool]:
    """Return the request for a past window, and whether a held attempt prevents runners from making it."""
    facts = at.ledger.reads.snapshot(at.flow).of(NAME)
    trouble = facts.troubles.get(day(label))
    return facts.requested.get(day(label)), trouble is not None and trouble.due_again is None


@pytest.mark.parametrize("fold", [False, True])
def test_a_window_is_requested_once_for_the_same_late_rows(tmp_path: Path, *, fold: bool) -> None:
    verb = LOOK_AGAIN if fold else RECOLLECT
    with (at := desk()).ledger:
        at.apply(table(NAME, partitioned=True))
        at.done(NAME, 3)
        assert leave_out(at, tmp_path, 3, "2:7:0", fold=fold) == (day(5),)
        assert state(at, 3) == (verb, False)
        hold(at, tmp_path, 3, "2:7:0")
        assert state(at, 3) == (verb, True)
        events = len(at.ledger.past.audit(NAME, day(3)).events)
        at.ledger.decisions.request_restate(NAME, [day(5)], "recompute", who="ann")
        assert leave_out(at, tmp_path, 3, "2:7:0", fold=fold) == (day(5),)
        assert state(at, 3) == (verb, True), "it is already held with these rows"
        asked = [it.kind for it in at.ledger.past.audit(NAME, day(3)).events][events:]
        assert not [kind for kind in asked if "requested" in kind]


def test_further_late_rows_replace_the_held_slice_and_end_the_request_to_release_it(tmp_path: Path) -> None:
    with (at := desk()).ledger:
        at.apply(table(NAME, partitioned=True))
        at.done(NAME, 3)
        leave_out(at, tmp_path, 3, "2:7:0")
        hold(at, tmp_path, 3, "2:7:0")
        at.ledger.decisions.request_release(NAME, [day(3)], who="ann", why="known")
        at.ledger.decisions.request_restate(NAME, [day(5)], "recompute", who="ann")
        leave_out(at, tmp_path, 3, "3:9:0")
        assert state(at, 3) == (RECOLLECT, False)
        hold(at, tmp_path, 3, "3:9:0")
        assert state(at, 3) == (RECOLLECT, True)
