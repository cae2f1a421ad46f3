"""Builds the content of the pages of forms: the list of forms, the list of rows, and the parts that pages share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from urllib.parse import quote, urlencode

from waterclock.connectors.forms.changes import (
    Conflict,
    StoredRow,
    read_rows,
)
from waterclock.connectors.forms.history import can_undo, count_changes, find_change, list_changes
from waterclock.connectors.forms.proposals import FormProposal, list_proposals
from waterclock.connectors.forms.row_lists import ListedRows, RowCounts, RowQuery, count_rows, list_rows
from waterclock.connectors.forms.values import Row
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights, form_rights_of
from waterclock.flow.forms import Entity, FormField
from waterclock.flow.row_conditions import ValueKind, kind_of_type
from waterclock.operations.formatting import count_words, number_words, page_time
from waterclock.operations.forms import OpenedForm, open_form, visible_entities_of
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.reference_values import find_values
from waterclock.permissions.users_and_roles import Person
from waterclock.ui.page_query import Content, table_address

PAGE = 100
_MOST_COUNTED_FORMS = 100
_OF_ONE_FORM = {"E893", "E946"}
_COUNTED = 10_000  # rows; more are not counted, so that the first page of a large form takes no longer
_SHOWN = 200  # rows of a review
_SEARCHED_LETTERS = 200
_OPTIONS = 20  # of a field that refers to another form
_LABEL_LETTERS = 80
_CELL_LETTERS = 1000  # of a value that is edited in the list; longer ones are edited on the page of the row
_INPUTS = {"DATE": "date", "BOOLEAN": "select", "STRING": "text"}


SHOWN_AGAIN = {
    "E891": HTTPStatus.UNPROCESSABLE_ENTITY,
    "E892": HTTPStatus.CONFLICT,
    "E940": HTTPStatus.FORBIDDEN,
}
"""The errors of a change after which its page is shown again with what was entered, and the status of the answer."""


def form_address(table: str, part: str = "", **parameters: str) -> str:
    """Return the address of a page of a form."""
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"/forms/{quote(table, safe='')}{'/' + part if part else ''}{query}"


@dataclass(frozen=True, slots=True)
class DraftCells:
    """The changed cells of a row in the list of rows, by column: entered texts, and why they cannot be saved."""

    texts: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def describe_forms(at: OpenedProject, person: Person) -> Content:
    """Return the tables that people edit and that a person sees, each with its address and the numbers of its rows.

    Rows of a form that the person sees in part are not counted, which would read many of them. A database that does
    not answer is asked once.
    """
    found = {} if at.project.bases else visible_entities_of(at.flow, person)
    unanswered: dict[str, str] = {}
    listed = []
    for number, (name, entity) in enumerate(found.items()):
        counts: Content = {"rows": "", "waiting": 0, "proposals": 0, "problem": unanswered.get(entity.connection, "")}
        if number < _MOST_COUNTED_FORMS and entity.connection not in unanswered:
            try:
                counts |= _describe_counts(open_form(at.project, name, person))
            except WaterclockError as error:
                counts["problem"] = f"{error.what}: {error.why}"
                if error.code not in _OF_ONE_FORM:
                    unanswered[entity.connection] = counts["problem"]
        no_edit = form_rights_of(at.flow, person, name).no_edit
        listed.append({"table": name, "address": form_address(name), "no_edit": no_edit, **counts})
    return {"forms": listed}


def _describe_counts(form: OpenedForm) -> Content:
    """Return the numbers of rows, of rows that lack a value, and of open proposals, of which 100 are counted."""
    view = form.rights.view
    proposals = len(list_proposals(form.database, form.shown, view=view))
    if view is not None:
        return {"proposals": proposals}
    counts = count_rows(form.database, form.entity, _COUNTED)
    return {"rows": _rows_text(counts), "waiting": counts.waiting, "proposals": proposals}


def describe_list(form: OpenedForm, values: Mapping[str, str], *, zone: str, problem: str = "") -> Content:
    """Return a page of rows with the open proposals.

    Parameters: `after`, `at`, `q`, `waiting`, `sort` and `desc`; `done` is the number of a batch of the person that was
    just saved. `problem` is why an undo of it was refused.
    """
    entity, view = form.shown, form.rights.view
    sort = entity.field(values.get("sort", ""))
    query = RowQuery(
        after=values.get("after", ""),
        at=values.get("at"),
        text=values.get("q", "").strip()[:200],
        is_waiting=values.get("waiting") == "1",
        sort=None if sort is None else sort.name,
        is_descending=values.get("desc") == "1",
        limit=PAGE,
    )
    page = list_rows(form.database, form.entity, query, view)
    rows, counts = page.rows, count_rows(form.database, form.entity, _COUNTED, view)
    kept = {name: values[name] for name in ("q", "waiting", "sort", "desc") if values.get(name)}
    if page.next is not None:
        kept |= {"after": page.next.after} | ({} if page.next.at is None else {"at": page.next.at})
    return describe_head(form) | {
        "problem": problem,
        "done": _describe_done(form, parse_number(values.get("done", ""))),
        "undo": form_address(entity.table, "undo"),
        "proposals": [
            describe_proposal_link(form, each, zone) for each in list_proposals(form.database, entity, view=view)
        ],
        "fields": [_head_field(entity, each, query) for each in entity.fields],
        "editors": [describe_field(form, each, "", {}, {}, {}) for each in entity.values if form.rights.may_edit],
        "is_grid": form.rights.may_edit and bool(rows),
        "cells": form_address(entity.table, "cells"),
        "has_hints": any(row.hints for row in rows),
        "rows": [describe_list_row(form, row, rights) for row, rights in zip(rows, rights_in(form, rows), strict=True)],
        "count": _count_text(query, page, counts),
        "waiting": counts.waiting,
        "is_waiting": query.is_waiting,
        "q": query.text,
        "next": "" if page.next is None else form_address(entity.table, **kept),
        "searched": number_words(page.searched) if page.searched else "",
        "all": form_address(entity.table),
        "only_waiting": form_address(entity.table, waiting="1"),
    }


def _describe_done(form: OpenedForm, batch: int | None) -> Content | None:
    """Return the number of rows of a batch that the person saved, and whether they can undo it; None without one."""
    rows = 0 if batch is None else count_changes(form.database, form.entity, batch, form.rights.name)
    if batch is None or not rows:
        return None
    may_undo = form.rights.may_edit and can_undo(form.database, form.entity, batch, form.rights)
    return {"batch": batch, "rows": rows, "may_undo": may_undo}


def parse_number(text: str) -> int | None:
    """Return the number of a version, a batch or a proposal; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


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
                "is_key": each.is_key,
                "is_missing": _is_missing(each, row.content),
                "is_fixed": each.is_key or len(text) > _CELL_LETTERS or not rights.may_change(each.name),
                "draft": changed.texts.get(each.name),
                "problem": changed.problems.get(each.name, ""),
            }
            for each in form.shown.fields
        ],
        "hints": ", ".join(f"{name}: {value}" for name, value in (row.hints or {}).items()),
    }


def list_options(at: OpenedProject, form: OpenedForm, values: Mapping[str, str]) -> list[Content]:
    """Return the values of a column, `column`, in rows that contain the text of the field that is being filled.

    The text is that of the first parameter `f.…`. Each option has the row's other values as a label. Without a column
    the values of the KEY are returned. With `of`, they are those of the table to which this field of the form refers.
    Empty for an unknown column, and for a KEY of several columns. Cost: a search of the form's rows, which ends at the
    twentieth that matches, or that of `find_values`.
    """
    entity = form.shown
    text = next((value for name, value in values.items() if name.startswith("f.")), "").strip()[:_SEARCHED_LETTERS]
    if of := values.get("of", ""):
        column = entity.field(of)
        table, name = form.readable.get("" if column is None else column.name, ("", ""))
        labels = find_values(at, table, name, text, _OPTIONS) if table else {}
        return [{"value": value, "label": label[:_LABEL_LETTERS]} for value, label in labels.items()]
    name = values.get("column", "") or (entity.keys[0].name if len(entity.keys) == 1 else "")
    column = entity.field(name)
    if column is None:
        return []
    query = RowQuery(text=text, limit=_OPTIONS)
    rows = list_rows(form.database, form.entity, query, form.rights.view).rows
    others = [each.name for each in entity.fields if each.name != column.name]
    found: dict[str, Content] = {}
    for row in rows:
        label = ", ".join(value for name in others if (value := row.content.get(name)))
        value = row.content.get(column.name)
        if value and value not in found:
            found[value] = {"value": value, "label": label[:_LABEL_LETTERS]}
    return list(found.values())


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
        "csv": form_address(table, "rows.csv"),
        "xlsx": form_address(table, "rows.xlsx"),
        "of_table": "" if form.is_restricted else table_address(table),
    }


def _count_text(query: RowQuery, page: ListedRows, counts: RowCounts) -> str:
    """Return the number of rows, after that of the rows which were searched for, if the page has all of them."""
    words = _rows_text(counts)
    is_whole = not query.after and page.next is None
    return f"{number_words(len(page.rows))} of {words}" if is_whole and (query.text or query.is_waiting) else words


def _rows_text(counts: RowCounts) -> str:
    if counts.is_least or counts.rows >= _COUNTED:
        return f"{number_words(counts.rows)} rows or more"
    return count_words(counts.rows, "row")


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


def describe_field(
    form: OpenedForm,
    field: FormField,
    key: str,
    texts: Mapping[str, str],
    problems: Mapping[str, str],
    warnings: Mapping[str, str],
) -> Content:
    """Return a field of the row with a key, or of a new row. The rights of `form` are those in this row."""
    rules = [rule for rule in form.shown.rules if rule.column == field.name]
    options = _options_address(form, field)
    may_change = form.rights.may_change(field.name)
    kind = "select" if field.choices else "line" if options else _INPUTS.get(field.type, "line")
    choices = field.choices or (("true", "false") if field.type == "BOOLEAN" else ())
    refers_to = "" if field.reference is None else field.reference.table
    return {
        "name": field.name,
        "type": field.type,
        "kind": kind,
        "choices": list(choices),
        "is_required": field.is_required,
        "is_identity": field.is_key and bool(key),
        "is_fixed": (field.is_key and bool(key)) or not may_change,
        "is_granted": may_change or not form.rights.may_edit,
        "help": field.comment or "",
        "rules": [rule.words for rule in rules if rule.is_checked],
        "unchecked": [rule.name for rule in rules if not rule.is_checked],
        "reference": "" if refers_to in form.unseen else refers_to,
        "options": options,
        "text": texts.get(field.name, ""),
        "problem": problems.get(field.name, ""),
        "warning": warnings.get(field.name, ""),
    }


def _options_address(form: OpenedForm, field: FormField) -> str:
    """Return the address that lists values of the table that a field refers to; "" if the person does not see it."""
    if field.name in form.readable:
        return form_address(form.entity.table, "values", of=field.name)
    if field.reference is None or field.reference.table not in form.forms:
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
