"""`waterclock revert`: makes an earlier sealed revision of labels the newest one again, and runs what depends on it."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, Now, ProjectDir, Yes

OfTable = Annotated[
    str,
    typer.Argument(
        metavar="TABLE@LABELS", help="The table, with a label or a range of labels.", autocompletion=tables_from
    ),
]
ToRevision = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="REVISION",
        help="The revision: its claim, as `audit` shows it, or `previous`, the one before the current one.",
        show_default=False,
    ),
]
KnownAt = Annotated[
    str | None,
    typer.Option(
        "--known-at",
        metavar="TIME",
        help="The revisions that were current then, by the real clock: an instant, or the end of TABLE@LABEL.",
        show_default=False,
    ),
]
Reason = Annotated[
    str, typer.Option("--why", "--because", metavar="TEXT", help="The reason; it is kept with your name.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be reverted, and change nothing.")]
NoRun = Annotated[bool, typer.Option("--no-run", help="Only revert: the next run makes the dependent batches.")]


def revert(  # noqa: PLR0913 - each is an option
    which: OfTable,
    *,
    to: ToRevision = None,
    known_at: KnownAt = None,
    because: Reason = "",
    dry_run: DryRun = False,
    no_run: NoRun = False,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Make an earlier revision of labels their newest one again, and run the batches that depend on it.

    No rows are made: the sealed slice of the revision is committed again. It shows the labels and the dependent batches
    and asks before it starts.
    """
    if (to is None) == (known_at is None):
        raise typer.BadParameter("give either --to or --known-at", param_hint="--to")
    if to is not None and to != "previous" and not to.isdecimal():
        raise typer.BadParameter(f"{to} is neither a claim nor previous", param_hint="--to")
    from waterclock.cli.actions.revert import revert_labels
    from waterclock.operations.reverting import RevertRequest

    request = RevertRequest(which, int(to) if to is not None and to.isdecimal() else to, known_at)
    raise typer.Exit(
        revert_labels(project, env, request, because, now, is_dry=dry_run, is_run=not no_run, yes=yes, is_json=json)
    )
