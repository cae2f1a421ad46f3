"""Promotes a branch: shows which of its slices are adopted, asks, and runs these labels where the branch came from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.cli.actions.confirm import confirm
from waterclock.cli.actions.run import RunOptions, run_and_report
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.branch import print_promotion
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.branching.branch_state import no_branch_error
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.operations.branch_plans import read_promotion
from waterclock.operations.formatting import count_words
from waterclock.operations.project_opening import no_ledger_error, open_project, open_read_only
from waterclock.operations.promotion import Promotion
from waterclock.selection import Labels

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.ledger.ledger import Ledger


def promote_branch(folder: Path, name: str, now: str | None, *, is_dry: bool, yes: bool, is_json: bool) -> int:
    """Make the labels of a branch in the environment that it borrows from. Return the exit code. Raises E470, E412."""
    to = console(stderr=is_json)
    branch = open_project(folder, name)
    if not branch.bases:
        raise no_branch_error(name, borrows=False)
    _require_no_branch_below(branch)
    with open_read_only(folder, branch.bases[0].env, now) as at:
        plan, offered = read_promotion(branch, at)
        if at.ledger is None:
            raise no_ledger_error()
        print_promotion(to, plan, at.project.env)
        if is_dry or not plan.tables:
            if is_json:
                from waterclock.json_models.branches import PromoteAnswer

                print_answer(PromoteAnswer.build(**promotion_fields(plan)))
            return ExitCode.DONE
        count = sum(len(plan.labels_of(each)) for each in plan.tables)
        confirm(f"Promote {count_words(count, 'label')} of {name} to {at.project.env}?", yes=yes)
        request_promotion(at.ledger, plan)
        project, instant = at.project, at.now
    spans = {each: Labels.from_range(plan.labels_of(each)[0], plan.labels_of(each)[-1]) for each in plan.tables}
    options = RunOptions(
        command="promote",
        only=tuple(sorted(spans)),
        labels=spans,
        now=instant.isoformat() if now is not None else None,
        is_json=is_json,
        offered=offered,
    )
    return run_and_report(project, options)


def _require_no_branch_below(branch: Project) -> None:
    """Raise E472 for a branch of a branch: nothing is promoted to a branch, which makes its own tables alone."""
    if len(branch.bases) > 1:
        base, other = branch.bases[0].env, branch.bases[1].env
        raise WaterclockError(
            "E472",
            f"{base} is a branch of {other}, where this command is not available",
            where=f"[env.{base}]",
            why=f"{branch.env} borrows from it, and a branch makes the tables of its own code alone",
            fix=f"promote {base}, then create {branch.env} from {other}",
        )


def request_promotion(ledger: Ledger, plan: Promotion) -> None:
    """Request the labels again that production has made by other code or from other inputs, or tried in vain."""
    for name, labels in plan.stopped.items():
        ledger.decisions.retry(name, labels, who=RunSettings().who, why=f"promotes {plan.branch}")
    for name, labels in plan.older.items():
        ledger.decisions.request_restate(
            name, labels, RECOMPUTE, who=RunSettings().who, why=f"promotes {plan.branch}", command="promote"
        )
        fault("promotion requested")


def promotion_fields(plan: Promotion) -> dict[str, object]:
    """Return the fields of a promotion for JSON."""
    return {
        "branch": plan.branch,
        "adopted": dict(plan.adopted),
        "computed": dict(plan.computed),
        "reasons": dict(plan.reasons),
        "equal": plan.equal,
    }
