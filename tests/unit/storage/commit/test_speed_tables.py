"""The tables of open windows: effects of a damaged log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from tests.ledgers import day
from tests.unit.engine.fakes import manifest
from waterclock.errors import WaterclockError
from waterclock.storage.commit.speed_tables import (
    SpeedState,
    TableCheck,
    TableOutage,
    end_running_ticks,
    read_check,
    read_hidden_labels,
    read_history,
    read_slices,
    read_state,
    record_check,
    record_hidden_labels,
)
from waterclock.storage.log.delta_log import commit_file
from waterclock.storage.slices.manifest import seal

COLUMNS = StructType([StructField("timelabel", StringType()), StructField("user", StringType())])


@pytest.mark.parametrize("content", [b"{not", b"\xff\xfe\x00"])
def test_a_damaged_log_is_reported_with_its_folder(tmp_path: Path, content: bytes) -> None:
    folder = str(tmp_path / "spd_clicks")
    end_running_ticks(folder, COLUMNS, table="web.spd_clicks", project="tiny")
    Path(commit_file(folder, 1)).write_bytes(content)
    for read in (read_state, read_history):
        with pytest.raises(WaterclockError, match="E643") as raised:
            read(folder)
        assert folder in (raised.value.fix or "")


def test_slices_that_are_missing_or_damaged_are_made_again_by_the_next_tick(tmp_path: Path) -> None:
    whole, damaged = (replace(manifest("web.spd_clicks", at), slice_path=f"_stage/{at}") for at in (1, 2))
    for each in (whole, damaged):
        (tmp_path / each.slice_path).mkdir(parents=True)
        seal(str(tmp_path), each)
    [file] = (tmp_path / damaged.slice_path).iterdir()
    file.write_text("{not")
    state = SpeedState(slices={day(1): whole.slice_path, day(2): damaged.slice_path, day(3): "_stage/3"})
    assert read_slices(str(tmp_path), state) == {day(1): whole}


def test_hidden_labels_are_recorded_if_they_changed_and_only_the_newest(tmp_path: Path) -> None:
    folder = str(tmp_path / "spd_clicks")
    record_hidden_labels(folder, {})
    assert not (tmp_path / "spd_clicks").exists()  # nothing is hidden, as before
    record_hidden_labels(folder, {day(number): "x\x1b" * 300 for number in range(1, 120)})
    found = read_hidden_labels(folder)
    assert (len(found), min(found), max(found)) == (100, day(20), day(119))
    assert {len(reason) for reason in found.values()} == {300}
    assert "\x1b" not in found[day(119)]
    [file] = (tmp_path / "spd_clicks").iterdir()
    before = file.stat().st_ino
    record_hidden_labels(folder, {day(number): "x\x1b" * 300 for number in range(1, 120)})
    assert file.stat().st_ino == before  # it was not written again
    record_hidden_labels(folder, {})
    assert read_hidden_labels(folder) == {}


@pytest.mark.parametrize("content", ["", "[]", "[1]", "3", '{"20130101": "x"}', '{"x"', '{"20130101000000": {"a": 1}}'])
def test_a_damaged_record_of_hidden_labels_hides_nothing_from_a_reader(tmp_path: Path, content: str) -> None:
    record_hidden_labels(str(tmp_path), {day(1): "x"})
    [file] = tmp_path.iterdir()
    file.write_text(content)
    assert all(isinstance(reason, str) for reason in read_hidden_labels(str(tmp_path)).values())
    record_hidden_labels(str(tmp_path), {day(1): "x"})
    assert read_hidden_labels(str(tmp_path)) == {day(1): "x"}


def test_a_check_has_the_time_of_the_last_read_and_the_outages(tmp_path: Path) -> None:
    folder = str(tmp_path / "spd_clicks")
    record_check(folder, day(1))
    assert not (tmp_path / "spd_clicks").exists()  # nothing is recorded before the first tick
    assert read_check(folder) == TableCheck()
    record_check(folder, None, [TableOutage("web.clicks", day(2), "no\x1banswer" * 100)])
    [outage] = read_check(folder).outages
    assert (read_check(folder).at, outage.table, outage.since, len(outage.why)) == (None, "web.clicks", day(2), 300)
    assert "\x1b" not in outage.why
    record_check(folder, day(3))
    assert read_check(folder) == TableCheck(day(3))


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-01T00:00:00+00:00",  # as an older version recorded it
        "[]", "{}", '{"at": 5, "outages": {}}', '{"at": "2020-01-01", "outages": {}}', '{"at": null, "outages": []}',
        '{"at": null, "outages": {"a": {"since": "2020-01-01T00:00:00"}}}', '{"at": null, "outages": {"a": 1}}',
    ],
)  # fmt: skip
def test_a_damaged_check_is_as_none(tmp_path: Path, text: str) -> None:
    record_check(str(tmp_path), None, [TableOutage("web.clicks", day(2), "no answer")])
    [file] = tmp_path.iterdir()
    file.write_text(text)
    assert read_check(str(tmp_path)) == TableCheck()
