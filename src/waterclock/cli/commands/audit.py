"""`waterclock audit`: shows who made a batch, from which inputs, with which code and when."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, ProjectDir

Batch = Annotated[
    str,
    typer.Argument(
        metavar="TABLE[@LABEL]", help="A batch, or a table for a list of its batches.", autocompletion=tables_from
    ),
]
Depth = Annotated[
    int | None, typer.Option("--depth", metavar="N", min=1, help="How many steps up and down; by default all.")
]
Last = Annotated[int, typer.Option("--last", metavar="N", min=1, help="For a table: how many of its newest batches.")]


def audit(
    batch: Batch,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    depth: Depth = None,
    last: Last = 20,
    json: AsJson = False,
) -> None:
    """Show the history of a batch: who made it, when, with which code, from which inputs, and its row counts.

    It also lists the batches upstream and downstream of it. For a table without a label, it lists the newest batches.
    """
    from waterclock.cli.views.audit import print_audit, print_batches
    from waterclock.cli.views.json import print_answer
    from waterclock.cli.views.theme import console
    from waterclock.operations.audit_json import audit_answer, audit_list_answer
    from waterclock.operations.audit_lookup import BatchList, find_audit_target
    from waterclock.operations.project_opening import one_table, open_read_only

    with open_read_only(project, env, None) as at:
        name, labels = one_table(at.flow, batch)
        found = find_audit_target(at, name, labels, depth=depth, last=last)
        if isinstance(found, BatchList):
            if json:
                print_answer(audit_list_answer(name, found))
            else:
                print_batches(console(), at.flow.tables[name], found)
        elif json:
            print_answer(audit_answer(found))
        else:
            print_audit(console(), at.flow, found)
