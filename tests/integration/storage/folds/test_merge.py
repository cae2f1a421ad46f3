"""MERGE is a fold of sealed slices: the table equals one computed in plain Python, label by label (PT-17)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.slices import PROJECT, actions, hour, rows_in, version
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.merge_settings import Merge
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import kill_claim
from waterclock.storage.folds import commit_merged, write_state
from waterclock.storage.folds.fold import FoldBase, drop_deleted_rows, fold, highest_deletes, winners_of
from waterclock.storage.folds.merge import merge_slice
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import foreign_commits, outcome
from waterclock.storage.log.identity import ClaimKilledError, Identity
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import table_schema
from waterclock.storage.slices.writer import write_slices
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.sampled(1)]
TABLE = "raw.planes"
BY_ORDER = Merge(("k",), ("o",), "op = 'd'")
SCHEMA = "k INT, o INT, op STRING, v STRING"
ROADS = ("rewritten", "rewritten by file", "merged by Delta")

Row = tuple[Any, ...]


@pytest.fixture(autouse=True, params=ROADS)
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select how a table is written: rewritten whole, file by file, or by Delta's MERGE."""
    if request.param != "rewritten":
        monkeypatch.setattr(write_state, "MOST_BYTES_REWRITTEN", -1)
    if request.param == "merged by Delta":
        monkeypatch.setattr(commit_merged, "may_rewrite_files", lambda _: False)
    return str(request.param)


class Planes:
    """A MERGE table; each call seals and merges the next label."""

    def __init__(self, spark: SparkSession, root: Path, merge: Merge, schema: str = SCHEMA) -> None:
        self.spark = spark
        self.lake = Lake(str(root))
        self.folder = self.lake.folder(TABLE)
        self.merge = merge
        self.manifests: list[Manifest] = []
        create_table(self.folder, spark.createDataFrame([], schema).schema, is_partitioned=False, project=PROJECT)

    def seal(self, rows: Sequence[Row], schema: str = SCHEMA) -> tuple[Manifest, Identity]:
        number = len(self.manifests)
        frame = self.spark.createDataFrame(list(rows), schema).coalesce(1)
        manifest = write_slices(
            frame,
            folder=self.folder,
            claim=number + 1,
            labels=[hour(number)],
            lake=self.lake,
            code="c",
            fold=self.merge,
            name=TABLE,
        ).manifests[0]
        label = label_of(hour(number))
        return manifest, Identity(PROJECT, TABLE, "collect", (label,), label, number + 1, "c")

    def add(self, rows: Sequence[Row], schema: str = SCHEMA) -> int:
        manifest, identity = self.seal(rows, schema)
        earlier = [sealed.slice_path for sealed in self.manifests]
        number = merge_slice(self.spark, self.folder, manifest, self.merge, identity, earlier)
        self.manifests.append(manifest)
        return number

    def state(self) -> dict[Any, dict[str, Any]]:
        rows = rows_in(self.folder)
        state = {row["k"]: row for row in rows}
        assert len(state) == len(rows)
        return state

    def state_by_spark(self) -> dict[Any, dict[str, Any]]:
        return {row["k"]: row.asDict() for row in self.spark.read.format("delta").load(self.folder).collect()}

    def folded(self) -> dict[Any, dict[str, Any]]:
        schema = table_schema(self.folder).json()
        return {
            row["k"]: row.asDict()
            for row in fold(self.spark, self.folder, self.manifests, self.merge, schema).collect()
        }


def by_hand(slices: Sequence[Sequence[Mapping[str, Any]]]) -> dict[Any, dict[str, Any]]:
    """Fold slices of rows, oldest first: the plain definition."""
    state: dict[Any, dict[str, Any]] = {}
    highest: dict[Any, tuple[bool, int]] = {}
    for number, rows in enumerate(slices):
        last: dict[Any, Mapping[str, Any]] = {}
        for row in rows:
            if row["k"] not in last or rank(row) > rank(last[row["k"]]):
                last[row["k"]] = row
        for key, row in last.items():
            if key in highest and rank(row) < highest[key]:
                continue
            highest[key] = rank(row)
            if row["op"] == "d":
                state.pop(key, None)
            else:
                state[key] = {**state.get(key, {}), **row, "timelabel": label_of(hour(number))}
    return state


def rank(row: Mapping[str, Any]) -> tuple[bool, int]:
    return row["o"] is not None, row["o"] or 0


def named(rows: Sequence[Row], schema: str = SCHEMA) -> list[dict[str, Any]]:
    names = [part.split()[0] for part in schema.split(", ")]
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.soak
def test_a_random_history_ends_as_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(5)
    planes = Planes(spark, tmp_path, BY_ORDER)
    slices = []
    for _ in range(6):
        keys = [dice.choice([None, 1, 2, 3, 4]) for _ in range(dice.randrange(7))]
        orders = dice.sample([None, *range(1, 9)], len(keys))
        slices.append([(k, o, dice.choice("uud"), f"v{dice.randrange(99)}") for k, o in zip(keys, orders, strict=True)])
        planes.add(slices[-1])
    expected = by_hand([named(rows) for rows in slices])
    assert planes.state() == planes.state_by_spark() == expected
    assert planes.folded() == expected


def test_the_fold_of_many_random_histories_is_as_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    """Many histories at once, each with its own keys, so that one merge per label tests them all."""
    dice = random.Random(11)
    planes = Planes(spark, tmp_path, BY_ORDER)
    slices = []
    for _ in range(5):
        rows: list[Row] = []
        for history in range(300):
            some = dice.randrange(4)
            orders = dice.sample([None, *range(1, 7)], some)
            rows += [
                (history * 10 + dice.randrange(2), o, dice.choice("uud"), f"v{dice.randrange(99)}") for o in orders
            ]
        slices.append(rows)
        planes.add(rows)
    expected = by_hand([named(rows) for rows in slices])
    assert planes.state() == expected
    assert planes.folded() == expected


@pytest.mark.soak
def test_late_and_replayed_changes_never_beat_newer_ones(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 5, "u", "new"), (2, 5, "u", "x")])
    planes.add([(1, 4, "u", "old"), (2, 6, "d", "x")])
    planes.add([(2, 5, "u", "zombie"), (1, 3, "d", "late delete")])
    assert {key: row["v"] for key, row in planes.state().items()} == {1: "new"}
    planes.add([(2, 6, "u", "at the delete's own order the later label wins")])
    assert sorted(planes.state()) == [1, 2]


def test_a_comment_in_the_delete_condition_does_no_harm(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, Merge(("k",), ("o",), "op = 'd' -- gone for good"))
    planes.add([(1, 1, "u", "a"), (2, 1, None, "b")])
    planes.add([(1, 2, "d", "a")])
    assert sorted(planes.state()) == [2]


def test_columns_that_a_change_does_not_carry_keep_their_value(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 1, "u", "kept"), (2, 1, "u", "gone")])
    planes.add([(1, 2, "u"), (2, 2, "d")], "k INT, o INT, op STRING")
    planes.add([(2, 3, "u")], "k INT, o INT, op STRING")
    assert {key: row["v"] for key, row in planes.state().items()} == {1: "kept", 2: None}
    assert planes.folded() == planes.state()


def test_new_columns_come_with_their_data(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 1, "u", "a"), (2, 1, "u", "b")])
    planes.add([(1, 2, "u", "a", 1.5)], SCHEMA + ", seats DOUBLE")
    assert {key: row["seats"] for key, row in planes.state().items()} == {1: 1.5, 2: None}
    assert planes.folded() == planes.state()
    assert foreign_commits(planes.folder, after_version=-1, project=PROJECT) == []


def test_without_an_order_a_later_label_wins(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, Merge(("k",), (), "op = 'd'"))
    planes.add([(1, 9, "u", "first"), (2, 9, "u", "x")])
    planes.add([(1, 1, "u", "second"), (2, 1, "d", "x")])
    planes.add([(2, 0, "u", "back")])
    assert {key: row["v"] for key, row in planes.state().items()} == {1: "second", 2: "back"}
    assert planes.folded() == planes.state()


def test_several_keys_and_orders_are_compared_in_turn(spark: SparkSession, tmp_path: Path) -> None:
    schema = "k INT, j STRING, a INT, b INT, v STRING"
    planes = Planes(spark, tmp_path, Merge(("k", "j"), ("a", "b")), schema)
    planes.add([(1, "x", 1, 5, "old"), (1, "y", 1, 5, "other")], schema)
    planes.add([(1, "x", 1, 4, "lower"), (1, "y", 2, 0, "higher")], schema)
    rows = rows_in(planes.folder)
    assert {(row["k"], row["j"]): row["v"] for row in rows} == {(1, "x"): "old", (1, "y"): "higher"}


def test_two_different_rows_of_one_key_and_order_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    with pytest.raises(WaterclockError, match=r"E620 two different rows of one key in raw\.planes: k = 1"):
        planes.add([(1, 1, "u", "a"), (1, 1, "u", "b")])
    assert version(planes.folder) == 0


@pytest.mark.soak
def test_equal_rows_are_one_row(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 1, "u", "a"), (1, 1, "u", "a")])
    assert [row["v"] for row in planes.state().values()] == ["a"]


def test_a_first_slice_of_unique_keys_is_pointed_at_and_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 1, "u", "a"), (2, 1, "u", "b")])
    files = spark.read.format("delta").load(planes.folder).inputFiles()
    assert [file.rsplit("/_stage/", 1)[-1] for file in files] == [
        file.path.removeprefix("_stage/") for file in planes.manifests[0].files
    ]


def test_a_slice_that_changes_nothing_is_still_a_commit_under_its_claim(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 5, "u", "a")])
    planes.add([])
    planes.add([(1, 4, "u", "old"), (7, 1, "d", "unknown")])
    assert [outcome(planes.folder, claim, after_version=0).kind for claim in (1, 2, 3)] == ["data"] * 3
    assert version(planes.folder) == 3


def test_a_merge_is_done_once(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 1, "u", "a")])
    manifest, identity = planes.seal([(1, 2, "u", "b")])
    assert merge_slice(spark, planes.folder, manifest, BY_ORDER, identity) == 2
    assert merge_slice(spark, planes.folder, manifest, BY_ORDER, identity) == 2
    assert version(planes.folder) == 2
    said = outcome(planes.folder, identity.claim, after_version=0).identity
    assert said == identity


def test_a_merge_after_its_kill_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 1, "u", "a")])
    manifest, identity = planes.seal([(1, 2, "u", "b")])

    def strike(point: str) -> None:
        if point == "merge":
            kill_claim(planes.folder, identity.claim)

    with inject_faults(strike), pytest.raises(ClaimKilledError):
        merge_slice(spark, planes.folder, manifest, BY_ORDER, identity)
    with pytest.raises(ClaimKilledError):
        merge_slice(spark, planes.folder, manifest, BY_ORDER, identity)
    assert [row["v"] for row in planes.state().values()] == ["a"]


def test_the_sessions_confs_are_as_before(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 1, "u", "a")])
    planes.add([(1, 2, "u", "b")])
    left = [row["key"] for row in spark.sql("SET").collect() if "txn" in row["key"] or "userMetadata" in row["key"]]
    assert left == []
    assert not [row["tableName"] for row in spark.sql("SHOW TABLES").collect() if "merge" in row["tableName"]]


@pytest.mark.soak
def test_optimize_and_compaction_do_not_confuse_it(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    slices = [[(1, 1, "u", "a"), (2, 1, "u", "b")], [(2, 2, "u", "c")], [(1, 3, "d", "x"), (3, 1, "u", "d")]]
    for rows in slices:
        planes.add(rows)
        spark.sql(f"OPTIMIZE delta.`{planes.folder}`").collect()
    assert planes.state() == by_hand([named(rows) for rows in slices])


@pytest.mark.sampled(len(ROADS))
def test_a_merge_uses_the_selected_write_strategy(spark: SparkSession, tmp_path: Path, road: str) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 1, "u", "a")])
    planes.add([(1, 2, "u", "b"), (2, 2, "u", "c")])
    operation = next(
        action["commitInfo"]["operation"] for action in actions(planes.folder, 2) if "commitInfo" in action
    )
    assert operation == ("MERGE" if road == "merged by Delta" else "WRITE")


@pytest.mark.soak
def test_a_merge_is_repeated_after_a_concurrent_change_of_its_state(
    spark: SparkSession, tmp_path: Path, road: str
) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 1, "u", "a"), (2, 1, "u", "b")])
    manifest, identity = planes.seal([(1, 2, "u", "new")])
    passed: list[str] = []

    def strike(point: str) -> None:
        if point == "merge" and not passed:
            passed.append(point)
            spark.sql(f"UPDATE delta.`{planes.folder}` SET v = 'by hand' WHERE k = 2").collect()

    with inject_faults(strike):
        assert merge_slice(spark, planes.folder, manifest, BY_ORDER, identity) == 3
    assert {key: row["v"] for key, row in planes.state().items()} == {1: "new", 2: "by hand"}
    if road != "merged by Delta":
        assert [path.name for path in Path(planes.folder, "state", "c=2").iterdir()] == ["v=2"]


@pytest.mark.soak
def test_a_change_feed_learns_which_rows_changed(spark: SparkSession, tmp_path: Path) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    planes.add([(1, 1, "u", "a"), (2, 1, "u", "b")])
    spark.sql(f"ALTER TABLE delta.`{planes.folder}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    planes.add([(1, 2, "u", "c")])
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 3).load(planes.folder)
    assert {row["k"] for row in feed.collect()} == {1}


@pytest.mark.soak
def test_vacuum_keeps_the_current_state_and_removes_unneeded_files(
    spark: SparkSession, tmp_path: Path, road: str
) -> None:
    planes = Planes(spark, tmp_path, BY_ORDER)
    for number in range(1, 4):
        planes.add([(1, number, "u", f"v{number}")])
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql(f"VACUUM delta.`{planes.folder}` RETAIN 0 HOURS").collect()
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert [row["v"] for row in planes.state().values()] == ["v3"]
    assert all(Path(planes.folder, file.path).exists() for sealed in planes.manifests for file in sealed.files)
    if road != "merged by Delta":
        assert len(list(Path(planes.folder, "state").rglob("*.parquet"))) == 1


def test_columns_may_have_the_names_of_those_that_a_fold_adds(spark: SparkSession, tmp_path: Path) -> None:
    names = ("_key0", "_asked0", "_highest", "_gone", "_last", "v")
    others = ", ".join(f"{name} STRING" for name in names)
    planes = Planes(spark, tmp_path, BY_ORDER, f"k INT, o INT, op STRING, {others}, w STRING")
    rows = [(k, number, "u", *(f"{name}{k}{number}" for name in names)) for k, number in ((1, 1), (2, 1), (1, 2))]
    planes.add([(*row, "w") for row in rows[:2]], f"k INT, o INT, op STRING, {others}, w STRING")
    planes.add([*rows[2:], (2, 0, "d", *names)], f"k INT, o INT, op STRING, {others}")
    keys = planes.spark.createDataFrame([(1,), (2,)], "k INT")
    schema = table_schema(planes.folder).json()
    won = winners_of(spark, planes.folder, keys, planes.manifests, BY_ORDER, schema, FoldBase())
    wanted = {row[0]: row[1:] for row in (*rows[1:2], *rows[2:])}
    for state in (planes.state(), planes.folded(), {row["k"]: row.asDict() for row in won.collect()}):
        assert {k: tuple(row[name] for name in ("o", "op", *names)) for k, row in state.items()} == wanted
        assert {row["w"] for row in state.values()} == {"w"}
    deletes = highest_deletes(spark, planes.folder, planes.manifests, BY_ORDER, schema)
    assert drop_deleted_rows(won, deletes, BY_ORDER).count() == 2
