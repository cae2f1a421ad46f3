"""`waterclock promote`: adopts the slices that a branch has made in the environment that it borrows from."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import environments_from
from waterclock.cli.options import HERE, AsJson, Now, ProjectDir, Yes

OfBranch = Annotated[str, typer.Argument(metavar="NAME", help="The branch.", autocompletion=environments_from)]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be adopted, and change nothing.")]


def promote(
    name: OfBranch,
    *,
    dry_run: DryRun = False,
    project: ProjectDir = HERE,
    now: Now = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Make the labels of a branch in the environment that it borrows from.

    A label with the same code, window and inputs adopts the sealed slice of the branch: its rows are not computed
    again. All others are computed. It shows the labels and asks before it starts.
    """
    from waterclock.cli.actions.promote import promote_branch

    raise typer.Exit(promote_branch(project, name, now, is_dry=dry_run, yes=yes, is_json=json))
