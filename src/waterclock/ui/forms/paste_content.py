"""Builds the page to paste rows into a form, reviews what was pasted or read from a file, and saves it.

The cells of a file become the pasted text, so that both have one review. Rows that are not saved are shown again with
the text and the reason in each cell.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from waterclock.connectors.forms.changes import Applied, Origin, apply
from waterclock.connectors.forms.imports import Review, ReviewedRow, RowStatus, review_rows
from waterclock.connectors.forms.row_files import FileText, read_file, read_text
from waterclock.connectors.forms.values import DECIMAL_POINT
from waterclock.errors import WaterclockError
from waterclock.operations.forms import OpenedForm
from waterclock.ui.forms.content import SHOWN_AGAIN, describe_head, form_address
from waterclock.ui.page_query import Content
from waterclock.ui.posted_forms import PostedForm
from waterclock.ui.request_guard import MOST_BYTES_OF_FILE

_SHOWN = 200  # rows of a review
_OF_FILES = frozenset({"E882", "E884", "E885", "E888"})
_LEFT = 64 * 1024  # bytes of a posted form beside its rows


def paste_rows(form: OpenedForm, posted: PostedForm) -> Applied | tuple[HTTPStatus, Content]:
    """Review the posted rows, or save them as one batch. Return the status and the page if they are not saved."""
    values, note = posted.values, ""
    try:
        if posted.file is not None:
            found = _read_posted(posted)
            values = {**values, "text": found.text} | ({"comma": ""} if found.is_workbook else {})
            note = f"The file is not UTF-8 and was read as {found.encoding}. Compare its letters." * bool(
                found.encoding
            )
        review = _review(form, values)
    except WaterclockError as error:
        return _show_again(form, values, None, error)
    why, problem, status = values.get("why", "").strip(), "", HTTPStatus.OK
    if values.get("do") == "apply":
        status = HTTPStatus.FORBIDDEN if review.is_refused else HTTPStatus.UNPROCESSABLE_ENTITY
        if not why:
            problem = "State why the rows change."
        elif values.get("digest") != _digest_of(review):
            problem = "Rows or columns changed since the review. This is the new review; nothing was saved."
            status = HTTPStatus.CONFLICT
        elif review.can_be_applied:
            try:
                edits = review.edits
                return apply(form.database, form.entity, by=form.rights, why=why, edits=edits, origin=Origin.IMPORT)
            except WaterclockError as error:
                return _show_again(form, values, _review(form, values), error)
    return status, describe_paste(form, values, review, problem=problem) | {"note": note}


def _read_posted(posted: PostedForm) -> FileText:
    """Return the text of the posted file. Raises E891 for one that the page cannot send back."""
    if posted.file is None:
        raise AssertionError("there is no file, which the caller checks")
    found = read_file(posted.file.name, io.BytesIO(posted.file.content), sheet=posted.values.get("sheet", "").strip())
    if (size := len(found.text.encode("utf-8", "surrogatepass"))) > MOST_BYTES_OF_FILE - _LEFT:
        why = f"its rows have {size} bytes as text, and a page has at most {MOST_BYTES_OF_FILE}"
        raise WaterclockError("E891", "the file is too large", why=why, fix="import it with `waterclock edit import`")
    return found


def describe_paste(form: OpenedForm, values: Mapping[str, str], review: Review | None, *, problem: str = "") -> Content:
    """Return the page to paste rows, with the review of those that were pasted."""
    shown: Sequence[ReviewedRow] = ()
    if review is not None:
        order = (RowStatus.INVALID, RowStatus.CHANGED, RowStatus.NEW)
        shown = sorted((row for row in review.rows if row.status in order), key=lambda row: order.index(row.status))
    return describe_head(form) | {
        "text": values.get("text", ""),
        "decimal_comma": values.get("comma") == "1",
        "sheet": values.get("sheet", ""),
        "note": "",
        "why": values.get("why", ""),
        "problem": problem,
        "post": form_address(form.entity.table, "paste"),
        "unchecked": [rule.name for rule in form.shown.rules if not rule.is_checked],
        "columns": [
            {"name": each.name, "is_fixed": not each.is_key and not form.rights.may_change(each.name)}
            for each in form.shown.fields
        ],
        "digest": "" if review is None else _digest_of(review),
        "review": None
        if review is None
        else {
            "counts": {status.value: review.count(status) for status in RowStatus},
            "ignored": list(review.ignored),
            "has_commas": any(DECIMAL_POINT in problem for row in review.rows for problem in row.problems),
            "can_be_applied": review.can_be_applied,
            "rows": [
                {
                    "line": row.line,
                    "status": row.status.value,
                    "cells": [
                        {"before": cell.before or "", "after": cell.after or "", "problem": cell.problem,
                         "warning": cell.warning,
                         "is_changed": cell.before != cell.after}
                        for cell in row.cells
                    ],
                }
                for row in shown[:_SHOWN]
            ],
            "more": max(0, len(shown) - _SHOWN),
            "edits": len(review.edits),
            "warnings": sum(any(cell.warning for cell in row.cells) for row in review.rows),
        },
    }  # fmt: skip


def _review(form: OpenedForm, values: Mapping[str, str]) -> Review:
    """Compare the posted rows with the current ones. Raises E891 for text that cannot be read."""
    rows, is_comma = read_text(values.get("text", "")), values.get("comma") == "1"
    return review_rows(form.database, form.shown, rows, by=form.rights, decimal_comma=is_comma)


def _show_again(
    form: OpenedForm, values: Mapping[str, str], review: Review | None, error: WaterclockError
) -> tuple[HTTPStatus, Content]:
    """Return the page with the pasted text and the error. Raises errors that are not about the pasted rows."""
    if error.code not in SHOWN_AGAIN and error.code not in _OF_FILES:
        raise error
    problem = f"{error.what}: {error.why}. Nothing was saved."
    return SHOWN_AGAIN.get(error.code, HTTPStatus.UNPROCESSABLE_ENTITY), describe_paste(
        form, values, review, problem=problem
    )


def _digest_of(review: Review) -> str:
    """Return a text that identifies what a review changes: the rows, their values and their versions."""
    return hashlib.sha256(repr(review.edits).encode("utf-8", "surrogatepass")).hexdigest()[:20]
