"""Keys without a match are published to a form, a steward maps them, and the next window joins them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.forms import KINDS, FormsPlace, SetClock, place_of
from tests.tiny import Tiny, day, described
from waterclock.connectors.forms import database as forms_database
from waterclock.connectors.forms.changes import Edit, StoredRow, apply
from waterclock.connectors.forms.history import find_row, list_changes, require_registered
from waterclock.connectors.forms.row_lists import RowQuery, list_rows
from waterclock.faults import inject_faults
from waterclock.flow.form_rights import FormRights
from waterclock.flow.forms import Entity, entities_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT raw.orders PARTITIONED (id BIGINT KEY, supplier_sku, at TIMESTAMP)
  FROM shop.orders EVERY DAY START '2020-01-01' BY DATA TIME at;
COLLECT mdm.product_map (supplier_sku KEY, sku NOT NULL) FROM forms.product_map EVERY DAY START '2020-01-01';
TRANSFORM marts.counts PARTITIONED AS SELECT count(*) AS n FROM raw.orders;
TRANSFORM marts.sales AS SELECT o.id, m.sku FROM PAST(raw.orders, '60 days') o
  JOIN mdm.product_map m ON m.supplier_sku = o.supplier_sku;
TRANSFORM marts.unmatched (supplier_sku KEY, *) AS SELECT o.supplier_sku, count(*) AS orders
  FROM PAST(raw.orders, '60 days') o LEFT ANTI JOIN mdm.product_map m ON m.supplier_sku = o.supplier_sku
  WHERE o.supplier_sku IS NOT NULL GROUP BY o.supplier_sku;
PUBLISH marts.unmatched TO forms.product_map MERGE;
"""
ORDERS = [(n, sku, f"2020-01-0{1 + n} 10:00:00") for n, sku in enumerate(("S1", "S1", "S2", "S3", "S1"))]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FormsPlace:
    found = place_of(request.param, tmp_path)
    found.clock = SetClock(day(1))
    monkeypatch.setattr(forms_database.FormsDatabase, "now", lambda _self, _session: found.clock())
    return found


def project(place: FormsPlace, spark: SparkSession) -> tuple[Tiny, Entity]:
    tiny = Tiny(place.setting.folder, spark)
    options = {"url": "sqlite:///storage/forms.sqlite"} | dict(place.setting.options)
    listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
    tiny.declare(FLOW.replace("TYPE forms;", f"TYPE forms OPTIONS ({listed});"))
    tiny.source("orders", "id INTEGER, supplier_sku TEXT, at TEXT", ORDERS)
    return tiny, entities_of(tiny.load().flow)["mdm.product_map"]


def run(tiny: Tiny, place: FormsPlace, until: int) -> None:
    place.clock.at = day(until)
    outcome = tiny.run(day(until))
    assert not outcome.failed, described(outcome)


def queue(place: FormsPlace, entity: Entity) -> dict[str, StoredRow]:
    require_registered(place.database, entity)
    return {row.key: row for row in list_rows(place.database, entity, RowQuery(is_waiting=True)).rows}


def map_key(place: FormsPlace, entity: Entity, key: str, sku: str) -> None:
    row = find_row(place.database, entity, (key,))
    edit = Edit((key,), {"sku": sku}, None if row is None else row.version)
    apply(place.database, entity, by=FormRights("ada"), why="mapped", edits=[edit])


@pytest.mark.sampled(1)
def test_a_key_waits_is_mapped_and_joined_with_the_next_window(place: FormsPlace, spark: SparkSession) -> None:
    tiny, entity = project(place, spark)
    run(tiny, place, 2)
    waiting = queue(place, entity)
    assert waiting.keys() == {"S1"}
    assert waiting["S1"].hints == {"orders": "1"}
    assert tiny.rows("SELECT * FROM marts.sales") == []
    run(tiny, place, 3)
    assert any("1 rows of forms.product_map lack a required value" in said for said in tiny.heard.said_)
    assert queue(place, entity)["S1"].hints == {"orders": "2"}
    place.clock.at = day(3, hour=9)
    map_key(place, entity, "S1", "K1")
    counts = tiny.runs_of("marts.counts")
    before = tiny.digests()
    run(tiny, place, 4)
    assert sorted(tiny.rows("SELECT id, sku FROM marts.sales")) == [(0, "K1"), (1, "K1")]
    assert queue(place, entity).keys() == {"S2"}
    assert tiny.runs_of("marts.counts") == counts + 1
    assert {key: digest for key, digest in tiny.digests().items() if key in before} == before


@pytest.mark.sampled(1)
def test_a_publish_changes_no_row_that_a_person_touched(place: FormsPlace, spark: SparkSession) -> None:
    tiny, entity = project(place, spark)
    run(tiny, place, 2)
    map_key(place, entity, "S1", "K1")
    place.clock.at = day(2, hour=9)
    map_key(place, entity, "S2", "early")  # before its first order
    row = find_row(place.database, entity, ("S2",))
    run(tiny, place, 5)
    assert find_row(place.database, entity, ("S2",)) == row
    assert queue(place, entity).keys() == {"S3"}
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("forms.product_map", [day(4)], "recompute", who="ann")
    run(tiny, place, 5)
    assert len(list_changes(place.database, entity, ("S3",))) == 1
    deleted = queue(place, entity)["S3"]
    apply(place.database, entity, by=FormRights("ada"), why="no product", edits=[Edit(("S3",), None, deleted.version)])
    run(tiny, place, 6)
    assert find_row(place.database, entity, ("S3",)) is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["forms.rows", "deliver.done"])
def test_a_delivery_that_breaks_is_made_once(place: FormsPlace, spark: SparkSession, point: str) -> None:
    tiny, entity = project(place, spark)
    failed: list[str] = []

    def strike(at: str) -> None:
        if at == point and not failed:
            failed.append(at)
            raise RuntimeError(at)

    with inject_faults(strike):
        place.clock.at = day(2)
        tiny.run(day(2))
    run(tiny, place, 3)
    assert failed == [point]
    assert queue(place, entity).keys() == {"S1"}
    (change,) = list_changes(place.database, entity, ("S1",))
    assert change.who == "publish forms.product_map"
