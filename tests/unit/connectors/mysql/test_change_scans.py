"""Change scans of MariaDB find the windows with changed rows, by a time column of any type."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.systems import MysqlDatabase
from waterclock.connectors.interface import ChangedWindows, ChangeScanner, ChangeScanRequest, Mark
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns
from waterclock.timelabel.window import Window

pytestmark = pytest.mark.slow

START = datetime(2020, 1, 1, tzinfo=UTC)
HOURS = tuple(Window(START + timedelta(hours=n), START + timedelta(hours=n + 1)) for n in range(4))


class Source:
    """A table of orders that is scanned repeatedly."""

    def __init__(self, folder: Path, time: str, change: str) -> None:
        self.database = MysqlDatabase(folder, epoch="seconds")
        self.database.run(f"CREATE TABLE totals (id int PRIMARY KEY, at {time} NULL, changed {change} NULL)")
        self.marks: dict[datetime, Mark] = {}

    def look(self, column: str = "changed", zone: str = "UTC") -> ChangedWindows:
        collector = self.database.connector.collector(self.database.setting)
        assert isinstance(collector, ChangeScanner)
        request = ChangeScanRequest("at", column, HOURS, self.marks)
        return collector.scan_changes(_no_spark, self.database.unit, request, Columns(), zone)

    def changed(self, zone: str = "UTC") -> list[int]:
        """Scan, store the notes, and return the hours that changed since the previous scan."""
        looked = self.look(zone=zone)
        self.marks = {w.start: Mark(looked.of_all, looked.of_window.get(w.start)) for w in HOURS}
        return sorted(start.hour for start in looked.changed)


def _no_spark() -> Any:
    raise AssertionError("a database is scanned without Spark")


KINDS = {
    "timestamp(6)": ("2020-01-05 05:00:00", "2020-01-07 05:00:00.25"),
    "datetime": ("2020-01-05 05:00:00", "2020-01-07 05:00:00"),
    "date": ("2020-01-05", "2020-01-07"),
    "bigint": (1_578_200_400, 1_578_400_400),
}


@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_new_or_changed_rows_are_reported_once(tmp_path: Path, kind: str) -> None:
    before, later = KINDS[kind]
    zone = "Europe/Berlin" if kind == "datetime" else "UTC"
    source = Source(tmp_path, "timestamp(6)", kind)
    source.database.run(
        "INSERT INTO totals VALUES (1, '2020-01-01 00:30', %s), (2, '2020-01-01 01:30', %s)", *[before] * 2
    )
    source.database.run("INSERT INTO totals VALUES (8, '2020-01-01 03:59', NULL)")
    assert source.changed(zone) == []
    assert source.changed(zone) == []
    source.database.run("INSERT INTO totals VALUES (3, '2020-01-01 00:59:59.999', %s)", before)  # of the same time
    assert source.changed(zone) == [0]
    source.database.run("UPDATE totals SET changed = %s WHERE id = 2", later)
    source.database.run("INSERT INTO totals VALUES (9, '2020-01-01 03:00', NULL)")
    assert source.changed(zone) == [1, 3]
    assert source.changed(zone) == []


def test_windows_without_marks_and_with_marks_of_several_scans_can_be_mixed(tmp_path: Path) -> None:
    source = Source(tmp_path, "timestamp", "timestamp")
    source.database.run("INSERT INTO totals VALUES (1, '2020-01-01 00:30', '2020-01-05')")
    source.changed()
    old = source.marks[HOURS[0].start]
    source.database.run(
        "INSERT INTO totals VALUES (2, '2020-01-01 01:30', '2020-01-06'), (3, '2020-01-01 02:30', '2020-01-06')"
    )
    source.changed()
    source.marks = {HOURS[0].start: old, HOURS[1].start: source.marks[HOURS[1].start]}
    source.database.run("INSERT INTO totals VALUES (4, '2020-01-01 01:31', '2020-01-05')")  # below the second bound
    assert source.changed() == []


@pytest.mark.parametrize(
    ("zone", "time"), [("Europe/Berlin", "datetime"), ("UTC", "bigint"), ("UTC", "timestamp")], ids=str
)
def test_rows_lie_in_the_windows_that_a_batch_would_read_them_for(tmp_path: Path, zone: str, time: str) -> None:
    source = Source(tmp_path, time, "timestamp")
    at = {"datetime": "2020-01-01 02:30", "bigint": 1_577_842_200, "timestamp": "2020-01-01 01:30"}[time]  # 01:30 UTC
    source.changed(zone)
    source.database.run("INSERT INTO totals VALUES (1, %s, '2020-01-05')", at)
    assert source.changed(zone) == [1]


@pytest.mark.parametrize(("column", "what"), [("changd", "no column changd"), ("note", "note is of type text")])
def test_a_change_column_that_is_missing_or_no_time_is_refused(tmp_path: Path, column: str, what: str) -> None:
    source = Source(tmp_path, "timestamp", "timestamp")
    source.database.run("ALTER TABLE totals ADD COLUMN note text")
    with pytest.raises(WaterclockError, match=what) as refused:
        source.look(column)
    assert refused.value.code == "E827"
