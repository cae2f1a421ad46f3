"""`waterclock query`: queries the tables and the ledger's tables in SQL."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir, Yes

Sql = Annotated[
    str,
    typer.Argument(
        metavar="SQL",
        help="Spark SQL over the project's tables and waterclock.batches, .measures, .inputs, .events; - reads stdin.",
    ),
]
Tick = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TICK",
        help="All tables as of one tick: an instant, a timelabel, TABLE@LABEL (the end of its window) or latest.",
    ),
]
Known = Annotated[
    str | None,
    typer.Option("--known-at", metavar="TIME", help="With --as-of: as known at that time, by the real clock."),
]
Partial = Annotated[
    bool,
    typer.Option("--partial", help="With --as-of: answer without the missing labels, and list them."),
]
Make = Annotated[
    bool,
    typer.Option(
        "--make",
        help="With --as-of: first make the missing and outdated batches that the query needs; asks for confirmation.",
    ),
]
AsUser = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="Show only what this declared user sees, by the project's GRANTs."),
]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Maximum number of rows.")]


def query(  # noqa: PLR0913 - the options of the command
    sql: Sql,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    as_of: Tick = None,
    known_at: Known = None,
    partial: Partial = False,
    make: Make = False,
    yes: Yes = False,
    user: AsUser = None,
    limit: Limit = 100,
    json: AsJson = False,
) -> None:
    """Query the tables in Spark SQL, as they are now or as of a tick.

    The ledger's tables waterclock.batches, .measures, .measured_spans, .inputs and .events can be queried too.
    """
    from waterclock.cli.actions.access import find_declared_user, record_query
    from waterclock.cli.views.json import print_json
    from waterclock.cli.views.query import print_answer, print_missing_sandbox, text_of
    from waterclock.operations.project_opening import open_project
    from waterclock.operations.query_results import answer_query

    if known_at is not None and as_of is None:
        raise typer.BadParameter("it needs --as-of, such as --as-of latest", param_hint="--known-at")
    if partial and as_of is None:
        raise typer.BadParameter("it needs --as-of, such as --as-of latest", param_hint="--partial")
    if make and (as_of is None or known_at is not None):
        raise typer.BadParameter("it needs --as-of, and excludes --known-at", param_hint="--make")
    if make and user is not None:
        raise typer.BadParameter("it excludes --user", param_hint="--make")
    text = text_of(sql)
    if make and as_of is not None:
        from waterclock.cli.actions.make_before_query import make_first

        make_first(project, env, text, as_of, yes=yes)
    opened = open_project(project, env)
    person = None if user is None else find_declared_user(opened, user)
    record_query(opened, text)
    print_missing_sandbox(opened)
    answer = answer_query(opened, text, limit, as_of=as_of, known_at=known_at, partial=partial, person=person)
    if json:
        print_json(answer.to_json())
    else:
        print_answer(answer)
