"""Checks and saves cells that are edited in the list of a form's rows.

The page has the changed cells as a draft: the texts of each row, with the version that the editor saw. All are saved as
one batch, or none. Saving them again, as after a lost answer, changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from waterclock.connectors.forms.changes import (
    NOT_STORABLE,
    Applied,
    Edit,
    EditConflictError,
    StoredRow,
    apply,
    key_text,
    show_row,
    split_key,
)
from waterclock.connectors.forms.history import find_change
from waterclock.connectors.forms.row_checks import find_broken, find_invalid_values, hidden_columns_of
from waterclock.connectors.forms.values import InvalidValue, parse_value
from waterclock.errors import WaterclockError
from waterclock.operations.formatting import count_words
from waterclock.operations.forms import OpenedForm
from waterclock.ui.forms.content import (
    SHOWN_AGAIN,
    DraftCells,
    describe_conflict,
    describe_head,
    describe_list_row,
    find_whole_rows,
    form_address,
)
from waterclock.ui.page_query import Content

MOST_ROWS = 500
"""The maximum number of rows of a draft. A page of the list has fewer."""

_MOST_SAID = 3  # problems in one announcement


@dataclass(frozen=True, slots=True)
class DraftRow:
    """A row with changed cells: its key, the version that the editor saw, and the entered texts by column."""

    key: str
    version: int
    texts: Mapping[str, str]


@dataclass(slots=True)
class CheckedRow:
    """A checked row of a draft: the row as the person sees it now, the edit, and the problems by column.

    `is_refused`: one of the problems is that the person may not make the change.
    """

    row: DraftRow
    whole: StoredRow | None
    there: StoredRow | None
    edit: Edit
    problems: dict[str, str] = field(default_factory=dict)
    is_refused: bool = False

    def refuse(self, name: str, why: str) -> None:
        """Add the reason why the person may not change a column."""
        self.problems[name], self.is_refused = why, True


def read_draft(text: str) -> tuple[DraftRow, ...]:
    """Parse the rows that a page posts, a JSON list. Raises E891 for any other text, and for a key that comes twice."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable_error() from error
    if not isinstance(found, list) or len(found) > MOST_ROWS:
        raise _unreadable_error()
    rows = tuple(map(_read_row, found))
    if len({row.key for row in rows}) < len(rows):
        raise _unreadable_error()
    return rows


def _read_row(found: object) -> DraftRow:
    row = found if isinstance(found, dict) else {}
    key, version, texts = row.get("key"), row.get("version"), row.get("cells")
    if not isinstance(key, str) or not isinstance(version, str) or not isinstance(texts, dict):
        raise _unreadable_error()
    is_number = version.isascii() and version.isdigit() and len(version) < 19
    if not is_number or not all(isinstance(value, str) for value in texts.values()):
        raise _unreadable_error()
    if NOT_STORABLE.search("".join((*texts, *texts.values()))):
        raise _unreadable_error()
    return DraftRow(key, int(version), texts)


def check_draft(form: OpenedForm, rows: Sequence[DraftRow]) -> list[CheckedRow]:
    """Check each cell by its type, its choices, the rules and the rights of the person. Nothing is saved.

    Raises E894 for a text that is no key. Cost: a query for 500 rows.
    """
    keys = [split_key(form.entity, row.key) for row in rows]
    rows = [replace(row, key=key_text(key)) for row, key in zip(rows, keys, strict=True)]
    whole = find_whole_rows(form, [row.key for row in rows])
    return [_check_row(form, row, key, whole.get(row.key)) for row, key in zip(rows, keys, strict=True)]


def _check_row(form: OpenedForm, row: DraftRow, key: tuple[str, ...], whole: StoredRow | None) -> CheckedRow:
    there = show_row(form.rights.view, whole)
    checked = CheckedRow(row, None if there is None else whole, there, Edit(key, {}, row.version))
    rights = form.rights if checked.whole is None else form.rights.of_row(checked.whole.content)
    values: dict[str, str | None] = {}
    for name, text in row.texts.items():
        column = form.shown.field(name)
        if column is None or column.name != name:
            checked.problems[name] = "the form has no such column now: undo this change to save the others"
        elif column.is_key:
            checked.problems[name] = "it identifies the row, and cannot change"
        elif not rights.may_change(name):
            checked.refuse(name, rights.no_edit or "you may not change it")
        else:
            try:
                values[name] = parse_value(column, text, form.entity.zone)
            except InvalidValue as error:
                checked.problems[name] = error.message
                continue
            if values[name] is None and (column.is_required or column.choices):
                checked.problems[name] = "a value is required"
    checked.edit = replace(checked.edit, values=values)
    if checked.whole is not None and not checked.problems:
        refusals = form.rights.find_refusals(checked.whole.content, {**checked.whole.content, **values})
        for name in row.texts if refusals else ():
            if why := refusals.get(name) or refusals.get(""):
                checked.refuse(name, why)
        if not refusals:
            before, view = checked.whole.content, form.rights.view
            hidden = hidden_columns_of(form.entity, view, before)
            checked.problems.update(find_broken(form.entity, {**before, **values}, before, view, hidden))
    return checked


def save_draft(form: OpenedForm, rows: Sequence[DraftRow], why: str) -> tuple[HTTPStatus, Content]:
    """Save a draft as one batch, or propose it. Return the status and the rows to show: CREATED if it was saved.

    Rows that other people changed are a CONFLICT: they come back with the new version, so saving again replaces it.
    """
    checked = check_draft(form, rows)
    for each in checked:
        each.problems.update(_problems_of_row(form, each))
    count = sum(len(each.problems) for each in checked)
    if count or not why:
        said = f"{count_words(count, 'cell')} cannot be saved. {_problems_of(checked)}" if count else "State the reason"
        is_refused = any(each.is_refused for each in checked)
        status = HTTPStatus.FORBIDDEN if is_refused else HTTPStatus.UNPROCESSABLE_ENTITY
        return status, describe_draft(form, checked, f"{said}. Nothing was saved.")
    try:
        done = apply(form.database, form.entity, by=form.rights, why=why, edits=[each.edit for each in checked])
    except EditConflictError as error:
        return HTTPStatus.CONFLICT, _describe_conflicts(form, rows, error)
    except WaterclockError as error:
        if error.code not in SHOWN_AGAIN:
            raise
        problem = f"{error.what}: {error.why}. Nothing was saved."
        return SHOWN_AGAIN[error.code], describe_draft(form, checked, problem) | {"problem": problem}
    if done.batch is None and done.proposal is None:
        return HTTPStatus.OK, describe_draft(form, _without_drafts(form, rows), "All of it is saved already.")
    return HTTPStatus.CREATED, _describe_saved(form, rows, done)


def describe_draft(form: OpenedForm, checked: Sequence[CheckedRow], said: str | None = None) -> Content:
    """Return the rows of a draft to show, and what is announced: by default the problems."""
    return describe_head(form) | {
        "said": _problems_of(checked) if said is None else said,
        "is_grid": True,
        "rows": [_describe_row(form, each) for each in checked],
        "has_hints": False,
        "problem": "",
        "conflicts": [],
        "proposal": None,
        "batch": None,
        "undo": form_address(form.entity.table, "undo"),
    }


def _describe_saved(form: OpenedForm, rows: Sequence[DraftRow], done: Applied) -> Content:
    words = count_words(done.rows, "row")
    more = "".join(f" {each}." for each in done.warnings[:_MOST_SAID])
    if done.proposal is not None:
        address = form_address(form.entity.table, "proposal", number=str(done.proposal))
        found = describe_draft(
            form, _without_drafts(form, rows), f"{words} proposed, as proposal {done.proposal}.{more}"
        )
        return found | {"proposal": {"number": done.proposal, "address": address}}
    found = describe_draft(form, _without_drafts(form, rows), f"{words} saved, as batch {done.batch}.{more}")
    return found | {"batch": {"number": done.batch, "key": rows[0].key}}


def _describe_conflicts(form: OpenedForm, rows: Sequence[DraftRow], error: EditConflictError) -> Content:
    """Return the rows with the changes of other people, and the three versions of each row that they changed.

    A row that was deleted has no draft any more.
    """
    theirs = {key_text(each.edit.key): each.theirs for each in error.conflicts}
    now = [
        row if row.key not in theirs
        else DraftRow(row.key, row.version, {}) if (there := theirs[row.key]) is None
        else replace(row, version=there.version)
        for row in rows
    ]  # fmt: skip
    conflicts = [
        describe_conflict(form, each)
        | {"key": (key := key_text(each.edit.key)), "address": form_address(form.entity.table, "row", key=key)}
        for each in error.conflicts
    ]
    said = f"{count_words(len(conflicts), 'row')} changed since you began. Nothing was saved."
    return describe_draft(form, check_draft(form, now), said) | {"conflicts": conflicts}


def _problems_of_row(form: OpenedForm, checked: CheckedRow) -> dict[str, str]:
    """Map the other columns of a row that need a correction before it can be saved, of those that are shown."""
    if checked.whole is None or checked.problems:
        return {}
    view, before = form.rights.view, checked.whole.content
    hidden = hidden_columns_of(form.entity, view, before)
    return find_invalid_values(form.entity, {**before, **(checked.edit.values or {})}, before, view, hidden)


def _without_drafts(form: OpenedForm, rows: Sequence[DraftRow]) -> list[CheckedRow]:
    """Return rows as they are now, without the draft."""
    return [
        replace(each, row=replace(each.row, version=0 if each.there is None else each.there.version))
        for each in check_draft(form, [replace(row, texts={}) for row in rows])
    ]


def _describe_row(form: OpenedForm, checked: CheckedRow) -> Content:
    """Return a row as its editor saw it: a changed version is shown only after a conflict."""
    row, shown = checked.row, checked.there
    if shown is None or shown.version != row.version:
        change = find_change(form.database, form.entity, row.version, checked.edit.key, form.rights.view)
        content = {} if shown is None else shown.content
        shown = StoredRow(row.key, row.version, content if change is None else change.after or {})
    no_edit = form.rights.no_edit or "the row is deleted"
    rights = (
        replace(form.rights, no_edit=no_edit) if checked.whole is None else form.rights.of_row(checked.whole.content)
    )
    return describe_list_row(form, shown, rights, DraftCells(row.texts, checked.problems))


def _problems_of(checked: Sequence[CheckedRow]) -> str:
    found = [f"{name} of {each.row.key}: {problem}" for each in checked for name, problem in each.problems.items()]
    more = f"; and {len(found) - _MOST_SAID} more" if len(found) > _MOST_SAID else ""
    return "; ".join(found[:_MOST_SAID]) + more


def _unreadable_error() -> WaterclockError:
    return WaterclockError(
        "E891",
        "these changes cannot be read",
        why=f"they are a list of at most {MOST_ROWS} rows, each once, with its key, its version and texts by column",
        fix="load the page again",
    )
