"""`waterclock init`: creates a small project that runs at once and can run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from waterclock.cli.options import AsJson

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="The folder; created if it does not exist. Default: this folder.", show_default=False
    ),
]
Empty = Annotated[bool, typer.Option("--empty", help="Write statements to fill in, and no sample data.")]


def init(
    folder: Folder = Path(),
    *,
    empty: Empty = False,
    json: AsJson = False,
) -> None:
    """Create a small project that runs, with its own sample source.

    With --empty, write only the files of a project for your own source.
    """
    from waterclock.cli.actions.init import next_commands, start_empty, start_project, today
    from waterclock.cli.views.json import print_answer
    from waterclock.cli.views.theme import console

    made = (start_empty if empty else start_project)(folder, today())
    commands = next_commands(folder, *(("check",) if empty else ("run", "status")))
    if json:
        from waterclock.json_models.setup import InitAnswer

        files = [str(path) for path in made]
        print_answer(InitAnswer(project=str(folder.resolve()), files=files, next=list(commands)))
        return
    to = console()
    to.print(f"A project of {len(made)} files in {folder.resolve()}:", soft_wrap=True)
    for path in made:
        to.print(f"  {path}", style="quiet")
    to.print("\nNext:")
    for command in commands:
        to.print(f"  {command}", style="head", soft_wrap=True)
