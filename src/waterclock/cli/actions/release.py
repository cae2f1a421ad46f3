"""Releases held batches: finds them, asks, commits the sealed slices, and prints the result."""

from __future__ import annotations

from collections.abc import Mapping
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
from waterclock.flow.graph import other_part
from waterclock.operations.formatting import count_words, local_range
from waterclock.operations.held_batches import find_held_labels, select_held_labels
from waterclock.operations.held_restatements import RELEASE_OF_RESTATEMENT, cost_of_restatement, select_held
from waterclock.operations.project_opening import OpenedProject, no_ledger_error, one_table, open_read_only
from waterclock.operations.required_reasons import need_reason_of_release
from waterclock.planner.held_restatement import HeldRestatement
from waterclock.selection import Labels
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
        named, selected = one_table(at.flow, which)
        if not find_held_labels(at, which, None) and (found := _find_held_restatements(at, named, selected)):
            return _release_restatements(to, at, named, found, why, yes=yes, is_json=is_json)
        held = select_held_labels(at, which)
        project, instant, tables = at.project, at.now, at.flow.tables
        for name, labels in held.items():
            for label in labels:
                to.print(at.snapshot.of(name).troubles[label].error, soft_wrap=True, markup=False, highlight=False)
    count = count_words(sum(map(len, held.values())), "held batch", "held batches")
    words = ", ".join(
        f"{name} ({local_range(labels[0], labels[-1], tables[name].cadence)})" for name, labels in held.items()
    )
    confirm(f"Release {count} of {words} as sealed?", yes=yes)
    shown: dict[str, list[datetime]] = {name: [] for name in held}
    refused: list[WaterclockError] = []
    rows = dict.fromkeys(held, 0)
    with open_workplace(project) as work:
        apply_flow(work, instant)
        with Heartbeat(work):  # a commit or a delivery may take longer than a lease
            for name, label in [(name, label) for name, labels in held.items() for label in labels]:
                try:
                    rows[name] += _release_label(work, tables[name], label, instant, why)
                except WaterclockError as error:
                    if error.code != "E756":
                        raise
                    refused.append(error)
                else:
                    shown[name].append(label)
    if refused and any(shown.values()):
        released = ", ".join(
            f"{label_of(label)}{f' of {name}' if len(held) > 1 else ''}"
            for name, labels in shown.items()
            for label in labels
        )
        to.print(f"released before this error: {released}", soft_wrap=True)
    if refused:
        for other in refused[1:]:
            to.print(f"not released: {other.what}: {other.why}", soft_wrap=True, markup=False, highlight=False)
        raise refused[0]
    if is_json:
        from waterclock.json_models.decisions import ReleaseAnswer

        print_answer(
            ReleaseAnswer(
                table=named,
                released=[label_of(label) for label in shown.pop(named, ())],
                rows=rows.get(named, 0),
                others={name: [label_of(label) for label in labels] for name, labels in shown.items()},
                why=why,
            )
        )
    else:
        to.print(f"released: {count} of {words}, {count_words(sum(rows.values()), 'row')}: {why}", soft_wrap=True)
        to.print("the next run makes the batches that waited for it", soft_wrap=True)
    return ExitCode.DONE


def _release_label(work: RunContext, table: Table, label: datetime, now: datetime, why: str) -> int:
    """Release one held batch, and return its number of rows. Raises E756 if it cannot be released any more."""
    report = run_group(work, group_to_release(work, table, label, now, why), now)
    if report.error is not None:
        raise report.error
    return report.rows


def _find_held_restatements(at: OpenedProject, name: str, selected: Labels | None) -> dict[str, HeldRestatement]:
    """Return the labels of a table that a limit holds, and with APART those of its other table."""
    both = {name, other_part(at.flow, name) or name}
    found = {each: select_held(at, each, selected) for each in at.flow.order if each in both}
    return {each: held for each, held in found.items() if held is not None}


def _release_restatements(
    to: Console,
    at: OpenedProject,
    named: str,
    found: Mapping[str, HeldRestatement],
    why: str,
    *,
    yes: bool,
    is_json: bool,
) -> int:
    """Show the cost of labels that a limit holds, ask, and request that they follow their inputs."""
    for name, held in found.items():
        for line in cost_of_restatement(at, name, held).lines()[:2]:
            to.print(Text(line), soft_wrap=True)
    labels = {name: sorted(held.labels) for name, held in found.items()}
    count = f"{count_words(sum(map(len, labels.values())), 'label')} of {', '.join(labels)}"
    confirm(f"Make {count} again?", yes=yes)
    if at.ledger is None:
        raise no_ledger_error()
    for name, of_table in labels.items():
        at.ledger.decisions.request_restate(
            name, of_table, FOLLOW, who=RunSettings().who, why=why, command=RELEASE_OF_RESTATEMENT
        )
    if is_json:
        from waterclock.json_models.decisions import ReleaseAnswer

        texts = {name: list(map(label_of, of_table)) for name, of_table in labels.items()}
        print_answer(ReleaseAnswer(table=named, released=texts.pop(named, []), rows=0, others=texts, why=why))
    else:
        to.print(f"released: {count}: {why}", soft_wrap=True)
        to.print("the next run makes again those whose inputs differ", soft_wrap=True)
    return ExitCode.DONE
