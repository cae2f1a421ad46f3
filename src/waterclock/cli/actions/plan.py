"""Plans the tables and labels that a command line selects, and collects the details printed with the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from waterclock.cli.views.held_restatements import print_held_restatements
from waterclock.cli.views.plan import (
    print_lookbacks,
    print_plan,
    print_received,
    print_refused,
    print_renames,
    shared_in_plan,
)
from waterclock.cli.views.timeliness import print_deadlines, print_offline, print_retained_logs
from waterclock.flow.declarations import Flow
from waterclock.operations.deadlines import NO_DEADLINES, Deadlines, deadlines
from waterclock.operations.first_window_times import FirstWindow, find_pending_first_windows
from waterclock.operations.formatting import local_label
from waterclock.operations.held_restatements import RestatementCost, cost_of_held
from waterclock.operations.lookback_report import lookbacks_json, read_last_lookbacks
from waterclock.operations.offline_status import OfflineTableStatus, list_offline_states
from waterclock.operations.project_opening import OpenedProject, select_batches
from waterclock.operations.retained_logs import TableLog, list_held_logs
from waterclock.operations.source_waits import SourceWait, source_waits
from waterclock.operations.waiting_files import find_waiting_files
from waterclock.planner.label_states import IdleCounts, count_idle_labels
from waterclock.planner.plan import Plan, Status
from waterclock.planner.request import PlanRequest

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.connectors.interface import PendingData
    from waterclock.json_models.plan import PlanAnswer


@dataclass(frozen=True, slots=True)
class PlanDetails:
    """A plan and its details to print: labels that need no batch, tables without a due window, deadlines and more."""

    plan: Plan
    flow: Flow
    env: str
    zone: str
    quiet: Mapping[str, IdleCounts]
    waiting: Mapping[str, FirstWindow]
    lookbacks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    deadlines: Deadlines = NO_DEADLINES
    offline: tuple[OfflineTableStatus, ...] = ()
    received: Mapping[str, PendingData] = field(default_factory=dict)
    held: Sequence[TableLog] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    waits: Sequence[SourceWait] = ()
    held_restatements: Mapping[str, RestatementCost] = field(default_factory=dict)

    def draw(self, to: Console) -> None:
        """Print the plan, by table and oldest first."""
        print_plan(to, self.plan, self.flow, self.zone, self.quiet, self.waiting, self.waits)
        if self.held_restatements:
            to.print()
            print_held_restatements(to, self.held_restatements.values())
        print_refused(to, self.plan)
        print_renames(to, self.renames)
        print_lookbacks(to, self.lookbacks)
        print_received(to, self.received)
        print_retained_logs(to, self.held)
        if self.deadlines.found:
            to.print()
            print_deadlines(to, self.deadlines)
        if any(status.due_words() or status.error for status in self.offline):
            to.print()
            print_offline(to, self.offline)

    def to_answer(self) -> PlanAnswer:
        """Build the JSON answer with the plan, its counts by status, and its details."""
        from waterclock.json_models.plan import PlanAnswer

        plan = self.plan
        counts = Counter(str(batch.status) for batch in plan.batches)
        fields = plan.to_dict()
        for batch, fields_of_batch in zip(plan.batches, fields["batches"], strict=True):
            fields_of_batch["local"] = local_label(batch.label, self.flow.tables[batch.table].cadence)
        return PlanAnswer.build(
            env=self.env,
            summary={"due": len(plan.batches) + sum(plan.left_out.values())}
            | {str(status): counts[status] for status in Status}
            | {"behind": sum(map(len, plan.behind.values()))},
            **fields | {"held_restatements": {name: it.to_dict() for name, it in self.held_restatements.items()}},
            not_needed={name: it.not_needed for name, it in self.quiet.items() if it.not_needed},
            stood_for={name: it.stood_for for name, it in self.quiet.items() if it.stood_for},
            not_begun=self.waiting,
            shared=shared_in_plan(plan, self.flow),
            lookbacks=lookbacks_json(self.lookbacks),
            received=self.received,
            kept_at_sources=self.held,
            deadlines=self.deadlines.found,
            offline=[status.to_answer() for status in self.offline],
            renames=self.renames,
            waits_for_source=self.waits,
        )


def plan_selection(
    at: OpenedProject, selection: list[str] | None, labels: str | None, at_most: int | None = None
) -> PlanDetails:
    """Plan the selection. Without a label range, also count labels that need no batch. Raises E318 for a bad rename.

    `at_most`: as `run --at-most`.
    """
    if at.ledger is not None:
        at.ledger.declared.require_valid_renames(at.flow)
    found, by_table = select_batches(at.flow, selection, labels)
    plan = at.planner.plan(at.snapshot, at.now, PlanRequest(only=found.tables, labels=by_table, at_most=at_most))
    idle = {}
    if not by_table:
        counts = Counter(batch.table for batch in plan.batches) + Counter(plan.left_out)
        idle = {
            name: it
            for name, it in count_idle_labels(at.planner, at.snapshot, at.now, counts).items()
            if name in found.tables
        }
    return PlanDetails(
        plan,
        at.flow,
        at.project.env,
        at.zone,
        idle,
        find_pending_first_windows(at, found.tables),
        read_last_lookbacks(at, found.tables),
        deadlines(at, found.tables),
        list_offline_states(at, found.tables),
        find_waiting_files(at, found.tables),
        list_held_logs(at, found.tables),
        {name: was for name, was in at.renames.items() if name in found.tables},
        source_waits(at, plan),
        cost_of_held(at, plan),
    )
