"""Builds the page of a row of a form, and saves, deletes or undoes what it posts.

A change that is not saved returns the page with the entered values and the reason beside each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from waterclock.connectors.forms.changes import (
    Applied,
    Conflict,
    Edit,
    EditConflictError,
    StoredRow,
    apply,
    key_text,
    show_row,
    split_key,
)
from waterclock.connectors.forms.history import Change, can_undo, find_change, find_row, list_changes, undo
from waterclock.connectors.forms.proposals import list_proposals
from waterclock.connectors.forms.row_checks import InvalidRowError, hidden_columns_of, list_broken
from waterclock.connectors.forms.suggestions import Suggestion, suggest_values
from waterclock.connectors.forms.values import InvalidValue, Row, parse_value
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import EditRefusedError
from waterclock.flow.forms import FormField
from waterclock.operations.formatting import page_time
from waterclock.operations.forms import OpenedForm
from waterclock.ui.forms.content import (
    SHOWN_AGAIN,
    describe_conflict,
    describe_field,
    describe_head,
    describe_proposal_link,
    form_address,
    parse_number,
)
from waterclock.ui.page_query import Content

_MOST_CHANGES = 100
_MOST_READ_FOR_CELL = 1000


@dataclass(frozen=True, slots=True)
class PostedRow:
    """A row as it was posted: the key of an existing row or "", the version that was seen, and the entered texts.

    `texts` are those of the columns that the page showed as fields, by its own account: a browser posts no others.
    """

    key: str
    version: int | None
    texts: Mapping[str, str]
    why: str

    @classmethod
    def of_form(cls, values: Mapping[str, str]) -> PostedRow:
        """Parse the fields of a posted form."""
        texts = {name[2:]: text for name, text in values.items() if name.startswith("f.")}
        return cls(values.get("key", ""), parse_number(values.get("version", "")), texts, values.get("why", "").strip())


@dataclass(slots=True)
class RowPage:
    """The content of a row's page in addition to the stored row.

    - `texts`: the entered texts; None if nothing was posted.
    - `problems`: messages by field; "" is the reason of the change.
    - `refusal`: why nothing was saved, for the row as a whole.
    - `status`: the status of the answer.
    """

    texts: Mapping[str, str] | None = None
    problems: dict[str, str] = field(default_factory=dict)
    why: str = ""
    conflict: Conflict | None = None
    refusal: str = ""
    status: HTTPStatus = HTTPStatus.OK

    def refuse(self, error: WaterclockError, key: str) -> None:
        """Show an error of `apply` beside the fields that it names."""
        self.status = SHOWN_AGAIN[error.code]
        if isinstance(error, EditConflictError):
            self.conflict = error.conflicts[0]
            return
        self.refusal = f"{error.what}: {error.why}"
        if isinstance(error, EditRefusedError):
            self.problems |= {name: why for name, why in error.refusals.get(key, {}).items() if name}
        elif isinstance(error, InvalidRowError):
            self.problems |= error.problems


def describe_row(form: OpenedForm, key: str, page: RowPage, *, zone: str, like: str = "", of: str = "") -> Content:
    """Return the page of a row with its history; of a new row if `key` is empty. Raises E894 for an unknown row.

    `like` is the key of a suggestion, whose values are then in the fields. `of` is a column, to which the history is
    limited; the newest 1,000 changes of the row are then read, and else 100. Cost: it reads the rows of the newest
    batch of the row, for which undo is offered.
    """
    entity, view = form.shown, form.rights.view
    values = split_key(entity, key) if key else ()
    stored_row = find_row(form.database, entity, values) if key else None
    there = show_row(view, stored_row)
    cell = entity.field(of)
    most = _MOST_CHANGES if cell is None else _MOST_READ_FOR_CELL
    changes = list_changes(form.database, entity, values, most, view) if key else []
    proposals = list_proposals(form.database, entity, key=values, view=view) if key else []
    is_hidden = stored_row is not None and there is None
    if key and there is None and page.texts is None and (is_hidden or (not changes and not proposals)):
        raise WaterclockError("E894", f"{entity.table} has no row {key}", fix="look at the list of rows")
    theirs = page.conflict.theirs if page.conflict is not None else there
    stored = {} if there is None else there.content
    undoable = None if is_hidden else _find_undoable(form, stored_row, changes)
    form = _in_row(form, stored_row)
    is_suggested = there is not None and form.rights.may_edit
    suggestions = suggest_values(form.database, entity, there, view) if there is not None and is_suggested else []
    chosen = next((each.values for each in suggestions if each.like == like), None)
    entered = page.texts if page.texts is not None else chosen or {}
    texts = {name: value or "" for name, value in {**stored, **entered}.items()}
    names = {each.name for each in entity.fields}
    hidden = hidden_columns_of(form.entity, view, None if stored_row is None else stored_row.content)
    warnings = list_broken(entity, stored, hidden) if there is not None and page.texts is None else {}
    return describe_head(form) | {
        "proposals": [describe_proposal_link(form, each, zone) for each in proposals],
        "suggestions": [_describe_suggestion(form, key, at, each) for at, each in enumerate(suggestions, 1)],
        "is_chosen": chosen is not None,
        "may_delete": form.rights.may_delete(stored_row.content) if stored_row is not None else False,
        "key": key,
        "is_new": not key,
        "is_deleted": bool(key) and there is None and page.conflict is None,
        "version": "" if theirs is None else str(theirs.version),
        "hints": dict(there.hints or {}) if there is not None else {},
        "fields": [describe_field(form, each, key, texts, page.problems, warnings) for each in entity.fields],
        "unchecked": [rule.words for rule in entity.rules if not rule.column],
        "unknown": [
            {"name": name, "text": text, "problem": page.problems.get(name, "")}
            for name, text in (page.texts or {}).items()
            if name not in names and text
        ],
        "why": page.why,
        "why_problem": page.problems.get("", ""),
        "count_problems": len(page.problems),
        "refusal": page.refusal,
        "is_posted": page.texts is not None,
        "is_taken": page.conflict is not None and page.conflict.edit.version is None and theirs is not None,
        "conflict": None if page.conflict is None else describe_conflict(form, page.conflict),
        "of": "" if cell is None else cell.name,
        "changes": [
            _describe_change(form, change, cell, zone, may_undo=change.batch == undoable)
            for change in changes
            if cell is None or any(name == cell.name for name, *_ in change.differences)
        ],
        "may_undo": undoable is not None,
        "post": form_address(entity.table, "row"),
        "undo": form_address(entity.table, "undo"),
    }


def save_row(form: OpenedForm, posted: PostedRow, *, deletes: bool) -> tuple[str, RowPage | Applied]:
    """Save or delete a posted row, or propose it. Return its key, and the page to show again if it was not saved.

    Only posted columns are written. Whoever may not change one of them as it was entered saves nothing.
    """
    entity, page = form.shown, RowPage(posted.texts, why=posted.why, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    row = find_row(form.database, entity, split_key(entity, posted.key)) if posted.key else None
    values = {} if deletes else _parse_row(form, row, posted, page)
    if not posted.why:
        page.problems[""] = "state why the row changes"
    key = split_key(entity, posted.key) if posted.key else tuple(values.get(it.name) or "" for it in entity.keys)
    if page.problems:
        return posted.key, page
    edit = Edit(key, None if deletes else values, posted.version)
    try:
        return key_text(key), apply(form.database, form.entity, by=form.rights, why=posted.why, edits=[edit])
    except WaterclockError as error:
        if error.code not in SHOWN_AGAIN:
            raise
        page.refuse(error, key_text(key))
    return posted.key or (key_text(key) if page.conflict is not None else ""), page


def _parse_row(form: OpenedForm, row: StoredRow | None, posted: PostedRow, page: RowPage) -> dict[str, str | None]:
    """Return the stored texts of the columns that the person may change. Problems of columns are added to the page."""
    rights, seen = _in_row(form, row).rights, _find_seen(form, row, posted)
    fields = {each.name: each for each in form.shown.fields}
    values: dict[str, str | None] = {}
    for name, text in posted.texts.items():
        column = fields.get(name)
        if column is not None and column.is_key and posted.key:
            continue
        if column is None or not rights.may_change(name):
            if text.replace("\r\n", "\n").strip() != (seen.get(name) or "").strip():
                page.problems[name] = (
                    (rights.no_edit or "you may not change it") if column else "the form has no such column now"
                )
                page.status = HTTPStatus.FORBIDDEN
            continue
        try:
            values[name] = parse_value(column, text, form.entity.zone)
        except InvalidValue as error:
            if not column.choices or text != seen.get(name):  # a value from before its choices stays
                page.problems[name] = error.message
            continue
        if values[name] is None and (column.is_required or (column.choices and not _was_empty(row, name))):
            page.problems[name] = "a value is required"
    return values


def _was_empty(row: StoredRow | None, name: str) -> bool:
    return row is not None and not row.is_waiting and not row.content.get(name)


def _find_seen(form: OpenedForm, row: StoredRow | None, posted: PostedRow) -> Row:
    """Return the row that the person saw when they began to edit, as they see it now."""
    view = form.rights.view
    if posted.version is None or not posted.key:
        return {}
    if row is not None and row.version == posted.version:
        shown = show_row(view, row)
        return {} if shown is None else shown.content
    change = find_change(form.database, form.entity, posted.version, split_key(form.entity, posted.key), view)
    return {} if change is None else change.after or {}


def undo_batch(form: OpenedForm, values: Mapping[str, str]) -> Applied:
    """Undo the batch that was posted. Raises E891, E892, E894 or E940."""
    number = parse_number(values.get("batch", "")) or 0
    return undo(form.database, form.entity, number, by=form.rights, why=values.get("why", "").strip())


def _find_undoable(form: OpenedForm, row: StoredRow | None, changes: Sequence[Change]) -> int | None:
    """Return the batch that made a row as it is, if the person can undo it now; None if not."""
    version = None if row is None else row.version
    made = next((each for each in changes if (None if each.after is None else each.number) == version), None)
    if made is None or not can_undo(form.database, form.entity, made.batch, form.rights):
        return None
    return made.batch


def _in_row(form: OpenedForm, row: StoredRow | None) -> OpenedForm:
    """Return the form with the rights that its person has in a row as it is."""
    view = form.rights.view
    if row is None or (view is not None and not view.columns_of(row.content)):
        return form
    return replace(form, rights=form.rights.of_row(row.content))


def _describe_change(form: OpenedForm, change: Change, cell: FormField | None, zone: str, *, may_undo: bool) -> Content:
    """Return a change of a row, or of a cell of it, with the address of the history of each cell."""
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "before": before,
            "after": after,
            "history": f"{form_address(form.entity.table, 'row', key=change.key, of=name)}#history",
        }
        for name, before, after in change.differences
        if cell is None or name == cell.name
    ]
    return {
        "batch": change.batch,
        "at": page_time(change.at, zone),
        "who": change.who,
        "approved_by": change.approved_by,
        "why": change.why,
        "origin": change.origin.value,
        "is_delete": change.after is None,
        "differences": found,
        "may_undo": may_undo,
    }


def _describe_suggestion(form: OpenedForm, key: str, number: int, suggestion: Suggestion) -> Content:
    return {
        "number": number,
        "address": form_address(form.entity.table, "row", key=key, like=suggestion.like),
        "words": ", ".join(f"{name} {value}" for name, value in suggestion.values.items()),
        "like": suggestion.like,
        "percent": round(suggestion.likeness * 100),
        "rows": suggestion.rows,
    }
