"""`waterclock branch`: creates, lists and deletes branches, which try changed code next to production."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from waterclock.cli.completion import environments_from
from waterclock.cli.options import HERE, AsJson, ProjectDir, Yes


class BranchAction(StrEnum):
    """The actions of the `branch` command."""

    CREATE = "create"
    LIST = "list"
    DELETE = "delete"


What = Annotated[
    BranchAction,
    typer.Argument(metavar="[create|list|delete]", help="list, the default, shows the branches."),
]
Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="create, delete: the branch; `--env NAME` selects it in other commands.",
        show_default=False,
        autocompletion=environments_from,
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="ENV",
        help="create: the environment to borrow from. Default: `from` of the branch's section, or the project's "
        "default environment.",
        autocompletion=environments_from,
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="TICK", help="create: make no labels that end after this instant. Default: the current time."
    ),
]
Days = Annotated[
    int,
    typer.Option("--days", metavar="N", min=1, help="create: the branch makes nothing after so many days."),
]


def branch(  # noqa: PLR0913 - the options of the command
    what: What = BranchAction.LIST,
    name: Name = None,
    *,
    from_: From = None,
    at: At = None,
    days: Days = 7,
    project: ProjectDir = HERE,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Create, list or delete a branch: an environment that borrows another one's tables and makes the changed ones.

    The other environment is only read. `run --env NAME` makes the changed tables, and `diff --env NAME --against ENV`
    shows the differences.
    """
    from waterclock.cli.actions.branch import delete, list_all
    from waterclock.cli.actions.branch_creation import create

    if (what is BranchAction.LIST) != (name is None):
        raise typer.BadParameter("create and delete take the name of a branch; list takes none", param_hint="NAME")
    if what is not BranchAction.CREATE and (from_ is not None or at is not None):
        raise typer.BadParameter("only create takes --from and --at", param_hint="--from")
    if name is None:
        list_all(project, is_json=json)
    elif what is BranchAction.CREATE:
        create(project, name, from_, at, days, is_json=json)
    else:
        delete(project, name, yes=yes, is_json=json)
