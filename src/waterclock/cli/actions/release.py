"""Releases held batches: finds them, asks, commits the sealed slices, and prints the result."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.batches.ledger_snapshot import FOLLOW
from waterclock.cli.actions.confirm import confirm
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.batch.lifecycle import run_group
from waterclock.engine.batch.releasing import group_to_release
from waterclock.engine.lease_renewal import Heartbeat
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.operations.formatting import count_words, local_range
from waterclock.operations.held_batches import find_held_labels, select_held_labels
from waterclock.operations.held_restatements import RELEASE_OF_RESTATEMENT, cost_of_restatement, select_held
from waterclock.operations.project_opening import OpenedProject, no_ledger_error, one_table, open_read_only
from waterclock.operations.required_reasons import need_reason_of_release
from waterclock.planner.held_restatement import HeldRestatement
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from rich.console import Console


def release_batches(
    folder: Path, env: str | None, which: str, why: str, now: str | None, *, yes: bool, is_json: bool
) -> int:
    """Release held batches, oldest first, except those that cannot be released any more. Return the exit code.

    If no rule holds one of the selected batches, release those that a limit of ON RESTATE holds.

    Raises E440 if no batch is held, E756 for the first one that cannot be released, after the others were released, and
    E903 for an empty reason.
    """
    need_reason_of_release(why)
    to = console(stderr=is_json)
    with open_read_only(folder, env, now) as at:
        of_table, selected = one_table(at.flow, which)
        if not find_held_labels(at, which, None) and (found := select_held(at, of_table, selected)) is not None:
            return _release_restatement(to, at, of_table, found, why, yes=yes, is_json=is_json)
        name, labels = select_held_labels(at, which)
        project, instant, table = at.project, at.now, at.flow.tables[name]
        for label in labels:
            to.print(at.snapshot.of(name).troubles[label].error, soft_wrap=True, markup=False, highlight=False)
    words = local_range(labels[0], labels[-1], table.cadence)
    count = count_words(len(labels), "held batch", "held batches")
    confirm(f"Release {count} of {name} ({words}) as sealed?", yes=yes)
    shown: list[datetime] = []
    refused: list[WaterclockError] = []
    rows = 0
    with open_workplace(project) as work:
        apply_flow(work, instant)
        with Heartbeat(work):  # a commit or a delivery may take longer than a lease
            for label in labels:
                try:
                    rows += _release_label(work, table, label, instant, why)
                except WaterclockError as error:
                    if error.code != "E756":
                        raise
                    refused.append(error)
                else:
                    shown.append(label)
    if refused and shown:
        to.print(f"released before this error: {', '.join(label_of(label) for label in shown)}", soft_wrap=True)
    if refused:
        for other in refused[1:]:
            to.print(f"not released: {other.what}: {other.why}", soft_wrap=True, markup=False, highlight=False)
        raise refused[0]
    if is_json:
        from waterclock.json_models.decisions import ReleaseAnswer

        print_answer(ReleaseAnswer(table=name, released=[label_of(label) for label in shown], rows=rows, why=why))
    else:
        to.print(f"released: {count} of {name} ({words}), {count_words(rows, 'row')}: {why}", soft_wrap=True)
        to.print("the next run makes the batches that waited for it", soft_wrap=True)
    return ExitCode.DONE


def _release_label(work: RunContext, table: Table, label: datetime, now: datetime, why: str) -> int:
    """Release one held batch, and return its number of rows. Raises E756 if it cannot be released any more."""
    report = run_group(work, group_to_release(work, table, label, now, why), now)
    if report.error is not None:
        raise report.error
    return report.rows


def _release_restatement(
    to: Console, at: OpenedProject, name: str, held: HeldRestatement, why: str, *, yes: bool, is_json: bool
) -> int:
    """Show the cost of labels that a limit holds, ask, and request that they follow their inputs."""
    for line in cost_of_restatement(at, name, held).lines()[:2]:
        to.print(Text(line), soft_wrap=True)
    labels = sorted(held.labels)
    count = count_words(len(labels), "label")
    confirm(f"Make {count} of {name} again?", yes=yes)
    if at.ledger is None:
        raise no_ledger_error()
    at.ledger.decisions.request_restate(
        name, labels, FOLLOW, who=RunSettings().who, why=why, command=RELEASE_OF_RESTATEMENT
    )
    if is_json:
        from waterclock.json_models.decisions import ReleaseAnswer

        print_answer(ReleaseAnswer(table=name, released=list(map(label_of, labels)), rows=0, why=why))
    else:
        to.print(f"released: {count} of {name}: {why}", soft_wrap=True)
        to.print("the next run makes again those whose inputs differ", soft_wrap=True)
    return ExitCode.DONE
