"""Computes a project's monitoring metrics: progress, due batches and failures. Pure functions, no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.flow.declarations import Flow
from waterclock.planner.plan import Plan, Status

# Statuses of due labels that are not done. All are reported for each table, even with 0, so that no series disappears
REPORTED_STATUSES = (
    Status.READY,
    Status.WAITING,
    Status.PAUSED,
    Status.BLOCKED,
    Status.STALE,
    Status.RUNNING,
    Status.FAILED,
    Status.HELD,
    Status.EXPIRED,
)


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge with its name, help text and label names (`labels`). `values` maps label values to numbers."""

    name: str
    help: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]


def metrics_of(flow: Flow, snapshot: LedgerSnapshot, plan: Plan, now: datetime) -> Iterator[Metric]:
    """Yield the metrics of all tables at `now`. Their number depends on the number of tables, not on their history."""
    facts = {name: snapshot.of(name) for name in flow.tables}
    due: Counter[tuple[str, ...]] = Counter(
        {(name, str(status)): 0 for name in flow.tables for status in REPORTED_STATUSES}
    )
    due.update((batch.table, str(batch.status)) for batch in plan.batches if (batch.table, str(batch.status)) in due)
    yield Metric("waterclock_due_labels", "Labels that are due and not done, by status", ("table", "status"), due)
    yield Metric(
        "waterclock_left_out_labels", "Due labels beyond the limit of one plan", ("table",),
        {(name,): float(plan.left_out.get(name, 0)) for name in flow.tables},
    )  # fmt: skip
    yield Metric(
        "waterclock_done_labels", "Labels with visible rows", ("table",),
        {(name,): float(sum(of.codes.values())) for name, of in facts.items()},
    )  # fmt: skip
    # up to the first gap: data after a gap is incomplete
    ends: dict[tuple[str, ...], float] = {
        (name,): next(iter(of.covered))[1].timestamp() for name, of in facts.items() if of.covered
    }
    yield Metric("waterclock_covered_until_seconds", "Time up to which a table has all its windows", ("table",), ends)
    yield Metric(
        "waterclock_behind_seconds", "Age of waterclock_covered_until_seconds", ("table",),
        {name: max(0.0, now.timestamp() - end) for name, end in ends.items()},
    )  # fmt: skip
    yield Metric(
        "waterclock_batch_seconds", "Duration of a batch, as a running mean", ("table",),
        {(name,): of.seconds_per_batch for name, of in facts.items() if of.seconds_per_batch is not None},
    )  # fmt: skip
    claims = {claim.claim for of in facts.values() for claim in of.open_claims}
    yield Metric("waterclock_open_claims", "Batches that are being made, by any runner", (), {(): float(len(claims))})
    yield Metric("waterclock_ledger_sequence", "Number of writes to the ledger", (), {(): float(snapshot.sequence)})
