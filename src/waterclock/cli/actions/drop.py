"""Finds the windows that `drop` removes, asks, and records who dropped them and why."""

from __future__ import annotations

from pathlib import Path

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.maintenance.user_drop import drop, find_droppable_windows
from waterclock.engine.run_opening import open_workplace
from waterclock.errors import WaterclockError
from waterclock.operations.formatting import count_words, local_range
from waterclock.operations.project_opening import now_of, one_table, open_project
from waterclock.operations.required_reasons import need_reason
from waterclock.timelabel.label import label_of


def drop_windows(
    folder: Path, env: str | None, which: str, why: str, now: str | None, *, yes: bool, is_json: bool
) -> None:
    """Show the selected windows, ask, and drop them. Raises E436 for a selection that cannot be dropped, E903."""
    need_reason(why)
    to = console(stderr=is_json)
    project = open_project(folder, env)
    name, labels_given = one_table(project.flow, which)
    if labels_given is None:
        raise WaterclockError(
            "E436",
            f"no labels of {name} are given",
            where=name,
            why="windows are dropped from the oldest one up to a label",
            fix=f"name the last label to drop: waterclock drop {name}@..2020-01-31",
        )
    table = project.flow.tables[name]
    with open_workplace(project) as work:
        found = find_droppable_windows(work, table, labels_given, now_of(now, project.flow, work.ledger))
        labels = [label_of(label) for label in found.labels]
        words = local_range(found.labels[0], found.labels[-1], table.cadence)
        what = f"{count_words(len(labels), 'label')} of {name} ({words}), {count_words(found.rows, 'row')}"
        confirm(f"Drop {what}?", yes=yes)
        behind = drop(work, found, why=why)
    if is_json:
        from waterclock.json_models.decisions import DropAnswer

        print_answer(DropAnswer(table=name, dropped=labels, rows=found.rows, behind=behind, why=why))
        return
    to.print(f"dropped: {what}: {why}", soft_wrap=True)
    if behind:
        to.print(f"and {count_words(behind, 'table')} behind views", soft_wrap=True)
