"""The page of branches: their list, and what one of them changes, makes and borrows, and what can be promoted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from waterclock.engine.branching.branch_state import BranchState
from waterclock.engine.branching.known_branches import KnownBranch, find_branches, missing_branch_error
from waterclock.errors import WaterclockError
from waterclock.flow.table_visibility import is_restricted
from waterclock.operations.branch_plans import (
    BranchPlan,
    open_base,
    read_branch_plan,
    read_promotion,
    related_environments,
)
from waterclock.operations.formatting import page_time
from waterclock.operations.project_opening import OpenedProject, open_project
from waterclock.operations.promotion import Promotion
from waterclock.operations.revision_rows import find_person_in
from waterclock.permissions.users_and_roles import SignIn
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, PageQuery, table_address

_MOST_LABELS = 100  # labels of a table in the JSON


def branches(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the branches of the project; for the branch in the address, its tables as well.

    Cost: the state of each branch; for the shown one its flow, its ledger, and the promotion as `promote --dry-run`.
    Raises E470 for a branch that the project does not have. The tables are left out, with E946 as the error, for a
    person who does not see all tables of the branch and of its base.
    """
    found, name = list(find_branches(at.project.root, with_declared=True)), parameters.values.get("branch", "")
    content: Content = {
        "branches": [_describe_branch(at, each) for each in found],
        "branch": name,
        "tables": [],
        "borrowed": [],
        "reworded": [],
        "collects": [],
        "publishes": [],
        "delivered": [],
        "equal": 0,
        "error": None,
    }
    if not name:
        return content
    shown = next((each for each in found if each.name == name), None)
    if shown is None:
        raise missing_branch_error(at.project.root, name)
    content |= {
        "base": shown.base,
        "is_created": shown.state is not None,
        "describes": _describe_state(at, shown.state),
    }
    if shown.state is None:
        return content | {"error": None if shown.problem is None else shown.problem.to_dict()}
    try:
        for env in (name, shown.base):
            _require_all_tables(at, env, parameters)
        plan = read_branch_plan(at.project.root, name)
    except WaterclockError as error:
        return content | {"error": error.to_dict()}
    content |= _describe_plan(at, plan, Promotion(name), {})
    try:
        with open_base(at, shown.base) as base:
            promotion, offered = read_promotion(open_project(at.project.root, name), base)
    except WaterclockError as error:
        return content | {"error": error.to_dict()}
    made = {table: len(labels) for table, labels in offered.revisions.items()}
    return content | _describe_plan(at, plan, promotion, made) | {"equal": promotion.equal}


def _require_all_tables(at: OpenedProject, env: str, parameters: PageQuery) -> None:
    """Raise E946 unless the person sees all tables in another environment, as this one's page requires here."""
    person = None if parameters.reader is None else parameters.reader.person
    if env == at.project.env or (person is not None and person.sign_in is SignIn.OWNER):
        return
    other = open_project(at.project.root, env)
    there = find_person_in(at.project, other, person)
    if there is None or is_restricted(other.flow, there):
        raise WaterclockError(
            "E946",
            f"the plan of a branch shows the tables of {env}, and is only for users who may read all of them there",
            where=f"[env.{env}]",
            why="it is not known who asks" if person is None else f"{person.name} may not",
            fix="ask an administrator for a role in that environment",
        )


def _describe_branch(at: OpenedProject, each: KnownBranch) -> Content:
    state = each.state
    return {
        "name": each.name,
        "base": each.base,
        "tick": None if state is None else state.tick,
        "expires_at": None if state is None else state.expires_at,
        "describes": _describe_state(at, state) if each.problem is None else f"{each.problem.code} {each.problem.what}",
        "address": f"/branches/{quote(each.name, safe='')}",
        "error": None if each.problem is None else each.problem.to_dict(),
    }


def _describe_state(at: OpenedProject, state: BranchState | None) -> str:
    if state is None:
        return "not created yet"
    if not state.is_complete:
        return "its creation or deletion was interrupted"
    end = page_time(state.expires_at, at.zone)
    until = f"expired at {end}" if state.expires_at <= datetime.now(UTC) else f"until {end}"
    return f"as of {page_time(state.tick, at.zone)}, {until}"


def _describe_plan(at: OpenedProject, plan: BranchPlan, promotion: Promotion, made: Mapping[str, int]) -> Content:
    changes, env = plan.changes, plan.state.name
    # the rows of both are shown by the pages of the branch and of the environment that it borrows from
    other = env if env in related_environments(at.project) else plan.state.base if at.project.env == env else ""
    return {
        "tables": [
            {
                "table": name,
                "change": _describe_change(plan, name),
                "labels": [label_of(window.start) for window in plan.work.windows.get(name, ())[:_MOST_LABELS]],
                "words": plan.work.describe_labels(name),
                "made": made.get(name, 0),
                "adopted": len(promotion.adopted.get(name, ())),
                "computed": len(promotion.computed.get(name, ())),
                "reason": promotion.reasons.get(name, ""),
                "address": f"{table_address(name)}?in={quote(other, safe='')}#held" if other else "",
            }
            for name in changes.own
        ],
        "borrowed": list(changes.borrowed),
        "reworded": list(plan.reworded),
        "collects": list(changes.collects),
        "publishes": list(changes.publishes),
        "delivered": list(changes.delivered),
    }


def _describe_change(plan: BranchPlan, name: str) -> str:
    if name in plan.parts:
        return f"changed: {', '.join(plan.parts[name])}"
    return "new" if name in plan.changes.new else f"reads {plan.changes.reasons.get(name, '')}"
