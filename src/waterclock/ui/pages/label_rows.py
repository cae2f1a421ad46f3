"""The section of a table's page with the rows of a label, in one revision or compared with other rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from waterclock.batches.audit_records import Attempt, Audit
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.ledger.ledger import Ledger
from waterclock.operations.branch_plans import related_environments
from waterclock.operations.formatting import count_words, local_label
from waterclock.operations.project_opening import OpenedProject, known_label_bounds
from waterclock.operations.revision_rows import (
    MOST_COMPARED,
    MOST_COMPARED_BYTES,
    RevisionRows,
    RowDifference,
    StoredRevision,
    find_revision_elsewhere,
    find_stored_revision,
    open_window_rows,
    revision_rows,
    revisions_of,
)
from waterclock.planner.label_states import LabelState
from waterclock.printable import printable
from waterclock.selection import parse_labels
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, PageQuery, query_address

_LONGEST = 120  # characters of a value that are shown


def describe_label_rows(
    at: OpenedProject, table: Table, parameters: PageQuery, states: Sequence[LabelState]
) -> Content | None:
    """Return the rows of the label `at` in the address, or else of the newest label that was made.

    In the address, `known` is the claim whose rows are shown. They are compared with the claim `against`, with the
    current rows of the label `beside`, or with those in the environment `in`. `differing` shows only the differences.
    Return None before the first batch, and
    for a publish, whose rows are at its destination.
    Raises E513 and E514 for labels that the table does not have.
    """
    label = _selected_label(at, table, parameters, states)
    if at.ledger is None or label is None or table.destination is not None:
        return None
    audit = at.ledger.past.audit(table.name, label)
    revisions = revisions_of(audit)
    if not revisions:
        return None
    known = _parse_claim(parameters, "known", label) or audit.cell.current_claim or revisions[0].claim
    content = _describe_revisions(table, audit, revisions, known) | {
        "against": _parse_claim(parameters, "against", label),
        "beside": "",
        "environments": list(related_environments(at.project)),
        "elsewhere": parameters.values.get("in", "").strip()[:100],
    }
    try:
        against, content["beside"] = _find_compared_revision(at, at.ledger, table, parameters, audit)
        found = revision_rows(at, table, audit, known, against, only_differing="differing" in parameters.values)
    except WaterclockError as error:
        return content | {"error": error.to_dict()}
    rows = _describe_rows(found, is_compared=against is not None)
    if content["elsewhere"] and found.differing:
        rows["description"] = f"{rows['description']}; struck out: in {content['elsewhere']}"
    return content | {"error": None} | rows


def describe_open_rows(at: OpenedProject, table: Table) -> Content | None:
    """Return the first rows of the newest open window that has rows, as of the newest tick; None without rows.

    Cost: the first rows of a slice.
    """
    found = open_window_rows(at, table)
    if found is None:
        return None
    label, rows = found
    return {"label": label_of(label), "words": local_label(label, table.cadence), "error": None} | _describe_rows(
        rows, is_compared=False
    )


def _find_compared_revision(
    at: OpenedProject, ledger: Ledger, table: Table, parameters: PageQuery, audit: Audit
) -> tuple[StoredRevision | None, str]:
    """Return the revision to compare with, and its label in words if it is another one.

    It is the current revision in another environment, that of another label, or another claim of this label. Raises
    E513 and E514 for a label that the table does not have, E412 and E516 for one without rows, and as
    `find_revision_elsewhere`.
    """
    if elsewhere := parameters.values.get("in", "").strip()[:100]:
        person = None if parameters.reader is None else parameters.reader.person
        return find_revision_elsewhere(at, table, audit.cell.label, elsewhere, person), ""
    if other_label := parameters.values.get("beside", "").strip():
        other = ledger.past.audit(table.name, known_label_bounds(at, table, parse_labels(other_label))[0])
        found = find_stored_revision(at, table, other, other.cell.current_claim or 0)
        return found, local_label(other.cell.label, table.cadence)
    claim = _parse_claim(parameters, "against", audit.cell.label)
    return (None if claim is None else find_stored_revision(at, table, audit, claim)), ""


def _selected_label(
    at: OpenedProject, table: Table, parameters: PageQuery, states: Sequence[LabelState]
) -> datetime | None:
    given = parameters.values.get("at", "").strip()
    if given:
        return known_label_bounds(at, table, parse_labels(given))[0]
    made = [one.label for one in states if one.stored is not None and one.stored.current_claim is not None]
    return made[-1] if made else None


def _parse_claim(parameters: PageQuery, name: str, label: datetime) -> int | None:
    """Return the claim in a form field, or None if the form was filled in for another label."""
    if parameters.values.get("of", label_of(label)) != label_of(label):
        return None
    given = parameters.values.get(name, "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 18 else None


def _describe_revisions(table: Table, audit: Audit, revisions: Sequence[Attempt], known: int) -> Content:
    """Return the fields about the revisions of a label, of which `known` is the chosen claim."""
    last = len(revisions)
    return {
        "label": label_of(audit.cell.label),
        "words": local_label(audit.cell.label, table.cadence),
        "heading": "Rows that arrived" if table.is_fold else "Rows",
        "query": query_address(table.name, label_of(audit.cell.label)),
        "known": known,
        "revisions": [
            {
                "claim": each.claim,
                "words": _revision_words(each, last - index, is_now=each.claim == audit.cell.current_claim),
            }
            for index, each in enumerate(revisions)
        ],
    }


def _revision_words(attempt: Attempt, number: int, *, is_now: bool) -> str:
    made = "" if attempt.revision is None else f"{attempt.revision.recorded_at:%Y-%m-%d %H:%MZ}"
    return f"now, revision {number} ({made})" if is_now else f"revision {number} ({made})"


def _describe_rows(found: RevisionRows, *, is_compared: bool) -> Content:
    described = count_words(found.rows, "row")
    if found.differing is not None:
        described = count_words(found.compared, "row")
        described = f"{found.differing} of {described} differ" if found.differing else f"all {described} are the same"
    elif is_compared:
        most = f"{count_words(MOST_COMPARED, 'row')} or {MOST_COMPARED_BYTES >> 20} MB"
        described = f"{described}: more than {most} are compared by `waterclock diff`"
    return {
        "columns": list(found.columns),
        "numbers": _are_number_columns(found),
        "rows": found.rows,
        "compared": found.compared or found.rows,
        "differing": found.differing,
        "description": described,
        "shown": [_describe_row(row) for row in found.shown],
    }


def _are_number_columns(found: RevisionRows) -> list[bool]:
    """Return, for each column, whether all its values are numbers, which are aligned right."""
    columns = zip(*(row.values for row in found.shown), strict=True)
    return [all(value is None or _is_number(value) for value in values) for values in columns]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _describe_row(row: RowDifference) -> Content:
    was = row.was or (None,) * len(row.values)
    return {
        "kind": row.kind,
        "cells": [
            {
                "text": _cell_text(value),
                "was": _cell_text(old) if row.was is not None and old != value else None,
            }
            for value, old in zip(row.values, was, strict=True)
        ],
    }


def _cell_text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").replace("+00:00", "Z")
    text = value.isoformat() if isinstance(value, date) else printable(str(value)[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
