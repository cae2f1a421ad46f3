"""Persons are erased from the history of a form by bytes; the rows of others, their versions and undo stay right."""

from __future__ import annotations

import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.forms import KINDS, PRODUCTS, FormsPlace, place_of, save, version_of
from waterclock.connectors.forms.changes import Edit, EditConflictError, apply
from waterclock.connectors.forms.database import BATCHES, CHANGES, PROPOSALS, PROPOSED, ROWS
from waterclock.connectors.forms.erasure import erase_persons, search_database
from waterclock.connectors.forms.history import (
    find_row,
    iterate_rows,
    list_changes,
    list_changes_of_batch,
    rows_as_of,
    undo,
)
from waterclock.connectors.forms.proposals import approve, find_proposal, list_proposals, reject
from waterclock.connectors.original_erasure import OriginalErasure, Subjects
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Place, Unit
from waterclock.flow.form_rights import FormRights
from waterclock.storage.search.byte_search import ByteSearch

UNIT = Unit("forms", "product_map", None, {}, Place("flow.dpl", 1, 1))
ANN, BOB = "ann.person@example.org", "bob.person@example.org"


def subjects(*persons: str) -> Subjects:
    pattern = re.compile("|".join(map(re.escape, persons)))
    return Subjects({"sku": "STRING"}, persons.__contains__, redact=lambda text: pattern.sub("(erased)", text))


def erase(place: FormsPlace, *persons: str, is_dry_run: bool = False) -> OriginalErasure:
    [found] = erase_persons(place.database, UNIT, subjects(*persons), is_dry_run=is_dry_run)
    return found


def hits(place: FormsPlace, *persons: str) -> list[str]:
    search = ByteSearch(persons, ["sku"])
    search_database(place.database, UNIT, search)
    if place.database.is_server:
        assert not files_of_server(place, *persons)
    return [hit.where for hit in search.result().hits]


def files_of_server(place: FormsPlace, *persons: str) -> list[str]:
    """Return the tables whose files contain the bytes of a person, also in free space."""
    found = []
    with place.database.open_for_reading("test") as session:
        for table in (BATCHES, CHANGES, ROWS, PROPOSALS, PROPOSED):
            path, folder = session.first_of(
                f"SELECT pg_relation_filepath('{table}'), current_setting('data_directory')"
            )
            content = Path(folder, path).read_bytes()
            found += [table for person in persons if person.encode() in content]
    return found


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> FormsPlace:
    return place_of(request.param, tmp_path)


def changes_of(
    place: FormsPlace,
) -> dict[str, list[tuple[int, Mapping[str, str | None] | None, Mapping[str, str | None] | None]]]:
    keys = {f"S{number}" for number in range(10)}
    return {
        key: found
        for key in sorted(keys)
        if (found := [(it.number, it.before, it.after) for it in list_changes(place.database, PRODUCTS, (key,))])
    }


def test_a_person_is_erased_from_history_rows_and_reasons(place: FormsPlace) -> None:
    save(place.database, "S1", {"sku": ANN, "remark": "of ann"}, why=f"{ANN} asked")
    save(place.database, "S2", {"sku": BOB})
    save(place.database, "S2", {"sku": ANN}, version_of(place.database, "S2"))
    save(place.database, "S2", {"sku": BOB, "remark": "again"}, version_of(place.database, "S2"))
    save(place.database, "S3", {"sku": ANN})
    save(place.database, "S3", None, version_of(place.database, "S3"))
    before = changes_of(place)
    dry = erase(place, ANN, is_dry_run=True)
    assert changes_of(place) == before
    assert hits(place, ANN) if not place.database.is_server else True
    assert (dry.rows, dry.removed, dry.kind) == (6, 5, "history")
    assert erase(place, ANN).removed == 5
    assert not hits(place, ANN)
    assert {row.key: row.content for row in iterate_rows(place.database, PRODUCTS)} == {
        "S2": {"supplier_sku": "S2", "sku": BOB, "remark": "again"}
    }
    assert changes_of(place) == {
        "S2": [
            (4, None, {"supplier_sku": "S2", "sku": BOB, "remark": "again"}),
            (3, {"supplier_sku": "S2", "sku": BOB}, None),
            (2, None, {"supplier_sku": "S2", "sku": BOB}),
        ]
    }
    assert erase(place, ANN).removed == 0


def test_an_erased_version_is_a_conflict_and_its_number_never_used_again(place: FormsPlace) -> None:
    save(place.database, "S1", {"sku": ANN})
    seen = version_of(place.database, "S1")
    erase(place, ANN)
    with pytest.raises(EditConflictError) as raised:
        save(place.database, "S1", {"sku": BOB}, seen)
    assert raised.value.conflicts[0].theirs is None
    save(place.database, "S1", {"sku": BOB}, None)
    assert seen is not None
    assert (version_of(place.database, "S1") or 0) > seen


def test_undo_after_an_erasure_restores_only_rows_of_other_persons(place: FormsPlace) -> None:
    save(place.database, "S2", {"sku": BOB})
    edits = [Edit(("S1",), {"sku": ANN}, None), Edit(("S2",), {"sku": "X"}, 1), Edit(("S3",), {"sku": "Y"}, None)]
    batch = apply(place.database, PRODUCTS, by=FormRights("ada"), why="test", edits=edits).batch
    assert batch is not None
    erase(place, ANN)
    assert {it.key for it in list_changes_of_batch(place.database, PRODUCTS, batch, 10)} == {"S2", "S3"}
    assert undo(place.database, PRODUCTS, batch, by=FormRights("ada"), why="wrong").rows == 2
    assert {row.key: row.content["sku"] for row in iterate_rows(place.database, PRODUCTS)} == {"S2": BOB}
    assert not hits(place, ANN)


def test_history_is_kept_from_all_others_afterwards(place: FormsPlace) -> None:
    save(place.database, "S1", {"sku": ANN})
    save(place.database, "S2", {"sku": BOB})
    erase(place, ANN)
    for sql in (f"UPDATE {CHANGES} SET key = 'x'", f"DELETE FROM {CHANGES}", f"DELETE FROM {ROWS} WHERE key = 'S2'"):
        with pytest.raises(WaterclockError), place.database.open_for_writing("test") as session:
            session.execute(sql)
    assert find_row(place.database, PRODUCTS, ("S2",)) is not None


def test_random_histories_are_those_without_the_versions_of_the_person(place: FormsPlace) -> None:
    """The oracle stores the content after each change, and removes those of the person."""
    drawn = random.Random(place.database.name)
    current: dict[str, dict[str, str]] = {}
    states: list[tuple[datetime, dict[str, dict[str, str]]]] = []
    for _ in range(30):
        key, sku = f"S{drawn.randrange(4)}", drawn.choice([ANN, BOB, "X", None])
        save(place.database, key, None if sku is None else {"sku": sku}, version_of(place.database, key))
        if sku is None:
            current.pop(key, None)
        else:
            current[key] = {"supplier_sku": key, "sku": sku}
        states.append((place.clock.advance(hours=1), dict(current)))
    erase(place, ANN)
    for at, state in states:
        kept = {key: row for key, row in state.items() if row["sku"] != ANN}
        assert rows_as_of(place.database, PRODUCTS, at) == kept
    assert {row.key: row.content for row in iterate_rows(place.database, PRODUCTS)} == kept
    assert not hits(place, ANN)
    for key, changes in changes_of(place).items():
        row = find_row(place.database, PRODUCTS, (key,))
        newest = changes[0]
        assert (row is None and newest[2] is None) or (row is not None and (row.version, row.content) == newest[::2])


_KILLED = """
import json, os, signal, sys
from pathlib import Path
from tests.forms import FormsPlace
from tests.unit.connectors.forms.test_erasure import ANN, erase
from waterclock.connectors.interface import Setting
from waterclock.faults import inject_faults

options, folder, point = json.loads(sys.argv[1])
place = FormsPlace(Setting("forms", options, Path(folder), Path(folder) / "storage" / "archive"))
with inject_faults(lambda at: os.kill(os.getpid(), signal.SIGKILL) if at == point else None):
    erase(place, ANN)
"""


@pytest.mark.parametrize("point", ["forms.erased", "forms.erasure_committed"])
def test_a_killed_erasure_changes_nothing_or_continues(place: FormsPlace, tmp_path: Path, point: str) -> None:
    save(place.database, "S1", {"sku": ANN})
    save(place.database, "S2", {"sku": BOB})
    before = changes_of(place)
    arguments = [dict(place.setting.options), str(tmp_path), point]
    killed = subprocess.run([sys.executable, "-c", _KILLED, json.dumps(arguments)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert (changes_of(place) == before) == (point == "forms.erased")
    save(place.database, "S3", {"sku": "X"})  # the next writer is not blocked
    erase(place, ANN)
    assert not hits(place, ANN)
    assert sorted(changes_of(place)) == ["S2", "S3"]


def test_older_versions_that_another_transaction_reads_are_reported(place: FormsPlace) -> None:
    """Once it ends, the erasure continues, and finds nothing."""
    save(place.database, "S1", {"sku": ANN})
    if place.database.is_server:
        with place.database.open_for_reading("test") as session:
            session.first_of("SELECT 1")
            with pytest.raises(WaterclockError, match="locked") as raised:
                erase(place, ANN)
    else:
        is_open, may_end = threading.Event(), threading.Event()

        def read() -> None:
            with closing(sqlite3.connect(place.database.database_path, isolation_level=None)) as connection:
                connection.execute("BEGIN")
                connection.execute(f"SELECT * FROM {CHANGES}").fetchone()
                is_open.set()
                may_end.wait(60)

        reader = threading.Thread(target=read)
        reader.start()
        is_open.wait(60)
        place.setting.options["timeout"] = 0.2  # type: ignore[index]
        with pytest.raises(WaterclockError, match="locked") as raised:
            erase(place, ANN)
        may_end.set()
        reader.join()
    assert raised.value.transient
    erase(place, ANN)
    assert not hits(place, ANN)


def test_a_file_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    place = place_of("sqlite", tmp_path)
    assert not list(erase_persons(place.database, UNIT, subjects(ANN), is_dry_run=True))
    assert not place.database.exists


def test_rows_of_persons_leave_open_and_decided_proposals(place: FormsPlace) -> None:
    guarded = replace(PRODUCTS, needs_approval=True)
    chief = FormRights("chief")

    def propose(why: str, **rows: str) -> int:
        edits = [Edit((key,), {"sku": sku}, None) for key, sku in rows.items()]
        number = apply(place.database, guarded, by=FormRights("ada"), why=why, edits=edits).proposal
        assert number is not None
        return number

    opened, approved = propose(f"from {ANN}", S1=ANN, S2="A"), propose("first", S3=ANN, S4="B")
    rejected = propose("second", S5=ANN)
    approve(place.database, guarded, approved, chief, f"as {ANN} writes")
    reject(place.database, guarded, rejected, chief, f"{ANN} is gone")
    assert hits(place, ANN)
    assert erase(place, ANN, is_dry_run=True).removed == 4
    assert erase(place, ANN).removed == 4
    assert hits(place, ANN) == []
    assert [row.key for row in find_proposal(place.database, guarded, opened, 9)[1]] == ["S2"]
    proposal, rows = find_proposal(place.database, guarded, rejected, 9)
    assert (proposal.decided_why, rows) == ("(erased) is gone", [])
    approve(place.database, guarded, opened, chief)
    assert {row.key for row in iterate_rows(place.database, guarded)} == {"S2", "S4"}
    assert list_changes(place.database, guarded, ("S2",))[0].why == "from (erased)"
    assert list_proposals(place.database, guarded) == []
