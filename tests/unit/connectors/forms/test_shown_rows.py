"""What people see of a form by GRANT SELECT, compared with rows that are filtered and cut in the test."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.forms import KINDS, PRODUCTS, place_of
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.history import find_change, find_row, list_changes, undo
from waterclock.connectors.forms.imports import RowStatus, review_rows
from waterclock.connectors.forms.row_lists import (
    MOST_ROWS_OF_A_PAGE,
    RowCounts,
    RowCursor,
    RowQuery,
    count_rows,
    list_rows,
)
from waterclock.connectors.forms.suggestions import suggest_values
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import NOT_SHOWN, FormRights
from waterclock.flow.form_views import FormGrant, FormView
from waterclock.flow.forms import FormField
from waterclock.flow.grants import Grant, GrantedColumn
from waterclock.flow.row_conditions import Comparison, Operator, bind_condition

OWNER = FormRights("owner")
NAMES = ("supplier_sku", "sku", "pack_size", "remark")


def grant(remark: str, *columns: str) -> FormGrant:
    condition = bind_condition(Comparison("remark", Operator.EQUAL, (remark,)), PRODUCTS.fields_by_name, {})
    return FormGrant(
        Grant((PRODUCTS.table,), frozenset(), tuple(map(GrantedColumn, columns)), is_open=False), condition
    )


VIEW = FormView(PRODUCTS, (grant("a", "supplier_sku", "sku"), grant("b", "supplier_sku", "pack_size", "remark")))
"""Two grants: of rows with the remark a, the KEY and the sku; of rows with b, the KEY, the pack size and the remark."""


def expected(rows: dict[str, dict[str, str | None]]) -> dict[str, dict[str, str]]:
    """Return what `VIEW` shows of rows, by the rule of the how-to."""
    columns = {"a": ("supplier_sku", "sku"), "b": ("supplier_sku", "pack_size", "remark")}
    return {
        key: {name: value for name in columns[str(row["remark"])] if (value := row.get(name))}
        for key, row in sorted(rows.items())
        if row.get("remark") in columns
    }


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> FormsDatabase:
    return place_of(request.param, tmp_path).database


def fill(database: FormsDatabase, count: int) -> dict[str, dict[str, str | None]]:
    dice = random.Random(count)
    rows: dict[str, dict[str, str | None]] = {}
    for at in range(count):
        values = {
            "sku": dice.choice([None, "Zoe", "ZOE 2", "x%"]),
            "pack_size": dice.choice([None, "-5", "9", "10", "100"]),
            "remark": dice.choice(["a", "b", "c", None]),
        }
        rows[f"K{at:05}"] = {"supplier_sku": f"K{at:05}", **values}
    edits = [Edit((key,), row, None) for key, row in rows.items()]
    apply(database, PRODUCTS, by=OWNER, why="first", edits=edits, origin=Origin.PUBLISH)
    return rows


def contents(rows: list[Any]) -> dict[str, dict[str, str]]:
    return {row.key: {name: value for name, value in row.content.items() if value} for row in rows}


def test_pages_search_order_and_counts_are_those_of_what_is_shown(database: FormsDatabase) -> None:
    rows = fill(database, 2 * MOST_ROWS_OF_A_PAGE + 40)
    seen = expected(rows)
    found: list[Any] = []
    cursor: RowCursor | None = RowCursor("")
    while cursor is not None:
        page = list_rows(database, PRODUCTS, RowQuery(after=cursor.after, limit=70), VIEW)
        assert page.rows
        found += page.rows
        cursor = page.next
    assert contents(found) == seen
    assert list(contents(found)) == list(seen)
    waiting = [key for key, row in seen.items() if rows[key]["remark"] == "a" and "sku" not in row]
    assert count_rows(database, PRODUCTS, view=VIEW) == RowCounts(len(seen), len(waiting))
    assert count_rows(database, PRODUCTS, 7, VIEW).rows == 7
    page = list_rows(database, PRODUCTS, RowQuery(is_waiting=True, limit=500), VIEW)
    assert [row.key for row in page.rows] == waiting
    for text in ("zoe", "x%", "10", "b", "K0000"):
        page = list_rows(database, PRODUCTS, RowQuery(text=text, limit=500), VIEW)
        matching = [key for key, row in seen.items() if any(text.lower() in value.lower() for value in row.values())]
        assert [row.key for row in page.rows] == matching[:500]
    page = list_rows(database, PRODUCTS, RowQuery(equal={"sku": "Zoe"}, limit=500), VIEW)
    assert [row.key for row in page.rows] == [key for key, row in seen.items() if row.get("sku") == "Zoe"]
    first = list_rows(database, PRODUCTS, RowQuery(sort="pack_size", limit=300), VIEW)
    assert first.next is not None
    cursor = first.next
    rest = list_rows(database, PRODUCTS, RowQuery(sort="pack_size", after=cursor.after, at=cursor.at, limit=500), VIEW)
    in_order = sorted(seen, key=lambda key: (float(seen[key].get("pack_size", "-inf")), key))
    assert [row.key for row in (*first.rows, *rest.rows)] == in_order
    assert all(row.hints is None for row in found)


def test_the_history_has_the_versions_and_columns_that_are_shown(database: FormsDatabase) -> None:
    dice = random.Random(7)
    versions: list[dict[str, Any] | None] = [None]
    row: dict[str, str | None] | None
    for _ in range(40):
        row = (
            None
            if dice.random() < 0.2
            else {"sku": dice.choice("xy"), "pack_size": dice.choice("12"), "remark": dice.choice("abc")}
        )
        there = find_row(database, PRODUCTS, ("K1",))
        done = apply(
            database, PRODUCTS, by=OWNER, why="test", edits=[Edit(("K1",), row, there.version if there else None)]
        )
        if done.batch is not None:
            versions.append(None if row is None else {"supplier_sku": "K1", **row})
    pairs = [
        tuple(expected({"K1": version}).get("K1") if version else None for version in pair)
        for pair in pairwise(versions)
    ]
    found = list_changes(database, PRODUCTS, ("K1",), view=VIEW)
    assert [(change.before, change.after) for change in reversed(found)] == [
        pair for pair in pairs if pair[0] != pair[1]
    ]
    for number in range(1, 42):
        whole = find_change(database, PRODUCTS, number, ("K1",))
        shown = find_change(database, PRODUCTS, number, ("K1",), VIEW)
        assert find_change(database, PRODUCTS, number, ("K2",)) is None
        assert shown is None or (whole is not None and shown.number == whole.number)
        assert (shown is not None) == (number in {change.number for change in found})
        if shown is not None and whole is not None:
            shows_all = all(each in shown.differences for each in whole.differences)
            assert shown.why == ("test" if shows_all else "a reason that is not shown to you")


def test_a_pasted_row_with_the_key_of_one_that_is_not_shown_is_invalid(database: FormsDatabase) -> None:
    rows = {"K1": {"sku": "x", "remark": "c"}, "K2": {"sku": "y", "remark": "a", "pack_size": "5"}}
    edits = [Edit((key,), row, None) for key, row in rows.items()]
    apply(database, PRODUCTS, by=OWNER, why="first", edits=edits)
    text = [["supplier_sku", "sku", "pack_size"], ["K1", "x", ""], ["K2", "z", "6"], ["K3", "n", ""]]
    review = review_rows(database, VIEW.shown, text, by=FormRights("anna", view=VIEW))
    assert [row.status for row in review.rows] == [RowStatus.INVALID] * 3
    assert [row.problems for row in review.rows] == [
        ("supplier_sku: this key is not available",),
        ("pack_size: you may not change it",),
        (f"supplier_sku: {NOT_SHOWN}",),  # such a row would not be shown
    ]
    assert [row.is_refused for row in review.rows] == [False, True, True]
    assert [cell.before for cell in review.rows[1].cells] == ["K2", "y", None, None]
    by = FormRights("anna", view=VIEW)
    for wrong in (
        [Edit(("K1",), {"sku": "x"}, None)],
        [Edit(("K2",), {"pack_size": "5"}, 2)],  # the value that it has
        [Edit(("K2",), {"pack_size": "6"}, 2)],
        [Edit(("K2",), {"remark": "a"}, 2)],
        [Edit(("K2",), None, 2)],
        [Edit(("K3",), {"sku": "x"}, None)],
        [Edit(("K3",), {"sku": "x", "remark": "a"}, None)],  # such a row does not show its remark
    ):
        with pytest.raises(WaterclockError) as raised:
            apply(database, PRODUCTS, by=by, why="test", edits=wrong)
        assert raised.value.code in {"E891", "E940"}
    assert apply(database, PRODUCTS, by=by, why="test", edits=[Edit(("K2",), {"sku": "z"}, 2)]).rows == 1
    assert undo(database, PRODUCTS, 2, by=by, why="undo").rows == 1
    stored = find_row(database, PRODUCTS, ("K2",))
    assert stored is not None
    assert dict(stored.content) == {"supplier_sku": "K2"} | rows["K2"]


def test_a_pasted_row_needs_no_value_in_a_required_column_that_is_not_shown_in_it(database: FormsDatabase) -> None:
    rows = {"K1": {"sku": "hidden", "remark": "b", "pack_size": "5"}, "K2": {"remark": "a"}}
    edits = [Edit((key,), row, None) for key, row in rows.items()]
    apply(database, PRODUCTS, by=OWNER, why="first", edits=edits, origin=Origin.PUBLISH)
    text = [["supplier_sku", "pack_size"], ["K1", "7"], ["K2", "1"]]
    review = review_rows(database, VIEW.shown, text, by=FormRights("anna", view=VIEW))
    refused = ("sku: a value is required", "pack_size: you may not change it")
    assert [row.problems for row in review.rows] == [(), refused]
    by = FormRights("anna", view=VIEW)
    assert apply(database, PRODUCTS, by=by, why="test", edits=review.edits, origin=Origin.IMPORT).rows == 1
    stored = find_row(database, PRODUCTS, ("K1",))
    assert stored is not None
    assert dict(stored.content) == {"supplier_sku": "K1"} | rows["K1"] | {"pack_size": "7"}


def test_an_undo_empties_columns_that_the_batch_has_filled(database: FormsDatabase) -> None:
    rows = {"K1": {"remark": "a", "pack_size": "5"}, "K2": {"remark": "a"}}
    edits = [Edit((key,), row, None) for key, row in rows.items()]
    apply(database, PRODUCTS, by=OWNER, why="first", edits=edits, origin=Origin.PUBLISH)
    by = FormRights("anna", view=VIEW)
    filled = [Edit(("K1",), {"sku": "typo"}, 1), Edit(("K2",), {"sku": "typo"}, 2)]
    batch = apply(database, PRODUCTS, by=by, why="test", edits=filled).batch
    assert batch is not None
    assert undo(database, PRODUCTS, batch, by=by, why="undo").rows == len(rows)
    for key, row in rows.items():
        stored = find_row(database, PRODUCTS, (key,))
        assert stored is not None
        assert dict(stored.content) == {"supplier_sku": key} | row


def test_suggestions_are_of_rows_that_are_shown(database: FormsDatabase) -> None:
    rows = {"K100": ("c", "secret"), "K101": ("a", None), "K102": ("a", "open"), "K103": ("b", "hidden")}
    edits = [Edit((key,), {"remark": remark, "sku": sku}, None) for key, (remark, sku) in rows.items()]
    apply(database, PRODUCTS, by=OWNER, why="first", edits=edits, origin=Origin.PUBLISH)
    row = find_row(database, PRODUCTS, ("K101",), VIEW)
    assert row is not None
    assert [(each.like, each.values) for each in suggest_values(database, PRODUCTS, row, VIEW)] == [
        ("K102", {"sku": "open"})
    ]


def test_suggestions_do_not_depend_on_values_that_are_not_shown(database: FormsDatabase) -> None:
    entity = replace(PRODUCTS, fields=(*PRODUCTS.fields, FormField("secret", "STRING", is_required=True)))
    rows = {"K100": (None, None), "K101": ("like", None), "K102": ("like", "x"), "K103": (None, "x")}
    edits = [Edit((key,), {"sku": sku, "secret": it, "remark": "a"}, None) for key, (sku, it) in rows.items()]
    apply(database, entity, by=OWNER, why="first", edits=edits, origin=Origin.PUBLISH)
    view = replace(VIEW, entity=entity)
    row = find_row(database, entity, ("K100",), view)
    assert row is not None
    found = suggest_values(database, view.shown, row, view)
    assert [(each.like, each.values, each.rows) for each in found] == [("K101", {"sku": "like"}, 2)]
