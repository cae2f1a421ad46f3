"""Lists proposed changes of a form, and approves, rejects or withdraws them as the user of the operating system."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.actions.edit import difference_lines, print_applied, usage_error
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.connectors.forms.history import differences_of
from waterclock.connectors.forms.proposals import (
    MOST_LISTED,
    FormProposal,
    ProposedRow,
    approve,
    find_proposal,
    list_proposals,
    reject,
    withdraw,
)
from waterclock.operations.formatting import count_words
from waterclock.operations.forms import OpenedForm
from waterclock.operations.required_reasons import need_reason_of_edit

_MOST_ROWS = 500  # of a proposal


def show_proposals(form: OpenedForm, given: Sequence[str], *, is_json: bool) -> None:
    """Print the open proposals, or the rows of the one whose number is given. Raises E894 if it is unknown."""
    rows: list[ProposedRow] = []
    if given:
        proposal, rows = find_proposal(form.database, form.entity, _number_of(given), _MOST_ROWS)
        proposals = [proposal]
    else:
        proposals = list_proposals(form.database, form.entity, most=MOST_LISTED)
    if is_json:
        _print_json(form, proposals, rows)
        return
    to = console()
    for each in proposals:
        count = count_words(each.count, "row")
        to.print(Text(f"proposal {each.number}  {each.at:%Y-%m-%d %H:%M:%S}Z  {each.who}, {count}: {each.why}"))
        if each.decided_by is not None:
            to.print(
                Text(f"  {each.state} by {each.decided_by}" + (f": {each.decided_why}" if each.decided_why else ""))
            )
    for row in rows:
        to.print(Text(f"  {row.key}" + ("  ! changed since it was proposed" if row.is_stale else "")))
        lines = ["deleted"] if row.after is None else difference_lines(differences_of(row.before, row.after))
        to.print(Text("\n".join(f"    {line}" for line in lines)))
        if row.is_stale:
            to.print(Text("    now: " + _words_of(row)))
    if rows and proposals[0].count > len(rows):
        to.print(f"  and {proposals[0].count - len(rows)} more", soft_wrap=True)
    if not proposals:
        to.print("no open proposals", soft_wrap=True)


def decide(form: OpenedForm, verb: str, given: Sequence[str], why: str, *, yes: bool, is_json: bool) -> None:
    """Approve, reject or withdraw a proposal after a confirmation. All but an approval need a reason.

    Raises E898 if it is decided, E899 if the person may not decide on it, E892 if one of its rows changed since.
    """
    number, by = _number_of(given), form.rights
    if verb != "approve":
        need_reason_of_edit(why)
    confirm(f"{verb.capitalize()} proposal {number} of {form.entity.table}?", yes=yes)
    if verb == "approve":
        print_applied(form, approve(form.database, form.entity, number, by, why), is_json=is_json)
        return
    (reject if verb == "reject" else withdraw)(form.database, form.entity, number, by, why)
    if is_json:
        _print_json(form, [find_proposal(form.database, form.entity, number, 0)[0]], [])
        return
    console().print(f"proposal {number}: {'rejected' if verb == 'reject' else 'withdrawn'}", soft_wrap=True)


def _number_of(given: Sequence[str]) -> int:
    if len(given) != 1 or not given[0].isascii() or not given[0].isdigit() or len(given[0]) > 18:
        raise usage_error("this takes the number of a proposal", "`waterclock edit proposals TABLE` lists them")
    return int(given[0])


def _words_of(row: ProposedRow) -> str:
    if row.current is None:
        return "deleted"
    return ", ".join(f"{name}: {value}" for name, value in row.current.content.items() if value is not None)


def _print_json(form: OpenedForm, proposals: Sequence[FormProposal], rows: Sequence[ProposedRow]) -> None:
    from waterclock.json_models.editing import EditAnswer

    names = ("number", "at", "who", "why", "origin", "state", "decided_by", "decided_why")
    listed = [{name: getattr(each, name) for name in names} | {"rows": each.count} for each in proposals]
    proposed = [
        {
            "key": row.key,
            "before": row.before,
            "current": None if row.current is None else row.current.content,
            "after": row.after,
            "stale": row.is_stale,
        }
        for row in rows
    ]
    print_answer(EditAnswer.build(table=form.entity.table, proposals=listed, proposed=proposed))
