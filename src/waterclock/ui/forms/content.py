"""Builds the content of the pages of forms, and carries out what they post."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from waterclock.connectors.forms.changes import (
    Applied,
    Conflict,
    Edit,
    EditConflictError,
    StoredRow,
    apply,
    key_text,
    read_rows,
    show_row,
    split_key,
)
from waterclock.connectors.forms.history import (
    Change,
    RowQuery,
    count_rows,
    find_change,
    find_row,
    list_changes,
    list_rows,
    undo,
)
from waterclock.connectors.forms.proposals import FormProposal, list_proposals
from waterclock.connectors.forms.suggestions import Suggestion, suggest_values
from waterclock.connectors.forms.values import InvalidValue, Row, parse_value
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights, form_rights_of
from waterclock.flow.forms import Entity, FormField
from waterclock.flow.row_conditions import ValueKind, kind_of_type
from waterclock.operations.formatting import count_words, number_words, page_time
from waterclock.operations.forms import OpenedForm, visible_entities_of
from waterclock.operations.project_opening import OpenedProject
from waterclock.permissions.users_and_roles import Person
from waterclock.ui.page_query import Content, table_address

PAGE = 100
_COUNTED = 10_000  # rows; more are not counted, so that the first page of a large form takes no longer
_OPTIONS = 20  # of a field that refers to another form
_LABEL_LETTERS = 80
_CELL_LETTERS = 1000  # of a value that is edited in the list; longer ones are edited on the page of the row
_INPUTS = {"DATE": "date", "BOOLEAN": "select", "STRING": "text"}


def form_address(table: str, part: str = "", **parameters: str) -> str:
    """Return the address of a page of a form."""
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"/forms/{quote(table, safe='')}{'/' + part if part else ''}{query}"


@dataclass(frozen=True, slots=True)
class PostedRow:
    """A row as it was posted: the key of an existing row or "", the version that was seen, and the entered texts.

    A column without a text was not shown when the page was opened, and keeps its value.
    """

    key: str
    version: int | None
    texts: Mapping[str, str]
    why: str

    @classmethod
    def of_form(cls, entity: Entity, values: Mapping[str, str]) -> PostedRow:
        """Parse the fields of a posted form."""
        version = values.get("version", "")
        number = int(version) if version.isascii() and version.isdigit() and len(version) < 19 else None
        posted = {field.name: values.get(f"f.{field.name}") for field in entity.fields}
        texts = {name: text for name, text in posted.items() if text is not None}
        return cls(values.get("key", ""), number, texts, values.get("why", "").strip())


@dataclass(frozen=True, slots=True)
class DraftCells:
    """The changed cells of a row in the list of rows, by column: entered texts, and why they cannot be saved."""

    texts: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class RowPage:
    """The content of a row's page in addition to the stored row: entered texts, and why they were not saved.

    `problems` are messages by field, `refusal` names a right that the person does not have.
    """

    texts: Mapping[str, str] | None = None
    problems: dict[str, str] = field(default_factory=dict)
    why: str = ""
    conflict: Conflict | None = None
    refusal: str = ""

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status of the page."""
        if self.refusal:
            return HTTPStatus.FORBIDDEN
        return HTTPStatus.UNPROCESSABLE_ENTITY if self.conflict is None else HTTPStatus.CONFLICT


def describe_forms(at: OpenedProject, person: Person) -> Content:
    """Return the tables that people edit and that a person sees, each with the address of its rows."""
    found = {} if at.project.bases else visible_entities_of(at.flow, person)
    return {
        "forms": [
            {
                "table": name,
                "address": form_address(name),
                "no_edit": form_rights_of(at.flow, person, name).no_edit,
            }
            for name in found
        ]
    }


def describe_list(form: OpenedForm, values: Mapping[str, str], *, zone: str) -> Content:
    """Return a page of rows with the open proposals.

    Parameters: `after`, `q`, `waiting`, `sort`, `desc` and `offset`.
    """
    entity, view = form.shown, form.rights.view
    sort = entity.field(values.get("sort", ""))
    offset = values.get("offset", "")
    query = RowQuery(
        after=values.get("after", ""),
        text=values.get("q", "").strip()[:200],
        is_waiting=values.get("waiting") == "1",
        sort=None if sort is None else sort.name,
        is_descending=values.get("desc") == "1",
        offset=int(offset) if offset.isascii() and offset.isdigit() and len(offset) < 10 else 0,
        limit=PAGE,
    )
    rows, more = list_rows(form.database, entity, query, view)
    count, waiting = count_rows(form.database, entity, _COUNTED, view)
    kept = {name: values[name] for name in ("q", "waiting", "sort", "desc") if values.get(name)}
    follows = {"after": rows[-1].key} if query.sort is None and rows else {"offset": str(query.offset + PAGE)}
    return describe_head(form) | {
        "proposals": [
            describe_proposal_link(form, each, zone) for each in list_proposals(form.database, entity, view=view)
        ],
        "fields": [_head_field(entity, each, query) for each in entity.fields],
        "editors": [_describe_field(form, each, "", {}, {}) for each in entity.values if form.rights.may_edit],
        "cells": form_address(entity.table, "cells"),
        "has_hints": any(row.hints for row in rows),
        "rows": [describe_list_row(form, row, rights) for row, rights in zip(rows, rights_in(form, rows), strict=True)],
        "count": count_words(count, "row") if count < _COUNTED else f"{number_words(_COUNTED)} rows or more",
        "waiting": waiting,
        "is_waiting": query.is_waiting,
        "q": query.text,
        "next": form_address(entity.table, **kept, **follows) if more else "",
        "all": form_address(entity.table),
        "only_waiting": form_address(entity.table, waiting="1"),
    }


def find_whole_rows(form: OpenedForm, keys: Collection[str]) -> dict[str, StoredRow]:
    """Return the rows of these keys as they are stored, whether or not they are shown."""
    with form.database.open_for_reading(form.entity.table) as session:
        return {row.key: row for row in read_rows(session, form.entity, keys)}


def rights_in(form: OpenedForm, rows: Sequence[StoredRow]) -> list[FormRights]:
    """Return the rights of the person in each of these rows, which they see. Cost: a query, for a part of a form."""
    whole = {row.key: row for row in rows}
    if form.rights.view is not None and form.rights.may_edit:
        whole = find_whole_rows(form, whole)
    gone = replace(form.rights, no_edit=form.rights.no_edit or "the row is deleted")
    return [form.rights.of_row(whole[row.key].content) if row.key in whole else gone for row in rows]


def describe_list_row(form: OpenedForm, row: StoredRow, rights: FormRights, draft: DraftCells | None = None) -> Content:
    """Return a row of the list, with its changed cells. `rights` are those of the person in this row."""
    changed = draft or DraftCells()
    return {
        "key": row.key,
        "version": row.version,
        "address": form_address(form.entity.table, "row", key=row.key),
        "cells": [
            {
                "name": each.name,
                "text": (text := row.content.get(each.name) or ""),
                "is_number": _is_number(each),
                "is_missing": _is_missing(each, row.content),
                "is_fixed": each.is_key or len(text) > _CELL_LETTERS or not rights.may_change(each.name),
                "draft": changed.texts.get(each.name),
                "problem": changed.problems.get(each.name, ""),
            }
            for each in form.shown.fields
        ],
        "hints": ", ".join(f"{name}: {value}" for name, value in (row.hints or {}).items()),
    }


def list_options(form: OpenedForm, values: Mapping[str, str]) -> list[Content]:
    """Return the values of a column, `column`, in rows that contain the text of the field that is being filled.

    The text is that of the first parameter `f.…`. Each option has the row's other values as a label. Without a column
    the values of the KEY are returned. Empty for an unknown column, and for a KEY of several columns. Cost: a search of
    the form's rows, which ends at the twentieth that matches.
    """
    entity = form.shown
    name = values.get("column", "") or (entity.keys[0].name if len(entity.keys) == 1 else "")
    column = entity.field(name)
    if column is None:
        return []
    text = next((value for name, value in values.items() if name.startswith("f.")), "")
    rows, _ = list_rows(form.database, entity, RowQuery(text=text.strip()[:200], limit=_OPTIONS), form.rights.view)
    others = [each.name for each in entity.fields if each.name != column.name]
    found: dict[str, Content] = {}
    for row in rows:
        label = ", ".join(value for name in others if (value := row.content.get(name)))
        value = row.content.get(column.name)
        if value and value not in found:
            found[value] = {"value": value, "label": label[:_LABEL_LETTERS]}
    return list(found.values())


def describe_row(form: OpenedForm, key: str, page: RowPage, *, zone: str, like: str = "") -> Content:
    """Return the page of a row with its history; of a new row if `key` is empty. Raises E894 for an unknown row.

    `like` is the key of a suggestion, whose values are then in the fields.
    """
    entity, view = form.shown, form.rights.view
    values = split_key(entity, key) if key else ()
    stored_row = find_row(form.database, entity, values) if key else None
    there = show_row(view, stored_row)
    changes = list_changes(form.database, entity, values, view=view) if key else []
    proposals = list_proposals(form.database, entity, key=values, view=view) if key else []
    is_hidden = stored_row is not None and there is None
    if key and there is None and (is_hidden or (not changes and not proposals)):
        raise WaterclockError("E894", f"{entity.table} has no row {key}", fix="look at the list of rows")
    theirs = page.conflict.theirs if page.conflict is not None else there
    stored = {} if there is None else there.content
    form = _in_row(form, stored_row)
    is_suggested = there is not None and form.rights.may_edit
    suggestions = suggest_values(form.database, entity, there, view) if there is not None and is_suggested else []
    chosen = next((each.values for each in suggestions if each.like == like), None)
    texts = page.texts
    if texts is None:
        texts = {name: value or "" for name, value in {**stored, **(chosen or {})}.items()}
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
        "fields": [_describe_field(form, each, key, texts, page.problems) for each in entity.fields],
        "why": page.why,
        "why_problem": page.problems.get("", ""),
        "count_problems": len(page.problems),
        "refusal": page.refusal,
        "conflict": None if page.conflict is None else describe_conflict(form, page.conflict),
        "changes": [_describe_change(change, zone) for change in changes],
        "post": form_address(entity.table, "row"),
        "undo": form_address(entity.table, "undo"),
    }


def save_row(form: OpenedForm, posted: PostedRow, *, deletes: bool) -> tuple[str, RowPage | Applied]:
    """Save or delete a posted row, or propose it. Return its key, and the page to show again if it was not saved."""
    try:
        return _try_to_save(form, posted, deletes=deletes)
    except WaterclockError as error:
        if error.code != "E940" or not _is_shown(form, posted.key):
            raise
        return posted.key, RowPage(posted.texts, why=posted.why, refusal=refusal_words(error))


def _is_shown(form: OpenedForm, key: str) -> bool:
    """Return whether the page of a row is shown to the person; True for a new row."""
    if not key:
        return True
    return show_row(form.rights.view, find_row(form.database, form.shown, split_key(form.shown, key))) is not None


def refusal_words(error: WaterclockError) -> str:
    """Describe in a line why a change was refused."""
    return f"{error.what}: {error.why}"


def _try_to_save(form: OpenedForm, posted: PostedRow, *, deletes: bool) -> tuple[str, RowPage | Applied]:
    entity, page = form.shown, RowPage(posted.texts, why=posted.why)
    there = find_row(form.database, entity, split_key(entity, posted.key)) if posted.key else None
    in_row = _in_row(form, there).rights
    in_row.require_edit(entity.table)
    stored: dict[str, str | None] = {}
    for each in entity.fields:
        if posted.key and (each.is_key or each.name not in posted.texts):
            continue
        if not in_row.may_change(each.name):
            continue
        try:
            stored[each.name] = parse_value(each, posted.texts.get(each.name, ""), entity.zone)
        except InvalidValue as error:
            page.problems[each.name] = error.message
            continue
        if stored[each.name] is None and not deletes and (each.is_required or each.choices):
            page.problems[each.name] = "a value is required"
    if deletes:
        page.problems.clear()
    if not posted.why:
        page.problems[""] = "state why the row changes"
    if page.problems:
        return posted.key, page
    key = split_key(entity, posted.key) if posted.key else tuple(stored.get(each.name) or "" for each in entity.keys)
    edit = Edit(key, None if deletes else stored, posted.version)
    try:
        done = apply(form.database, form.entity, by=form.rights, why=posted.why, edits=[edit])
    except EditConflictError as error:
        page.conflict = error.conflicts[0]
        return posted.key or _key_of(page.conflict), page
    return key_text(key), done


def _in_row(form: OpenedForm, row: StoredRow | None) -> OpenedForm:
    """Return the form with the rights that its person has in a row as it is."""
    view = form.rights.view
    if row is None or (view is not None and not view.columns_of(row.content)):
        return form
    return replace(form, rights=form.rights.of_row(row.content))


def undo_batch(form: OpenedForm, values: Mapping[str, str]) -> Applied:
    """Undo the batch that was posted. Raises E891, E892 or E894."""
    batch = values.get("batch", "")
    number = int(batch) if batch.isascii() and batch.isdigit() and len(batch) < 19 else 0
    return undo(form.database, form.entity, number, by=form.rights, why=values.get("why", "").strip())


def describe_head(form: OpenedForm) -> Content:
    """Return the content that all pages of a form have."""
    table = form.entity.table
    return {
        "table": table,
        "may_edit": form.rights.may_edit,
        "may_add": all(form.rights.may_change(each.name) for each in form.entity.keys),
        "no_edit": form.rights.no_edit,
        "needs_approval": form.entity.needs_approval,
        "masked": [] if form.rights.view is None else list(form.rights.view.masked),
        "is_part": form.rights.view is not None,
        "list": form_address(table),
        "new": form_address(table, "row"),
        "paste": form_address(table, "paste"),
        "of_table": "" if form.is_restricted else table_address(table),
    }


def _head_field(entity: Entity, field: FormField, query: RowQuery) -> Content:
    is_sorted = query.sort == field.name
    turned = {"desc": "1"} if is_sorted and not query.is_descending else {}
    kept = {"q": query.text} if query.text else {}
    return {
        "name": field.name,
        "is_number": _is_number(field),
        "sort": form_address(entity.table, sort=field.name, **turned, **kept),
        "order": ("descending" if query.is_descending else "ascending") if is_sorted else "",
    }


def _is_number(field: FormField) -> bool:
    return field.type in {"FLOAT", "DOUBLE"} or kind_of_type(field.type) is ValueKind.NUMBER


def _is_missing(field: FormField, content: Row) -> bool:
    return field.is_required and not content.get(field.name)


def _describe_field(
    form: OpenedForm, field: FormField, key: str, texts: Mapping[str, str], problems: Mapping[str, str]
) -> Content:
    options = _options_address(field, form.forms)
    is_granted = not form.rights.may_edit or form.rights.may_change(field.name)
    kind = "select" if field.choices else "line" if options else _INPUTS.get(field.type, "line")
    choices = field.choices or (("true", "false") if field.type == "BOOLEAN" else ())
    refers_to = "" if field.reference is None else field.reference.table
    return {
        "name": field.name,
        "type": field.type,
        "kind": kind,
        "choices": list(choices),
        "is_required": field.is_required,
        "is_fixed": (field.is_key and bool(key)) or not is_granted,
        "is_granted": is_granted,
        "help": field.comment or "",
        "rules": list(field.rules),
        "reference": "" if refers_to in form.unseen else refers_to,
        "options": options,
        "text": texts.get(field.name, ""),
        "problem": problems.get(field.name, ""),
    }


def _options_address(field: FormField, forms: Collection[str]) -> str:
    """Return the address that lists values of the table that a field refers to; "" if that table is no form."""
    if field.reference is None or field.reference.table not in forms:
        return ""
    return form_address(field.reference.table, "values", column=next(iter(field.reference.columns), ""))


def describe_conflict(form: OpenedForm, conflict: Conflict) -> Content:
    """Return a row as the person saw it, as it is, and as they entered it, with who changed it."""
    version = conflict.edit.version
    view, key = form.rights.view, conflict.edit.key
    change = None if version is None else find_change(form.database, form.entity, version, key, view)
    base: Row = (change.after or {}) if change is not None else {}
    theirs: Row = {} if conflict.theirs is None else conflict.theirs.content
    yours: Row = {**base, **(conflict.edit.values or {})}
    newest = next(iter(list_changes(form.database, form.entity, key, 1, view)), None)
    names = [each.name for each in form.shown.values]
    return {
        "who": "Another person" if newest is None else newest.who,
        "why": "a change that is not shown to you" if newest is None else newest.why,
        "is_deleted": conflict.theirs is None,
        "rows": [
            {"name": name, "base": base.get(name) or "", "theirs": theirs.get(name) or "",
             "yours": yours.get(name) or "", "differs": theirs.get(name) != yours.get(name)}
            for name in names
        ],
    }  # fmt: skip


def _describe_change(change: Change, zone: str) -> Content:
    found: list[dict[str, Any]] = [
        {"name": name, "before": before, "after": after} for name, before, after in change.differences
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


def describe_proposal_link(form: OpenedForm, proposal: FormProposal, zone: str) -> Content:
    """Return a line of a list of proposals, with the address of its page."""
    return {
        "number": proposal.number,
        "address": form_address(form.entity.table, "proposal", number=str(proposal.number)),
        "who": proposal.who,
        "at": page_time(proposal.at, zone),
        "why": proposal.why,
        "origin": proposal.origin.value,
        "count": proposal.count,
    }


def _key_of(conflict: Conflict) -> str:
    return key_text(conflict.edit.key)
