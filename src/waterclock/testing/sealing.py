"""A conformance suite for sources to which writers on this machine add, and whose windows a run seals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from waterclock.connectors.interface import SealingCollector
from waterclock.testing.connectors import Arriving
from waterclock.testing.requirements import KeepsSecrets, System

_DAY = datetime(2013, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)


class WrittenFile(Arriving, Protocol):
    """A system under test to which writers add rows. Sealing converts the rows to items."""

    def write(self, stamp: datetime, rows: Sequence[Mapping[str, str]]) -> None:
        """Write rows at an instant of the writer's clock, and close the writer."""
        ...


class SealingConformance(KeepsSecrets):
    """Tests of a collect BY ARRIVAL TIME whose source is its own clock: no rows arrive in a span after it is sealed."""

    def test_an_idle_source_is_complete_up_to_now(self, system: WrittenFile) -> None:
        assert _DAY - timedelta(minutes=1) < _open_sealing_collector(system).seal(system.unit, _DAY) <= _DAY

    def test_written_rows_are_an_item_after_they_are_sealed(self, system: WrittenFile) -> None:
        system.write(_DAY, [{"id": "1", "note": "n"}])
        collector = _open_sealing_collector(system)
        assert collector.arrivals(system.unit).items == ()
        assert collector.find_pending(system.unit).files == 1
        assert collector.seal(system.unit, _DAY + _HOUR) == _DAY + _HOUR
        (item,) = collector.arrivals(system.unit).items
        assert item.stamp == _DAY
        assert collector.find_pending(system.unit).size == item.size

    def test_no_later_item_is_older_than_the_sealed_ones(self, system: WrittenFile) -> None:
        collector = _open_sealing_collector(system)
        collector.seal(system.unit, _DAY + _HOUR)
        system.write(_DAY, [{"id": "1", "note": "n"}])
        collector.seal(system.unit, _DAY + 2 * _HOUR)
        (item,) = collector.arrivals(system.unit).items
        assert item.stamp >= _DAY + _HOUR

    def test_sealing_is_idempotent(self, system: WrittenFile) -> None:
        system.write(_DAY, [{"id": "1", "note": "n"}])
        collector = _open_sealing_collector(system)
        collector.seal(system.unit, _DAY + _HOUR)
        once = collector.arrivals(system.unit)
        assert collector.seal(system.unit, _DAY + _HOUR) == _DAY + _HOUR
        assert collector.seal(system.unit, _DAY) == _DAY
        assert collector.arrivals(system.unit) == once


def _open_sealing_collector(system: System) -> SealingCollector:
    collector = system.connector.collector(system.setting)
    assert isinstance(collector, SealingCollector)
    return collector
