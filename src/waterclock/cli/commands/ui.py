"""`waterclock ui`: serves the project in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, Now, ProjectDir

Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="[HOST:]PORT",
        help="Where to serve; without a host, on this machine only; unix:/path is a socket.",
    ),
]
Run = Annotated[bool, typer.Option("--run", help="Also run due batches, as run --watch does.")]
Link = Annotated[bool, typer.Option("--link", help="Print another one-time link to the running pages, and exit.")]
Certificate = Annotated[
    Path | None,
    typer.Option("--certificate", metavar="FILE", help="Serve by HTTPS with this certificate.", show_default=False),
]
Key = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="The private key of --certificate.", show_default=False)
]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in this machine's browser.")]


def ui(  # noqa: PLR0913 - the options of a command
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    listen: Listen = "8899",
    run: Run = False,
    browser: Open = False,
    link: Link = False,
    certificate: Certificate = None,
    key: Key = None,
    json: AsJson = False,
) -> None:
    """Serve the project in a browser: the grid, tables, runs, errors, and plans that can be carried out."""
    from waterclock.cli.actions.ui import show_pages
    from waterclock.cli.actions.ui_links import print_new_link

    if (certificate is None) != (key is None):
        raise typer.BadParameter("--certificate and --key belong together")
    if link:
        raise typer.Exit(print_new_link(listen))
    if run and json:
        raise typer.BadParameter("--run prints its progress: it takes no --json", param_hint="--json")
    if run and now is not None:
        raise typer.BadParameter("--run uses the real clock: it takes no --now", param_hint="--run")
    if run and certificate is not None:
        raise typer.BadParameter("--run serves no HTTPS: run `waterclock run --watch` beside it", param_hint="--run")
    tls = None if certificate is None or key is None else (certificate, key)
    raise typer.Exit(show_pages(project, env, now, listen, is_run=run, is_opened=browser, is_json=json, tls=tls))
