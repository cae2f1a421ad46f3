"""`waterclock ledger`: write the ledger to the storage, or make a lost one again."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir


class Doing(StrEnum):
    """What is to be done with the ledger."""

    EXPORT = "export"
    REBUILD = "rebuild"


What = Annotated[
    Doing,
    typer.Argument(
        metavar="export|rebuild",
        help="export writes it below ledger/ in the storage; rebuild makes a lost one from that and the commits since.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="rebuild: move a ledger that is there aside first.")]
From = Annotated[
    str | None, typer.Option("--from", metavar="NAME", help="rebuild: begin from this export, not the newest.")
]
Whole = Annotated[bool, typer.Option("--whole", help="export: write all of it, not what is new since the last one.")]


def ledger(
    what: What,
    *,
    force: Force = False,
    export: From = None,
    whole: Whole = False,
    project: ProjectDir = HERE,
    env: Env = None,
    json: AsJson = False,
) -> None:
    """Export the ledger to the storage, or rebuild a lost one from its export and what was committed since."""
    from waterclock.cli.actions.ledger import exported, rebuilt

    if what is Doing.EXPORT:
        exported(project, env, is_whole=whole, is_json=json)
    else:
        rebuilt(project, env, export, force=force, is_json=json)
