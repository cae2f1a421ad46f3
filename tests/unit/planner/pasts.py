"""Ledger snapshots for planner tests, written as dates."""

from __future__ import annotations

from datetime import datetime

from tests.model.flows import at
from waterclock.batches.ledger_snapshot import (
    BatchStatus,
    FailedBatch,
    InputFact,
    LedgerSnapshot,
    OpenClaim,
    TableFacts,
)
from waterclock.planner.plan import Plan
from waterclock.timelabel.intervals import IntervalSet


def covered(*spans: tuple[str, str]) -> IntervalSet:
    return IntervalSet.from_intervals((at(low), at(high)) for low, high in spans)


def past(**tables: TableFacts) -> LedgerSnapshot:
    return LedgerSnapshot(dict(tables))


def done(*spans: tuple[str, str], **more: object) -> TableFacts:
    return TableFacts(covered=covered(*spans), **more)  # type: ignore[arg-type]  # the fields of TableFacts


def failed(
    error: str = "boom", *, status: BatchStatus = BatchStatus.FAILED, again: datetime | None = None
) -> FailedBatch:
    return FailedBatch(status, claim=1, attempts=3, error=error, is_transient=again is not None, due_again=again)


def running(*labels: str) -> OpenClaim:
    return OpenClaim(1, tuple(at(label) for label in labels), "somebody", at("2100-01-01"))


def read_then(table: str, low: str, high: str, *, is_changed: bool) -> InputFact:
    return InputFact(table, at(low), at(high), "1", "2" if is_changed else "1")


def states(plan: Plan, table: str) -> dict[str, str]:
    """Return the status of each planned label of a table, by its date or time."""
    return {_short(b.label): str(b.status) for b in plan.batches if b.table == table}


def offered(plan: Plan, table: str) -> list[list[str]]:
    """Return the labels of each group of a table."""
    return [[_short(b.label) for b in group.batches] for group in plan.groups if group.table == table]


def reason(plan: Plan, table: str, label: str) -> str:
    return next(b.reason for b in plan.batches if b.table == table and b.label == at(label))


def _short(instant: datetime) -> str:
    return f"{instant:%m-%d}" if instant.hour == instant.minute == 0 else f"{instant:%m-%d %H:%M}"
