"""The rows of a form as of any tick are those of its history, read at any time and in any order."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.forms import BEGIN, KINDS, FormsPlace, place_of, save, version_of
from tests.systems import unit_of
from waterclock.connectors.forms.collection import FormsCollector
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns
from waterclock.flow.form_rights import FormRights
from waterclock.testing.connectors import declared
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

UNIT = unit_of("forms", "product_map")
HOUR = timedelta(hours=1)
TYPES = {"supplier_sku": None, "sku": None, "pack_size": "INT", "remark": "STRING"}


def columns(**types: str | None) -> Columns:
    listed = declared(*(TYPES | types).items())
    named = (
        replace(listed.named[0], is_key=True),
        replace(listed.named[1], is_not_null=True),
        *listed.named[2:],
    )
    return replace(listed, named=named, is_open=False)


def window(number: int) -> Window:
    return Window(BEGIN + number * HOUR, BEGIN + (number + 1) * HOUR)


def read(spark: SparkSession, place: FormsPlace, *numbers: int, of: Columns | None = None) -> dict[str, dict[str, Any]]:
    collector = FormsCollector(place.database)
    collected = collector.read_states(spark, UNIT, [window(number) for number in numbers], of or columns())
    found: dict[str, dict[str, Any]] = {window(number).label: {} for number in numbers}
    for row in collected.frame.collect():
        found[row["timelabel"]][row["supplier_sku"]] = (row["sku"], row["pack_size"])
    collected.close()
    return found


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> FormsPlace:
    return place_of(request.param, tmp_path)


def test_any_tick_has_the_rows_of_then_in_any_order_and_again(spark: SparkSession, place: FormsPlace) -> None:
    chance, database = random.Random(3), place.database
    model: dict[str, tuple[str, int | None]] = {}
    expected: dict[str, dict[str, Any]] = {}
    live: list[dict[str, dict[str, Any]]] = []
    for number in range(12):
        for _ in range(chance.randrange(6)):
            place.clock.at = max(place.clock.at, window(number).start) + timedelta(minutes=chance.randrange(8))
            key = f"S{chance.randrange(6)}"
            if chance.random() < 0.2:
                save(database, key, None, version_of(database, key))
                model.pop(key, None)
                continue
            size = chance.choice([None, chance.randrange(9)])
            values = {"sku": f"K{chance.random()}", "pack_size": None if size is None else str(size)}
            save(database, key, values, version_of(database, key))
            model[key] = (values["sku"] or "", size)
        place.clock.at = window(number).end
        expected[window(number).label] = dict(model)
        if number % 3 == 2:
            live.append(read(spark, place, number))
    for seen in live:
        assert all(rows == expected[label] for label, rows in seen.items())
    place.clock.advance(days=40)
    for number in range(9, 12):
        save(database, f"S{number}", {"sku": "much later"}, version_of(database, f"S{number}"))
    assert read(spark, place, *range(12)) == expected
    some = [7, 2, 11, 0]
    for number in some:
        assert read(spark, place, number)[window(number).label] == expected[window(number).label]


def test_a_change_after_a_read_is_never_in_the_window_that_was_read(spark: SparkSession, place: FormsPlace) -> None:
    save(place.database, "S1", {"sku": "A"})
    place.clock.at = window(0).end
    before = read(spark, place, 0)
    place.clock.at = BEGIN + timedelta(minutes=10)  # the clock of the database is set back
    applied = save(place.database, "S2", {"sku": "B"})
    assert applied.at == window(0).end
    place.clock.at = window(1).end
    assert read(spark, place, 0) == before
    assert read(spark, place, 1)[window(1).label].keys() == {"S1", "S2"}


def test_a_window_that_is_not_over_at_the_database_is_refused(spark: SparkSession, place: FormsPlace) -> None:
    place.clock.at = window(0).end - timedelta(seconds=1)
    with pytest.raises(WaterclockError) as raised:
        read(spark, place, 0)
    assert (raised.value.code, raised.value.transient) == ("E896", True)


def test_a_database_without_the_newest_batch_of_an_earlier_read_is_refused(
    spark: SparkSession, place: FormsPlace
) -> None:
    save(place.database, "S1", {"sku": "A"})
    place.clock.at = window(0).end
    collector = FormsCollector(place.database)
    source = collector.read_states(spark, UNIT, [window(0)], columns()).source
    assert (source["batch"], source["batch_at"]) == (1, "2026-11-01T00:00:00.000000Z")
    place.clock.at = window(1).end
    save(place.database, "S1", {"sku": "B"}, 1)
    for last in (None, {}, source, {"batch": 0, "batch_at": None}):
        assert collector.read_states(spark, UNIT, [window(1)], columns(), last).frame.count() == 1
    for last in ({**source, "batch": 9}, {**source, "batch_at": "2026-11-01T00:00:00.000001Z"}):
        with pytest.raises(WaterclockError) as raised:
            collector.read_states(spark, UNIT, [window(1)], columns(), last)
        assert raised.value.code == "E878"


def test_the_type_of_a_column_is_that_of_the_declaration(spark: SparkSession, place: FormsPlace) -> None:
    save(place.database, "S1", {"sku": "A", "pack_size": "12", "remark": "2.50"})
    place.clock.at = window(0).end
    types = columns(pack_size="BIGINT", remark="DECIMAL(5,2)")
    frame = FormsCollector(place.database).read_states(spark, UNIT, [window(0)], types).frame
    assert [kind for _, kind in frame.dtypes] == ["string", "string", "bigint", "decimal(5,2)", "string"]
    with pytest.raises(Exception, match="CAST_INVALID_INPUT") as raised:
        read(spark, place, 0, of=columns(sku="INT"))
    error = FormsCollector(place.database).explain(UNIT, types, raised.value)
    assert error is not None
    assert error.code == "E895"


@pytest.mark.sampled(1)
def test_rows_beyond_the_limit_of_the_driver_are_read_by_workers(spark: SparkSession, place: FormsPlace) -> None:
    from tests.forms import PRODUCTS
    from waterclock.connectors.forms.changes import Edit, apply
    from waterclock.connectors.spark_frames import DIRECT_ROWS

    count = DIRECT_ROWS + 10
    edits = [Edit((f"S{n}",), {"sku": "K"}, None) for n in range(count)]
    apply(place.database, PRODUCTS, by=FormRights("ada"), why="import", edits=edits)
    place.clock.at = window(0).end
    collected = FormsCollector(place.database).read_states(spark, UNIT, [window(0)], columns())
    assert collected.frame.count() == count
    collected.close()
