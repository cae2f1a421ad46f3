"""A conformance suite for logs that are read by positions (BY ARRIVAL TIME); see `connectors`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import pytest

from waterclock.connectors.interface import Item, PositionCollector, Positions, Setting
from waterclock.engine.collect.positions import require_contiguous
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns
from waterclock.testing.requirements import KeepsSecrets, RowCut, System, cut_midway, refused
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAY = datetime(2013, 1, 1, tzinfo=UTC)
_NEXT = _DAY + timedelta(days=1)
_ALL = Columns((), is_open=True)


class Logging(RowCut, Protocol):
    """A new and empty log under test. Its rows have a column `note`, among others."""

    def append(self, notes: Sequence[str]) -> None:
        """Append rows to the log and commit them."""
        ...

    def append_in_vain(self, notes: Sequence[str]) -> bool:
        """Append rows and roll them back, as an aborted transaction does. Return False for a log without rollback."""
        ...

    def forget(self) -> bool:
        """Lose all current rows, as retention does. Return False if that is impossible."""
        ...


class PositionConformance(KeepsSecrets):
    """Tests that each label has a range, and that every read of the range returns the same rows."""

    def test_the_first_range_has_all_existing_rows(self, spark: SparkSession, system: Logging) -> None:
        system.append(["a", "b"])
        first = _next(system, None)
        assert first is not None
        assert _read(spark, system, first) == ["a", "b"]

    def test_a_range_begins_where_the_last_one_ended(self, spark: SparkSession, system: Logging) -> None:
        system.append(["a"])
        first = _next(system, None)
        system.append(["b", "c"])
        second = _next(system, first)
        assert first is not None
        assert second is not None
        require_contiguous(first, second, where="conformance")
        assert (_read(spark, system, first), _read(spark, system, second)) == (["a"], ["b", "c"])

    def test_there_is_no_range_without_new_rows(self, system: Logging) -> None:
        system.append(["a"])
        assert _next(system, _next(system, None)) is None

    def test_later_rows_change_no_range(self, spark: SparkSession, system: Logging) -> None:
        system.append(["a"])
        first = _next(system, None)
        assert first is not None
        system.append(["b"])
        assert _read(spark, system, first) == ["a"]
        assert _read(spark, system, first) == ["a"], "whoever reads it again finds the same"

    def test_a_range_survives_a_round_trip_through_json(self, spark: SparkSession, system: Logging) -> None:
        import json

        system.append(["a"])
        first = _next(system, None)
        assert first is not None
        kept = Positions.of_dict(json.loads(json.dumps(first.to_dict())))
        assert _read(spark, system, kept) == ["a"]
        assert _next(system, kept) is None

    def test_rows_that_were_rolled_back_are_never_read(self, spark: SparkSession, system: Logging) -> None:
        system.append(["a"])
        if not system.append_in_vain(["never"]):
            pytest.skip("what comes to it stays")
        first = _next(system, None)
        assert first is not None
        assert _read(spark, system, first) == ["a"]
        system.append_in_vain(["never"])
        if (second := _next(system, first)) is not None:
            assert _read(spark, system, second) == []

    def test_each_row_has_the_label_of_its_range(self, spark: SparkSession, system: Logging) -> None:
        system.append(["a"])
        first = _next(system, None)
        system.append(["b"])
        second = _next(system, first)
        assert first is not None
        assert second is not None
        owned = {_DAY: [_item(first)], _NEXT: [_item(second)]}
        rows = _collector(system).read_items(spark, system.unit, owned, _ALL, "UTC").frame.collect()
        assert {row["note"]: row[TIMELABEL] for row in rows} == {"a": label_of(_DAY), "b": label_of(_NEXT)}

    def test_labels_without_a_range_have_no_rows(self, spark: SparkSession, system: Logging) -> None:
        system.append(["a"])
        read = _collector(system).read_items(spark, system.unit, {_DAY: ()}, _ALL, "UTC")
        assert read.is_empty
        assert read.frame.collect() == []

    def test_releasing_a_range_is_idempotent(self, spark: SparkSession, system: Logging) -> None:
        system.append(["a"])
        first = _next(system, None)
        assert first is not None
        _read(spark, system, first)
        for _ in range(2):
            assert _collector(system).archive(system.unit, [_item(first)]) == ()
        system.append(["b"])
        second = _next(system, first)
        assert second is not None
        assert _read(spark, system, second) == ["b"]

    def test_rows_lost_before_they_were_read_are_reported(self, system: Logging) -> None:
        system.append(["a"])
        first = _next(system, None)
        system.append(["b"])
        if not system.forget():
            pytest.skip("it loses nothing by itself")
        system.append(["c"])
        with pytest.raises(WaterclockError) as caught:
            _next(system, first)
        assert caught.value.where
        assert caught.value.fix
        assert not caught.value.transient

    def test_a_wrong_secret_is_reported(self, spark: SparkSession, system: Logging) -> None:
        system.append(["a"])
        refused(system, lambda wrong: _collector(system, wrong).next_range(system.unit, None, _DAY))
        first = _next(system, None)
        assert first is not None
        assert _read(spark, system, first) == ["a"]

    def test_an_interrupted_read_of_a_range_returns_no_rows(self, spark: SparkSession, system: Logging) -> None:
        notes = [f"{at:02}" for at in range(40)]
        system.append(notes)
        first = _next(system, None)
        assert first is not None
        cut_midway(system, _collector(system), _ALL, lambda: _read(spark, system, first))
        assert _read(spark, system, first) == notes


def _collector(system: System, setting: Setting | None = None) -> PositionCollector:
    collector = system.connector.collector(setting or system.setting)
    assert isinstance(collector, PositionCollector)
    return collector


def _next(system: Logging, reached: Positions | None) -> Positions | None:
    return _collector(system).next_range(system.unit, reached, _DAY)


def _item(positions: Positions) -> Item:
    return Item("a range", _DAY, 0, "", positions=positions)


def _read(spark: SparkSession, system: Logging, positions: Positions) -> list[str]:
    read = _collector(system).read_items(spark, system.unit, {_DAY: [_item(positions)]}, _ALL, "UTC")
    try:
        return sorted(str(row["note"]) for row in read.frame.collect())
    finally:
        read.close()
