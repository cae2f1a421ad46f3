from __future__ import annotations

from datetime import timedelta

from tests.ledgers import ZERO, day, flow, table
from waterclock.batches.ledger_snapshot import LedgerSnapshot, TableFacts
from waterclock.planner.planning import Planner
from waterclock.timelabel.intervals import IntervalSet

FLOW = flow(table("a.rows", partitioned=True, start=ZERO), table("b.sums", partitioned=True, reads=["a.rows"]))


def needed(*, done: int, now: int) -> dict[str, object]:
    covered = {
        name: IntervalSet.from_intervals([(ZERO, day(end))]) for name, end in (("a.rows", now), ("b.sums", done))
    }
    past = LedgerSnapshot({name: TableFacts(start=ZERO, covered=spans) for name, spans in covered.items()})
    return dict(Planner(FLOW).oldest_needed(past, day(now) + timedelta(hours=1)))


def test_a_reader_with_due_batches_needs_the_inputs_of_the_oldest_one() -> None:
    assert needed(done=3, now=10) == {"a.rows": day(3)}


def test_a_reader_without_due_batches_needs_the_inputs_of_its_next_batch() -> None:
    assert needed(done=10, now=10) == {"a.rows": day(10)}
