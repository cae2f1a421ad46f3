"""A MERGE label that arrives late or again: the table is the fold of all slices, in any order of arrival (DP-12)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.storage.folds.test_merge import BY_ORDER, ROADS, SCHEMA, by_hand, named
from tests.model import flows
from tests.slices import PROJECT, actions, hour, rows_in, version
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.flow.merge_settings import Merge
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import kill_claim
from waterclock.storage.folds import commit_merged, write_state
from waterclock.storage.folds import merge as merging
from waterclock.storage.folds.merge import merge_slice, restate_slices
from waterclock.storage.folds.older_states import frame_of_resolved
from waterclock.storage.folds.winners_at_head import Restatement, is_decided_by_head, winners_at_head
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import NO_VERSION, DataCommit, resolve
from waterclock.storage.log.identity import ClaimKilledError, Identity
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import table_schema
from waterclock.storage.slices.writer import write_slices
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.sampled(1)]
LACKING = "k INT, o INT, op STRING"
BY_SPARK = "rewritten by file, by Spark"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)

Row = tuple[Any, ...]
State = Mapping[Any, Mapping[str, Any]]


class Restated:
    """A MERGE table whose labels arrive in any order; each call seals and commits the slice of a label."""

    def __init__(self, spark: SparkSession, root: Path, merge: Merge = BY_ORDER) -> None:
        self.spark = spark
        self.lake = Lake(str(root))
        self.table: Table = flows.collect("raw.planes", "HOUR", mode=Mode.MERGE, is_partitioned=False, fold=merge)
        self.folder = self.lake.folder(self.table.name)
        self.merge = merge
        self.records: list[DataCommit] = []
        self.slices: dict[int, list[dict[str, Any]]] = {}
        create_table(self.folder, spark.createDataFrame([], SCHEMA).schema, is_partitioned=False, project=PROJECT)

    def seal(self, number: int, rows: Sequence[Row], schema: str = SCHEMA, claim: int | None = None) -> Manifest:
        frame = self.spark.createDataFrame(list(rows), schema).coalesce(1)
        return write_slices(
            frame,
            folder=self.folder,
            claim=claim or len(self.records) + 1,
            labels=[hour(number)],
            lake=self.lake,
            code="c",
            fold=self.merge,
            name=self.table.name,
        ).manifests[0]

    def commit(self, manifest: Manifest) -> int:
        steps = resolve(self.table, hour(99), self.records).steps
        label = label_of(manifest.label)
        newest = label_of(max([manifest.label, *(step.label for step in steps)]))
        told = (PROJECT, self.table.name, "collect", (label,), newest, manifest.claim, "c", (), (manifest.slice_path,))
        if all(step.label < manifest.label for step in steps):
            earlier = [step.slice_path for step in steps]
            return merge_slice(self.spark, self.folder, manifest, self.merge, Identity(*told), earlier)
        return restate_slices(self.spark, self.lake, [manifest], self.merge, Identity(*told), steps)

    def put(self, number: int, rows: Sequence[Row], schema: str = SCHEMA) -> int:
        manifest = self.seal(number, rows, schema)
        found = self.commit(manifest)
        at = BEGAN + timedelta(hours=len(self.records))
        self.records.append(DataCommit(found, at, {manifest.label: manifest.slice_path}))
        self.slices[number] = named(rows, schema)
        return found

    def state(self) -> State:
        return by_key(rows_in(self.folder))

    def state_by_spark(self) -> State:
        return by_key(rows_of(self.spark.read.format("delta").load(self.folder)))

    def as_of(self, number: int, known_at: datetime | None = None) -> State:
        found = resolve(self.table, hour(number), self.records, known_at=known_at)
        return by_key(rows_of(frame_of_resolved(self.spark, self.lake, self.table, found)))

    def expected(self, before: int = 99) -> State:
        return folded_by_hand(self.slices, before)


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def by_key(rows: Sequence[Mapping[str, Any]]) -> State:
    found = {row["k"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def folded_by_hand(slices: Mapping[int, list[dict[str, Any]]], before: int) -> State:
    numbers = range(min(before, 1 + max(slices, default=-1)))
    state = by_hand([slices.get(number, []) for number in numbers])
    return {key: {name: row.get(name) for name in ("timelabel", "k", "o", "op", "v")} for key, row in state.items()}


@pytest.fixture(params=ROADS)
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select how a table is written: rewritten whole, file by file, or by Delta's MERGE."""
    if request.param != "rewritten":
        monkeypatch.setattr(write_state, "MOST_BYTES_REWRITTEN", -1)
    if request.param == "merged by Delta":
        monkeypatch.setattr(commit_merged, "may_rewrite_files", lambda _: False)
    if request.param == BY_SPARK:
        monkeypatch.setattr(write_state, "MOST_PLACES", -1)
    return str(request.param)


def changes(dice: random.Random, schema: str, histories: int) -> list[Row]:
    """Return the changes of one label: many histories in parallel, each with its own two keys."""
    rows: list[Row] = []
    for history in range(histories):
        orders = dice.sample([None, *range(1, 7)], dice.choice([0, 0, 1, 1, 2, 3]))
        for order in orders:
            row = (history * 10 + dice.randrange(2), order, dice.choice("uud"), f"v{dice.randrange(99)}")
            rows.append(row if schema == SCHEMA else row[:3])
    return rows


@pytest.mark.parametrize("road", [*ROADS, BY_SPARK], indirect=True)
def test_in_whatever_order_labels_come_the_table_is_the_fold_of_all(
    spark: SparkSession, tmp_path: Path, road: str, *, is_long: bool
) -> None:
    dice = random.Random(road)
    planes = Restated(spark, tmp_path)
    known: list[dict[int, list[dict[str, Any]]]] = []
    for number in [*dice.sample(range(5), 5 if is_long else 3), *dice.choices(range(5), k=3 if is_long else 1)]:
        schema = dice.choice([SCHEMA, SCHEMA, LACKING])
        planes.put(number, changes(dice, schema, histories=250), schema)
        assert planes.state() == planes.expected(), number
        known.append(dict(planes.slices))
    assert planes.state_by_spark() == planes.expected()
    for number in range(6) if is_long else (2, 5):
        assert planes.as_of(number) == planes.expected(number), number
    for _ in range(3 if is_long else 1):
        moment, number = dice.randrange(len(known)), dice.randrange(6)
        assert planes.as_of(number, planes.records[moment].at) == folded_by_hand(known[moment], number)


@pytest.mark.soak
@pytest.mark.parametrize("road", ["rewritten by file"], indirect=True)
@pytest.mark.parametrize("merge", [BY_ORDER, Merge(("k",), (), "op = 'd'")], ids=["by order", "by label alone"])
def test_slices_of_all_columns_end_as_the_fold_of_all_and_no_state_before_them_is_made(
    spark: SparkSession, tmp_path: Path, merge: Merge, road: str, *, is_long: bool
) -> None:
    del road
    dice = random.Random(len(merge.order_by))
    planes = Restated(spark, tmp_path, merge)
    for number in [*dice.sample(range(4), 4 if is_long else 3), *dice.choices(range(4), k=3 if is_long else 1)]:
        rows = changes(dice, SCHEMA, histories=150)
        if not merge.order_by:
            rows = list({row[0]: (row[0], None, *row[2:]) for row in rows}.values())
        planes.put(number, rows)
        assert planes.state() == planes.expected(), number
    assert not Path(planes.lake.history(planes.table.name)).exists()


def test_a_late_label_reads_its_slice_and_deletes_that_may_beat_it_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    planes = Restated(spark, tmp_path)
    for number, op in ((0, "u"), (1, "d"), (4, "d"), (5, "u")):
        planes.put(number, [(number, number, op, "x")])
    steps = resolve(planes.table, hour(99), planes.records).steps
    late = planes.seal(2, [(9, 2, "u", "late")])
    asked = Restatement(
        planes.lake,
        planes.merge,
        table_schema(planes.folder).json(),
        late,
        None,
        tuple(step for step in steps if step.label < late.label),
        tuple(read_manifest(planes.folder, step.slice_path) for step in steps if step.label > late.label),
    )
    assert is_decided_by_head(asked)
    read = winners_at_head(spark, asked, is_unique=True).rows.inputFiles()
    assert {folder_of(path) for path in read} == {late.slice_path, steps[2].slice_path}


@pytest.mark.soak
def test_a_late_label_whose_slice_lacks_columns_reads_no_state_before_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_long: bool
) -> None:
    """Orders grow with the labels, as the times of windows do; the highest of one label is the lowest of the next."""

    def never(*_: object) -> None:
        pytest.fail("a state before the label was requested")

    monkeypatch.setattr(merging, "find_newest_state", never)
    dice = random.Random(3)
    flows_of_columns = (
        {0: SCHEMA, 2: SCHEMA, 1: LACKING, 4: SCHEMA, 3: LACKING},
        {0: SCHEMA, 2: LACKING, 4: LACKING, 3: LACKING},
    )
    for at, columns in enumerate(flows_of_columns if is_long else flows_of_columns[:1]):
        planes = Restated(spark, tmp_path / str(at))
        newest = -1
        for number, schema in columns.items():
            rows = [(row[0], 6 * number + (row[1] or 0), *row[2:]) for row in changes(dice, schema, histories=150)]
            if number < newest and at:  # a late delete may remove columns that newer rows do not contain
                rows = [row for row in rows if row[2] != "d"]
            newest = max(newest, number)
            planes.put(number, rows, schema)
            assert planes.state() == planes.expected(), (at, number)


def test_only_files_that_hold_a_changed_row_are_written_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_state, "MOST_BYTES_REWRITTEN", -1)
    planes = Restated(spark, tmp_path)
    planes.put(0, [(1, 1, "u", "a"), (2, 1, "u", "b")])
    planes.put(2, [(3, 3, "u", "c"), (4, 3, "u", "d")])
    before = planes.put(1, [(1, 2, "u", "late"), (3, 2, "u", "beaten")])
    found = planes.put(1, [(1, 2, "u", "late"), (3, 2, "u", "still beaten")])
    assert planes.state() == planes.expected()
    removed = [action["remove"]["path"] for action in actions(planes.folder, before) if "remove" in action]
    assert [folder_of(path) for path in removed] == [planes.records[0].slices[hour(0)]]
    assert not [action for action in actions(planes.folder, found) if "remove" in action or "add" in action]


@pytest.mark.soak
def test_a_write_that_fails_before_its_commit_can_be_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_state, "MOST_BYTES_REWRITTEN", -1)
    planes = Restated(spark, tmp_path)
    planes.put(0, [(1, 1, "u", "a"), (2, 1, "u", "b")])
    planes.put(2, [(3, 3, "u", "c")])
    before, state = version(planes.folder), planes.state()

    def strike(point: str) -> None:
        if point == "rewritten":
            raise KeyboardInterrupt

    late = planes.seal(1, [(1, 2, "u", "late"), (2, 2, "d", "x")])
    with inject_faults(strike), pytest.raises(KeyboardInterrupt):
        planes.commit(late)
    assert (version(planes.folder), planes.state()) == (before, state)
    assert planes.commit(late) == before + 1
    assert {key: row["v"] for key, row in planes.state().items()} == {1: "late", 3: "c"}


def folder_of(path: str) -> str:
    """Return the path of a file's slice."""
    return path[path.index("_stage/") :].rsplit("/", 1)[0]


@pytest.mark.soak
def test_a_late_label_does_not_restore_deleted_rows(spark: SparkSession, tmp_path: Path, road: str) -> None:
    del road
    planes = Restated(spark, tmp_path)
    planes.put(1, [(1, 5, "u", "a"), (2, 5, "u", "b")])
    planes.put(3, [(1, 9, "d", "a")])
    planes.put(2, [(1, 8, "u", "late"), (2, 8, "u", "late")])
    assert {key: row["v"] for key, row in planes.state().items()} == {2: "late"}


@pytest.mark.soak
def test_a_row_missing_from_a_restated_slice_is_removed(spark: SparkSession, tmp_path: Path, road: str) -> None:
    del road
    planes = Restated(spark, tmp_path)
    planes.put(0, [(1, 1, "u", "a")])
    planes.put(1, [(1, 2, "u", "b"), (2, 2, "u", "only here")])
    planes.put(2, [(3, 3, "u", "c")])
    planes.put(1, [])
    assert {key: row["v"] for key, row in planes.state().items()} == {1: "a", 3: "c"}


@pytest.mark.soak
def test_a_deletion_before_the_stored_state_beats_a_late_row_of_a_lower_order(
    spark: SparkSession, tmp_path: Path, road: str
) -> None:
    del road
    planes = Restated(spark, tmp_path)
    planes.put(0, [(1, 9, "d", "x"), (2, 9, "d", "x")])
    planes.put(1, [(3, 1, "u", "c")])
    planes.put(3, [(3, 2, "u", "d")])
    planes.put(2, [(1, 8, "u", "zombie"), (2, 9, "u", "at the delete's own order the later label wins")])
    assert sorted(planes.state()) == [2, 3]


@pytest.mark.soak
def test_the_head_stays_at_its_label_in_one_commit(spark: SparkSession, tmp_path: Path, road: str) -> None:
    planes = Restated(spark, tmp_path)
    for number in (0, 1, 3):
        planes.put(number, [(number, 1, "u", "a")])
    before = version(planes.folder)
    planes.put(2, [(2, 1, "u", "late")])
    assert version(planes.folder) == before + 1
    info = next(action["commitInfo"] for action in actions(planes.folder, before + 1) if "commitInfo" in action)
    assert f'"newest_label":"{label_of(hour(3))}"' in info["userMetadata"]
    assert info["operation"] == ("MERGE" if road == "merged by Delta" else "WRITE")


@pytest.mark.soak
def test_compaction_between_does_not_confuse_it(spark: SparkSession, tmp_path: Path, road: str) -> None:
    del road
    planes = Restated(spark, tmp_path)
    for number in (0, 1, 3):
        planes.put(number, [(1, number, "u", f"v{number}"), (number + 5, 1, "u", "x")])
        spark.sql(f"OPTIMIZE delta.`{planes.folder}`").collect()
    for number, rows in ((2, [(1, 9, "u", "late"), (6, 2, "d", "x")]), (1, [])):
        planes.put(number, rows)
        spark.sql(f"OPTIMIZE delta.`{planes.folder}`").collect()
        assert planes.state() == planes.expected()
    assert planes.as_of(3) == planes.expected(3)


def test_the_same_rows_again_cost_no_job_and_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    planes = Restated(spark, tmp_path)
    planes.put(0, [(1, 1, "u", "a")])
    planes.put(1, [(1, 2, "u", "b")])
    state = planes.state()
    found = planes.put(0, [(1, 1, "u", "a")])
    assert [kind for action in actions(planes.folder, found) for kind in action] == ["commitInfo", "txn"]
    assert planes.state() == state == planes.as_of(2)


def test_a_restated_slice_with_two_rows_of_one_key_and_order_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    planes = Restated(spark, tmp_path)
    planes.put(0, [(1, 1, "u", "a")])
    planes.put(1, [(1, 2, "u", "b")])
    before = version(planes.folder)
    with pytest.raises(WaterclockError, match=r"E620 two different rows of one key in raw\.planes: k = 1"):
        planes.put(0, [(1, 1, "u", "a"), (1, 1, "u", "b")])
    assert version(planes.folder) == before


@pytest.mark.soak
def test_a_restatement_is_done_once_and_never_after_its_kill(spark: SparkSession, tmp_path: Path, road: str) -> None:
    del road
    planes = Restated(spark, tmp_path)
    planes.put(0, [(1, 1, "u", "a")])
    planes.put(1, [(2, 1, "u", "b")])
    late = planes.seal(0, [(1, 2, "u", "c")])
    found = planes.commit(late)
    assert planes.commit(late) == found == version(planes.folder)
    other = planes.seal(0, [(1, 3, "u", "never")], claim=77)

    def strike(point: str) -> None:
        if point == "merge":
            kill_claim(planes.folder, 77)

    with inject_faults(strike), pytest.raises(ClaimKilledError):
        planes.commit(other)
    assert planes.state()[1]["v"] == "c"


@pytest.mark.soak
def test_states_that_are_vacuumed_are_made_again_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    planes = Restated(spark, tmp_path)
    for number in range(4):
        planes.put(number, [(1, number, "u", f"v{number}"), (number + 5, 1, "u", "x")])
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql(f"VACUUM delta.`{planes.folder}` RETAIN 0 HOURS").collect()
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    kept = Path(planes.lake.history(planes.table.name))
    for number in (3, 2):
        assert planes.as_of(number) == planes.expected(number)
    made = sorted(path.relative_to(kept) for path in kept.glob("*/*"))
    assert [path.parts[0] for path in made] == [label_of(hour(1)), label_of(hour(2))]
    assert planes.as_of(3) == planes.expected(3)
    assert sorted(path.relative_to(kept) for path in kept.glob("*/*")) == made


def test_a_state_with_missing_slices_is_refused_with_a_fix(spark: SparkSession, tmp_path: Path) -> None:
    planes = Restated(spark, tmp_path)
    for number in range(3):
        planes.put(number, [(number, 1, "u", "x")])
    planes.put(0, [(0, 2, "u", "again")])
    found = resolve(planes.table, hour(2), planes.records)
    assert found.version == NO_VERSION
    shutil.rmtree(Path(planes.folder, found.steps[1].slice_path))
    with pytest.raises(WaterclockError, match=r"E640 this state of .* can no longer be computed") as raised:
        frame_of_resolved(spark, planes.lake, planes.table, found)
    assert "newer tick" in str(raised.value.fix)
    assert planes.as_of(3) == planes.expected(3)


@pytest.mark.soak
def test_a_runner_that_fails_while_it_keeps_a_state_leaves_nothing_half_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    planes = Restated(spark, tmp_path)
    for number in (0, 1, 2, 0):
        planes.put(number, [(number, len(planes.records), "u", "x")])

    def strike(point: str) -> None:
        if point == "history_written":
            raise KeyboardInterrupt

    with inject_faults(strike), pytest.raises(KeyboardInterrupt):
        planes.as_of(2)
    assert not list(Path(planes.lake.history(planes.table.name)).rglob("*.parquet"))
    assert planes.as_of(2) == planes.expected(2)
