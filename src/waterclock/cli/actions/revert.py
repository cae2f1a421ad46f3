"""Reverts labels to earlier revisions: shows the plan, asks, commits the sealed slices, and runs what follows."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import FOLLOW
from waterclock.cli.actions.confirm import confirm
from waterclock.cli.actions.run import RunOptions, run_and_report
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.revert import build_revert_answer, print_revert_plan
from waterclock.cli.views.theme import console
from waterclock.engine.batch.lifecycle import run_group
from waterclock.engine.batch.reverting import chunk_labels, group_to_revert
from waterclock.engine.lease_renewal import Heartbeat
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.operations.formatting import count_words, local_range
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.required_reasons import need_reason_of_revert
from waterclock.operations.reverting import RevertPlan, RevertRequest, plan_revert
from waterclock.selection import Labels

if TYPE_CHECKING:
    from waterclock.engine.run_context import RunContext


def revert_labels(  # noqa: PLR0913 - the options of the command
    folder: Path,
    env: str | None,
    request: RevertRequest,
    why: str,
    now: str | None,
    *,
    is_dry: bool,
    is_run: bool,
    yes: bool,
    is_json: bool,
) -> int:
    """Revert labels, oldest first, up to the first that cannot be reverted any more. Return the exit code.

    Raises E903 for an empty reason, and as `plan_revert`.
    """
    if not is_dry:
        need_reason_of_revert(why)
    to = console(stderr=is_json)
    with open_read_only(folder, env, now) as at:
        plan = plan_revert(at, request)
        print_revert_plan(to, at, plan)
        project, instant = at.project, at.now
    if is_dry or not plan.parts:
        if is_json:
            print_answer(build_revert_answer(plan, why, is_dry=is_dry))
        return ExitCode.DONE
    words = " and ".join(
        f"{count_words(len(changes), 'label')} of {table.name} "
        f"({local_range(changes[0].label, changes[-1].label, table.cadence)})"
        for table, changes in plan.parts
    )
    confirm(f"Revert {words}?", yes=yes)
    with open_workplace(project) as work:
        commit_reverts(work, plan, why, instant)
    if not is_json:
        to.print(f"reverted: {words}: {why}", soft_wrap=True)
    if not is_run:
        if is_json:
            print_answer(build_revert_answer(plan, why))
        elif plan.ripple.following:
            to.print("the next run makes the batches that depend on it", soft_wrap=True)
        return ExitCode.DONE
    if not plan.ripple.following and not is_json:
        return ExitCode.DONE
    spans = {name: Labels.from_range(of[0].start, of[-1].start) for name, of in plan.ripple.following.items()}
    only = tuple(sorted(spans))
    return run_and_report(project, RunOptions(command="revert", only=only, labels=spans, now=now, is_json=is_json))


def commit_reverts(work: RunContext, plan: RevertPlan, why: str, now: datetime) -> None:
    """Commit the earlier slices, and request the older states that depend on them.

    Raises the error of a claim that fails.
    """
    apply_flow(work, now)
    with Heartbeat(work, "revert"):  # a commit may take longer than a lease
        for table, changes in plan.parts:
            for chunk in chunk_labels(table, changes):
                report = run_group(work, group_to_revert(work, table, chunk, now, why), now)
                if report.error is not None:
                    raise report.error
    for name, labels in plan.following.items():
        work.ledger.decisions.request_restate(name, sorted(labels), FOLLOW, who=work.settings.who, why=why)
