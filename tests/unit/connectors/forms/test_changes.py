from __future__ import annotations

import random
import sqlite3
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.forms import BEGIN, KINDS, PRODUCTS, FormsPlace, place_of, save, version_of
from waterclock.connectors.forms.changes import Edit, EditConflictError, apply
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.history import (
    find_row,
    iterate_rows,
    list_changes,
    list_changes_of_batch,
    rows_as_of,
    undo,
)
from waterclock.connectors.forms.row_lists import ListedRows, RowCounts, RowQuery, count_rows, list_rows
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights
from waterclock.flow.forms import Entity, FormField


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> FormsPlace:
    return place_of(request.param, tmp_path)


@pytest.fixture
def database(place: FormsPlace) -> FormsDatabase:
    return place.database


def contents(database: FormsDatabase) -> dict[str, Any]:
    return {row.key: dict(row.content) for row in iterate_rows(database, PRODUCTS)}


def test_a_row_is_saved_with_its_history(database: FormsDatabase, place: FormsPlace) -> None:
    first = save(database, "S1", {"sku": "A"}, why="mapped")
    place.clock.advance(hours=1)
    save(database, "S1", {"sku": "B", "pack_size": "2"}, version_of(database, "S1"))
    row = find_row(database, PRODUCTS, ("S1",))
    assert row is not None
    assert row.content == {"supplier_sku": "S1", "sku": "B", "pack_size": "2"}
    newest, oldest = list_changes(database, PRODUCTS, ("S1",))
    assert newest.differences == (("sku", "A", "B"), ("pack_size", None, "2"))
    assert (oldest.before, oldest.who, oldest.why, oldest.at, oldest.batch) == (
        None,
        "ada",
        "mapped",
        BEGIN,
        first.batch,
    )
    assert newest.at == BEGIN + timedelta(hours=1)


def test_values_that_an_edit_does_not_name_stay(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A", "remark": "as agreed"})
    save(database, "S1", {"sku": "B"}, version_of(database, "S1"))
    assert contents(database)["S1"]["remark"] == "as agreed"


def test_an_edit_of_another_version_is_a_conflict_and_changes_nothing(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A"})
    seen = version_of(database, "S1")
    save(database, "S1", {"sku": "B"}, seen)
    with pytest.raises(EditConflictError) as raised:
        apply(
            database,
            PRODUCTS,
            by=FormRights("bob"),
            why="test",
            edits=[Edit(("S0",), {"sku": "N"}, None), Edit(("S1",), {"sku": "C"}, seen)],
        )
    assert raised.value.code == "E892"
    (conflict,) = raised.value.conflicts
    assert conflict.theirs is not None
    assert conflict.theirs.content["sku"] == "B"
    assert contents(database).keys() == {"S1"}


def test_an_editor_of_an_earlier_life_of_a_key_cannot_overwrite_a_later_one(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A"})
    seen = version_of(database, "S1")
    save(database, "S1", None, seen)
    save(database, "S1", {"sku": "NEW"})
    with pytest.raises(EditConflictError):
        save(database, "S1", {"sku": "OLD"}, seen)
    assert contents(database)["S1"]["sku"] == "NEW"


def test_saving_again_after_a_lost_answer_changes_nothing(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A"})
    again = save(database, "S1", {"sku": "A"})
    assert (again.batch, again.rows) == (None, 0)
    assert len(list_changes(database, PRODUCTS, ("S1",))) == 1


@pytest.mark.parametrize(
    ("values", "why"),
    [({"pack_size": "1"}, "a value is required"), ({"sku": "A", "pack_size": "many"}, "not a number")],
)
def test_invalid_values_are_refused(database: FormsDatabase, values: dict[str, str], why: str) -> None:
    with pytest.raises(WaterclockError, match="cannot be saved") as raised:
        save(database, "S1", values)
    assert raised.value.code == "E891"
    assert why in str(raised.value.why)
    assert contents(database) == {}


@pytest.mark.parametrize("why", ["", "  ", "x" * 2001, "a\0b"])
def test_a_change_needs_a_reason(database: FormsDatabase, why: str) -> None:
    with pytest.raises(WaterclockError, match="a person and a reason"):
        save(database, "S1", {"sku": "A"}, why=why)


def test_two_edits_of_one_key_in_a_batch_are_refused(database: FormsDatabase) -> None:
    edits = [Edit(("S1",), {"sku": "A"}, None), Edit(("S1",), {"sku": "B"}, None)]
    with pytest.raises(WaterclockError, match="cannot be one batch"):
        apply(database, PRODUCTS, by=FormRights("ada"), why="test", edits=edits)


def test_undo_restores_a_batch_once_and_never_over_later_changes(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A"})
    edits = [
        Edit(("S1",), {"sku": "B"}, version_of(database, "S1")),
        Edit(("S2",), {"sku": "C"}, None),
    ]
    batch = apply(database, PRODUCTS, by=FormRights("ada"), why="test", edits=edits).batch
    assert batch is not None
    undone = undo(database, PRODUCTS, batch, by=FormRights("bob"), why="wrong file")
    assert contents(database) == {"S1": {"supplier_sku": "S1", "sku": "A"}}
    assert undone.batch is not None
    assert {change.undoes for change in list_changes_of_batch(database, PRODUCTS, undone.batch, 9)} == {batch}
    with pytest.raises(WaterclockError, match="no batch 99"):
        undo(database, PRODUCTS, 99, by=FormRights("bob"), why="test")
    save(database, "S1", {"sku": "Z"}, version_of(database, "S1"))
    with pytest.raises(EditConflictError):
        undo(database, PRODUCTS, undone.batch, by=FormRights("bob"), why="test")


def test_random_editors_lose_no_update(place: FormsPlace) -> None:
    """A model of load, save and delete by several editors on ten keys: the accepted edits, and nothing else, happen."""
    database, chance = place.database, random.Random(7)
    model: dict[str, dict[str, str]] = {}
    held: dict[tuple[int, str], tuple[int | None, dict[str, str] | None]] = {}
    accepted = refused = 0
    steps = 250 if database.is_server else 1000  # a step connects once or twice
    for step in range(steps):
        editor, key = chance.randrange(4), f"S{chance.randrange(10)}"
        if (editor, key) not in held or chance.random() < 0.3:
            held[editor, key] = (version_of(database, key), model.get(key))
            continue
        version, seen = held.pop((editor, key))
        values = None if chance.random() < 0.25 else {"sku": f"{editor}-{step}"}
        try:
            done = save(database, key, values, version)
        except EditConflictError:
            refused += 1
            assert seen != model.get(key), "a conflict needs a change in between"
            continue
        accepted += done.rows
        assert seen == model.get(key) or done.rows == 0
        if values is None:
            model.pop(key, None)
        else:
            model[key] = {"supplier_sku": key, **values}
    assert min(accepted, refused) > steps / 20
    assert contents(database) == model
    assert rows_as_of(database, PRODUCTS, BEGIN + timedelta(days=1)) == model
    with database.open_for_reading("test") as session:
        assert session.first_of("SELECT count(*) FROM waterclock_forms_changes")[0] == accepted


def test_of_racing_writers_of_one_version_one_wins(place: FormsPlace) -> None:
    save(place.database, "S1", {"sku": "0"})
    seen, won, lost = version_of(place.database, "S1"), [], []
    begin = threading.Barrier(20)

    def write(number: int) -> None:
        database = place.database
        begin.wait()
        try:
            save(database, "S1", {"sku": str(number + 1)}, seen)
            won.append(number)
        except EditConflictError:
            lost.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 19)
    assert contents(place.database)["S1"]["sku"] == str(won[0] + 1)
    assert len(list_changes(place.database, PRODUCTS, ("S1",))) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE waterclock_forms_changes SET after = NULL",
        "DELETE FROM waterclock_forms_changes",
        "UPDATE waterclock_forms_batches SET who = 'eve'",
        "DELETE FROM waterclock_forms_batches",
        "UPDATE waterclock_forms_rows SET content = '{}'",
        "UPDATE waterclock_forms_rows SET version = version + 1",
        "DELETE FROM waterclock_forms_rows",
        "INSERT INTO waterclock_forms_rows SELECT entity, 'S2', version, 0, content, NULL FROM waterclock_forms_rows",
    ],
)
def test_history_and_rows_cannot_be_changed_beside_it(database: FormsDatabase, statement: str) -> None:
    save(database, "S1", {"sku": "A"})
    with (
        pytest.raises(WaterclockError, match=r"refused|rejected|statement") as raised,
        database.open_for_writing("x") as s,
    ):
        s.execute(statement)
    assert "append-only" in str(raised.value) or "which record each change" in str(raised.value)
    assert contents(database)["S1"]["sku"] == "A"


def test_times_ascend_when_the_clock_is_set_back(database: FormsDatabase, place: FormsPlace) -> None:
    save(database, "S1", {"sku": "A"})
    place.clock.advance(days=-3)
    assert save(database, "S2", {"sku": "B"}).at == BEGIN


def test_another_key_is_refused_once_there_are_rows(database: FormsDatabase) -> None:
    from dataclasses import replace

    fields = tuple(replace(field, is_key=field.name in {"supplier_sku", "sku"}) for field in PRODUCTS.fields)
    save(database, "S1", {"sku": "A"})
    with pytest.raises(WaterclockError) as raised:
        apply(
            database, replace(PRODUCTS, fields=fields), by=FormRights("a"), why="b", edits=[Edit(("S", "K"), {}, None)]
        )
    assert raised.value.code == "E893"


def test_a_column_that_becomes_required_marks_the_rows_that_lack_it(database: FormsDatabase) -> None:
    from dataclasses import replace

    save(database, "S1", {"sku": "A"})
    save(database, "S2", {"sku": "B", "remark": "there"})
    assert count_rows(database, PRODUCTS) == RowCounts(2, 0)
    fields = tuple(replace(field, is_required=field.name != "pack_size") for field in PRODUCTS.fields)
    stricter = replace(PRODUCTS, fields=fields)
    apply(database, stricter, by=FormRights("a"), why="b", edits=[Edit(("S3",), {"sku": "C", "remark": "new"}, None)])
    assert count_rows(database, stricter) == RowCounts(3, 1)
    waiting = list_rows(database, stricter, RowQuery(is_waiting=True)).rows
    assert [row.key for row in waiting] == ["S1"]


def test_pages_are_cut_by_key_filtered_and_sorted(database: FormsDatabase) -> None:
    edits = [Edit((f"S{n:03}",), {"sku": f"K{n % 3}", "pack_size": str(1000 - n * 7)}, None) for n in range(120)]
    apply(database, PRODUCTS, by=FormRights("ada"), why="test", edits=edits)
    seen, after, more = [], "", True
    while more:
        page = list_rows(database, PRODUCTS, RowQuery(after=after, limit=50))
        seen += [row.key for row in page.rows]
        after, more = page.rows[-1].key, page.next is not None
    assert seen == [f"S{n:03}" for n in range(120)]
    some = list_rows(database, PRODUCTS, RowQuery(equal={"sku": "K1"}, limit=500)).rows
    assert len(some) == 40
    smallest = list_rows(database, PRODUCTS, RowQuery(sort="pack_size", limit=1)).rows
    assert smallest[0].content["pack_size"] == str(1000 - 119 * 7)
    found = list_rows(database, PRODUCTS, RowQuery(text="s07", limit=500)).rows
    assert [row.key for row in found] == [f"S07{n}" for n in range(10)]
    assert list_rows(database, PRODUCTS, RowQuery(text="100%")).rows == []


def test_the_first_page_reads_an_index_however_many_rows_there_are(tmp_path: Path) -> None:
    database = place_of("sqlite", tmp_path).database
    save(database, "S1", {"sku": "A"})
    connection = sqlite3.connect(tmp_path / "storage" / "forms.sqlite")
    for query in (
        "entity = 'e' AND key > 'S' ORDER BY key LIMIT 101",
        "entity = 'e' AND waits = 1 ORDER BY key LIMIT 101",
    ):
        plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT key, content FROM waterclock_forms_rows WHERE {query}")
        (step,) = [row[3] for row in plan]
        assert step.startswith("SEARCH waterclock_forms_rows USING INDEX"), step


@pytest.mark.parametrize("key", ["O'Neil <b>", 'say "x"', "名前", "a\tb?%s", "-1"])
def test_any_text_is_a_key(database: FormsDatabase, key: str) -> None:
    save(database, key, {"sku": key, "remark": "{}'\"%s?"})
    assert contents(database) == {key: {"supplier_sku": key, "sku": key, "remark": "{}'\"%s?"}}
    found = list_rows(database, PRODUCTS, RowQuery(equal={"sku": key})).rows
    assert [row.key for row in found] == [key]


def test_ten_thousand_rows_take_two_seconds_at_most(database: FormsDatabase) -> None:
    edits = [Edit((f"S{n}",), {"sku": f"K{n}", "pack_size": str(n), "remark": "r"}, None) for n in range(10_000)]
    begin = time.process_time()
    assert apply(database, PRODUCTS, by=FormRights("ada"), why="paste", edits=edits).rows == 10_000
    assert time.process_time() - begin <= 2
    assert count_rows(database, PRODUCTS) == RowCounts(10_000, 0)


def test_a_file_is_private(tmp_path: Path) -> None:
    place = place_of("sqlite", tmp_path)
    save(place.database, "S1", {"sku": "A"})
    path = tmp_path / "storage" / "forms.sqlite"
    assert path.stat().st_mode & 0o077 == 0
    assert sqlite3.connect(path).execute("SELECT count(*) FROM waterclock_forms_rows").fetchone() == (1,)


def test_a_new_row_has_its_key_in_the_stored_form(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A"})
    with pytest.raises(WaterclockError, match="its stored form, S1"):
        save(database, " S1 ", {"sku": "B"})
    assert contents(database).keys() == {"S1"}


def test_a_column_with_a_question_mark_is_searched(database: FormsDatabase) -> None:
    entity = Entity(
        "asked",
        "forms",
        "mdm.asked",
        (FormField("a", "STRING", is_key=True, is_required=True), FormField("ok?%", "STRING")),
    )
    apply(database, entity, by=FormRights("ada"), why="test", edits=[Edit(("S1",), {"ok?%": "maybe"}, None)])
    rows = list_rows(database, entity, RowQuery(text="MAYBE", sort="ok?%")).rows
    assert [row.key for row in rows] == ["S1"]


@pytest.mark.parametrize("wrong", ["\0", "\ud800"])
def test_a_character_that_no_database_stores_is_refused_or_not_found(database: FormsDatabase, wrong: str) -> None:
    save(database, "S1", {"sku": "A"})
    with pytest.raises(WaterclockError) as raised:
        save(database, "S2", {"sku": "B"}, why=f"so{wrong}")
    assert raised.value.code == "E891"
    assert list_rows(database, PRODUCTS, RowQuery(text=f"A{wrong}")) == ListedRows([])
    assert list_rows(database, PRODUCTS, RowQuery(after=f"T{wrong}")) == ListedRows([])
    assert contents(database).keys() == {"S1"}
