"""Conformance suites for connectors: one base class of tests for each protocol.

A suite is a class of pytest tests. Name a subclass `Test…`, and give it a fixture `system`. The fixture returns a new,
empty system for each test, which implements the suite's protocol. Suites that read need a fixture `spark`, too:

    class TestMyArrivals(ArrivalConformance):
        @pytest.fixture
        def system(self, tmp_path): return MySystem(tmp_path)

Waterclock's own connectors are tested by these suites, too (tests/integration/connectors). The other modules of
`waterclock.testing` contain the suites for logs, row changes, sealed sources and destinations.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from waterclock.connectors import registry
from waterclock.connectors.as_of_collector import AsOfCollector
from waterclock.connectors.change_collector import ChangeCollector
from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import (
    ArrivalCollector,
    Collected,
    CompletenessCollector,
    EachCollector,
    LinkedCollector,
    PositionCollector,
    Setting,
    SnapshotCollector,
    WindowCollector,
    WindowRequest,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns, Place
from waterclock.testing.requirements import KeepsSecrets, RowCut, System, cut_midway, refused, rows_of
from waterclock.timelabel.label import TIMELABEL, label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAVY = ("deltalake", "pandas", "pyarrow", "pyspark", "sqlalchemy")

_DAY = datetime(2013, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_MINUTES = timedelta(minutes=6)
_MANY = [{"id": f"{at:02}", "note": f"note {at * 7919}"} for at in range(40)]
_HERE = Place("flows/conformance.dpl", 1, 1)


class Arriving(RowCut, Protocol):
    """A system under test in which items arrive. Their rows have the columns `id` and `note`."""

    def put(self, stamp: datetime, rows: Sequence[Mapping[str, str]]) -> None:
        """Add a complete item."""
        ...

    def put_unfinished(self, stamp: datetime) -> None:
        """Add an incomplete item, as if its sender had been interrupted."""
        ...


class TimedSystem(RowCut, Protocol):
    """A system under test whose rows have the columns `id` (text) and `at`, their data time, which may be missing.

    `zone_of_times` is None if the system stores instants, else the zone of its local times.
    """

    zone_of_times: str | None

    def put(self, rows: Sequence[tuple[str, datetime | None]]) -> None:
        """Add rows. A time is an instant, or a local time without a zone if `zone_of_times` is set."""
        ...


class Holding(RowCut, Protocol):
    """A system under test that stores rows with the columns `id` (text) and `note`.

    `has_schema`: whether it can return its columns without Spark. The default is True.
    """

    def hold(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Replace the content of the system with these rows."""
        ...

    def remove(self) -> None:
        """Remove the system, so that the table, file or server no longer exists."""
        ...


def declared(*columns: tuple[str, str | None], is_open: bool = True) -> Columns:
    """Build a column list of names with types; None omits a type."""
    return Columns(tuple(Column(name, _HERE, kind) for name, kind in columns), is_open)


def hours(first: int, count: int) -> list[Window]:
    """Return `count` hourly windows of 2013-01-01, from the hour `first` on."""
    return [Window(_DAY + at * _HOUR, _DAY + (at + 1) * _HOUR) for at in range(first, first + count)]


class ConnectorConformance(KeepsSecrets):
    """Tests of every connector, without Spark."""

    def test_it_is_found_by_its_type(self, system: System) -> None:
        found = registry.connector(system.connector.capabilities.type)
        assert found.capabilities == system.connector.capabilities

    def test_it_is_imported_without_heavy_modules(self, system: System) -> None:
        kind = system.connector.capabilities.type
        code = (
            "import sys\nfrom waterclock.connectors import registry\n"
            f"registry.connector({kind!r}).capabilities\n"
            f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
        )
        ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        assert ran.stdout.strip() == "[]"

    def test_each_option_has_a_description(self, system: System) -> None:
        can = system.connector.capabilities
        options = [*can.connection_options.values(), *can.collect_options.values(), *can.publish_options.values()]
        assert all(option.kind in ("text", "number", "flag") for option in options)
        assert all(option.help for option in options)

    def test_it_implements_the_abilities_that_it_declares(self, system: System) -> None:
        can = system.connector.capabilities
        offered: Mapping[str, Any] = {
            "arrival time": (ArrivalCollector, PositionCollector),
            "changes": ChangeCollector,
            "data time": WindowCollector,
            "snapshot": SnapshotCollector,
            "as of": AsOfCollector,
            "labels": LinkedCollector,
            "state": LinkedCollector,
            "each row of a table": EachCollector,
        }
        if can.collects:
            collector = system.connector.collector(system.setting)
            assert all(isinstance(collector, offered[batching.value]) for batching in can.collects)
            assert isinstance(collector, CompletenessCollector) or not can.awaits
        if can.publishes:
            assert isinstance(system.connector.deliverer(system.setting), Deliverer)


class ArrivalConformance(KeepsSecrets):
    """Tests of a collect BY ARRIVAL TIME of items, such as files: each is read whole and once, and stays readable."""

    def test_items_are_listed_oldest_first_in_utc(self, system: Arriving) -> None:
        for at in (2, 0, 1):
            system.put(_DAY + at * _HOUR, [{"id": str(at), "note": "n"}])
        listing = _arrivals(system).arrivals(system.unit)
        assert [item.stamp for item in listing.items] == [_DAY, _DAY + _HOUR, _DAY + 2 * _HOUR]
        assert all(item.stamp.tzinfo is UTC for item in listing.items)
        assert len({item.name for item in listing.items}) == 3
        assert listing.reports == ()

    def test_an_unfinished_item_is_skipped_and_reported(self, system: Arriving) -> None:
        system.put(_DAY, [{"id": "1", "note": "n"}])
        system.put_unfinished(_DAY + _HOUR)
        listing = _arrivals(system).arrivals(system.unit)
        assert [item.stamp for item in listing.items] == [_DAY]
        assert len(listing.reports) == 1

    def test_an_unfinished_item_does_not_advance_the_clock(self, system: Arriving) -> None:
        system.put(_DAY, [{"id": "1", "note": "n"}])
        collector = _arrivals(system)
        before = collector.clock(system.unit)
        system.put_unfinished(_DAY + 5 * _HOUR)
        assert collector.clock(system.unit) == before

    def test_each_row_has_the_label_that_took_its_item(self, spark: SparkSession, system: Arriving) -> None:
        for at in range(3):
            system.put(_DAY + at * _HOUR, [{"id": f"{at}a", "note": "n"}, {"id": f"{at}b", "note": "n"}])
        collector = _arrivals(system)
        items = collector.arrivals(system.unit).items
        taken = {_DAY: items[:2], _DAY + _HOUR: items[2:]}
        rows = rows_of(collector.read_items(spark, system.unit, taken, declared(), "UTC"))
        labels = {row["id"]: row[TIMELABEL] for row in rows}
        first, second = label_of(_DAY), label_of(_DAY + _HOUR)
        assert labels == {"0a": first, "0b": first, "1a": first, "1b": first, "2a": second, "2b": second}

    def test_a_closed_column_list_omits_columns_and_reports_them(self, spark: SparkSession, system: Arriving) -> None:
        system.put(_DAY, [{"id": "1", "note": "n"}])
        collector = _arrivals(system)
        taken = {_DAY: collector.arrivals(system.unit).items}
        read = collector.read_items(spark, system.unit, taken, declared(("id", "INT"), is_open=False), "UTC")
        assert read.frame.columns == ["id", TIMELABEL]
        assert rows_of(read) == [{"id": 1, TIMELABEL: label_of(_DAY)}]
        assert read.left_out == ("note",)
        assert "note" in read.source_columns, "what is left out is seen all the same"

    def test_an_archived_item_stays_readable_by_its_name(self, spark: SparkSession, system: Arriving) -> None:
        system.put(_DAY, [{"id": "1", "note": "n"}])
        collector = _arrivals(system)
        before = collector.arrivals(system.unit).items
        assert not any(item.is_archived for item in before)
        assert collector.archive(system.unit, before) == ()
        after = collector.arrivals(system.unit).items
        assert [(item.name, item.stamp, item.size) for item in after] == [
            (item.name, item.stamp, item.size) for item in before
        ]
        assert all(item.is_archived for item in after)
        rows = rows_of(collector.read_items(spark, system.unit, {_DAY: after}, declared(), "UTC"))
        assert [row["id"] for row in rows] == ["1"]

    def test_only_taken_and_archived_items_may_be_omitted(self, system: Arriving) -> None:
        for at in range(3):
            system.put(_DAY + at * _HOUR, [{"id": str(at), "note": "n"}])
        collector = _arrivals(system)
        first, second, third = collector.arrivals(system.unit).items
        collector.archive(system.unit, [first, second])
        listed = collector.arrivals(system.unit, {first.name, third.name}).items
        assert [item.name for item in listed if item.name != first.name] == [second.name, third.name]
        assert [item.is_archived for item in listed[-2:]] == [True, False]

    def test_items_are_found_by_name_archived_or_not(self, system: Arriving) -> None:
        system.put(_DAY, [{"id": "1", "note": "n"}])
        system.put(_DAY + _HOUR, [{"id": "2", "note": "n"}])
        collector = _arrivals(system)
        first, second = collector.arrivals(system.unit).items
        collector.archive(system.unit, [first])
        found = collector.find(system.unit, {first.name, second.name, "nobody"})
        assert {(item.name, item.stamp, item.is_archived) for item in found} == {
            (first.name, first.stamp, True),
            (second.name, second.stamp, False),
        }

    def test_archiving_is_idempotent(self, system: Arriving) -> None:
        system.put(_DAY, [{"id": "1", "note": "n"}])
        collector = _arrivals(system)
        items = collector.arrivals(system.unit).items
        collector.archive(system.unit, items)
        once = collector.arrivals(system.unit)
        assert collector.archive(system.unit, items) == ()
        assert collector.arrivals(system.unit) == once

    def test_a_wrong_secret_is_reported_and_nothing_is_taken(self, system: Arriving) -> None:
        system.put(_DAY, [{"id": "1", "note": "n"}])
        refused(system, lambda wrong: _arrivals(system, wrong).arrivals(system.unit))
        assert [item.is_archived for item in _arrivals(system).arrivals(system.unit).items] == [False]

    def test_an_interrupted_read_takes_no_item(self, spark: SparkSession, system: Arriving) -> None:
        for at in range(2):
            system.put(_DAY + at * _HOUR, _MANY[at::2])
        collector = _arrivals(system)
        items = collector.arrivals(system.unit).items
        taken = {item.stamp: [item] for item in items}

        def read() -> list[str]:
            rows = rows_of(collector.read_items(spark, system.unit, taken, declared(), "UTC"))
            return sorted(row["id"] for row in rows)

        cut_midway(system, collector, declared(), read)
        assert collector.arrivals(system.unit).items == items, "what was not read whole is not archived"
        assert read() == [row["id"] for row in _MANY]


class WindowConformance(KeepsSecrets):
    """Tests of a collect BY DATA TIME: each row belongs to one window, by its own time."""

    def test_windows_are_half_open_and_each_row_is_read_once(self, spark: SparkSession, system: TimedSystem) -> None:
        second = timedelta(seconds=1)
        times = [_DAY, _DAY + _HOUR - second, _DAY + _HOUR, _DAY + 2 * _HOUR - second, _DAY + 2 * _HOUR]
        system.put([(str(at), self._to_system_time(system, time)) for at, time in enumerate(times)])
        labels = self._read(spark, system, hours(0, 2))
        first, second_label = (window.label for window in hours(0, 2))
        assert labels == {"0": first, "1": first, "2": second_label, "3": second_label}

    def test_windows_read_together_equal_windows_read_alone(self, spark: SparkSession, system: TimedSystem) -> None:
        times = [_DAY + at * timedelta(minutes=17) for at in range(20)]
        system.put([(str(at), self._to_system_time(system, time)) for at, time in enumerate(times)])
        together = self._read(spark, system, hours(0, 4))
        alone: dict[str, str] = {}
        for window in hours(0, 4):
            alone |= self._read(spark, system, [window])
        assert together == alone

    def test_windows_may_have_gaps(self, spark: SparkSession, system: TimedSystem) -> None:
        system.put([(str(at), self._to_system_time(system, _DAY + at * _HOUR)) for at in range(6)])
        windows = [*hours(0, 1), *hours(2, 2), *hours(5, 1)]
        assert set(self._read(spark, system, windows)) == {"0", "2", "3", "5"}

    def test_rows_without_a_time_are_counted(self, spark: SparkSession, system: TimedSystem) -> None:
        system.put([("a", self._to_system_time(system, _DAY)), ("b", None), ("c", None)])
        read = self._collect_windows(spark, system, hours(0, 1))
        assert [row["id"] for row in rows_of(read)] == ["a"]
        assert list(read.set_aside().values()) == [2]

    def test_an_empty_window_has_columns_and_no_rows(self, spark: SparkSession, system: TimedSystem) -> None:
        system.put([("a", self._to_system_time(system, _DAY + 5 * _HOUR))])
        read = self._collect_windows(spark, system, hours(0, 1))
        assert rows_of(read) == []
        assert set(read.frame.columns) == {"id", "at", TIMELABEL}

    def test_a_missing_time_column_is_reported_by_name(self, spark: SparkSession, system: TimedSystem) -> None:
        system.put([("a", self._to_system_time(system, _DAY))])
        collector = _windows(system)
        with pytest.raises(WaterclockError, match="moment"):
            collector.read_windows(spark, system.unit, WindowRequest("moment", hours(0, 1)), declared(), "UTC")

    def test_the_time_column_need_not_be_selected(self, spark: SparkSession, system: TimedSystem) -> None:
        system.put([("a", self._to_system_time(system, _DAY))])
        request = WindowRequest("at", hours(0, 1))
        closed = declared(("id", None), is_open=False)
        read = _windows(system).read_windows(spark, system.unit, request, closed, self._zone(system))
        assert rows_of(read) == [{"id": "a", TIMELABEL: hours(0, 1)[0].label}]
        assert read.left_out == ("at",)
        assert "at" in read.source_columns

    def test_a_repeated_hour_belongs_to_its_first_pass(self, spark: SparkSession, system: TimedSystem) -> None:
        if system.zone_of_times is None:
            pytest.skip("its times are instants")
        zone = "America/New_York"  # 01:00 to 02:00 occurred twice on 2013-11-03, from 05:00Z and from 06:00Z
        system.put([("a", datetime(2013, 11, 3, 1, 30))])  # noqa: DTZ001 (it is local on purpose)
        start = datetime(2013, 11, 3, 5, tzinfo=UTC)
        windows = [Window(start, start + _HOUR), Window(start + _HOUR, start + 2 * _HOUR)]
        read = _windows(system).read_windows(
            spark, system.unit, WindowRequest("at", windows), declared(("at", "STRING")), zone
        )
        assert [(row["id"], row[TIMELABEL]) for row in rows_of(read)] == [("a", label_of(start))]

    def test_a_wrong_secret_is_reported(self, spark: SparkSession, system: TimedSystem) -> None:
        system.put([("a", self._to_system_time(system, _DAY))])
        request = WindowRequest("at", hours(0, 1))
        refused(
            system,
            lambda wrong: rows_of(_windows(system, wrong).read_windows(spark, system.unit, request, declared(), "UTC")),
        )
        assert set(self._read(spark, system, hours(0, 1))) == {"a"}

    def test_an_interrupted_read_returns_no_rows(self, spark: SparkSession, system: TimedSystem) -> None:
        system.put([(row["id"], self._to_system_time(system, _DAY + at * _MINUTES)) for at, row in enumerate(_MANY)])
        cut_midway(system, _windows(system), declared(), lambda: self._read(spark, system, hours(0, 4)))
        assert sorted(self._read(spark, system, hours(0, 4))) == [row["id"] for row in _MANY]

    @staticmethod
    def _zone(system: TimedSystem) -> str:
        return system.zone_of_times or "UTC"

    @staticmethod
    def _to_system_time(system: TimedSystem, instant: datetime) -> datetime:
        if system.zone_of_times is None:
            return instant
        from waterclock.timelabel.zone import nominal_zone

        return instant.astimezone(nominal_zone(system.zone_of_times)).replace(tzinfo=None)

    def _collect_windows(self, spark: SparkSession, system: TimedSystem, windows: Sequence[Window]) -> Collected:
        request = WindowRequest("at", windows)
        columns = declared(("at", "STRING"))
        return _windows(system).read_windows(spark, system.unit, request, columns, self._zone(system))

    def _read(self, spark: SparkSession, system: TimedSystem, windows: Sequence[Window]) -> dict[str, str]:
        rows = rows_of(self._collect_windows(spark, system, windows))
        labels = {row["id"]: row[TIMELABEL] for row in rows}
        assert len(labels) == len(rows), "a row belongs to one window"
        return labels


class SnapshotConformance(KeepsSecrets):
    """Tests of a collect without BY, which returns the source's current content."""

    def test_all_rows_are_read(self, spark: SparkSession, system: Holding) -> None:
        system.hold([{"id": str(at), "note": "n"} for at in range(5)])
        read = _snapshots(system).read_snapshot(spark, system.unit, declared(), "UTC")
        assert sorted(row["id"] for row in rows_of(read)) == ["0", "1", "2", "3", "4"]
        assert set(read.frame.columns) == {"id", "note"}

    def test_a_snapshot_has_only_the_current_rows(self, spark: SparkSession, system: Holding) -> None:
        system.hold([{"id": "1", "note": "old"}, {"id": "2", "note": "old"}])
        system.hold([{"id": "1", "note": "new"}])
        rows = rows_of(_snapshots(system).read_snapshot(spark, system.unit, declared(), "UTC"))
        assert rows == [{"id": "1", "note": "new"}]

    def test_declared_types_are_kept(self, spark: SparkSession, system: Holding) -> None:
        system.hold([{"id": "7", "note": "2013-01-01"}])
        columns = declared(("id", "BIGINT"), ("note", "DATE"))
        frame = _snapshots(system).read_snapshot(spark, system.unit, columns, "UTC").frame
        assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
            ("id", "bigint"),
            ("note", "date"),
        ]
        assert frame.count() == 1

    def test_a_missing_column_is_reported_with_the_existing_columns(self, spark: SparkSession, system: Holding) -> None:
        system.hold([{"id": "1", "note": "n"}])
        with pytest.raises(WaterclockError, match="notes") as caught:
            _snapshots(system).read_snapshot(spark, system.unit, declared(("notes", None)), "UTC")
        assert "note" in str(caught.value.why)
        assert not caught.value.transient

    def test_a_value_of_a_wrong_type_is_reported(self, spark: SparkSession, system: Holding) -> None:
        system.hold([{"id": "1", "note": "n"}, {"id": "one", "note": "n"}])
        collector = _snapshots(system)
        columns = declared(("id", "INT"))
        with pytest.raises(Exception) as caught:  # noqa: PT011 (its own, or Spark's)
            rows_of(collector.read_snapshot(spark, system.unit, columns, "UTC"))
        raised = caught.value
        error = raised if isinstance(raised, WaterclockError) else collector.explain(system.unit, columns, raised)
        assert error is not None
        assert "one" in error.render()

    def test_a_missing_source_is_reported(self, spark: SparkSession, system: Holding) -> None:
        system.hold([{"id": "1", "note": "n"}])
        system.remove()
        with pytest.raises(WaterclockError) as caught:
            _snapshots(system).read_snapshot(spark, system.unit, declared(), "UTC")
        assert caught.value.where
        assert caught.value.fix

    def test_a_wrong_secret_is_reported(self, spark: SparkSession, system: Holding) -> None:
        system.hold([{"id": "1", "note": "n"}])
        refused(
            system,
            lambda wrong: rows_of(_snapshots(system, wrong).read_snapshot(spark, system.unit, declared(), "UTC")),
        )
        assert self._ids(spark, system) == ["1"]

    def test_an_interrupted_read_returns_no_rows(self, spark: SparkSession, system: Holding) -> None:
        system.hold(_MANY)
        cut_midway(system, _snapshots(system), declared(), lambda: self._ids(spark, system))
        assert self._ids(spark, system) == [row["id"] for row in _MANY]

    def test_the_schema_is_known_without_spark(self, system: Holding) -> None:
        system.hold([{"id": "1", "note": "n"}])
        schema = system.connector.collector(system.setting).schema(system.unit)
        if getattr(system, "has_schema", True):
            assert schema is not None, "it must return its columns, unless the test system sets has_schema = False"
            assert set(schema) == {"id", "note"}
        else:
            assert schema is None

    def test_an_error_of_another_system_is_not_translated(self, system: Holding) -> None:
        collector = system.connector.collector(system.setting)
        assert collector.explain(system.unit, declared(), ValueError("division by zero")) is None

    @staticmethod
    def _ids(spark: SparkSession, system: Holding) -> list[str]:
        rows = rows_of(_snapshots(system).read_snapshot(spark, system.unit, declared(), "UTC"))
        return sorted(row["id"] for row in rows)


def _arrivals(system: System, setting: Setting | None = None) -> ArrivalCollector:
    collector = system.connector.collector(setting or system.setting)
    assert isinstance(collector, ArrivalCollector)
    return collector


def _windows(system: System, setting: Setting | None = None) -> WindowCollector:
    collector = system.connector.collector(setting or system.setting)
    assert isinstance(collector, WindowCollector)
    return collector


def _snapshots(system: System, setting: Setting | None = None) -> SnapshotCollector:
    collector = system.connector.collector(setting or system.setting)
    assert isinstance(collector, SnapshotCollector)
    return collector
