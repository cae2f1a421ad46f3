"""A held batch is released as sealed, if it is still correct in the current table. No Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import day, table
from tests.unit.engine.fakes import collect, group, manifest
from waterclock.batches.former_names import FormerNames
from waterclock.batches.records import BatchResult, Claim, ClaimRequest, Slice
from waterclock.engine.batch.claim_record import write_claim_record
from waterclock.engine.batch.releasing import find_held_batch
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Batching, Kind, Mode
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import seal
from waterclock.timelabel.intervals import IntervalSet

NAME, HELD, CLAIM = "out.totals", 3, 20
BY_LABEL = table(NAME, kind=Kind.PUBLISH, mode=Mode.MERGE, partitioned=True, keys=("id",))
OF_STATES = table(NAME, kind=Kind.PUBLISH, mode=Mode.MERGE, keys=("id",))


def find(
    tmp_path: Path,
    publish: Table,
    known: dict[int, int],
    source: dict[str, Any] | None = None,
    due_again: datetime | None = None,
) -> Any:
    """Return the held delivery of day 3. `known` has the claims of the recorded deliveries by day."""
    lake = Lake(str(tmp_path))
    folder, path = lake.folder(f"publish/{NAME}"), lake.slice_path(day(HELD), CLAIM)
    request = ClaimRequest(
        table=NAME,
        labels=(day(HELD),),
        code="c",
        flow="f",
        runner="r",
        who="ann",
        now=day(9),
        lease_seconds=60,
        target_version=-1,
    )
    held = replace(manifest(NAME, HELD), claim=CLAIM, slice_path=path, source=source or {})
    Path(folder, path).mkdir(parents=True)
    seal(folder, held)
    result = BatchResult(day(HELD), day(HELD + 1), -1, 1, 10, None, path)
    write_claim_record(folder, Claim(CLAIM, request, day(9)), [result])

    def slices(name: str, low: datetime, high: datetime) -> list[Slice]:
        pieces = [(day(number), claim) for number, claim in sorted(known.items()) if low <= day(number) < high]
        return [Slice(name, label, label, claim, -1, 0, 0, None, "", None) for label, claim in pieces]

    work: Any = SimpleNamespace(
        folder=lambda _: folder,
        lake=lake,
        former=FormerNames(),
        ledger=SimpleNamespace(
            past=SimpleNamespace(
                audit=lambda *_: SimpleNamespace(cell=SimpleNamespace(requested=None, due_again=due_again))
            ),
            reads=SimpleNamespace(held_claim=lambda *_: CLAIM, slices=slices),
        ),
    )
    return find_held_batch(work, publish, group(NAME, HELD), {day(HELD): ()})


@pytest.mark.parametrize(
    ("publish", "known", "source"),
    [
        pytest.param(BY_LABEL, {1: 10, 2: 12, 3: 11, 4: 21}, None, id="a later label was delivered since"),
        pytest.param(BY_LABEL, {1: 10, 2: 21}, None, id="the label was never delivered, so it restores nothing"),
        pytest.param(replace(BY_LABEL, mode=Mode.APPEND), {2: 21, 3: 11}, None, id="labels are independent"),
        pytest.param(OF_STATES, {1: 10, 2: 21}, {"is_whole": True}, id="it contains the whole state"),
        pytest.param(OF_STATES, {1: 10, 2: 12}, None, id="nothing was delivered since"),
    ],
)
def test_a_held_delivery_is_released_as_it_was_sealed(
    tmp_path: Path, publish: Table, known: dict[int, int], source: dict[str, Any] | None
) -> None:
    assert find(tmp_path, publish, known, source).manifest.claim == CLAIM


@pytest.mark.parametrize(
    ("publish", "known"),
    [
        pytest.param(BY_LABEL, {1: 10, 2: 21, 3: 11}, id="it may restore a row as the earlier label had delivered it"),
        pytest.param(OF_STATES, {1: 10, 2: 21}, id="it contains the changes to an earlier state"),
    ],
)
def test_a_held_delivery_is_not_released_after_another_one_that_it_does_not_know(
    tmp_path: Path, publish: Table, known: dict[int, int]
) -> None:
    with pytest.raises(WaterclockError, match="E756") as refused:
        find(tmp_path, publish, known)
    assert refused.value.why == "20130103000000 was delivered since"
    assert "retry" in str(refused.value.fix)


def test_a_window_for_which_further_late_rows_were_found_is_not_released(tmp_path: Path) -> None:
    with pytest.raises(WaterclockError) as caught:
        find(tmp_path, BY_LABEL, {}, due_again=day(9))
    assert (caught.value.code, "further late rows" in str(caught.value.why)) == ("E756", True)


@pytest.mark.parametrize("stands", [False, True])
def test_a_held_snapshot_covered_by_a_later_one_is_not_released(*, stands: bool) -> None:
    cell = SimpleNamespace(requested=None, current_claim=None, due_again=day(9))
    covered = IntervalSet.from_intervals([(day(1), day(5 if stands else 3))])
    reads = SimpleNamespace(held_claim=lambda *_: CLAIM, covered_windows=lambda _: covered)
    past = SimpleNamespace(audit=lambda *_: SimpleNamespace(cell=cell))
    work: Any = SimpleNamespace(folder=str, ledger=SimpleNamespace(past=past, reads=reads))
    table_of_states = collect(NAME, batching=Batching.SNAPSHOT, mode=Mode.REPLACE)
    with pytest.raises(WaterclockError, match="E756") as refused:
        find_held_batch(work, table_of_states, group(NAME, HELD), {day(HELD): ()})
    expected = "a later snapshot stands for it" if stands else "the next run makes it again, with further late rows"
    assert refused.value.why == expected
    assert ("waterclock retry" in (refused.value.fix or "")) is not stands
