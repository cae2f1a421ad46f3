"""A conformance suite for sources of row changes (BY CHANGES); see `connectors`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from waterclock.batches.log_retention import LogSafety
from waterclock.connectors.change_collector import ChangeCollector, ChangeRequest, ChangesRead, LogRetentionReporter
from waterclock.connectors.interface import Setting
from waterclock.errors import WaterclockError
from waterclock.flow.changes import AT, LSN, OP, SEQ
from waterclock.testing.connectors import declared
from waterclock.testing.requirements import KeepsSecrets, RowCut, System, cut_midway, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVER = datetime(2100, 1, 1, tzinfo=UTC)
_NEVER = datetime(2000, 1, 1, tzinfo=UTC)


class Changing(RowCut, Protocol):
    """A table under test with the columns `id` and `note`, keyed by `id`."""

    def put(self, rows: Mapping[str, str]) -> None:
        """Insert rows, or update existing ones, in one transaction. `rows` maps ids to notes."""
        ...

    def delete(self, *ids: str) -> None:
        """Delete rows, in one transaction."""
        ...

    def lose(self) -> None:
        """Make the source drop all resources that it keeps for collects, such as replication slots."""
        ...

    def name(self) -> str:
        """Return a new, unique name for a resource at the source. The resource is released at the end of the test."""
        ...


class ChangesConformance(KeepsSecrets):
    """Tests of a collect BY CHANGES: it returns first all rows, then each of their changes once."""

    def test_the_first_read_has_all_rows_and_later_ones_changes(self, spark: SparkSession, system: Changing) -> None:
        system.put({"1": "a", "2": "a", "3": "a"})
        first = self._read(spark, system, None)
        assert first.whole_at is not None
        assert _read_changes(first) == [("snapshot", "1", "a"), ("snapshot", "2", "a"), ("snapshot", "3", "a")]
        system.put({"2": "b", "4": "b"})
        system.delete("1", "3")
        system.put({"3": "again"})
        then = self._read(spark, system, first.noted)
        assert then.whole_at is None
        state = {"1": "a", "2": "a", "3": "a"}
        for op, key, note in _read_changes(then):
            if op == "delete":
                del state[key]
            else:
                state[key] = note
        assert state == {"2": "b", "3": "again", "4": "b"}

    def test_only_confirming_consumes_the_changes_that_were_read(self, spark: SparkSession, system: Changing) -> None:
        first = self._read(spark, system, None)
        system.put({"1": "a"})
        once = self._read(spark, system, first.noted)
        assert _read_changes(once) == _read_changes(self._read(spark, system, first.noted))
        system.put({"1": "b"})
        assert [note for _, _, note in _read_changes(self._read(spark, system, first.noted))] == ["a", "b"]
        collector = _collector(system)
        for _ in range(2):
            collector.confirm(system.unit, once.noted)
        assert [note for _, _, note in _read_changes(self._read(spark, system, once.noted))] == ["b"]
        assert _read_changes(self._read(spark, system, self._read(spark, system, once.noted).noted)) == []

    def test_changes_after_the_end_of_a_window_belong_to_the_next(self, spark: SparkSession, system: Changing) -> None:
        first = self._read(spark, system, None)
        system.put({"1": "a"})
        none = self._read(spark, system, first.noted, until=_NEVER)
        assert (_read_changes(none), none.collected.is_empty) == ([], True)
        assert [key for _, key, _ in _read_changes(self._read(spark, system, none.noted))] == ["1"]

    def test_changes_keep_their_order(self, spark: SparkSession, system: Changing) -> None:
        first = self._read(spark, system, None)
        for note in "abc":
            system.put({"1": note, "2": note})
        rows = [row.asDict() for row in self._read(spark, system, first.noted).collected.frame.collect()]
        places = [(row[LSN], row[SEQ]) for row in rows]
        assert len(set(places)) == 6
        ordered = sorted(rows, key=lambda row: (row[LSN], row[SEQ]))
        assert [row["note"] for row in ordered if row["id"] == "1"] == ["a", "b", "c"]
        assert [row[AT] for row in ordered] == sorted(row[AT] for row in rows)

    def test_lost_changes_are_reported_and_never_skipped(self, spark: SparkSession, system: Changing) -> None:
        first = self._read(spark, system, None)
        first.collected.close()
        system.lose()
        system.put({"1": "a"})
        with pytest.raises(WaterclockError) as caught:
            self._read(spark, system, first.noted)
        assert not caught.value.transient
        assert caught.value.fix

    def test_released_resources_are_gone(self, spark: SparkSession, system: Changing) -> None:
        first = self._read(spark, system, None)
        collector = _collector(system)
        first.collected.close()
        assert collector.release_resources(system.unit, [first.name]) == (first.name,)
        assert collector.release_resources(system.unit, [first.name]) == (first.name,)

    def test_retained_logs_are_reported_by_name(self, spark: SparkSession, system: Changing) -> None:
        collector = _collector(system)
        if not isinstance(collector, LogRetentionReporter):
            pytest.skip("it does not report how much it keeps")
        first = self._read(spark, system, None)
        first.collected.close()
        there = collector.find_retained_logs(system.unit, [first.name, "waterclock_never"])
        assert there[first.name].condition is LogSafety.SAFE
        assert there["waterclock_never"].condition is LogSafety.GONE
        system.lose()
        assert collector.find_retained_logs(system.unit, [first.name])[first.name].condition in {
            LogSafety.LOST,
            LogSafety.GONE,
        }

    def test_a_wrong_secret_is_reported(self, spark: SparkSession, system: Changing) -> None:
        system.put({"1": "a"})
        refused(system, lambda wrong: self._read(spark, system, None, setting=wrong))
        assert [key for _, key, _ in _read_changes(self._read(spark, system, None))] == ["1"]

    def test_an_interrupted_read_returns_no_rows(self, spark: SparkSession, system: Changing) -> None:
        system.put({f"{at:02}": "a" for at in range(40)})
        cut_midway(system, _collector(system), declared(), lambda: _read_changes(self._read(spark, system, None)))
        first = self._read(spark, system, None)
        system.put({"00": "b"})
        assert [key for _, key, _ in _read_changes(first)] == [f"{at:02}" for at in range(40)]
        assert [key for _, key, _ in _read_changes(self._read(spark, system, first.noted))] == ["00"]

    @staticmethod
    def _read(
        spark: SparkSession,
        system: Changing,
        since: Mapping[str, Any] | None,
        until: datetime = _EVER,
        setting: Setting | None = None,
    ) -> ChangesRead:
        request = ChangeRequest(("id",), since, until, system.name)
        read = _collector(system, setting).read_changes(spark, system.unit, request, declared(), "UTC")
        assert set(read.collected.frame.columns) >= {"id", "note", OP, LSN, SEQ, AT}
        return read


def _collector(system: System, setting: Setting | None = None) -> ChangeCollector:
    collector = system.connector.collector(setting or system.setting)
    assert isinstance(collector, ChangeCollector)
    return collector


def _read_changes(read: ChangesRead) -> list[tuple[str, str, str]]:
    rows = [row.asDict() for row in read.collected.frame.collect()]
    rows.sort(key=lambda row: (row[LSN], row[SEQ], row["id"]))
    read.collected.close()
    return [(row[OP], row["id"], row["note"]) for row in rows]
