"""A conformance suite for sources that report which windows changed (LOOKBACK … CHANGED); see `connectors`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from waterclock.connectors.interface import ChangedWindows, ChangeScanner, ChangeScanRequest, Mark, Setting
from waterclock.testing.connectors import declared, hours
from waterclock.testing.requirements import KeepsSecrets, System, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAY = datetime(2013, 1, 1, tzinfo=UTC)
_HALF = timedelta(minutes=30)
_HOURS = hours(0, 4)
_Marks = Mapping[datetime, Mark]


class Revised(System, Protocol):
    """A system under test with revisable rows of the columns `id` (text) and `at`, their data time, an instant.

    `change_column`: the column with the time of a row's last change; None if the system itself detects changes.
    """

    change_column: str | None

    def put(self, rows: Sequence[tuple[str, datetime]]) -> None:
        """Add rows in one step."""
        ...

    def revise(self, row: tuple[str, datetime]) -> None:
        """Change an existing row."""
        ...


class ChangeScanConformance(KeepsSecrets):
    """Tests that a scan reports the windows that changed since the last scan, and none if nothing changed."""

    def test_windows_that_were_never_read_have_not_changed(self, spark: SparkSession, system: Revised) -> None:
        system.put(_rows(0, 1))
        assert _look(spark, system, {}).changed == {}

    def test_nothing_has_changed_without_changes_at_the_source(self, spark: SparkSession, system: Revised) -> None:
        system.put(_rows(0, 1))
        marks = _marks(_look(spark, system, {}))
        for _ in range(2):
            scanned = _look(spark, system, marks)
            assert scanned.changed == {}
            marks = _marks(scanned)

    def test_the_window_of_a_new_row_is_reported_once_with_a_reason(self, spark: SparkSession, system: Revised) -> None:
        system.put(_rows(0, 1))
        marks = _marks(_look(spark, system, {}))
        system.put([("late", _DAY + 2 * _HALF + _HALF)])
        scanned = _look(spark, system, marks)
        assert list(scanned.changed) == [_HOURS[1].start]
        assert all(scanned.changed.values()), "a few words say why"
        assert _look(spark, system, _marks(scanned)).changed == {}

    def test_the_window_of_a_changed_row_is_reported(self, spark: SparkSession, system: Revised) -> None:
        system.put(_rows(0, 1, 2))
        marks = _marks(_look(spark, system, {}))
        system.revise(_rows(2)[0])
        assert list(_look(spark, system, marks).changed) == [_HOURS[2].start]

    def test_a_scan_does_not_consume_changes(self, spark: SparkSession, system: Revised) -> None:
        system.put(_rows(0))
        marks = _marks(_look(spark, system, {}))
        system.put([("late", _DAY + _HALF)])
        assert _look(spark, system, marks) == _look(spark, system, marks)

    def test_a_change_missed_by_one_table_is_reported_to_it_later(self, spark: SparkSession, system: Revised) -> None:
        system.put(_rows(0, 3))
        old = _marks(_look(spark, system, {}))
        system.put([("late", _DAY + _HALF)])
        _look(spark, system, old)
        system.put([("later", _HOURS[3].start)])
        assert sorted(_look(spark, system, old).changed) == [_HOURS[0].start, _HOURS[3].start]

    def test_a_wrong_secret_is_reported(self, spark: SparkSession, system: Revised) -> None:
        system.put(_rows(0))
        refused(system, lambda wrong: _look(spark, system, {}, wrong))


def _rows(*at_hours: int) -> list[tuple[str, datetime]]:
    return [(str(at), _DAY + 2 * at * _HALF + _HALF) for at in at_hours]


def _look(spark: SparkSession, system: Revised, marks: _Marks, setting: Setting | None = None) -> ChangedWindows:
    collector = system.connector.collector(setting or system.setting)
    assert isinstance(collector, ChangeScanner)
    request = ChangeScanRequest("at", system.change_column, _HOURS, marks)
    return collector.scan_changes(lambda: spark, system.unit, request, declared(("at", "STRING")), "UTC")


def _marks(scanned: ChangedWindows) -> _Marks:
    """Return the states that a scan recorded, after a round trip through JSON, as they are stored."""
    of_all = json.loads(json.dumps(scanned.of_all))
    of_window = {start: json.loads(json.dumps(mark)) for start, mark in scanned.of_window.items()}
    return {window.start: Mark(of_all, of_window.get(window.start)) for window in _HOURS}
