"""Finds the tables to rebuild and the changes of their declarations, asks, and rebuilds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.progress import Progress
from waterclock.cli.views.theme import console
from waterclock.engine.maintenance.rebuild import TableRebuildResult, plan_rebuild, rebuild_table
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.ledger.read.signatures import Difference
from waterclock.operations.formatting import count_words
from waterclock.operations.project_opening import open_project, select_batches, zone_of
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from waterclock.json_models.maintenance import RebuiltTable


def run_rebuild(folder: Path, env: str | None, selection: list[str], *, yes: bool, is_json: bool) -> None:
    """Show the changes, ask, rebuild the tables, and apply the flow. Raises the errors of `plan_rebuild`."""
    project = open_project(folder, env)
    to = console(stderr=is_json)
    chosen, _ = select_batches(project.flow, selection)
    found: list[TableRebuildResult] = []
    progress = Progress(project.flow, zone_of(project.flow), to, is_quiet=is_json and not to.is_terminal)
    with open_workplace(project, listener=progress) as work:
        seen = {record.name for record in work.ledger.reads.tables()}
        names = [name for name in chosen.tables if name in seen]
        changes = plan_rebuild(work, names)
        if names:
            for line in _format_changes(changes):
                to.print(line, soft_wrap=True)
            confirm(f"Rebuild {count_words(len(names), 'table')} from the stage?", yes=yes)
        for name in names:
            found.append(rebuild_table(work, name, changes[name]))
            for line in _format_rebuilt_table(found[-1]):
                to.print(line, soft_wrap=True)
        apply_flow(work, work.real_now())
    if is_json:
        from waterclock.json_models.maintenance import RebuildAnswer

        print_answer(RebuildAnswer.build(tables=[_build_rebuilt_table(each) for each in found], all=None))
    elif not names:
        to.print("nothing to rebuild: none of these tables has batches")


def _format_changes(changes: Mapping[str, Sequence[Difference]]) -> list[str]:
    return [
        f"{name}: "
        + (
            "; ".join(f"{what} {old or 'none'} → {new or 'none'}" for what, old, new in differs)
            or "unchanged declaration"
        )
        for name, differs in changes.items()
    ]


def _format_rebuilt_table(each: TableRebuildResult) -> list[str]:
    slices, rows = count_words(each.slices, "slice"), count_words(each.rows, "row")
    lines = [f"{each.table}: rebuilt from {slices} with {rows}, version {each.version}"]
    if each.resealed:
        lines.append(f"  sealed again, as whole slices: {', '.join(map(label_of, each.resealed))}")
    if each.lost:
        gone = count_words(sum(piece.rows for piece in each.lost), "row")
        lines.append(
            f"  damaged, with {gone}: {', '.join(label_of(piece.label) for piece in each.lost)}; requested again if "
            "possible, so `waterclock run` makes them"
        )
    return lines


def _build_rebuilt_table(each: TableRebuildResult) -> RebuiltTable:
    from waterclock.json_models.maintenance import RebuiltTable

    return RebuiltTable.build(
        each,
        changed=[{"what": what, "from": old, "to": new} for what, old, new in each.changed],
        lost=[piece.label for piece in each.lost],
    )
