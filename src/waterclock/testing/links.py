"""A conformance suite for connectors to tables of another project; see `connectors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from waterclock.connectors.interface import LinkedCollector
from waterclock.testing.connectors import declared, hours
from waterclock.testing.requirements import KeepsSecrets, RowCut, System, cut_midway, rows_of
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAY = datetime(2013, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)


class Linked(RowCut, Protocol):
    """A project under test with a table of hourly slices with the columns `id` and `note`. The unit is that table."""

    def land(self, label: datetime, rows: Sequence[Mapping[str, str]]) -> None:
        """Make a label, or make it again, so that it has these rows."""
        ...

    def ask_again(self, label: datetime) -> None:
        """Request that a done label is made again, but do not make it."""
        ...

    def files(self) -> Mapping[str, bytes]:
        """Return all files of the project, to check that reading it changes none."""
        ...


class LinkedConformance(KeepsSecrets):
    """Tests of a collect of another project's table: which windows may be read, and their content."""

    def test_only_labels_done_in_the_linked_project_are_settled(self, system: Linked) -> None:
        system.land(_DAY, [{"id": "a", "note": "n"}])
        facts = _open_linked_collector(system).facts(system.unit)
        assert facts.problem is None
        assert facts.upstream == str(system.unit)
        assert list(facts.settled) == [(_DAY, _DAY + _HOUR)]

    def test_a_requested_label_is_not_settled(self, system: Linked) -> None:
        system.land(_DAY, [{"id": "a", "note": "n"}])
        collector = _open_linked_collector(system)
        assert collector.facts(system.unit).settled
        system.ask_again(_DAY)
        assert not collector.facts(system.unit).settled

    def test_content_digests_are_equal_if_rows_are_equal(self, system: Linked) -> None:
        collector, span = _open_linked_collector(system), [(_DAY, _DAY + _HOUR)]
        system.land(_DAY, [{"id": "a", "note": "n"}])
        first = collector.contents(system.unit, span)
        system.land(_DAY, [{"id": "a", "note": "n"}])
        assert collector.contents(system.unit, span) == first
        system.land(_DAY, [{"id": "b", "note": "n"}])
        assert collector.contents(system.unit, span) != first

    def test_rows_have_the_label_of_the_window_that_reads_them(self, spark: SparkSession, system: Linked) -> None:
        for hour, key in enumerate("abc"):
            system.land(_DAY + hour * _HOUR, [{"id": key, "note": "n"}])
        window = Window(_DAY, _DAY + 2 * _HOUR)
        collector = _open_linked_collector(system)
        pins = list(zip([window], collector.pins(system.unit, [(window.start, window.end)]), strict=True))
        rows = rows_of(collector.read_pinned(spark, system.unit, pins, declared(), by_label=True))
        assert {(row["id"], row[TIMELABEL]) for row in rows} == {("a", window.label), ("b", window.label)}

    def test_a_pinned_slice_is_read_after_its_restatement(self, spark: SparkSession, system: Linked) -> None:
        system.land(_DAY, [{"id": "a", "note": "old"}])
        [window], collector = hours(0, 1), _open_linked_collector(system)
        pins = list(zip([window], collector.pins(system.unit, [(window.start, window.end)]), strict=True))
        system.land(_DAY, [{"id": "a", "note": "new"}])
        rows = rows_of(collector.read_pinned(spark, system.unit, pins, declared(), by_label=True))
        assert [row["note"] for row in rows] == ["old"]

    def test_an_interrupted_read_returns_no_rows(self, spark: SparkSession, system: Linked) -> None:
        keys = [f"{at:02}" for at in range(40)]
        system.land(_DAY, [{"id": key, "note": "n"} for key in keys])
        [window], collector = hours(0, 1), _open_linked_collector(system)
        pins = list(zip([window], collector.pins(system.unit, [(window.start, window.end)]), strict=True))

        def read() -> list[str]:
            rows = rows_of(collector.read_pinned(spark, system.unit, pins, declared(), by_label=True))
            return sorted(row["id"] for row in rows)

        cut_midway(system, collector, declared(), read)
        assert read() == keys

    def test_the_linked_project_is_not_written_to(self, spark: SparkSession, system: Linked) -> None:
        system.land(_DAY, [{"id": "a", "note": "n"}])
        before = system.files()
        [window], collector = hours(0, 1), _open_linked_collector(system)
        collector.facts(system.unit)
        pins = list(zip([window], collector.pins(system.unit, [(window.start, window.end)]), strict=True))
        rows_of(collector.read_pinned(spark, system.unit, pins, declared(), by_label=True))
        assert system.files() == before

    def test_an_unknown_table_is_reported_with_the_nearest_name(self, system: Linked) -> None:
        system.land(_DAY, [{"id": "a", "note": "n"}])
        path = system.unit.path
        problem = _open_linked_collector(system).facts(replace(system.unit, path=f"{path}s")).problem
        assert problem is not None
        assert path in str(problem.fix)


def _open_linked_collector(system: System) -> LinkedCollector:
    collector = system.connector.collector(system.setting)
    assert isinstance(collector, LinkedCollector)
    return collector
