"""`waterclock ui`: serves the project in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, CertificateFile, Env, KeyFile, Now, ProjectDir, certificate_of

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
    certificate: CertificateFile = None,
    key: KeyFile = None,
    json: AsJson = False,
) -> None:
    """Serve the project in a browser: the grid, tables, runs, errors, and plans that can be carried out."""
    from waterclock.cli.actions.ui import show_pages
    from waterclock.cli.actions.ui_links import print_new_link

    https = certificate_of(certificate, key)
    if link:
        raise typer.Exit(print_new_link(listen))
    if run and json:
        raise typer.BadParameter("--run prints its progress: it takes no --json", param_hint="--json")
    if run and now is not None:
        raise typer.BadParameter("--run uses the real clock: it takes no --now", param_hint="--run")
    raise typer.Exit(
        show_pages(project, env, now, listen, is_run=run, is_opened=browser, is_json=json, certificate=https)
    )
