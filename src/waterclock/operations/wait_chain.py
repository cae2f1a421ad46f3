"""Explains why a batch is not running: the chain of batches from it to the one that a user must fix."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from waterclock.planner.plan import Batch, Plan, Status

_STOPPED = frozenset({Status.BLOCKED, Status.WAITING, Status.STALE})


@dataclass(frozen=True, slots=True)
class WhyStep:
    """A batch in the chain, with its status and the reason. `is_root`: it waits for no other batch."""

    table: str
    label: datetime
    status: Status
    detail: str
    is_root: bool = False


def find_wait_chain(plan: Plan, table: str, label: datetime) -> tuple[WhyStep, ...]:
    """Return the steps from a planned batch to the root of its wait, itself first. Empty if it is not planned.

    Each step is a batch that the previous one reads or must come after. Cost: a scan of the plan.
    """
    planned = {(batch.table, batch.label): batch for batch in plan.batches}
    found: list[WhyStep] = []
    seen: set[tuple[str, datetime]] = set()
    key: tuple[str, datetime] | None = (table, label)
    while key is not None and key not in seen and (batch := planned.get(key)) is not None:
        seen.add(key)
        following = _next_batch(batch, planned)
        is_root = following is None and not batch.causes
        found.append(WhyStep(batch.table, batch.label, batch.status, batch.reason, is_root))
        if following is None and batch.causes:
            cause = batch.causes[0]
            if (cause.table, cause.window.start) not in planned:
                detail = cause.detail or cause.status.value
                found.append(WhyStep(cause.table, cause.window.start, cause.status, detail, is_root=True))
        key = following
    return tuple(found)


def _next_batch(batch: Batch, planned: dict[tuple[str, datetime], Batch]) -> tuple[str, datetime] | None:
    """Return the next planned batch in the chain: an input of this batch with the same cause, or else the cause."""
    if not batch.causes or batch.status not in _STOPPED:
        return None
    cause = batch.causes[0]
    root = cause.table, cause.window.start
    for read in batch.reads:
        between = [
            key
            for key, other in planned.items()
            if key[0] == read.read.table
            and read.low <= key[1] < read.high
            and _root_cause(other) == root
            and key != root
        ]
        if between:
            return max(between, key=lambda key: key[1])
    return root if root in planned else None


def _root_cause(batch: Batch) -> tuple[str, datetime] | None:
    return (batch.causes[0].table, batch.causes[0].window.start) if batch.causes else None
