"""The arguments and options that several commands share. `waterclock.selection` parses those for tables and labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waterclock.cli.completion import environments_from, tables_from
from waterclock.cli.project_folder import project_above
from waterclock.cli.views.json import set_project_folder, want_json

if TYPE_CHECKING:
    from waterclock.http.server_certificate import Certificate


def _set_json(value: bool) -> bool:  # noqa: FBT001 - signature of Typer
    want_json(value=value)
    return value


def _set_project(ctx: typer.Context, param: typer.CallbackParam, folder: Path) -> Path:
    source = ctx.get_parameter_source(param.name or "")
    found = folder if source is not None and source.name != "DEFAULT" else project_above(folder)
    set_project_folder(found)
    return found


ProjectDir = Annotated[
    Path,
    typer.Option(
        "--project",
        "-p",
        metavar="DIR",
        callback=_set_project,
        help="The project's folder, with waterclock.toml. Default: this folder, or the nearest one above it.",
    ),
]
Env = Annotated[
    str | None,
    typer.Option(
        "--env",
        "-e",
        envvar="WATERCLOCK_ENV",
        metavar="NAME",
        help="The environment; the project file has the default.",
        autocompletion=environments_from,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", callback=_set_json, help="Print JSON and nothing else.")]
Now = Annotated[
    str | None,
    typer.Option(
        "--now",
        metavar="TIME",
        help="Take this as the current time: 2013-01-05, 2013-01-05T06:00 (project's zone) or …Z.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Which = Annotated[
    str,
    typer.Argument(
        metavar="SELECTION", help="Tables, as for run: marts.delays, +marts.delays, …", autocompletion=tables_from
    ),
]
SomeLabels = Annotated[
    str | None, typer.Argument(metavar="LABELS", help="A label or a range; by default all.", show_default=False)
]
Because = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; it is kept with your name.")]
AskOnly = Annotated[bool, typer.Option("--no-run", help="Only record the request: the next run carries it out.")]
Selected = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SELECTION",
        help="Tables: marts.delays, +marts.delays (with all upstream), a.b+ (downstream), marts.*, tag:x, "
        "each with optional @LABELS, and tables to leave out after `except`. By default all.",
        show_default=False,
        autocompletion=tables_from,
    ),
]
RestateLimit = Annotated[
    int | None,
    typer.Option(
        "--at-most",
        metavar="N",
        min=0,
        help="If inputs were restated so that more than N labels would be made again, make none of them again.",
    ),
]
LabelRange = Annotated[
    str | None,
    typer.Option("--labels", "-l", metavar="A..B", help="Only these labels: 2013-01-05, 2013-01..2013-02, 20130105.."),
]
CertificateFile = Annotated[
    Path | None,
    typer.Option("--certificate", metavar="FILE", help="Serve by HTTPS with this certificate.", show_default=False),
]
KeyFile = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="The private key of --certificate.", show_default=False)
]

HERE = Path()


def certificate_of(file: Path | None, key: Path | None) -> Certificate | None:
    """Return the certificate of the two options, or None for HTTP.

    Prints the warning W205 if other users can read the private key. Raises BadParameter for one option without the
    other.
    """
    if file is None and key is None:
        return None
    if file is None or key is None:
        raise typer.BadParameter("--certificate and --key belong together")
    from waterclock.cli.views.error_card import show_errors
    from waterclock.cli.views.theme import console
    from waterclock.http.server_certificate import Certificate
    from waterclock.permissions.open_places import open_place_warnings

    show_errors(console(stderr=True), open_place_warnings([key]))
    return Certificate(file, key)
