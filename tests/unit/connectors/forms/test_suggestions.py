"""Suggestions for pending rows are the values of the most similar keys, at the same cost for any size of a form."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from tests.forms import KINDS, PRODUCTS, FormsPlace, place_of, save
from waterclock.connectors.forms import suggestions
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.history import find_row
from waterclock.connectors.forms.suggestions import Suggestion, suggest_values
from waterclock.flow.form_rights import FormRights
from waterclock.flow.forms import Entity, FormField

ADA = FormRights("ada")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> FormsPlace:
    return place_of(request.param, tmp_path)


def fill(database: FormsDatabase, rows: dict[str, str]) -> None:
    edits = [Edit((key,), {"sku": sku}, None) for key, sku in rows.items()]
    apply(database, PRODUCTS, by=ADA, why="mapped", edits=edits)


def wait(database: FormsDatabase, *keys: str) -> None:
    edits = [Edit((key,), {}, None) for key in keys]
    apply(database, PRODUCTS, by=FormRights("publish"), why="new", edits=edits, origin=Origin.PUBLISH)


def suggested(database: FormsDatabase, key: str) -> list[Suggestion]:
    row = find_row(database, PRODUCTS, (key,))
    assert row is not None
    return suggest_values(database, PRODUCTS, row)


def test_values_of_the_most_similar_keys_are_suggested_first_and_once(place: FormsPlace) -> None:
    fill(place.database, {"TEA-100": "T", "TEA-101": "T", "TEA-900": "U", "COFFEE-1": "C", "milk": "M"})
    wait(place.database, "tea 102", "TEA-777x")
    first, second = suggested(place.database, "tea 102")
    assert (first.values, first.like, first.rows) == ({"sku": "T"}, "TEA-100", 2)
    assert (second.values, second.like) == ({"sku": "U"}, "TEA-900")
    assert first.likeness > second.likeness >= 0.6
    assert all(each.like != "tea 102" for each in suggested(place.database, "TEA-777x"))  # it waits itself


def test_nothing_is_suggested_for_a_row_that_does_not_wait_or_is_like_none(place: FormsPlace) -> None:
    fill(place.database, {"TEA-100": "T", "TEA-101": "T"})
    wait(place.database, "completely else", "---", "🍵")
    assert suggested(place.database, "TEA-100") == []
    for key in ("completely else", "---", "🍵"):
        assert suggested(place.database, key) == []
    row = find_row(place.database, PRODUCTS, ("---",))
    assert row is not None
    assert row.is_waiting
    assert "sku" not in row.content  # the row is unchanged


def test_random_keys_have_the_suggestions_of_a_comparison_with_all(place: FormsPlace) -> None:
    """Oracle: all rows of the form, compared without the filters, the index and the early ends."""
    chance = random.Random(5)
    keys = {"".join(chance.choices("ABC12-", k=chance.randrange(3, 9))) for _ in range(150)}
    mapped = {key: chance.choice("XYZUVW") for key in sorted(keys)[::2]}
    waiting = sorted(keys - set(mapped))[:25]
    fill(place.database, mapped)
    wait(place.database, *waiting)
    some = 0
    for key in waiting:
        plain = {each: "".join(filter(str.isalnum, each.lower())) or each.lower() for each in (*mapped, key)}
        best: dict[str, tuple[float, str]] = {}
        for other, value in mapped.items():
            likeness = SequenceMatcher(None, plain[other], plain[key], autojunk=False).ratio()
            if likeness >= 0.6:
                best[value] = min(best.get(value, (0.0, "")), (-likeness, other))
        expected = sorted(((*alike, value) for value, alike in best.items()), key=lambda it: (it[0], it[1]))[:3]
        found = [(-it.likeness, it.like, it.values["sku"]) for it in suggested(place.database, key)]
        assert found == expected
        some += len(found)
    assert some > 10


def test_only_neighbours_are_compared_and_only_the_beginning_of_long_keys(
    place: FormsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestions, "COMPARED", 2)
    values = {1: "far", 2: "two", 3: "one", 5: "one", 6: "two", 7: "far"}
    fill(place.database, {f"TEA-{at}": value for at, value in values.items()})
    wait(place.database, "TEA-4")
    assert {each.values["sku"] for each in suggested(place.database, "TEA-4")} == {"one", "two"}
    long = "L" * 9000
    fill(place.database, {long + "1": "long"})
    wait(place.database, long + "2")
    [found] = suggested(place.database, long + "2")
    assert (found.values, found.likeness) == ({"sku": "long"}, 1.0)


def test_neighbours_are_read_from_an_index(tmp_path: Path) -> None:
    database = place_of("sqlite", tmp_path).database
    save(database, "S1", {"sku": "A"})
    with closing(sqlite3.connect(tmp_path / "storage" / "forms.sqlite")) as connection:
        for comparison, order in (("<", "DESC"), (">", "ASC")):
            sql = (
                "EXPLAIN QUERY PLAN SELECT key FROM waterclock_forms_rows WHERE entity = 'e' AND waits = 0"
                f" AND key {comparison} 'k' ORDER BY key {order} LIMIT 500"
            )
            plan = " ".join(str(row[-1]) for row in connection.execute(sql))
            assert "USING INDEX" in plan or "USING COVERING INDEX" in plan
            assert "TEMP B-TREE" not in plan


def test_a_key_of_several_columns_is_compared_as_a_whole_and_only_empty_columns_are_filled(tmp_path: Path) -> None:
    entity = Entity(
        "lands",
        "forms",
        "mdm.lands",
        (
            FormField("land", "STRING", is_key=True, is_required=True),
            FormField("region", "STRING", is_key=True, is_required=True),
            FormField("name", "STRING", is_required=True),
            FormField("zone", "STRING", is_required=True),
        ),
    )
    database = replace(place_of("sqlite", tmp_path).database)
    rows = [Edit(("DE", "Bavaria"), {"name": "Bavaria", "zone": "south"}, None)]
    apply(database, entity, by=ADA, why="first", edits=rows)
    new = [Edit(("DE", "Bavarya"), {"name": "typed"}, None)]
    apply(database, entity, by=FormRights("publish"), why="new", edits=new, origin=Origin.PUBLISH)
    row = find_row(database, entity, ("DE", "Bavarya"))
    assert row is not None
    [found] = suggest_values(database, entity, row)
    assert (found.values, found.like) == ({"zone": "south"}, '["DE","Bavaria"]')
