"""`waterclock receive`: receives events over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, CertificateFile, Env, KeyFile, ProjectDir, certificate_of

Listen = Annotated[
    str,
    typer.Option("--listen", metavar="[HOST:]PORT", help="Where to listen; without a host, on this machine only."),
]


def receive(
    *,
    listen: Listen = "8877",
    project: ProjectDir = HERE,
    env: Env = None,
    certificate: CertificateFile = None,
    key: KeyFile = None,
    json: AsJson = False,
) -> None:
    """Receive events over HTTP for the streams that tables collect from. Each is acknowledged once it is on disk."""
    from waterclock.cli.actions.receive import take_events

    https = certificate_of(certificate, key)
    raise typer.Exit(take_events(project, env, listen, is_json=json, certificate=https))
