"""`waterclock query`: ask the tables, and the status tables, in SQL."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir

Sql = Annotated[
    str,
    typer.Argument(
        metavar="SQL",
        help="Spark SQL over the project's tables and waterclock.batches, .inputs, .events; - reads stdin.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="How many rows at most.")]


def query(
    sql: Sql,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    limit: Limit = 100,
    json: AsJson = False,
) -> None:
    """Ask the tables as they are now, and waterclock.batches, .inputs, .events, in Spark SQL."""
    from waterclock.cli.answer_view import asked, print_answer, text_of
    from waterclock.cli.answers import print_json

    answer = asked(project, env, text_of(sql), limit)
    if json:
        print_json(answer.to_json())
    else:
        print_answer(answer)
