"""Pages and the journal are stored in the storage: in an object store they equal those on a disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.apis import Space, in_pages, patient
from tests.stores import fresh_bucket
from tests.unit.connectors.rest.test_delivery import PROJECT, PUBLISH, delivery, ids, rows, seal, sent, unit
from tests.unit.connectors.rest.test_page_store import Stopped, after
from waterclock.connectors.delivering import DeliveryOutcome
from waterclock.connectors.rest import collection
from waterclock.connectors.rest.delivery import RestDeliverer
from waterclock.connectors.rest.page_store import lines_of
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.files.filesystem import entry_path

pytestmark = pytest.mark.slow


def test_a_stopped_collect_resumes_from_pages_in_a_bucket(tmp_path: Path) -> None:
    space = Space()
    space.set(rows=[{"id": str(place)} for place in range(9)])
    reading = space.reading(tmp_path, "cursor", in_pages("cursor", 2))
    reading = replace(reading, setting=replace(reading.setting, archive=entry_path(fresh_bucket(), "archive")))
    with pytest.raises(Stopped), inject_faults(after(3, "page.kept")):
        list(collection._read_series(reading, collection._series_of(reading, None), None))
    series = collection._series_of(reading, None)
    pages = list(collection._read_series(reading, series, None))
    found = [json.loads(line)["id"] for page in pages for line in lines_of(entry_path(series.path_of(page)))]
    assert found == [str(place) for place in range(9)]
    assert len(space.asked) == 5
    series.close()
    assert collection._series_of(reading, None) != series


def test_a_stopped_delivery_resumes_from_a_journal_in_a_bucket(tmp_path: Path) -> None:
    space = Space()
    setting = replace(space.setting(tmp_path, tries=1), archive=entry_path(fresh_bucket(), "archive"))

    def deliverer() -> RestDeliverer:
        made = RestDeliverer(setting)
        made.__dict__["api"] = patient(setting)
        return made

    space.set(faults=[None, None, 503])
    given = delivery([seal(tmp_path, rows(7))])
    with pytest.raises(WaterclockError) as caught:
        deliverer().deliver(unit(chunk=2), [given])
    assert caught.value.code == "E848"
    (done,) = deliverer().deliver(unit(chunk=2), [given])
    assert (done.outcome, done.rows) == (DeliveryOutcome.DELIVERED, 7)
    assert ids(space) == [row["id"] for row in rows(7)]
    assert len(sent(space)) == 5
    last = deliverer().last(unit(), PROJECT, PUBLISH)
    assert last is not None
    assert last.claim == 1
    space.set(refuses="3")
    with pytest.raises(WaterclockError):
        deliverer().deliver(unit(format="row"), [replace(given, claim=2)])
    space.set(refuses="", log=[])
    deliverer().deliver(unit(format="row"), [replace(given, claim=3)])
    assert [one["ids"] for one in sent(space)] == [["3"]]
