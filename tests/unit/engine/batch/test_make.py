"""A changed source schema is recorded with the label that the batch makes, not with a past window it rereads.

No Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from tests.ledgers import day
from tests.unit.engine.fakes import collect, group
from waterclock.batches.records import Slice
from waterclock.connectors.interface import Collected
from waterclock.engine.batch import make as making
from waterclock.engine.batch.bound_inputs import BoundInputs
from waterclock.engine.batch.results import GroupPart, MadeSlices, Notes
from waterclock.engine.collect.change_scans import ChangeScan
from waterclock.engine.collect.collect_result import CollectResult
from waterclock.timelabel.duration import parse_duration

TABLE = collect("web.clicks", lookback=parse_duration("3 DAYS"))
ROWS: Any = None  # no row is read


def bound(*again: int) -> BoundInputs:
    pieces = [Slice("web.clicks", day(it), day(it + 1), 1, 1, 1, 10, "1:2:3", "", None) for it in again]
    return BoundInputs({}, ChangeScan(tuple(pieces)))


def test_the_columns_of_a_source_are_compared_for_the_labels_that_a_batch_makes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[datetime] = []

    def find_source_changes(_: Any, __: Any, ___: Any, labels: Sequence[datetime]) -> None:
        asked.extend(labels)
        raise KeyError

    monkeypatch.setattr(making, "read_source_windows", lambda *_: CollectResult(Collected(ROWS), {}))
    monkeypatch.setattr(making, "add_origins", lambda _, frame: frame)
    monkeypatch.setattr(making, "find_source_changes", find_source_changes)
    with pytest.raises(KeyError):
        making._make_slices(SimpleNamespace(), ROWS, TABLE, group("web.clicks", 5, 6), bound(2, 3), day(9), None)  # type: ignore[arg-type]
    assert asked == [day(5), day(6)]


def test_new_columns_of_a_table_are_noted_with_a_label_that_its_batch_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = StructType()
    part = GroupPart((day(2), day(5)), ROWS)
    monkeypatch.setattr(making, "find_known_columns", lambda *_: None)
    monkeypatch.setattr(making, "_make_slices", lambda *_: MadeSlices([part], schema, Notes({})))
    monkeypatch.setattr(making, "find_new_schema", lambda *given: {given[-1]: {"table": {}}})
    made = making.make(SimpleNamespace(), ROWS, TABLE, group("web.clicks", 5), bound(2), day(9))  # type: ignore[arg-type]
    assert list(made.notes.source) == [day(5)]
