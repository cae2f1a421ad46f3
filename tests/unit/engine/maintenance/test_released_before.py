"""A rebuild of all tables releases batches again that a user has released, if they have the same rows. No Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import day, desk, flow, table
from tests.unit.engine.fakes import group, manifest
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.batches.records import BatchResult
from waterclock.engine.maintenance import rebuild_all
from waterclock.engine.maintenance.second_set import Cut
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_outcome import RunOutcome
from waterclock.errors import WaterclockError
from waterclock.ledger.read.current_revisions import CurrentRevision
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import seal

NAME, SAID = "marts.days", {"by": "ann", "why": "the fair"}


@pytest.mark.parametrize(
    ("measures", "digest", "is_released"),
    [
        pytest.param({"released": SAID}, "3:1:1", True, id="the same rows were released"),
        pytest.param({"released": SAID}, "3:1:2", False, id="other rows, which no user has reviewed"),
        pytest.param({}, "3:1:1", False, id="never released"),
    ],
)
def test_a_batch_that_is_held_again_is_released_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measures: dict[str, Any],
    digest: str,
    *,
    is_released: bool,
) -> None:
    days = table(NAME, partitioned=True)
    at_desk, lake = desk(), Lake(str(tmp_path))
    live = BatchResult(day(2), day(3), 4, 3, 10, digest, "_stage", measures=measures)
    cut = Cut(flow(days), day(9), {}, {}, {NAME: [CurrentRevision(live, 7, "c")]})
    held = GroupReport(group(NAME, 2), None, error=WaterclockError("E755", "marts.days is held: n < 3"))
    runs: list[str] = []
    with at_desk.ledger as ledger:
        at_desk.apply(days)
        other: Any = SimpleNamespace(ledger=ledger, lake=lake, folder=lambda table: lake.folder(table.name))

        def run_once(_: object) -> RunOutcome:
            asked = ledger.past.audit(NAME, day(2)).cell.requested if runs else None
            runs.append(str(asked))
            if asked:
                assert ledger.reads.snapshot(at_desk.flow).of(NAME).requested == {day(2): "release"}
                return RunOutcome()
            claim = at_desk.claim(NAME, 2)
            ledger.claims.record_failed(claim, error="E755", is_transient=False, status=BatchStatus.HELD)
            path = lake.slice_path(day(2), claim.number)
            Path(lake.folder(NAME), path).mkdir(parents=True)
            seal(lake.folder(NAME), replace(manifest(NAME, 2, digest="3:1:1"), claim=claim.number, slice_path=path))
            return RunOutcome(failed=[held])

        monkeypatch.setattr(rebuild_all, "second_set_runner", lambda *_: SimpleNamespace(run_once=run_once))
        outcome = rebuild_all._run_second_set(other, cut, other)
        events = [each for each in ledger.past.rows("events") if each["kind"] == "release requested"]
    assert runs == (["None", "release"] if is_released else ["None"])
    assert outcome.failed == ([] if is_released else [held])
    assert [each["who"] for each in events] == (["ann"] if is_released else [])
