"""Closes a window by a user's request (`closed_by_hand()` in CLOSE WHEN), and records who closed it and why."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.graph import late_tables
from waterclock.operations.formatting import instant_words
from waterclock.operations.project_opening import now_of, one_table, open_project
from waterclock.operations.required_reasons import need_reason_of_closing
from waterclock.planner.closings import manual_closing_tick, require_closing_by_hand
from waterclock.planner.planning import Planner
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of


def close_window(folder: Path, env: str | None, which: str, why: str, now: str | None, *, is_json: bool) -> None:
    """Close a window at the newest tick with settled inputs. Raises E266, E903, and the errors of `one_table`."""
    need_reason_of_closing(why)
    project = open_project(folder, env)
    name, labels = one_table(project.flow, which)
    table = project.flow.tables[name]
    require_closing_by_hand(table)
    label = _only_label(table, which, labels)
    with open_workplace(project) as work:
        at = now_of(now, project.flow, work.ledger)
        apply_flow(work, at)
        planner, snapshot = Planner(project.flow), work.ledger.reads.snapshot(project.flow)
        tick: datetime = manual_closing_tick(planner.books_of(snapshot, at, name), table.cadence.window_of(label))
        work.ledger.decisions.close_by_hand(
            name, label, tick, late_tables=late_tables(project.flow, name), who=work.settings.who, why=why
        )
    if is_json:
        from waterclock.json_models.decisions import CloseAnswer

        print_answer(CloseAnswer.build(table=name, label=label, tick=tick, why=why))
        return
    to = console()
    to.print(f"closed: {name}@{label_of(label)} at {instant_words(tick, table.cadence.zone)}: {why}", soft_wrap=True)
    to.print("the next run makes it from the slices that arrived before that", soft_wrap=True)


def _only_label(table: Table, which: str, labels: Labels | None) -> datetime:
    """Return the only label in a range. Raises E266 if the range has no label, or several."""
    low, high = (None, None) if labels is None else labels.bounds(table.cadence)
    if low is None or high is None:
        raise WaterclockError("E266", f"{which} names no window", fix=f"name the window: {table.name}@LABEL")
    if table.cadence.next(low) != high:
        first = f"{table.name}@{label_of(table.cadence.floor(low))}"
        raise WaterclockError(
            "E266",
            f"{which} contains several windows",
            why="windows are closed one at a time",
            fix=f"name one, such as {first}",
        )
    return low
