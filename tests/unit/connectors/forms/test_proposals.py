"""Four eyes: changes of a form that requires approval are proposals until another person approves them."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.forms import BEGIN, KINDS, PRODUCTS, FormsPlace, place_of, save, version_of
from waterclock.connectors.forms import database as forms_database
from waterclock.connectors.forms.changes import Applied, Edit, EditConflictError, Origin, apply
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.history import iterate_rows, list_changes, rows_as_of, undo
from waterclock.connectors.forms.imports import review_rows
from waterclock.connectors.forms.proposal_store import ProposalState
from waterclock.connectors.forms.proposals import approve, find_proposal, list_proposals, reject, withdraw
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights

GUARDED = replace(PRODUCTS, needs_approval=True)
ADA, BOB, EVE = FormRights("ada"), FormRights("bob"), FormRights("eve")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> FormsPlace:
    return place_of(request.param, tmp_path)


@pytest.fixture
def database(place: FormsPlace) -> FormsDatabase:
    return place.database


def contents(database: FormsDatabase) -> dict[str, Any]:
    return {row.key: dict(row.content) for row in iterate_rows(database, GUARDED)}


def propose(database: FormsDatabase, *edits: Edit, who: str = "ada", why: str = "a new article") -> Applied:
    return apply(database, GUARDED, by=FormRights(who), why=why, edits=edits)


def number_of(done: Applied) -> int:
    assert done.proposal is not None
    assert done.batch is None
    return done.proposal


def refused(code: str, call: Any, *arguments: Any) -> WaterclockError:
    with pytest.raises(WaterclockError) as raised:
        call(*arguments)
    assert raised.value.code == code
    return raised.value


def test_a_change_is_in_no_window_before_another_person_approves_it(place: FormsPlace) -> None:
    database = place.database
    proposed = propose(database, Edit(("S1",), {"sku": "A"}, None))
    number = number_of(proposed)
    assert proposed.rows == 1
    assert contents(database) == {}
    later = place.clock.advance(hours=5)
    assert rows_as_of(database, GUARDED, later + timedelta(days=1)) == {}
    assert list_changes(database, GUARDED, ("S1",)) == []
    done = approve(database, GUARDED, number, BOB, "as in the catalog")
    row = {"supplier_sku": "S1", "sku": "A"}
    assert contents(database) == {"S1": row}
    assert rows_as_of(database, GUARDED, later) == {}
    assert rows_as_of(database, GUARDED, later + timedelta(seconds=1)) == {"S1": row}
    [change] = list_changes(database, GUARDED, ("S1",))
    assert (change.who, change.approved_by, change.why, change.proposal) == ("ada", "bob", "a new article", number)
    assert (change.batch, change.at) == (done.batch, later)
    proposal, [seen] = find_proposal(database, GUARDED, number, 9)
    assert (proposal.state, proposal.decided_by, proposal.decided_why, proposal.batch) == (
        ProposalState.APPROVED, "bob", "as in the catalog", done.batch,
    )  # fmt: skip
    assert (seen.before, seen.after) == (None, row)
    assert list_proposals(database, GUARDED) == []


@pytest.mark.parametrize("name", ["ada", "Ada", " ADA"])
def test_a_user_cannot_approve_or_reject_their_own_proposal(database: FormsDatabase, name: str) -> None:
    number = number_of(propose(database, Edit(("S1",), {"sku": "A"}, None)))
    herself = FormRights(name)
    assert "made it" in str(refused("E899", approve, database, GUARDED, number, herself, "").why)
    refused("E899", reject, database, GUARDED, number, herself, "no")
    assert contents(database) == {}
    assert [each.number for each in list_proposals(database, GUARDED)] == [number]


def test_approval_needs_its_right_where_the_rows_are_written(database: FormsDatabase) -> None:
    number = number_of(propose(database, Edit(("S1",), {"sku": "A"}, None)))
    others = FormRights("bob", no_approval="the right approve is missing")
    refused("E940", approve, database, GUARDED, number, others, "")
    refused("E940", reject, database, GUARDED, number, others, "no")
    refused("E940", withdraw, database, GUARDED, number, FormRights("ada", no_edit="the right edit is missing"), "no")
    assert contents(database) == {}


def test_a_rejection_has_a_reason_and_changes_nothing(database: FormsDatabase) -> None:
    number = number_of(propose(database, Edit(("S1",), {"sku": "A"}, None)))
    refused("E891", reject, database, GUARDED, number, BOB, " ")
    reject(database, GUARDED, number, BOB, "it is B")
    reject(database, GUARDED, number, BOB, "it is B")  # the same again, after a lost response
    proposal, _ = find_proposal(database, GUARDED, number, 9)
    assert (proposal.state, proposal.decided_by, proposal.decided_why) == (ProposalState.REJECTED, "bob", "it is B")
    assert "bob decided it: it is B" in str(refused("E898", approve, database, GUARDED, number, EVE, "").why)
    refused("E898", reject, database, GUARDED, number, EVE, "x")
    refused("E898", withdraw, database, GUARDED, number, ADA, "x")
    assert contents(database) == {}


def test_the_author_alone_withdraws_a_proposal(database: FormsDatabase) -> None:
    number = number_of(propose(database, Edit(("S1",), {"sku": "A"}, None)))
    refused("E899", withdraw, database, GUARDED, number, BOB, "x")
    withdraw(database, GUARDED, number, ADA, "a mistake")
    assert find_proposal(database, GUARDED, number, 9)[0].state is ProposalState.WITHDRAWN
    refused("E898", approve, database, GUARDED, number, BOB, "")


def test_a_stale_proposal_is_a_conflict_with_all_three_values(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A"})
    save(database, "S2", {"sku": "A"})
    seen = version_of(database, "S1")
    edits = [Edit(("S1",), {"sku": "C"}, seen), Edit(("S2",), {"sku": "C"}, version_of(database, "S2"))]
    number = number_of(propose(database, *edits))
    save(database, "S1", {"sku": "B"}, seen)
    error = refused("E892", approve, database, GUARDED, number, BOB, "")
    assert isinstance(error, EditConflictError)
    assert "proposes it again" in str(error.fix)
    [conflict] = error.conflicts
    assert conflict.theirs is not None
    assert (conflict.theirs.content["sku"], (conflict.edit.values or {})["sku"]) == ("B", "C")
    assert contents(database)["S2"]["sku"] == "A"
    proposal, rows = find_proposal(database, GUARDED, number, 9)
    assert proposal.state is ProposalState.OPEN
    three = [
        ((it.before or {})["sku"], it.current and it.current.content["sku"], (it.after or {})["sku"], it.is_stale)
        for it in rows
    ]
    assert three == [("A", "B", "C", True), ("A", "A", "C", False)]


def test_a_row_of_a_later_life_of_its_key_is_a_conflict(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A"})
    number = number_of(propose(database, Edit(("S1",), {"sku": "C"}, version_of(database, "S1"))))
    save(database, "S1", None, version_of(database, "S1"))
    save(database, "S1", {"sku": "A"})
    refused("E892", approve, database, GUARDED, number, BOB, "")
    assert contents(database)["S1"]["sku"] == "A"


def test_a_proposal_of_existing_values_is_approved_without_a_change(database: FormsDatabase) -> None:
    number = number_of(propose(database, Edit(("S1",), {"sku": "A"}, None)))
    save(database, "S1", {"sku": "A"})
    assert find_proposal(database, GUARDED, number, 9)[1][0].is_stale is False
    done = approve(database, GUARDED, number, BOB)
    assert (done.batch, done.rows) == (None, 0)
    assert len(list_changes(database, GUARDED, ("S1",))) == 1
    assert approve(database, GUARDED, number, BOB).rows == 0


def test_deletes_imports_and_undo_are_proposals_too(database: FormsDatabase) -> None:
    review = review_rows(database, GUARDED, [["supplier_sku", "sku"], ["S1", "A"], ["S2", "B"]], by=FormRights("ada"))
    imported = apply(database, GUARDED, by=FormRights("ada"), why="list", edits=review.edits, origin=Origin.IMPORT)
    batch = approve(database, GUARDED, number_of(imported), BOB).batch
    assert batch is not None
    undone = number_of(undo(database, GUARDED, batch, by=FormRights("ada"), why="wrong list"))
    deleted = number_of(propose(database, Edit(("S1",), None, version_of(database, "S1"))))
    assert contents(database).keys() == {"S1", "S2"}
    assert [each.number for each in list_proposals(database, GUARDED, key=("S2",))] == [undone]
    approve(database, GUARDED, deleted, BOB)
    assert contents(database).keys() == {"S2"}
    done = approve(database, GUARDED, undone, BOB)  # S1 is removed, as the undo requires
    assert done.rows == 1
    assert contents(database) == {}
    newest = list_changes(database, GUARDED, ("S2",))[0]
    assert (newest.undoes, newest.origin, newest.approved_by) == (batch, Origin.UNDO, "bob")


def test_the_same_proposal_again_is_the_open_one(database: FormsDatabase) -> None:
    edits = [Edit((f"S{at}",), {"sku": "A"}, None) for at in range(3)]
    first = number_of(propose(database, *edits))
    assert number_of(propose(database, *reversed(edits))) == first
    other = number_of(propose(database, *edits, who="bob"))
    assert other != first
    reject(database, GUARDED, first, BOB, "no")
    assert number_of(propose(database, *edits)) not in {first, other}


def test_invalid_values_and_seen_versions_are_checked_before_a_proposal_is_stored(database: FormsDatabase) -> None:
    refused("E891", propose, database, Edit(("S1",), {"sku": "A", "pack_size": "many"}, None))
    save(database, "S1", {"sku": "A"})
    refused("E892", propose, database, Edit(("S1",), {"sku": "B"}, None))
    assert list_proposals(database, GUARDED) == []
    done = propose(database, Edit(("S1",), {"sku": "A"}, version_of(database, "S1")))
    assert (done.proposal, done.rows) == (None, 0)


def test_a_proposed_value_that_the_form_no_longer_accepts_is_not_approved(database: FormsDatabase) -> None:
    number = number_of(propose(database, Edit(("S1",), {"sku": "A", "remark": "12 a"}, None)))
    numbers = tuple(replace(it, type="INT") if it.name == "remark" else it for it in GUARDED.fields)
    refused("E891", approve, database, replace(GUARDED, fields=numbers), number, BOB, "")
    assert contents(database) == {}


def test_a_published_key_waits_and_needs_no_approval(database: FormsDatabase) -> None:
    edits = [Edit(("S9",), {}, None)]
    assert apply(database, GUARDED, by=FormRights("publish x"), why="x", edits=edits, origin=Origin.PUBLISH).batch == 1


def test_open_proposals_are_approved_after_the_option_is_removed(database: FormsDatabase) -> None:
    number = number_of(propose(database, Edit(("S1",), {"sku": "A"}, None)))
    refused("E899", approve, database, PRODUCTS, number, ADA, "")
    approve(database, PRODUCTS, number, BOB)
    assert contents(database)["S1"]["sku"] == "A"


def test_a_proposal_of_another_form_is_unknown(database: FormsDatabase) -> None:
    number = number_of(propose(database, Edit(("S1",), {"sku": "A"}, None)))
    other = replace(GUARDED, name="others", table="mdm.others")
    refused("E894", approve, database, other, number, BOB, "")
    refused("E894", find_proposal, database, other, number, 9)
    refused("E894", approve, database, GUARDED, number + 1, BOB, "")
    assert list_proposals(database, other) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE waterclock_forms_proposals SET state = 'approved', decided_by = 'ada'",
        "UPDATE waterclock_forms_proposals SET state = 'approved'",
        "UPDATE waterclock_forms_proposals SET state = 'withdrawn', decided_by = 'bob'",
        "UPDATE waterclock_forms_proposals SET who = 'eve', state = 'approved', decided_by = 'ada'",
        "UPDATE waterclock_forms_proposals SET why = 'x'",
        "DELETE FROM waterclock_forms_proposals",
        "UPDATE waterclock_forms_proposed SET after = '{}'",
        "DELETE FROM waterclock_forms_proposed",
    ],
)
def test_the_database_refuses_changes_that_bypass_the_four_eyes_rule(database: FormsDatabase, statement: str) -> None:
    number = number_of(propose(database, Edit(("S1",), {"sku": "A"}, None)))
    with pytest.raises(WaterclockError) as raised, database.open_for_writing("x") as session:
        session.execute(statement)
    assert "append-only" in str(raised.value) or "decided once" in str(raised.value)
    approve(database, GUARDED, number, BOB)
    for later in ("state = 'open'", "state = 'rejected', decided_by = 'eve'", "decided_by = 'eve'"):
        with pytest.raises(WaterclockError, match="decided once"), database.open_for_writing("x") as session:
            session.execute(f"UPDATE waterclock_forms_proposals SET {later}")


def test_random_proposals_change_rows_only_when_approved(place: FormsPlace) -> None:  # noqa: PLR0915 - one life
    """A model of four users who propose, approve, reject and withdraw changes of six rows.

    Each accepted approval writes the proposed rows once, if these rows are still as the proposer saw them. No other
    step writes a row.
    """
    database, chance = place.database, random.Random(11)
    people = [FormRights(name) for name in ("ada", "bob", "eve", "kim")]
    model: dict[str, tuple[int, dict[str, str]]] = {}
    opened: dict[
        int, tuple[FormRights, dict[str, tuple[tuple[int, dict[str, str]] | None, dict[str, str] | None]]]
    ] = {}
    approved = conflicts = life = 0
    for step in range(90 if database.is_server else 260):
        by = chance.choice(people)
        if not opened or chance.random() < 0.45:
            keys = chance.sample([f"S{at}" for at in range(6)], chance.choice([1, 1, 2]))
            rows = {
                key: None if chance.random() < 0.2 else {"supplier_sku": key, "sku": f"K{chance.randrange(4)}"}
                for key in keys
            }
            edits = [
                Edit((key,), None if row is None else {"sku": row["sku"]}, version_of(database, key))
                for key, row in rows.items()
            ]
            done = propose(database, *edits, who=by.name, why=f"step {step}")
            changed = {
                key: (model.get(key), row) for key, row in rows.items()
                if row != (model[key][1] if key in model else None)
            }  # fmt: skip
            assert done.rows == len(changed)
            if changed:
                opened.setdefault(number_of(done), (by, changed))
            continue
        number = chance.choice(sorted(opened))
        author, rows_of = opened[number]
        if chance.random() < 0.15:
            if by.name == author.name:
                withdraw(database, GUARDED, number, by, "no")
            else:
                reject(database, GUARDED, number, by, "no")
            del opened[number]
            continue
        if by.name == author.name:
            refused("E899", approve, database, GUARDED, number, by, "")
            continue
        is_stale = any(
            model.get(key) != seen and (model[key][1] if key in model else None) != row
            for key, (seen, row) in rows_of.items()
        )
        if is_stale:
            refused("E892", approve, database, GUARDED, number, by, "")
            conflicts += 1
            if chance.random() < 0.5:
                reject(database, GUARDED, number, by, "stale")
                del opened[number]
            continue
        done = approve(database, GUARDED, number, by)
        for key, (_, row) in rows_of.items():
            if row == (model[key][1] if key in model else None):
                continue
            life += 1
            model.pop(key, None)
            if row is not None:
                model[key] = (life, row)
        approved += 1
        del opened[number]
        assert approve(database, GUARDED, number, by).batch == done.batch
    assert min(approved, conflicts) >= 2
    assert contents(database) == {key: row for key, (_, row) in model.items()}
    assert rows_as_of(database, GUARDED, BEGIN + timedelta(days=9)) == contents(database)
    assert [each.number for each in list_proposals(database, GUARDED, most=1000)] == sorted(opened)
    with database.open_for_reading("test") as session:
        assert session.first_of("SELECT count(*) FROM waterclock_forms_changes")[0] == life
        assert session.first_of("SELECT count(*) FROM waterclock_forms_batches WHERE approved_by = who")[0] == 0


def test_a_database_of_the_first_layout_gets_the_tables_of_proposals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of("sqlite", tmp_path)
    with monkeypatch.context() as first:
        first.setattr(forms_database, "_PROPOSAL_TABLES", ())
        first.setattr(forms_database, "_SQLITE_PROPOSAL_TRIGGERS", ())
        first.setattr(forms_database, "_LAYOUT", 1)
        place.database.require_tables("test")
    path = tmp_path / "storage" / "forms.sqlite"
    with closing(sqlite3.connect(path)) as old, old:
        old.execute("INSERT INTO waterclock_forms_batches VALUES (1, 'product_map', 'ada', ?, 'old', 'edit', NULL)",
                    (forms_database.to_text(BEGIN),))  # fmt: skip
        after = '{"sku":"A","supplier_sku":"S1"}'
        old.execute("INSERT INTO waterclock_forms_changes VALUES (1, 1, 'product_map', 'S1', NULL, ?)", (after,))
        old.execute("INSERT INTO waterclock_forms_rows VALUES ('product_map', 'S1', 1, 0, ?, NULL)", (after,))
    database = place.database
    [change] = list_changes(database, GUARDED, ("S1",))
    assert (change.who, change.approved_by, change.proposal) == ("ada", None, None)
    number = number_of(propose(database, Edit(("S1",), {"sku": "B"}, 1)))
    approve(place.database, GUARDED, number, BOB)
    assert contents(database)["S1"]["sku"] == "B"
    with closing(sqlite3.connect(path)) as now:
        assert now.execute("SELECT layout FROM waterclock_forms_clock").fetchone() == (2,)


_KILLED = """
import json, os, signal, sys
from pathlib import Path
from tests.forms import FormsPlace
from tests.unit.connectors.forms.test_proposals import BOB, GUARDED, propose
from waterclock.connectors.forms.changes import Edit
from waterclock.connectors.forms.proposals import approve
from waterclock.connectors.interface import Setting
from waterclock.faults import inject_faults

options, folder, point, number = json.loads(sys.argv[1])
place = FormsPlace(Setting("forms", options, Path(folder), Path(folder) / "storage" / "archive"))
with inject_faults(lambda at: os.kill(os.getpid(), signal.SIGKILL) if at == point else None):
    if number is None:
        propose(place.database, Edit(("S1",), {"sku": "A"}, None), Edit(("S2",), {"sku": "B"}, None))
    else:
        approve(place.database, GUARDED, number, BOB, "good")
"""


def kill_at(place: FormsPlace, tmp_path: Path, point: str, number: int | None) -> None:
    arguments = json.dumps([dict(place.setting.options), str(tmp_path), point, number])
    killed = subprocess.run([sys.executable, "-c", _KILLED, arguments], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.parametrize("point", ["forms.proposal", "forms.proposed", "forms.done"])
def test_a_killed_proposer_proposes_all_or_nothing_and_again_the_same(
    place: FormsPlace, tmp_path: Path, point: str
) -> None:
    kill_at(place, tmp_path, point, None)
    there = list_proposals(place.database, GUARDED)
    assert [each.count for each in there] == ([2] if point == "forms.done" else [])
    edits = [Edit(("S1",), {"sku": "A"}, None), Edit(("S2",), {"sku": "B"}, None)]
    number = number_of(propose(place.database, *edits))
    assert [(each.number, each.count) for each in list_proposals(place.database, GUARDED)] == [(number, 2)]
    assert len(find_proposal(place.database, GUARDED, number, 9)[1]) == 2


@pytest.mark.parametrize("point", ["forms.batch", "forms.rows", "forms.decided", "forms.done"])
def test_a_killed_approval_writes_all_or_nothing_and_again_nothing_twice(
    place: FormsPlace, tmp_path: Path, point: str
) -> None:
    edits = [Edit(("S1",), {"sku": "A"}, None), Edit(("S2",), {"sku": "B"}, None)]
    number = number_of(propose(place.database, *edits))
    kill_at(place, tmp_path, point, number)
    state = find_proposal(place.database, GUARDED, number, 9)[0].state
    is_done = point == "forms.done"
    assert (state is ProposalState.APPROVED, sorted(contents(place.database))) == (
        is_done, ["S1", "S2"] if is_done else [],
    )  # fmt: skip
    done = approve(place.database, GUARDED, number, BOB, "good")
    assert (done.batch, done.rows) == (1, 2)
    assert sorted(contents(place.database)) == ["S1", "S2"]
    assert [len(list_changes(place.database, GUARDED, (key,))) for key in ("S1", "S2")] == [1, 1]
