"""`waterclock erase`: removes all rows of persons from the project, for good."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir, Yes

Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject that columns declare, as customer.")]
Keys = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEYS", help="The values that identify the persons.", show_default=False),
]
KeysFrom = Annotated[
    Path | None,
    typer.Option("--keys-from", metavar="FILE", help="Read the values from a file, one a line.", show_default=False),
]
Reason = Annotated[str, typer.Option("--why", "--because", metavar="TEXT", help="The reason; it is kept.")]
Only = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be erased, and the places that would be left. Erase nothing.")
]
Again = Annotated[bool, typer.Option("--continue", help="Continue an unfinished erasure of the same persons.")]
Secret = Annotated[
    str | None,
    typer.Option(
        "--keys", metavar="NAME", help="The connection of type keys, if there are several.", show_default=False
    ),
]


def erase(  # noqa: PLR0913 - each is an option
    subject: Subject,
    keys: Keys = None,
    *,
    why: Reason = "",
    keys_from: KeysFrom = None,
    dry_run: Only = False,
    again: Again = False,
    secret: Secret = None,
    project: ProjectDir = HERE,
    env: Env = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Erase persons: remove their rows from all tables, revisions and versions, and keep them out of later batches.

    Exit with 1 if some places cannot be erased; the certificate names them.
    """
    from waterclock.cli.actions.erase import ErasureOptions, run_erase

    options = ErasureOptions(why, keys_from, secret, is_dry_run=dry_run, continues=again, yes=yes, is_json=json)
    run_erase(project, env, subject, keys or [], options)
