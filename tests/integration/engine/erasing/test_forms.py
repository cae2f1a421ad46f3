"""Persons are erased from forms: from the history, current rows and published hints, and are not collected again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.forms import KINDS, FormsPlace, SetClock, place_of
from tests.keys import DECLARED, VARIABLES
from tests.tiny import Tiny, day, described
from waterclock.connectors.forms import database as forms_database
from waterclock.connectors.forms.changes import Edit, apply
from waterclock.connectors.forms.history import find_row, iterate_rows
from waterclock.engine.erasing.erasing import ErasureResult, erase, plan_erasure
from waterclock.engine.erasing.request import build_request
from waterclock.faults import inject_faults
from waterclock.flow.form_rights import FormRights
from waterclock.flow.forms import Entity, entities_of
from waterclock.operations.erasure_certificate import build_certificate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ERASED, OTHER = 4242420042, 4242420043
FLOW = (
    DECLARED
    + """
CREATE CONNECTION forms TYPE forms OPTIONS ({options});
COLLECT mdm.people (id BIGINT KEY SUBJECT customer, name NOT NULL) FROM forms.people EVERY DAY START '2020-01-01';
COLLECT raw.orders (item STRING, buyer BIGINT SUBJECT customer) FROM shop.orders EVERY DAY START '2020-01-01';
TRANSFORM marts.open (item KEY, buyer) AS SELECT item, buyer FROM raw.orders;
PUBLISH marts.open TO forms.items MERGE;
COLLECT mdm.items (item KEY, class NOT NULL) FROM forms.items EVERY DAY START '2020-01-01';
"""
)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FormsPlace:
    found = place_of(request.param, tmp_path)
    found.clock = SetClock(day(1, hour=12))
    monkeypatch.setattr(forms_database.FormsDatabase, "now", lambda _self, _session: found.clock())
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return found


def project(place: FormsPlace, spark: SparkSession) -> Tiny:
    tiny = Tiny(place.setting.folder, spark)
    options = {"url": "sqlite:///data/forms.sqlite"} | dict(place.setting.options)  # it is not below the storage
    place.setting = replace(place.setting, options=options)
    tiny.declare(FLOW.format(options=", ".join(f"{name} '{value}'" for name, value in options.items())))
    tiny.source("orders", "item TEXT, buyer INT", [("I1", ERASED), ("I2", OTHER)])
    return tiny


def run(tiny: Tiny, place: FormsPlace, until: int) -> None:
    place.clock.at = max(place.clock.at, day(until))
    outcome = tiny.run(day(until))
    assert not outcome.failed, described(outcome)


def save(place: FormsPlace, entity: Entity, key: str, values: dict[str, str | None], why: str = "test") -> None:
    row = find_row(place.database, entity, (key,))
    edit = Edit((key,), values, None if row is None else row.version)
    apply(place.database, entity, by=FormRights("ada"), why=why, edits=[edit])


def erased(tiny: Tiny, *, continues: bool = False) -> ErasureResult:
    with tiny.opened() as work:
        plan = plan_erasure(work, build_request(work, "customer", [str(ERASED)]), continues=continues)
        answer = build_certificate(plan, result := erase(work, plan, why="on request"))
    assert str(ERASED) not in json.dumps(answer.model_dump(mode="json"))
    return result


class Killed(BaseException):
    """Ends the process here."""


def test_a_person_is_erased_from_forms_and_their_history(place: FormsPlace, spark: SparkSession) -> None:
    """The kill is right after the history was committed, while the old rows are still in free space of the database."""
    tiny = project(place, spark)
    forms = entities_of(tiny.load().flow)
    people, items = forms["mdm.people"], forms["mdm.items"]
    for who in (ERASED, OTHER):
        save(place, people, str(who), {"name": "Person"}, why=f"{who} called")
    save(place, people, str(ERASED), {"name": "Renamed"})
    run(tiny, place, 2)
    assert {row.hints["buyer"] for row in iterate_rows(place.database, items) if row.hints} == {str(ERASED), str(OTHER)}
    run(tiny, place, 3)
    assert {row[0] for row in tiny.rows("SELECT id FROM mdm.people")} == {ERASED, OTHER}
    with tiny.opened() as work:
        plan = plan_erasure(work, build_request(work, "customer", [str(ERASED)]), continues=False)
    assert {(of.table, of.touched, of.rows) for of in plan.originals if of.rows} == {
        ("mdm.people", 1, 2),
        ("forms.items", 1, 1),
    }

    def strike(point: str) -> None:
        if point == "forms.erasure_committed":
            raise Killed

    with inject_faults(strike), pytest.raises(Killed):
        erased(tiny)
    first = erased(tiny, continues=True)
    assert {each.place for each in first.left} == {"publish forms.items"}
    run(tiny, place, 4)
    result = erased(tiny, continues=True)
    assert result.left == ()
    assert not result.search.hits
    assert result.erasure.finished_at is not None
    assert {row[0] for row in tiny.rows("SELECT id FROM mdm.people")} == {OTHER}
    assert [(row.key, row.content["name"]) for row in iterate_rows(place.database, people)] == [(str(OTHER), "Person")]
    assert {row.hints["buyer"] for row in iterate_rows(place.database, items) if row.hints} == {str(OTHER)}
    save(place, items, "I1", {"class": "A"})  # the key of the item stays, and can be edited
    run(tiny, place, 5)
    assert {row[0] for row in tiny.rows("SELECT item FROM mdm.items")} == {"I1"}


def test_a_person_who_is_typed_in_again_is_not_collected(place: FormsPlace, spark: SparkSession) -> None:
    tiny = project(place, spark)
    people = entities_of(tiny.load().flow)["mdm.people"]
    save(place, people, str(ERASED), {"name": "Person"})
    run(tiny, place, 2)
    erased(tiny)
    save(place, people, str(ERASED), {"name": "Person"})
    save(place, people, str(OTHER), {"name": "Other"})
    run(tiny, place, 3)
    assert {row[0] for row in tiny.rows("SELECT id FROM mdm.people")} == {OTHER}
