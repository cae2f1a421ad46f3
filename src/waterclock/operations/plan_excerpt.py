"""Plans due batches for interactive use: all of them if they are few, otherwise the oldest."""

from __future__ import annotations

from collections.abc import Collection

from waterclock.operations.project_opening import OpenedProject
from waterclock.planner.plan import Plan
from waterclock.planner.request import PlanRequest

_MOST = 20_000  # batches: some 0.4 s


def plan_of_due(at: OpenedProject, names: Collection[str]) -> Plan:
    """Plan some tables. Of too many due batches, list only the oldest of each table; `left_out` counts the others."""
    listed = max(50, min(1000, _MOST // max(1, len(names))))
    plan = at.planner.plan(at.snapshot, at.now, PlanRequest(only=names, cap=listed))
    left = sum(plan.left_out.values())
    if not 0 < left <= _MOST:
        return plan
    return at.planner.plan(at.snapshot, at.now, PlanRequest(only=names, cap=listed + left))
