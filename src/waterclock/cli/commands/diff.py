"""`waterclock diff`: compares tables with another environment, an earlier time, or their previous revisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import typer

from waterclock.cli.completion import environments_from, tables_from
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.options import HERE, AsJson, Env, LabelRange, ProjectDir

Compared = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SELECTION",
        help="Tables, as for run, each with optional @LABELS: marts.delays, marts.*@2026-01.",
        show_default=False,
        autocompletion=tables_from,
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="ENV",
        help="Compare with the rows in this environment of the project. Only its ledger and its files are read.",
        autocompletion=environments_from,
    ),
]
AsKnown = Annotated[
    str | None,
    typer.Option(
        "--as-known",
        metavar="TICK",
        help="Compare with the rows known at that time, by the real clock: an instant, or TABLE@LABEL.",
    ),
]
EachTable = Annotated[bool, typer.Option("--all", help="Compare each table that was made.")]
Except = Annotated[
    list[str] | None,
    typer.Option(
        "--except", metavar="COLUMN,…", help="Columns that do not count, such as loaded_at.", show_default=False
    ),
]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="COLUMN,…", help="Match rows by these columns, in place of the table's KEY."),
]
Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance", metavar="N", min=0.0, help="FLOAT and DOUBLE columns of a changed row may differ by up to N."
    ),
]
Limit = Annotated[
    int,
    typer.Option(
        "--limit", "-n", metavar="N", min=0, help="How many changed, added and removed rows to show, up to 10000 each."
    ),
]
AsUser = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="Compare only what this declared user sees, by the project's GRANTs."),
]
Why = Annotated[
    bool,
    typer.Option("--why", help="Show what differs first upstream of a label: source, input or code. No row is read."),
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a comment in a review.")]


def diff(  # noqa: PLR0913 - the options of the command
    selection: Compared = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    against: Against = None,
    as_known: AsKnown = None,
    every: EachTable = False,
    labels: LabelRange = None,
    except_: Except = None,
    key: Key = None,
    tolerance: Tolerance = 0.0,
    limit: Limit = 20,
    user: AsUser = None,
    why: Why = False,
    markdown: Markdown = False,
    json: AsJson = False,
) -> None:
    """Compare tables by label with another environment, with an earlier time, or with their previous revisions.

    Labels with equal digests are equal, and are not read. Exit code 3: a table differs.
    """
    from waterclock.cli.actions.diff import DiffOptions, compare_environments, explain_environments
    from waterclock.cli.views.diff import print_comparison, print_explanation, print_markdown
    from waterclock.cli.views.json import print_answer
    from waterclock.cli.views.theme import console
    from waterclock.engine.query.table_comparison import MOST_ROWS, ComparisonOptions
    from waterclock.operations.comparison_report import comparison_answer
    from waterclock.operations.explanation_report import explanation_answer
    from waterclock.operations.project_opening import open_project

    if bool(selection) == every:
        fix = "name the table to explain" if why else "name the tables to compare, or write --all"
        if every:
            fix = "--all compares all tables; leave out the names, or --all"
        raise typer.BadParameter(fix, param_hint="SELECTION")
    if not math.isfinite(tolerance):
        raise typer.BadParameter("it is no number", param_hint="--tolerance")
    if limit > MOST_ROWS:
        raise typer.BadParameter(f"at most {MOST_ROWS}", param_hint="--limit")
    _require_alone("--against", against is not None, {"--as-known": as_known is not None})
    _require_alone("--markdown", markdown, {"--json": json})
    _require_alone("--why", why, {"--all": every, "--user": user is not None})
    loaded = open_project(project, env)
    if against == loaded.env:
        raise typer.BadParameter(f"{against} is the environment itself; --env selects another", param_hint="--against")
    options = ComparisonOptions(_names(key), _names(*(except_ or ())), tolerance, limit)
    asked = DiffOptions(tuple(selection or ()), labels, against, as_known, user, options)
    if why:
        explained = explain_environments(project, loaded, asked)
        if json:
            print_answer(explanation_answer(explained))
        else:
            print_explanation(console(), explained, loaded.flow, is_markdown=markdown)
        raise typer.Exit(ExitCode.DIFFERENT if explained.differs else ExitCode.DONE)
    compared = compare_environments(project, loaded, asked)
    if json:
        print_answer(comparison_answer(compared))
    elif markdown:
        print_markdown(compared, loaded.flow)
    else:
        print_comparison(console(), compared, loaded.flow)
    if loaded.bases and against is None and as_known is None and not json:
        base = loaded.bases[0].env
        hint = f"{loaded.env} is a branch of {base}: --against {base} compares with its rows"
        console(stderr=True).print(hint, soft_wrap=True)
    raise typer.Exit(
        ExitCode.FAILED if compared.has_failed else ExitCode.DIFFERENT if compared.differs else ExitCode.DONE
    )


def _require_alone(option: str, is_given: bool, others: Mapping[str, bool]) -> None:  # noqa: FBT001 - of an option
    """Raise BadParameter if an option is given with another one that it excludes."""
    for other, is_other_given in others.items():
        if is_given and is_other_given:
            raise typer.BadParameter(f"it excludes {other}", param_hint=option)


def _names(*lists: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for names in lists for name in (names or "").split(",") if name.strip())
