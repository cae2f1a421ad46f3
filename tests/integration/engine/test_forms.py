"""Master data in runs: each label has the rows of its time, and rows without a required value wait."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.forms import KINDS, PRODUCTS, FormsPlace, SetClock, place_of
from tests.tiny import Tiny, day, described
from waterclock.connectors.forms import database as forms_database
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.history import find_row
from waterclock.engine.maintenance.reset import prepare_reset, reset
from waterclock.flow.form_rights import FormRights
from waterclock.flow.forms import entities_of
from waterclock.planner.plan import RECOLLECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.product_map (
    supplier_sku KEY, sku NOT NULL, pack_size INT, remark COMMENT 'free text')
  FROM forms.product_map EVERY DAY START '2020-01-01';
TRANSFORM marts.daily PARTITIONED AS SELECT supplier_sku, sku FROM mdm.product_map;
"""


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FormsPlace:
    found = place_of(request.param, tmp_path)
    found.clock = SetClock(day(1))
    monkeypatch.setattr(forms_database.FormsDatabase, "now", lambda _self, _session: found.clock())
    return found


def project(place: FormsPlace, spark: SparkSession, flow: str = FLOW) -> Tiny:
    tiny = Tiny(place.setting.folder, spark)
    options = {"url": "sqlite:///storage/forms.sqlite"} | dict(place.setting.options)
    listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
    tiny.declare(flow.replace("TYPE forms;", f"TYPE forms OPTIONS ({listed});"))
    return tiny


def save(place: FormsPlace, key: str, sku: str | None, *, origin: Origin = Origin.EDIT) -> None:
    row = find_row(place.database, PRODUCTS, (key,))
    edit = Edit((key,), {"sku": sku}, None if row is None else row.version)
    apply(place.database, PRODUCTS, by=FormRights("ada"), why="test", edits=[edit], origin=origin)


def run(tiny: Tiny, place: FormsPlace, until: int) -> None:
    place.clock.at = day(until)
    outcome = tiny.run(day(until))
    assert not outcome.failed, described(outcome)


def retry(tiny: Tiny, number: int) -> None:
    with tiny.ledger() as ledger:
        ledger.decisions.retry("mdm.product_map", [day(number)], who="ann")


def daily(tiny: Tiny) -> dict[str, dict[str, str]]:
    """Return the rows of each label, as a reader of the table saw them."""
    found: dict[str, dict[str, str]] = {}
    for label, key, sku in tiny.rows("SELECT timelabel, supplier_sku, sku FROM marts.daily"):
        found.setdefault(label[6:8], {})[key] = sku
    return found


def test_each_label_has_the_rows_of_its_time_also_after_an_outage(place: FormsPlace, spark: SparkSession) -> None:
    tiny = project(place, spark)
    for number in range(1, 5):
        place.clock.at = day(number, hour=12)
        save(place, f"S{number}", f"K{number}")
        save(place, "S0", f"K{number}")
        if number == 2:
            run(tiny, place, 3)
    run(tiny, place, 5)  # two days at once
    assert daily(tiny) == {
        f"{number:02}": {"S0": f"K{number}"} | {f"S{n}": f"K{n}" for n in range(1, number + 1)}
        for number in range(1, 5)
    }
    entity = entities_of(tiny.load().flow)["mdm.product_map"]
    assert [field.name for field in entity.fields] == [field.name for field in PRODUCTS.fields]


@pytest.mark.sampled(1)
def test_an_old_label_that_is_collected_again_has_the_same_rows(place: FormsPlace, spark: SparkSession) -> None:
    tiny = project(place, spark)
    place.clock.at = day(1, hour=12)
    save(place, "S1", "K1")
    run(tiny, place, 2)
    place.clock.at = day(2, hour=12)
    save(place, "S1", "K2")
    run(tiny, place, 4)
    before = tiny.digests()
    runs = tiny.runs_of("mdm.product_map")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("mdm.product_map", [day(1)], RECOLLECT, who="ann")
    run(tiny, place, 4)
    assert tiny.runs_of("mdm.product_map") == runs + 1
    assert tiny.digests() == before
    assert daily(tiny)["01"] == {"S1": "K1"}


@pytest.mark.sampled(1)
def test_rows_that_lack_a_required_value_wait_and_are_named(place: FormsPlace, spark: SparkSession) -> None:
    tiny = project(place, spark)
    save(place, "S1", "K1")
    save(place, "S2", None, origin=Origin.PUBLISH)
    run(tiny, place, 2)
    assert daily(tiny) == {"01": {"S1": "K1"}}
    assert any("1 rows of forms.product_map lack a required value" in said for said in tiny.heard.said_)
    place.clock.advance(hours=1)
    save(place, "S2", "K2")
    run(tiny, place, 3)
    assert daily(tiny)["02"] == {"S1": "K1", "S2": "K2"}


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_forms_that_were_lost_or_restored_from_an_older_copy_are_refused(
    place: FormsPlace, spark: SparkSession
) -> None:
    tiny = project(place, spark)
    stored = Path(place.database.database_path)
    save(place, "S1", "K1")
    older = stored.read_bytes()
    place.clock.at = day(1, hour=12)
    save(place, "S2", "K2")
    newest = stored.read_bytes()
    run(tiny, place, 2)
    stored.write_bytes(older)
    place.clock.at = day(2, hour=12)
    save(place, "S3", "K3")  # its batch has the number of the lost one
    restored = stored.read_bytes()
    for copy in (b"", older, restored):
        stored.write_bytes(copy)
        retry(tiny, 2)
        place.clock.at = day(3)
        outcome = tiny.run(day(3))
        assert [report.error.code for report in outcome.failed if report.error] == ["E878"], described(outcome)
        assert "batch 2 of 2020-01-01T12:00" in described(outcome)
    stored.write_bytes(newest)
    retry(tiny, 2)
    run(tiny, place, 3)
    assert daily(tiny) == {label: {"S1": "K1", "S2": "K2"} for label in ("01", "02")}
    stored.write_bytes(restored)
    with tiny.opened() as work:
        found = prepare_reset(work, "mdm.product_map")
        assert found is not None
        reset(work, found, why="the newest forms are lost")
    run(tiny, place, 3)
    assert daily(tiny) == {"01": {"S1": "K1"}, "02": {"S1": "K1", "S3": "K3"}}
