"""Shows where lineage events are sent and how many are pending, and sends them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.batches.run_events import OpenLineageState
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.openlineage import print_sent, print_shown, sent_answer, shown_answer
from waterclock.cli.views.theme import console
from waterclock.engine.ledger_opening import open_ledger
from waterclock.errors import WaterclockError
from waterclock.openlineage.sending import send, sink_error
from waterclock.operations.project_opening import no_ledger_error, open_project

if TYPE_CHECKING:
    from waterclock.dpl.project import Project


def show_lineage_state(folder: Path, env: str | None, *, is_json: bool) -> int:
    """Print where events are sent, and how many are pending."""
    project = open_project(folder, env)
    ledger = open_ledger(project)
    state = OpenLineageState(0)
    if ledger is not None:
        with ledger:
            state = ledger.openlineage.state()
    if is_json:
        print_answer(shown_answer(project, state))
    else:
        print_shown(console(), project, state)
    return ExitCode.DONE


def send_events(folder: Path, env: str | None, *, again: bool, is_json: bool) -> int:
    """Send the pending events. Return 1 if some did not arrive. Raises E379 without a destination, E412."""
    project = open_project(folder, env)
    if not project.openlineage.is_on:
        raise _no_destination_error(project)
    if error := sink_error(project):
        raise error.at(project.openlineage.place)
    ledger = open_ledger(project)
    if ledger is None:
        raise no_ledger_error()
    with ledger:
        if again:
            ledger.openlineage.reset_progress()
        found = send(project, ledger, at_once=True)
        waiting = ledger.openlineage.state().waiting
    if is_json:
        print_answer(sent_answer(found, waiting))
    else:
        print_sent(console(), found, waiting)
    return ExitCode.of_failure(found.lost)


def _no_destination_error(project: Project) -> WaterclockError:
    if not project.openlineage.is_declared:
        fix = 'write [openlineage] with url = "https://…/api/v1/lineage", or file = "lineage.jsonl"'
        return WaterclockError("E379", "there is no destination for lineage events", fix=fix)
    return WaterclockError(
        "E379",
        f"environment {project.env} sends no lineage events",
        why="only environments with openlineage = true send them",
        fix=f"write openlineage = true below [env.{project.env}]",
    )
