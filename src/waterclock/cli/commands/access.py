"""`waterclock access`: lists who read, changed or was refused what, when and from where."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir

Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only accesses after this time: an instant, or an age such as 7d or 12h."
    ),
]
Who = Annotated[str | None, typer.Option("--who", metavar="NAME", help="Only those of one person.")]
Most = Annotated[int, typer.Option("--limit", metavar="N", help="Maximum number of accesses to list, up to 100000.")]


def access(
    *,
    since: Since = None,
    who: Who = None,
    limit: Most = 1000,
    project: ProjectDir = HERE,
    env: Env = None,
    json: AsJson = False,
) -> None:
    """List accesses, newest first: sign-ins, queries, views of rows, changes and refused requests."""
    from waterclock.cli.actions.access import list_accesses

    if not 1 <= limit <= 100_000:
        raise typer.BadParameter("write a number from 1 to 100000", param_hint="--limit")
    list_accesses(project, env, since=since, who=who, most=limit, is_json=json)
