"""`waterclock run`: runs due batches once, up to an instant, or continuously."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import (
    HERE,
    AsJson,
    CertificateFile,
    Env,
    KeyFile,
    LabelRange,
    Now,
    ProjectDir,
    RestateLimit,
    Selected,
    certificate_of,
)

Until = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="TIME", help="Run as if time passed up to TIME: at each instant the batches due then."
    ),
]
Watch = Annotated[bool, typer.Option("--watch", help="Run batches as they become due, until Ctrl-C.")]
Every = Annotated[
    int, typer.Option("--every", metavar="SECONDS", min=1, help="With --watch: the maximum time between two checks.")
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="[HOST:]PORT",
        help="With --watch: serve /livez, /readyz and /metrics over HTTP; without a host, on this machine only.",
    ),
]
Pages = Annotated[
    str | None,
    typer.Option(
        "--ui",
        metavar="[HOST:]PORT",
        help="With --watch: also serve the pages of `ui`; without a host, on this machine only.",
    ),
]
Log = Annotated[str | None, typer.Option("--log", metavar="json", help="Log events as JSON, one per line.")]
Threads = Annotated[int | None, typer.Option("--threads", metavar="N", min=1, help="How many batches run in parallel.")]


def run(  # noqa: PLR0913 - each is an option
    selection: Selected = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    until: Until = None,
    watch: Watch = False,
    every: Every = 30,
    labels: LabelRange = None,
    at_most: RestateLimit = None,
    threads: Threads = None,
    listen: Listen = None,
    ui: Pages = None,
    certificate: CertificateFile = None,
    key: KeyFile = None,
    log: Log = None,
    json: AsJson = False,
) -> None:
    """Run due batches: once, up to an instant (--until), or continuously as they become due (--watch)."""
    from waterclock.cli.actions.run import RunOptions, run_and_report
    from waterclock.cli.actions.run_servers import RunServers
    from waterclock.http.listening import address_of
    from waterclock.operations.project_opening import open_project, select_batches

    if watch and (until is not None or now is not None):
        raise typer.BadParameter("--watch uses the real clock, and takes no --now or --until", param_hint="--watch")
    if listen is not None and not watch:
        raise typer.BadParameter("a run that ends cannot answer requests: add --watch", param_hint="--listen")
    if ui is not None and not watch:
        raise typer.BadParameter("a run that ends cannot serve pages: add --watch, or use `ui`", param_hint="--ui")
    https = certificate_of(certificate, key)
    if https is not None and listen is None and ui is None:
        raise typer.BadParameter("nothing is served by HTTPS: add --listen or --ui", param_hint="--certificate")
    if log not in {None, "json"}:
        raise typer.BadParameter("the only log format is json; text is the default", param_hint="--log")
    opened = open_project(project, env)
    if opened.bases:
        if watch or now is not None or until is not None:
            raise typer.BadParameter("a branch runs once, as of its tick", param_hint="--now")
        from waterclock.cli.actions.branch_run import BranchRun, run_in_branch

        asked = BranchRun(tuple(selection or ()), labels, threads, at_most, is_logged=log == "json", is_json=json)
        raise typer.Exit(run_in_branch(opened, asked))
    found, by_table = select_batches(opened.flow, selection, labels)
    options = RunOptions(
        command="run",
        only=found.tables if selection else None,
        labels=by_table,
        now=now,
        until=until,
        watch_seconds=every if watch else None,
        threads=threads,
        at_most=at_most,
        servers=RunServers(
            None if listen is None else address_of(listen),
            None if ui is None else address_of(ui, may_be_socket=True),
            https,
        ),
        is_logged=log == "json",
        is_json=json,
    )
    raise typer.Exit(run_and_report(opened, options))
