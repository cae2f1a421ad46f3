"""Reviews rows that are pasted into a form, saves them, and builds the content of that page."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from waterclock.connectors.forms.changes import Applied, Origin, apply
from waterclock.connectors.forms.imports import Review, ReviewedRow, RowStatus, read_text, review_rows
from waterclock.operations.forms import OpenedForm
from waterclock.ui.forms.content import describe_head, form_address
from waterclock.ui.page_query import Content

_SHOWN = 200  # rows of a review


def review_paste(form: OpenedForm, text: str, *, decimal_comma: bool) -> Review:
    """Compare pasted rows with the current ones. Raises E891 for text that cannot be read."""
    rows, view = read_text(text), form.rights.view
    return review_rows(form.database, form.shown, rows, decimal_comma=decimal_comma, view=view)


def digest_of(review: Review) -> str:
    """Return a text that identifies what a review changes: the rows, their values and their versions."""
    return hashlib.sha256(repr(review.edits).encode("utf-8", "surrogatepass")).hexdigest()[:20]


def apply_paste(form: OpenedForm, review: Review, why: str) -> Applied:
    """Save the reviewed rows as one batch. Raises E891 or E892."""
    return apply(form.database, form.entity, by=form.rights, why=why, edits=review.edits, origin=Origin.IMPORT)


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
        "columns": [each.name for each in form.shown.fields],
        "digest": "" if review is None else digest_of(review),
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
