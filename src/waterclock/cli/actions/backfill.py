"""Finds the labels that a backfill makes, estimates their cost, and starts the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.text import Text

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.actions.run import RunOptions, run_and_report
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.plan import print_plan
from waterclock.cli.views.theme import console
from waterclock.engine.run_opening import require_no_branch
from waterclock.engine.run_settings import RunSettings
from waterclock.ledger.ledger import Ledger
from waterclock.operations.backfilling import missing_labels, snapshot_for
from waterclock.operations.formatting import count_words, seconds_words
from waterclock.operations.pauses import waiting_request_lines
from waterclock.operations.project_opening import OpenedProject, open_read_only, select_batches
from waterclock.planner.estimate import Estimate, estimate
from waterclock.planner.plan import Plan, Status
from waterclock.planner.request import PlanRequest
from waterclock.selection import Labels


@dataclass(frozen=True, slots=True)
class Backfill:
    """A planned backfill: the selected ranges of labels, the missing labels in them (`force`), and their plan."""

    tables: tuple[str, ...]
    labels: Mapping[str, Labels]
    force: Mapping[str, frozenset[datetime]]
    plan: Plan

    @property
    def count(self) -> int:
        """The number of batches to make."""
        return len(self.plan.batches) + sum(self.plan.left_out.values())


def run_backfill(
    folder: Path,
    env: str | None,
    which: tuple[str, str],
    now: str | None,
    *,
    newest_first: bool = False,
    yes: bool,
    is_json: bool,
) -> int:
    """Show the plan of a backfill, ask, and run it. Return the exit code."""
    to = console(stderr=is_json)
    with open_read_only(folder, env, now) as at:
        require_no_branch(at.project)
        backfill = planned_backfill(at, *which)
        project = at.project
        if backfill.count:
            print_plan(to, backfill.plan, at.flow, at.zone, {})
            to.print()
            to.print(Text(f"estimate: {cost_words(estimate(backfill.plan, at.snapshot))}"))
            kept = waiting_request_lines(at.snapshot, {batch.table for batch in backfill.plan.batches}, at.zone)
            for line in (*kept, *(_describe_ordered(at, backfill) if newest_first else ())):
                to.print(Text(line), soft_wrap=True)
            confirm(f"Make {count_words(backfill.count, 'batch', 'batches')}?", yes=yes)
            if at.ledger is not None and _waits_for_pause(backfill.plan):
                _record_request(at.ledger, backfill)
    if not backfill.count and not is_json:
        to.print("there are no missing batches")
        return ExitCode.DONE
    return run_and_report(
        project,
        RunOptions(
            command="backfill",
            only=backfill.tables,
            labels=backfill.labels,
            force=backfill.force,
            newest_first=newest_first,
            now=now,
            is_json=is_json,
        ),
    )


def _describe_ordered(at: OpenedProject, backfill: Backfill) -> list[str]:
    """Describe the tables of a backfill that run in the order of labels although the newest labels are to go first."""
    names = sorted({batch.table for batch in backfill.plan.batches if at.planner.graph.nodes[batch.table].is_ordered})
    return [f"oldest first, since each label needs the one before it: {', '.join(names)}"] if names else []


def _waits_for_pause(plan: Plan) -> bool:
    return any(
        batch.status is Status.PAUSED or any(cause.status is Status.PAUSED for cause in batch.causes)
        for batch in plan.batches
    )


def _record_request(ledger: Ledger, backfill: Backfill) -> None:
    """Record the request in the ledger, for paused batches: a later run makes them once they are resumed."""
    known = {record.name for record in ledger.reads.tables()}
    for name, labels in backfill.force.items():
        if labels and name in known:
            ledger.decisions.request_backfill(name, sorted(labels), who=RunSettings().who)


def planned_backfill(at: OpenedProject, selection: str, labels: str) -> Backfill:
    """Plan the missing labels of a range; for a snapshot source only the newest. Raises E513 for an empty selection."""
    found, by_table = select_batches(at.flow, [selection], labels)
    force = missing_labels(at, selection, labels)
    plan = at.planner.plan(
        snapshot_for(at, force), at.now, PlanRequest(only=found.tables, labels=by_table, force=force)
    )
    return Backfill(found.tables, by_table, force, plan)


def cost_words(cost: Estimate) -> str:
    """Format an estimate, such as `3 min 20 s of work; not known for marts.delays, which never ran`."""
    known = f"{seconds_words(cost.seconds)} of work" if len(cost.unknown) < len(cost.tables) else ""
    unknown = f"not known for {', '.join(cost.unknown)}, which never ran" if cost.unknown else ""
    return "; ".join(part for part in (known, unknown) if part) or "no work"
