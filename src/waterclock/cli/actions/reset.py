"""Resets a table: shows its labels and the tables that read them, asks, and starts the table over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.maintenance.reset import ResettableTable, prepare_reset, reset
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.flow.enums import Kind
from waterclock.flow.graph import late_tables, other_part
from waterclock.operations.formatting import count_words
from waterclock.operations.project_opening import one_table, open_project


def reset_table(folder: Path, env: str | None, which: str, why: str, *, yes: bool, is_json: bool) -> None:
    """Show the labels and readers of a table, ask for confirmation, then reset it and the tables that are made with it.

    These are its table of late rows, and the other table of APART.

    Raises the errors of `prepare_reset`.
    """
    project = open_project(folder, env)
    name, _ = one_table(project.flow, which)
    to = console(stderr=is_json)
    with open_workplace(project) as work:
        apply_flow(work, work.real_now())  # finds a renamed table under its new name
        # the tables that are made with it first: if the command is killed in between, it can be repeated
        other = other_part(work.flow, name)
        added = (*late_tables(work.flow, name), *([] if other is None else [other]))
        others = [each for of in added if (each := prepare_reset(work, of)) is not None]
        found = prepare_reset(work, name)
        for each in others if found is None else [found, *others]:
            for line in _format_reset(each):
                to.print(line, soft_wrap=True)
        if found is not None or others:
            confirm(f"Start {name} over?", yes=yes)
        for each in others if found is None else [*others, found]:
            reset(work, each, why=why)
    if is_json:
        from waterclock.json_models.decisions import ResetAnswer

        changed = found.changed if found else ()
        print_answer(
            ResetAnswer.build(
                table=name,
                labels=found.labels if found else 0,
                rows=found.rows if found else 0,
                changed=[{"what": what, "from": old, "to": new} for what, old, new in changed],
                readers=found.readers if found else [],
                publishes=found.publishes if found else [],
                late=[each.table.name for each in others if each.table.late_rows is not None],
                others=[each.table.name for each in others if each.table.late_rows is None],
                why=why,
            )
        )
    elif found is None and not others:
        to.print(f"{name} has no batches: there is nothing to reset")
    else:
        to.print(f"{name} is reset: `waterclock run` starts it over as declared now")


def _format_reset(found: ResettableTable) -> Iterator[str]:
    name, kind = found.table.name, found.table.kind
    labels, rows = count_words(found.labels, "label"), count_words(found.rows, "row")
    if kind is Kind.PUBLISH:
        yield f"{labels} delivered by {name} will be delivered again; its destination keeps them until then"
    else:
        yield f"{name} no longer contains {labels} with {rows}; their slices stay in its stage"
    for what, old, new in found.changed:
        yield f"  {what}: {old or 'none'} → {new or 'none'}"
    if kind is Kind.COLLECT:
        yield "  rows that its source no longer has are not collected again; files in archive/ are"
    if found.readers:
        yield f"  read by {', '.join(found.readers)}: made again if their inputs differ"
    if found.publishes:
        yield f"  delivered by {', '.join(found.publishes)}: the destination stays as it is until the next delivery"
