"""`waterclock edit`: shows and changes tables of master data, which are collected from forms."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, ProjectDir, Yes


class EditAction(StrEnum):
    """The actions of the `edit` command."""

    LIST = "list"
    SET = "set"
    DELETE = "delete"
    SUGGEST = "suggest"
    HISTORY = "history"
    UNDO = "undo"
    IMPORT = "import"
    EXPORT = "export"
    PROPOSALS = "proposals"
    APPROVE = "approve"
    REJECT = "reject"
    WITHDRAW = "withdraw"


What = Annotated[
    EditAction,
    typer.Argument(
        metavar="list|set|delete|suggest|history|undo|import|export|proposals|approve|reject|withdraw",
        help="list shows rows; set adds or changes one; delete removes one; suggest shows values of alike keys for a "
        "row that waits; history shows the changes of one; undo restores the rows of a batch of changes; import reads "
        "a CSV file or a workbook; export writes one; proposals lists changes that wait for approval, or shows the "
        "rows of one; approve, reject and withdraw decide on one.",
    ),
]
Edited = Annotated[
    str, typer.Argument(metavar="TABLE", help="The table that collects the form.", autocompletion=tables_from)
]
Values = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[VALUES]",
        help="set, delete, suggest, history: the KEY; set: also column=value for each value. list: column=value. "
        "undo: the batch. import, export: the file, for export by default the terminal. proposals, approve, reject, "
        "withdraw: the number of a proposal.",
        show_default=False,
    ),
]
Why = Annotated[str, typer.Option("--why", "--because", metavar="TEXT", help="The reason; it is kept with your name.")]
Waiting = Annotated[bool, typer.Option("--waiting", help="list: only rows without a required value.")]
After = Annotated[str, typer.Option("--after", metavar="KEY", help="list: the rows after this key.")]
Comma = Annotated[bool, typer.Option("--decimal-comma", help="import, set: numbers have a comma before decimals.")]


def edit(  # noqa: PLR0913 - each is an option
    what: What,
    table: Edited,
    values: Values = None,
    *,
    why: Why = "",
    waiting: Waiting = False,
    after: After = "",
    decimal_comma: Comma = False,
    project: ProjectDir = HERE,
    env: Env = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Show or change rows of master data. Each change is kept with its reason."""
    from waterclock.cli.actions import edit as actions

    given = list(values or ())
    form = actions.open_table(project, env, table)
    if what is EditAction.LIST:
        actions.show_rows(form, given, after=after, is_waiting=waiting, is_json=json)
    elif what is EditAction.SET:
        actions.set_row(form, given, why, decimal_comma=decimal_comma, is_json=json)
    elif what is EditAction.DELETE:
        actions.delete_row(form, given, why, yes=yes, is_json=json)
    elif what is EditAction.SUGGEST:
        actions.show_suggestions(form, given, is_json=json)
    elif what is EditAction.HISTORY:
        actions.show_history(form, given, is_json=json)
    elif what is EditAction.UNDO:
        actions.undo_batch(form, given, why, yes=yes, is_json=json)
    elif what is EditAction.IMPORT:
        actions.import_file(form, given, why, decimal_comma=decimal_comma, yes=yes, is_json=json)
    elif what is EditAction.EXPORT:
        actions.export_rows(form, given)
    else:
        from waterclock.cli.actions import edit_proposals

        if what is EditAction.PROPOSALS:
            edit_proposals.show_proposals(form, given, is_json=json)
        else:
            edit_proposals.decide(form, what.value, given, why, yes=yes, is_json=json)
