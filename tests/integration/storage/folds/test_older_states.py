"""As of an old tick, and with the knowledge of an older time: rows come from the table's version, else from slices."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.model import flows
from tests.slices import commit, hour, identity, new_table, rows_of, sealed
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.storage.commit.pointers import commit_older
from waterclock.storage.folds.older_states import frame_of_resolved
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import DataCommit, resolve
from waterclock.timelabel.duration import parse_duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.sampled(1)]
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Kept:
    """A table whose commits are recorded as the ledger records them."""

    def __init__(self, spark: SparkSession, root: Path, table: Table) -> None:
        self.spark, self.table, self.lake = spark, table, Lake(str(root))
        self.folder = new_table(root, is_partitioned=table.is_partitioned)
        self.records: list[DataCommit] = []

    def put(self, number: int, *ids: int) -> None:
        claim = len(self.records) + 1
        path = self.lake.slice_path(hour(number), claim)
        if self.table.mode is Mode.REPLACE and any(hour(number) < max(each.slices) for each in self.records):
            older = sealed(self.folder, hour(number), claim, rows_of(*ids))
            version = commit_older(self.folder, identity(claim, hour(number)), older)
        else:
            mode = "replace" if self.table.mode is Mode.REPLACE else "append"
            version = commit(self.folder, claim, {hour(number): rows_of(*ids)}, mode=mode)
        self.records.append(DataCommit(version, BEGAN + timedelta(hours=claim), {hour(number): path}))

    def ids(self, number: int, known: int | None = None) -> list[int]:
        known_at = None if known is None else BEGAN + timedelta(hours=known)
        found = resolve(self.table, hour(number), self.records, known_at=known_at)
        rows = frame_of_resolved(self.spark, self.lake, self.table, found).collect()
        return sorted(row["id"] for row in rows)

    def clean(self) -> None:
        """Join the files, and remove those that the newest version does not need."""
        self.spark.sql(f"OPTIMIZE delta.`{self.folder}`").collect()
        self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self.spark.sql(f"VACUUM delta.`{self.folder}` RETAIN 0 HOURS").collect()
        self.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")

    def forget(self, labels: Iterable[int]) -> None:
        """Delete slices with all their revisions."""
        for number in labels:
            shutil.rmtree(Path(self.folder, self.lake.slice_path(hour(number), 1)).parent)


def table(mode: Mode, *, is_partitioned: bool = False, **more: object) -> Table:
    return flows.collect("web.clicks", "HOUR", mode=mode, is_partitioned=is_partitioned, **more)  # type: ignore[arg-type]


@pytest.mark.soak
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_an_append_table_is_its_rows_before_the_tick_as_they_were_known(
    spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    kept = Kept(spark, tmp_path, table(Mode.APPEND, is_partitioned=is_partitioned))
    for number, ids in ((0, [1]), (2, [3]), (1, [2]), (0, [9])):
        kept.put(number, *ids)
    for _ in range(2):
        assert [kept.ids(number) for number in range(4)] == [[], [9], [2, 9], [2, 3, 9]]
        assert [kept.ids(number, known=3) for number in range(4)] == [[], [1], [1, 2], [1, 2, 3]]
        assert kept.ids(3, known=2) == [1, 3]
        kept.clean()


def test_windows_dropped_by_retain_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept(spark, tmp_path, table(Mode.APPEND, retain=parse_duration("2 hours")))
    for number in range(4):
        kept.put(number, number)
    assert [kept.ids(number) for number in (1, 3, 4, 5)] == [[0], [1, 2], [2, 3], [3]]


def test_a_replace_table_as_of_a_tick_is_the_slice_of_that_window(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept(spark, tmp_path, table(Mode.REPLACE))
    for number, ids in ((0, [1]), (2, [3]), (1, [2]), (0, [9])):
        kept.put(number, *ids)
    assert [kept.ids(number) for number in range(4)] == [[], [9], [2], [3]]
    assert kept.ids(1, known=3) == [1]
    assert kept.ids(2, known=2) == []


def test_a_state_with_a_missing_slice_is_refused_and_other_states_are_read(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept(spark, tmp_path, table(Mode.REPLACE))
    kept.put(0, 1)
    kept.put(1, 2)
    kept.forget([0])
    assert kept.ids(2) == [2]
    with pytest.raises(WaterclockError, match=r"E640 this state of .* can no longer be computed"):
        kept.ids(1)
