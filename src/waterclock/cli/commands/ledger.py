"""`waterclock ledger`: exports the ledger to the storage, rebuilds a lost one, or moves it to another database."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir


class LedgerAction(StrEnum):
    """The actions of the `ledger` command."""

    EXPORT = "export"
    REBUILD = "rebuild"
    MOVE = "move"


What = Annotated[
    LedgerAction,
    typer.Argument(
        metavar="export|rebuild|move",
        help="export writes it to ledger/ in the storage; rebuild makes a lost one from its export and the commits "
        "since; move copies it to another database.",
    ),
]
To = Annotated[
    str | None,
    typer.Argument(metavar="[TO]", help="move: the new URL, or the environment whose ledger setting is the new URL."),
]
Force = Annotated[bool, typer.Option("--force", help="rebuild: first move an existing ledger out of the way.")]
From = Annotated[str | None, typer.Option("--from", metavar="NAME", help="rebuild: use this export, not the newest.")]
Whole = Annotated[
    bool, typer.Option("--whole", help="export: write the whole ledger, not only changes since the last export.")
]


def ledger(  # noqa: PLR0913 - a command has as many options
    what: What,
    to: To = None,
    *,
    force: Force = False,
    export: From = None,
    whole: Whole = False,
    project: ProjectDir = HERE,
    env: Env = None,
    json: AsJson = False,
) -> None:
    """Export the ledger to the storage, rebuild a lost ledger, or move it to another database.

    A rebuild uses the newest export and the commits made since.
    """
    from waterclock.cli.actions.ledger import run_export, run_ledger_rebuild, run_move

    if (to is None) == (what is LedgerAction.MOVE):
        raise typer.BadParameter("move needs a URL or an environment; export and rebuild take no argument")
    if to is not None:
        run_move(project, env, to, is_json=json)
        return

    if what is LedgerAction.EXPORT:
        run_export(project, env, is_whole=whole, is_json=json)
    else:
        run_ledger_rebuild(project, env, export, force=force, is_json=json)
