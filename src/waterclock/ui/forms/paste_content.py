"""Builds the page to paste rows into a form, reviews what was pasted, and saves it.

Rows that are not saved are shown again with the pasted text and the reason in each cell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from waterclock.connectors.forms.changes import Applied, Origin, apply
from waterclock.connectors.forms.imports import Review, ReviewedRow, RowStatus, read_text, review_rows
from waterclock.errors import WaterclockError
from waterclock.operations.forms import OpenedForm
from waterclock.ui.forms.content import SHOWN_AGAIN, describe_head, form_address
from waterclock.ui.page_query import Content

_SHOWN = 200  # rows of a review


def paste_rows(form: OpenedForm, values: Mapping[str, str]) -> Applied | tuple[HTTPStatus, Content]:
    """Review the posted rows, or save them as one batch. Return the status and the page if they are not saved."""
    try:
        review = _review(form, values)
    except WaterclockError as error:
        return _show_again(form, values, None, error)
    why, problem, status = values.get("why", "").strip(), "", HTTPStatus.OK
    if values.get("do") == "apply":
        status = HTTPStatus.FORBIDDEN if review.is_refused else HTTPStatus.UNPROCESSABLE_ENTITY
        if not why:
            problem = "State why the rows change."
        elif values.get("digest") != _digest_of(review):
            problem = "Rows changed since the review. This is the new review; nothing was saved."
            status = HTTPStatus.CONFLICT
        elif review.can_be_applied:
            try:
                edits = review.edits
                return apply(form.database, form.entity, by=form.rights, why=why, edits=edits, origin=Origin.IMPORT)
            except WaterclockError as error:
                return _show_again(form, values, _review(form, values), error)
    return status, describe_paste(form, values, review, problem=problem)


def describe_paste(form: OpenedForm, values: Mapping[str, str], review: Review | None, *, problem: str = "") -> Content:
    """Return the page to paste rows, with the review of those that were pasted."""
    shown: Sequence[ReviewedRow] = ()
    if review is not None:
        order = (RowStatus.INVALID, RowStatus.CHANGED, RowStatus.NEW)
        shown = sorted((row for row in review.rows if row.status in order), key=lambda row: order.index(row.status))
    return describe_head(form) | {
        "text": values.get("text", ""),
        "decimal_comma": values.get("comma") == "1",
        "why": values.get("why", ""),
        "problem": problem,
        "post": form_address(form.entity.table, "paste"),
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
            "can_be_applied": review.can_be_applied,
            "rows": [
                {
                    "line": row.line,
                    "status": row.status.value,
                    "cells": [
                        {"before": cell.before or "", "after": cell.after or "", "problem": cell.problem,
                         "is_changed": cell.before != cell.after}
                        for cell in row.cells
                    ],
                }
                for row in shown[:_SHOWN]
            ],
            "more": max(0, len(shown) - _SHOWN),
            "edits": len(review.edits),
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
    if error.code not in SHOWN_AGAIN:
        raise error
    problem = f"{error.what}: {error.why}. Nothing was saved."
    return SHOWN_AGAIN[error.code], describe_paste(form, values, review, problem=problem)


def _digest_of(review: Review) -> str:
    """Return a text that identifies what a review changes: the rows, their values and their versions."""
    return hashlib.sha256(repr(review.edits).encode("utf-8", "surrogatepass")).hexdigest()[:20]
