"""`waterclock trust`: allows projects to run that other users can change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from waterclock.cli.options import AsJson


def trust(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="A project, or a folder of projects; without it, list the trusted folders."
        ),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting the folder.")] = False,
    json: AsJson = False,
) -> None:
    """Trust a folder and everything below it, although other users can change it. Its projects run code as you."""
    from waterclock.cli.actions.trust import change_trust, list_trust

    if folder is None:
        list_trust(is_json=json)
    else:
        change_trust(folder, is_trusted=not remove, is_json=json)
