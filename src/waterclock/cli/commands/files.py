"""`waterclock files`: lists the files that make up a table, for other engines."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, ProjectDir

OneTable = Annotated[str, typer.Argument(metavar="TABLE", help="The table.", autocompletion=tables_from)]
Tick = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TICK", help="As of a tick: an instant, a timelabel, TABLE@LABEL or latest."),
]
Known = Annotated[str | None, typer.Option("--known-at", metavar="TIME", help="With --as-of: as known at that time.")]


class FileListFormat(StrEnum):
    """The output formats: one path per line, or SQL that registers each label's location in a Hive-style catalogue."""

    LIST = "list"
    HIVE = "hive"


FormatOption = Annotated[
    FileListFormat,
    typer.Option(
        "--format", metavar="list|hive", help="One path per line; or SQL: ADD PARTITION … LOCATION for each label."
    ),
]


def files(
    table: OneTable,
    *,
    as_of: Tick = None,
    known_at: Known = None,
    form: FormatOption = FileListFormat.LIST,
    project: ProjectDir = HERE,
    env: Env = None,
    json: AsJson = False,
) -> None:
    """List the files that make up a table, now or at a tick, for DuckDB, pyarrow, Polars or Hive."""
    from waterclock.cli.views.files import print_files

    if known_at is not None and as_of is None:
        raise typer.BadParameter("it needs --as-of, such as --as-of latest", param_hint="--known-at")
    print_files(project, env, table, as_of=as_of, known_at=known_at, is_hive=form is FileListFormat.HIVE, is_json=json)
