"""Rights per row: a change is refused unless the row matches before and after it, on each way by which rows change."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.forms import KINDS, PRODUCTS, place_of
from waterclock.connectors.forms import history
from waterclock.connectors.forms.changes import Applied, Edit, EditConflictError, Origin, apply
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.history import can_undo, find_row, iterate_rows, undo
from waterclock.connectors.forms.imports import review_rows
from waterclock.connectors.forms.proposals import approve, find_proposal, reject, withdraw
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights
from waterclock.flow.form_views import FormGrant
from waterclock.flow.grants import Grant, GrantedColumn, GrantRight
from waterclock.flow.row_conditions import Comparison, Operator, bind_condition

OWNER = FormRights("owner")
GUARDED = replace(PRODUCTS, needs_approval=True)


def granted(remark: str, *columns: str, right: GrantRight = GrantRight.EDIT) -> FormGrant:
    """Return a grant of rows with this remark; of all columns if none is named."""
    condition = bind_condition(Comparison("remark", Operator.EQUAL, (remark,)), PRODUCTS.fields_by_name, {})
    names = tuple(map(GrantedColumn, columns))
    return FormGrant(Grant((PRODUCTS.table,), frozenset(), names, is_open=not columns, right=right), condition)


ANNA = FormRights("anna", grants=(granted("a"),))
BEN = FormRights("ben", grants=(granted("b"),))


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> FormsDatabase:
    found = place_of(request.param, tmp_path).database
    rows = [
        Edit((key,), {"sku": key, "remark": remark}, None) for key, remark in (("A1", "a"), ("B1", "b"), ("N1", None))
    ]
    apply(found, PRODUCTS, by=OWNER, why="first", edits=rows)
    return found


def contents(database: FormsDatabase) -> dict[str, tuple[Any, Any]]:
    return {row.key: (row.content.get("sku"), row.content.get("remark")) for row in iterate_rows(database, PRODUCTS)}


def change(
    database: FormsDatabase, key: str, values: dict[str, str | None] | None, by: FormRights = ANNA, **more: Any
) -> Applied:
    there = find_row(database, PRODUCTS, (key,))
    edit = Edit((key,), values, None if there is None else there.version)
    return apply(database, more.pop("entity", PRODUCTS), by=by, why="test", edits=[edit], **more)


def refused(call: Callable[..., object], *arguments: Any, code: str = "E940", **more: Any) -> WaterclockError:
    with pytest.raises(WaterclockError) as raised:
        call(*arguments, **more)
    assert raised.value.code == code
    return raised.value


def test_a_row_is_changed_added_and_deleted_only_where_it_matches(database: FormsDatabase) -> None:
    assert change(database, "A1", {"sku": "new"}).rows == 1
    assert change(database, "A2", {"sku": "x", "remark": "a"}).rows == 1
    assert change(database, "A2", None).rows == 1
    before = contents(database)
    assert "as it is" in str(refused(change, database, "B1", {"sku": "new"}))
    refused(change, database, "N1", {"sku": "new"})  # an unknown condition grants nothing
    refused(change, database, "B1", None)
    refused(change, database, "N2", {"sku": "x", "remark": "b"})
    refused(change, database, "N2", {"sku": "x"})
    assert contents(database) == before


def test_a_row_is_moved_neither_out_of_nor_into_what_one_edits(database: FormsDatabase) -> None:
    before = contents(database)
    assert "as it would be" in str(refused(change, database, "A1", {"remark": "b"}))
    refused(change, database, "A1", {"remark": None})
    assert "as it is" in str(refused(change, database, "B1", {"remark": "a"}))
    refused(change, database, "N1", {"remark": "a"})
    assert contents(database) == before
    both = FormRights("both", grants=(granted("a"), granted("b")))
    assert change(database, "A1", {"remark": "b"}, both).rows == 1


def test_each_column_needs_a_grant_of_the_row(database: FormsDatabase) -> None:
    by = FormRights("cleo", grants=(granted("a", "sku"), granted("b", "remark", "pack_size")))
    assert change(database, "A1", {"sku": "x"}, by).rows == 1
    assert change(database, "B1", {"pack_size": "5"}, by).rows == 1
    before = contents(database)
    assert "with pack_size" in str(refused(change, database, "A1", {"pack_size": "5"}, by))
    refused(change, database, "B1", {"sku": "x"}, by)
    refused(change, database, "B1", {"remark": "a"}, by)  # the grant of such a row does not have the column
    assert contents(database) == before


def test_one_row_outside_refuses_a_whole_batch(database: FormsDatabase) -> None:
    before = contents(database)
    edits = [Edit((f"A{at}",), {"sku": "x", "remark": "a"}, None) for at in range(2, 50)]
    wrong = Edit(("Z9",), {"sku": "x", "remark": "b"}, None)
    error = refused(apply, database, PRODUCTS, by=ANNA, why="test", edits=[*edits, wrong], origin=Origin.IMPORT)
    assert "Z9" in error.what
    assert contents(database) == before
    rows = [["supplier_sku", "sku", "remark"], ["A1", "x", ""], ["B1", "y", "a"]]
    review = review_rows(database, PRODUCTS, rows, by=OWNER)
    refused(apply, database, PRODUCTS, by=ANNA, why="test", edits=review.edits, origin=Origin.IMPORT)
    assert contents(database) == before


def test_undo_needs_the_row_before_and_after(database: FormsDatabase) -> None:
    change(database, "A1", {"sku": "2"}, OWNER)  # batch 2
    assert undo(database, PRODUCTS, 2, by=ANNA, why="undo").rows == 1
    change(database, "B1", {"sku": "2"}, OWNER)  # batch 4
    refused(undo, database, PRODUCTS, 4, by=ANNA, why="undo")
    change(database, "B1", {"remark": "a"}, OWNER)  # batch 5
    refused(undo, database, PRODUCTS, 5, by=ANNA, why="undo")  # it would leave
    refused(undo, database, PRODUCTS, 5, by=BEN, why="undo")
    refused(undo, database, PRODUCTS, 1, by=ANNA, why="undo", code="E892")
    assert contents(database)["B1"] == ("2", "a")


def test_undo_is_possible_where_it_is_accepted(database: FormsDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    change(database, "A1", {"sku": "2"}, OWNER)  # batch 2
    change(database, "B1", {"sku": "2"}, OWNER)  # batch 3
    change(database, "B1", {"remark": "a"}, OWNER)  # batch 4
    for by, expected in ((OWNER, [False, True, False, True, False]), (ANNA, [False, True, False, False, False])):
        assert [can_undo(database, PRODUCTS, batch, by) for batch in (1, 2, 3, 4, 99)] == expected
    assert not can_undo(database, PRODUCTS, 2, FormRights("eve", no_edit="the right edit is missing"))
    undo(database, PRODUCTS, 2, by=ANNA, why="undo")
    assert not can_undo(database, PRODUCTS, 2, ANNA)  # it would change nothing
    monkeypatch.setattr(history, "MOST_CHECKED", 2)
    assert can_undo(database, PRODUCTS, 1, OWNER)  # a large batch is not checked


def test_a_conflict_or_an_unchanged_row_gives_no_right(database: FormsDatabase) -> None:
    with pytest.raises(EditConflictError):
        apply(database, PRODUCTS, by=ANNA, why="test", edits=[Edit(("B1",), {"sku": "x"}, 99)])
    assert change(database, "B1", {"sku": "B1"}).batch is None
    assert contents(database)["B1"] == ("B1", "b")


def test_a_row_that_moved_meanwhile_is_checked_as_it_is_when_it_is_written(database: FormsDatabase) -> None:
    seen = find_row(database, PRODUCTS, ("A1",))
    assert seen is not None
    change(database, "A1", {"remark": "b"}, OWNER)
    with pytest.raises(EditConflictError):
        apply(database, PRODUCTS, by=ANNA, why="test", edits=[Edit(("A1",), {"sku": "x"}, seen.version)])
    refused(change, database, "A1", {"sku": "x"})


def test_proposals_and_approvals_follow_the_same_condition(database: FormsDatabase) -> None:
    refused(change, database, "B1", {"sku": "x"}, entity=GUARDED)
    refused(change, database, "A1", {"remark": "b"}, entity=GUARDED)
    number = change(database, "A1", {"sku": "x"}, entity=GUARDED).proposal
    moved = change(database, "A1", {"remark": "b"}, OWNER, entity=GUARDED).proposal
    added = change(database, "B2", {"sku": "x", "remark": "b"}, BEN, entity=GUARDED).proposal
    assert number
    assert moved
    assert added
    of_a = FormRights("kim", approvals=(granted("a", right=GrantRight.APPROVE),))
    of_b = FormRights("lea", approvals=(granted("b", right=GrantRight.APPROVE),))
    for by, wrong in ((of_b, number), (of_a, moved), (of_b, moved), (of_a, added)):
        refused(approve, database, GUARDED, wrong, by)
        refused(reject, database, GUARDED, wrong, by, "no")
    assert approve(database, GUARDED, number, of_a).rows == 1
    reject(database, GUARDED, added, of_b, "no")
    withdraw(database, GUARDED, moved, OWNER, "no")
    assert contents(database)["A1"] == ("x", "a")
    assert find_proposal(database, GUARDED, added, 1)[0].decided_by == "lea"


def test_a_row_that_moved_since_it_was_proposed_is_approved_by_who_has_both(database: FormsDatabase) -> None:
    number = change(database, "A1", {"sku": "x"}, entity=GUARDED).proposal
    assert number
    change(database, "A1", {"remark": "b"}, OWNER)
    of_a = FormRights("kim", approvals=(granted("a", right=GrantRight.APPROVE),))
    refused(approve, database, GUARDED, number, of_a)
    refused(reject, database, GUARDED, number, of_a, "no")
    reject(database, GUARDED, number, FormRights("lea"), "no")


def test_random_changes_match_a_model(database: FormsDatabase) -> None:
    """A change is accepted exactly if the numbers before and after it are in the range, by the rule of the how-to."""
    condition = bind_condition(Comparison("pack_size", Operator.AT_LEAST, (Decimal(0),)), PRODUCTS.fields_by_name, {})
    grant = FormGrant(Grant((PRODUCTS.table,), frozenset(), right=GrantRight.EDIT), condition)
    by, dice = FormRights("dora", grants=(grant,)), random.Random(44)
    model: dict[str, int | None] = {}
    accepted = 0
    for _ in range(150):
        key, value = dice.choice("PQR"), dice.choice([-11, -1, 0, 3, 20, None])
        deletes, who = dice.random() < 0.2, dice.choice([by, by, OWNER])
        values = None if deletes else {"sku": str(dice.random()), "pack_size": None if value is None else str(value)}
        touched = ([model[key]] if key in model else []) + ([] if deletes else [value])
        is_allowed = who is OWNER or all(each is not None and each >= 0 for each in touched)
        if deletes and key not in model:
            is_allowed = True  # nothing changes
        if is_allowed:
            change(database, key, values, who)
            model.pop(key, None) if deletes else model.update({key: value})
            accepted += 1
        else:
            refused(change, database, key, values, who)
    stored = {row.key: row.content.get("pack_size") for row in iterate_rows(database, PRODUCTS) if row.key in "PQR"}
    assert stored == {key: None if value is None else str(value) for key, value in model.items()}
    assert 30 < accepted < 140
