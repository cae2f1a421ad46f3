"""Small files of a table with SORT BY are joined in its order, in one commit that changes no rows (PT-52)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.slices import PROJECT, TABLE, actions, commit, hour, ids, new_table, rows_in, rows_of, version
from waterclock.faults import inject_faults
from waterclock.storage import file_maintenance
from waterclock.storage.commit import file_joining
from waterclock.storage.commit.change import NeedsSpark
from waterclock.storage.commit.file_joining import order_of_joined_files
from waterclock.storage.commit.row_order import record_row_order
from waterclock.storage.file_maintenance import find_joinable_files, optimize, unneeded_files
from waterclock.storage.log.commit_history import read_new_commits
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.open_tables import open_table
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
IDENTITY = Identity(PROJECT, TABLE, "optimize", (), "", 0, "")


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_maintenance, "_MANY_IN_TABLE", 4)
    monkeypatch.setattr(file_maintenance, "_MANY_IN_PARTITION", 3)


def filled(root: Path, *, is_partitioned: bool = False) -> str:
    """Create a table sorted by name and id whose three labels have three files each; names repeat."""
    folder = new_table(root, is_partitioned=is_partitioned)
    record_row_order(folder, ("name", "id"), project=PROJECT)
    for label in range(3):
        rows = [{"id": 100 * label - key, "name": None if key == 5 else f"n{key * 7 % 4}"} for key in range(9)]
        commit(folder, label + 1, {hour(label): rows}, files=3)
    return folder


def files_of(folder: str) -> dict[str, list[tuple[Any, Any]]]:
    """Return name and id of the rows of each live file, in the order of the file."""
    found = {}
    for uri in DeltaTable(folder).file_uris():
        table = pq.read_table(uri, columns=["name", "id"], partitioning=None)
        found[uri] = list(zip(table["name"].to_pylist(), table["id"].to_pylist(), strict=True))
    return found


def is_in_order(rows: list[tuple[Any, Any]]) -> bool:
    return rows == sorted(rows, key=lambda row: (row[0] is not None, row))


def by_id(folder: str) -> list[dict[str, Any]]:
    return sorted(rows_in(folder), key=lambda row: (row["timelabel"], row["id"]))


def test_files_of_all_labels_are_joined_to_one_in_order_and_labels_can_be_restated(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = filled(tmp_path)
    before, at = by_id(folder), version(folder)
    assert find_joinable_files(folder).files == 9
    assert optimize(spark, folder, (), IDENTITY) == at + 1
    [rows] = files_of(folder).values()
    assert len(rows) == 27
    assert is_in_order(rows)
    assert by_id(folder) == before
    [done] = read_new_commits(folder, at).found
    assert (done.is_rewrite, done.identity) == (True, IDENTITY)
    assert not any(each.get("protocol") or each.get("metaData") for each in actions(folder, at + 1))
    with open_table(folder) as table:
        [file] = table.files.values()
    assert (file.low, file.high) == (label_of(hour(0)), label_of(hour(2)))
    # a single file is not joined, and a new label is committed as before
    assert optimize(spark, folder, (), IDENTITY) is None
    commit(folder, 7, {hour(3): rows_of(1000)})
    assert ids(folder)[-1] == 1000
    with pytest.raises(NeedsSpark, match="together with rows of other labels"):
        commit(folder, 8, {hour(1): rows_of(1001)})


def test_files_of_each_label_are_joined_alone_and_others_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    folder = filled(tmp_path, is_partitioned=True)
    commit(folder, 7, {hour(3): rows_of(3, 1)})
    before = by_id(folder)
    found = find_joinable_files(folder)
    assert (found.files, found.labels) == (9, tuple(label_of(hour(number)) for number in range(3)))
    kept = {uri for uri in files_of(folder) if "h=08" not in uri and "h=09" not in uri}
    assert optimize(spark, folder, found.labels[:2], IDENTITY) == version(folder)
    files = files_of(folder)
    new = {uri: rows for uri, rows in files.items() if uri not in kept}
    assert len(files) == 2 + 3 + 1
    assert len(new) == 2
    assert all(map(is_in_order, new.values()))
    labels = [set(pq.read_table(uri, partitioning=None)["timelabel"].to_pylist()) for uri in new]
    assert sorted(labels, key=min) == [{label} for label in found.labels[:2]]
    assert by_id(folder) == before
    counted = spark.read.format("delta").load(folder).groupBy("timelabel").count().collect()
    assert sorted(row["count"] for row in counted) == [2, 9, 9, 9]
    commit(folder, 8, {hour(1): rows_of(1001)})  # a separate label is replaced by pointers
    assert len([row for row in by_id(folder) if row["timelabel"] == label_of(hour(1))]) == 1


def test_many_bytes_become_several_files_with_a_range_of_values_each(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_joining, "_MOST_BYTES_OF_A_TASK", 5_000)
    folder = filled(tmp_path)
    before = by_id(folder)
    optimize(spark, folder, (), IDENTITY)
    files = sorted(files_of(folder).values(), key=lambda rows: (rows[0][0] is not None, rows[0]))
    assert len(files) > 1
    assert is_in_order([row for rows in files for row in rows])
    assert by_id(folder) == before


def test_a_label_that_is_replaced_meanwhile_ends_the_joining_and_an_appended_one_does_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = filled(tmp_path)
    late = {hour(1): rows_of(1001)}

    def replace(point: str) -> None:
        if point == "joined":
            commit(folder, 7, late)

    with inject_faults(replace):
        assert optimize(spark, folder, (), IDENTITY) is None
    assert ids(folder)[-1] == 1001
    assert len(ids(folder)) == 19
    assert not list(Path(folder, "joined").rglob("*.parquet"))

    def append(point: str) -> None:
        if point == "joined":
            commit(folder, 8, {hour(5): rows_of(2000)})

    with inject_faults(append):
        assert optimize(spark, folder, (), IDENTITY) == version(folder)
    assert len(ids(folder)) == 20
    assert len(files_of(folder)) == 2


def test_files_of_a_killed_joining_are_removed_by_the_next_maintenance(spark: SparkSession, tmp_path: Path) -> None:
    folder = filled(tmp_path)
    before = by_id(folder)

    def die(point: str) -> None:
        if point == "joined":
            raise KeyboardInterrupt

    with inject_faults(die), pytest.raises(KeyboardInterrupt):
        optimize(spark, folder, (), IDENTITY)
    assert by_id(folder) == before
    [left] = Path(folder, "joined").rglob("*.parquet")
    assert left.name in {Path(each.path).name for each in unneeded_files(folder, 0)}


def test_tables_without_an_order_or_with_constraints_are_joined_by_delta(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    with open_table(folder) as table:
        assert order_of_joined_files(table) == ("name", "id")
    record_row_order(folder, (), project=PROJECT)
    with open_table(folder) as table:
        assert order_of_joined_files(table) == ()
    record_row_order(folder, ("ID", "gone"), project=PROJECT)
    with open_table(folder) as table:
        assert order_of_joined_files(table) == ("id",)
    DeltaTable(folder).alter.add_constraint({"known": "id > -1000"})
    with open_table(folder) as table:
        assert order_of_joined_files(table) == ()
