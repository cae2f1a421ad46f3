"""Defines the outcome of a run: batches done and failed, and the plan after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from waterclock.engine.collect.source_clocks import UnfinishedSource
from waterclock.engine.run_listener import GroupReport
from waterclock.errors import WaterclockError
from waterclock.planner.plan import Plan, Status


@dataclass(slots=True)
class RunOutcome:
    """The result of a run: batches done and failed, the plan after it, and the batches that wait for their source.

    `unsettled` has the errors of abandoned claims that could not be resolved: the outcome of their batches is unknown.
    `held_back` are the oldest windows that wait for their sources. `away` is the error of an object store that became
    unavailable during the run. `unclaimed` maps each table whose batches cannot be claimed now to a report with the
    error, new or not. `is_outdated`: another flow was applied, so the run claims nothing more.
    """

    done: int = 0
    rows: int = 0
    failed: list[GroupReport] = field(default_factory=list)
    was_stopped: bool = False
    plan: Plan | None = None
    held_back: tuple[UnfinishedSource, ...] = ()
    unsettled: tuple[WaterclockError, ...] = ()
    away: WaterclockError | None = None
    unclaimed: dict[str, GroupReport] = field(default_factory=dict)
    is_outdated: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether a batch failed in this run, a claim could not be resolved, or the store became unavailable."""
        return bool(self.failed or self.unsettled or self.away)

    @property
    def is_clean(self) -> bool:
        """Whether nothing failed in this run, and none of its batches is failed or held after it."""
        left = () if self.plan is None else self.plan.batches
        return not self.has_failed and not any(batch.status in {Status.FAILED, Status.HELD} for batch in left)

    def add(self, later: RunOutcome) -> None:
        """Add the outcome of a later round: counts add up, and the current state is taken from that round.

        A batch that fails in every round for a transient reason counts as failed once: a watching run lasts for months.
        """
        self.done += later.done
        self.rows += later.rows
        again = {_batches_of(report) for report in later.failed}
        self.failed = [report for report in self.failed if _batches_of(report) not in again] + later.failed
        self.plan, self.was_stopped, self.held_back = later.plan, later.was_stopped, later.held_back
        self.unsettled, self.away, self.unclaimed = later.unsettled, later.away, later.unclaimed
        self.is_outdated = later.is_outdated


def _batches_of(report: GroupReport) -> tuple[str, datetime, int]:
    """Return a key for the batches of a report: table, first label and number of labels, which are consecutive."""
    batches = report.group.batches
    return report.group.table, batches[0].label, len(batches)
