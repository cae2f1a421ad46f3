"""Says which batches are due, which are ready and why the others wait: pure, of (flow, ledger snapshot, now)."""

from __future__ import annotations

from waterclock.planner.estimate import Estimate, TableCost, cost_of, estimate
from waterclock.planner.plan import (
    GIVE_UP,
    RECOLLECT,
    RECOMPUTE,
    Batch,
    BoundRead,
    Cause,
    Group,
    Plan,
    ReadScope,
    Ripple,
    Status,
)
from waterclock.planner.planning import DEFAULT_CAP, DEFAULT_GROUP_CAP, Planner, plan
from waterclock.planner.reads import bind
from waterclock.planner.starting import starts, starts_to_write
from waterclock.planner.ticks import Ticks, read_tick

__all__ = [
    "DEFAULT_CAP",
    "DEFAULT_GROUP_CAP",
    "GIVE_UP",
    "RECOLLECT",
    "RECOMPUTE",
    "Batch",
    "BoundRead",
    "Cause",
    "Estimate",
    "Group",
    "Plan",
    "Planner",
    "ReadScope",
    "Ripple",
    "Status",
    "TableCost",
    "Ticks",
    "bind",
    "cost_of",
    "estimate",
    "plan",
    "read_tick",
    "starts",
    "starts_to_write",
]
