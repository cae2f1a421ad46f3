"""TEMPORAL tables in storage: slices in any order of arrival give the versions that the oracle computes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.model.temporal_oracle import Rules, timed_by_snapshots, versions_of
from tests.slices import PROJECT, hour, rows_in
from waterclock.faults import inject_faults
from waterclock.flow.declarations import Place, Source, Table, Unit
from waterclock.flow.enums import Batching, Kind, Mode, TableType
from waterclock.flow.merge_settings import Temporal
from waterclock.storage.commit import pointers
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import kill_claim
from waterclock.storage.folds import key_replacement, temporal_commit, write_state
from waterclock.storage.folds import version_counts as version_counting
from waterclock.storage.folds.older_states import frame_of_resolved
from waterclock.storage.folds.temporal_commit import place_slices
from waterclock.storage.folds.version_counts import version_counts
from waterclock.storage.folds.versions import require_fit, table_schema_of
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import DataCommit, resolve
from waterclock.storage.log.delta_log import head
from waterclock.storage.log.identity import ClaimKilledError, Identity
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.writer import write_slices
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import parse_period

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.sampled(1)]
NAME = "raw.accounts"
SCHEMA = "k STRING, at TIMESTAMP, o INT, gone BOOLEAN, a STRING, b INT"
COLUMNS = "k STRING, at TIMESTAMP, o INT, gone BOOLEAN, a STRING"
PLAIN = Temporal(("k",), "at", ("o",), "gone", consumed=("o", "gone"))
BY_SPARK = "copied by Spark"
ROADS = ("made again", "written anew", "copied", BY_SPARK, "merged by Delta")
FIRST = datetime(2020, 1, 1, tzinfo=UTC)
Row = tuple[Any, ...]


@pytest.fixture(autouse=True)
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select how versions are written: all again, or only those of touched keys, by each of the methods."""
    taken = str(getattr(request, "param", "written anew"))
    if taken != "made again":
        monkeypatch.setattr(temporal_commit, "_WHOLE_FROM", 2)
        monkeypatch.setattr(key_replacement, "_WHOLE_FROM", 2)
    if taken in {"copied", BY_SPARK}:
        monkeypatch.setattr(write_state, "MOST_BYTES_REWRITTEN", -1)
    if taken == BY_SPARK:
        monkeypatch.setattr(key_replacement, "MOST_PLACES", -1)
    if taken == "merged by Delta":
        monkeypatch.setattr(pointers, "may_rewrite", lambda *_: False)
    return taken


by_every_road = pytest.mark.parametrize("road", ROADS, indirect=True)


def declared(temporal: Temporal, *, is_snapshot: bool = False) -> Table:
    place = Place("test", 1, 1)
    source = Source(Unit("shop", "accounts", None, {}, place), Batching.SNAPSHOT) if is_snapshot else None
    return Table(
        name=NAME,
        kind=Kind.COLLECT,
        type=TableType.REGULAR,
        mode=Mode.TEMPORAL,
        cadence=Cadence(parse_period("HOUR"), timedelta(0), "UTC"),
        place=place,
        fold=replace(temporal, is_of_snapshots=is_snapshot),
        source=source,
    )


@dataclass
class Accounts:
    """A TEMPORAL table that receives slices in any order of labels, some of them repeatedly."""

    spark: SparkSession
    root: Path
    table: Table
    schema: str = SCHEMA
    records: list[DataCommit] = field(default_factory=list)
    rows: dict[int, Sequence[Row]] = field(default_factory=dict)
    claims: int = 0

    def __post_init__(self) -> None:
        self.lake = Lake(str(self.root))
        self.folder = self.lake.folder(NAME)
        raw = self.spark.createDataFrame([], self.schema).schema.json()
        assert self.table.temporal is not None
        require_fit(raw, self.table.temporal, table=NAME)
        schema = table_schema_of(raw, self.table.temporal)
        create_table(self.folder, schema, is_partitioned=False, project=PROJECT)

    def seal(self, number: int, rows: Sequence[Row], schema: str = "") -> tuple[Manifest, Identity]:
        self.claims += 1
        manifest = write_slices(
            self.spark.createDataFrame(list(rows), schema or self.schema).coalesce(1),
            folder=self.folder,
            claim=self.claims,
            labels=[hour(number)],
            lake=self.lake,
            code="c",
            name=NAME,
        ).manifests[0]
        newest = max([number, *self.rows])
        label = label_of(hour(number))
        told = Identity(PROJECT, NAME, "collect", (label,), label_of(hour(newest)), self.claims, "c")
        return manifest, told

    def place(self, number: int, rows: Sequence[Row], schema: str = "") -> int:
        manifest, identity = self.seal(number, rows, schema)
        steps = resolve(self.table, hour(999), self.records).steps
        version = place_slices(self.spark, self.lake, self.table, [manifest], identity, steps)
        self.records.append(DataCommit(version, datetime.now(UTC), {hour(number): manifest.slice_path}))
        self.rows[number] = rows
        return version

    def found(self) -> list[Row]:
        rows = rows_in(self.folder)
        times = ("rec_eff_time", "rec_exp_time")
        return sorted(
            ((row["k"], *(micros(row[time]) for time in times), row["a"], row["b"]) for row in rows), key=repr
        )

    def found_by_spark(self) -> list[Row]:
        return shown(self.spark.read.format("delta").load(self.folder))

    def as_of(self, number: int) -> list[Row]:
        resolved = resolve(self.table, hour(number), self.records)
        return shown(frame_of_resolved(self.spark, self.lake, self.table, resolved))

    def wanted(self, rules: Rules, before: int = 999) -> list[Row]:
        raw = [
            {
                "key": row[0],
                "t": None if row[1] is None else micros(row[1]),
                "seq": ((row[2] is not None, row[2] or 0), number),
                "label": number,
                "gone": bool(row[3]),
                "a": row[4],
                "b": row[5] if len(row) > 5 else None,
                "lacks": () if len(row) > 5 else ("b",),
            }
            for number, rows in self.rows.items()
            if number < before
            for row in rows
        ]
        if self.table.is_snapshot:
            windows = {number: (micros(hour(number)), micros(hour(number + 1))) for number in self.rows}
            raw = timed_by_snapshots(raw, {number: windows[number] for number in windows if number < before})
        return sorted(((v["key"], v["eff"], v["exp"], v["a"], v["b"]) for v in versions_of(raw, rules)), key=repr)


def micros(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def shown(frame: Any) -> list[Row]:
    columns = ["k", "unix_micros(rec_eff_time)", "unix_micros(rec_exp_time)", "a", "b"]
    return sorted((tuple(row) for row in frame.selectExpr(*columns).collect()), key=repr)


def random_slice(dice: random.Random, histories: int) -> list[Row]:
    """Return rows of many small histories, one key each; few distinct times make ties and repeats frequent."""
    return [
        (
            f"k{history}" if dice.random() > 0.02 else None,
            FIRST + timedelta(days=dice.randrange(4)) if dice.random() > 0.02 else None,
            dice.choice([None, 1, 2]),
            dice.random() < 0.2,
            dice.choice([None, "x", "y"]),
            dice.choice([None, 1, 2]),
        )
        for history in range(histories)
        for _ in range(dice.choice([0, 0, 1, 2]))
    ]


SETTINGS = {
    "plain": (PLAIN, Rules(("a", "b"), frozenset(("a", "b")))),
    "tracked": (Temporal(("k",), "at", ("o",), "gone", ("o", "gone"), track=("b",)), Rules(("a", "b"), frozenset("b"))),
    "values": (
        Temporal(("k",), "at", ("o",), "gone", ("o", "gone"), values=("a",), fills_back=False),
        Rules(("a", "b"), frozenset(("a", "b")), frozenset("a"), fill_back=False),
    ),
}


@pytest.mark.parametrize(
    ("asked", "road"),
    [("plain", "made again"), ("plain", "copied"), ("tracked", "written anew"), ("values", "merged by Delta")],
    indirect=["road"],
)
def test_slices_in_any_order_come_to_the_oracle_s_versions(
    spark: SparkSession, tmp_path: Path, asked: str, *, is_long: bool
) -> None:
    temporal, rules = SETTINGS[asked]
    dice = random.Random(7)
    accounts = Accounts(spark, tmp_path, declared(temporal))
    for number in (0, 2, 1, 3, 2, 0) if is_long else (0, 3, 1, 0):
        accounts.place(number, random_slice(dice, 150))
        assert accounts.found() == accounts.wanted(rules), number
    assert accounts.found_by_spark() == accounts.wanted(rules)
    for number in (1, 2, 3):
        assert accounts.as_of(number) == accounts.wanted(rules, before=number), number


@pytest.mark.soak
@by_every_road
def test_keys_whose_rows_all_vanish_leave_the_table(spark: SparkSession, tmp_path: Path) -> None:
    accounts = Accounts(spark, tmp_path, declared(PLAIN))
    accounts.place(0, [("k1", FIRST, 1, False, "x", 1), ("k2", FIRST, 1, False, "y", 2)])
    accounts.place(1, [("k3", FIRST, 1, False, "z", 3)])
    accounts.place(0, [("k1", FIRST, 1, False, "x", 1)])
    assert [row[0] for row in accounts.found()] == ["k1", "k3"]


@pytest.mark.soak
def test_a_column_that_a_slice_lacks_is_missing_even_where_null_is_a_value(spark: SparkSession, tmp_path: Path) -> None:
    temporal = Temporal(("k",), "at", ("o",), "gone", ("o", "gone"), are_all_values=True)
    accounts = Accounts(spark, tmp_path, declared(temporal))
    accounts.place(0, [("k1", FIRST, 1, False, "x", 1)])
    accounts.place(1, [("k1", FIRST + timedelta(days=1), 1, False, "y")], COLUMNS)
    accounts.place(2, [("k1", FIRST + timedelta(days=2), 1, False, "y", None)])
    assert [(row[3], row[4]) for row in accounts.found()] == [("x", 1), ("y", 1), ("y", None)]


@pytest.mark.soak
def test_with_fill_forward_a_null_value_starts_no_version_equal_to_the_previous_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    both = frozenset(("a", "b"))
    temporal = Temporal(("k",), "at", ("o",), "gone", ("o", "gone"), are_all_values=True, fills_back=False)
    accounts = Accounts(spark, tmp_path, declared(temporal))
    accounts.place(0, [("k1", FIRST, 1, False, "x")], COLUMNS)
    accounts.place(1, [("k1", FIRST + timedelta(days=1), 1, False, "x", None)])
    assert [row[1:] for row in accounts.found()] == [(micros(FIRST), 253_402_214_400_000_000, "x", None)]
    dice = random.Random(5)
    for number in (2, 3, 0):
        rows = random_slice(dice, 150)
        lacks = number != 3
        accounts.place(number, [row[:5] for row in rows] if lacks else rows, COLUMNS if lacks else "")
        assert accounts.found() == accounts.wanted(Rules(("a", "b"), both, both, fill_back=False)), number


@pytest.mark.parametrize("road", ["made again", "copied"], indirect=True)
def test_lives_of_keys_are_as_long_as_snapshots_allow(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(Temporal(("k",)), is_snapshot=True)
    accounts = Accounts(spark, tmp_path, table, schema="k STRING, a STRING, b INT")
    accounts.place(0, [("k1", "x", 1), ("k2", "y", 2)])
    accounts.place(1, [("k1", "x", 1)])
    accounts.place(4, [("k1", "z", 1), ("k2", "y", 2)])
    start, *ends = [micros(hour(number)) for number in (0, 1, 2, 5)]
    open_end = 253_402_214_400_000_000
    # a version starts at the end of the previous snapshot, the first ones at the start of the first window; changes and
    # ends of lives are dated to the end of the window whose snapshot shows them
    assert accounts.found() == [
        ("k1", start, ends[2], "x", 1),
        ("k1", ends[2], open_end, "z", 1),
        ("k2", start, ends[1], "y", 2),
        ("k2", ends[1], open_end, "y", 2),
    ]
    assert accounts.as_of(1) == [("k1", start, open_end, "x", 1), ("k2", start, open_end, "y", 2)]
    accounts.place(5, [])
    assert [row[2] for row in accounts.found()] == [ends[2], micros(hour(6)), ends[1], micros(hour(6))]


FLAGGED = Temporal(("k",), order_by=("o",), delete_when="gone", consumed=("o", "gone"))
SNAPSHOTS = {
    "as values": (
        replace(FLAGGED, are_all_values=True),
        Rules(("a", "b"), frozenset(("a", "b")), frozenset(("a", "b"))),
    ),
    "filled": (FLAGGED, Rules(("a", "b"), frozenset(("a", "b")))),
    "filled forward, tracked": (
        replace(FLAGGED, track=("b",), fills_back=False),
        Rules(("a", "b"), frozenset("b"), fill_back=False),
    ),
}


def random_snapshot(dice: random.Random, keys: int) -> list[Row]:
    """Return rows of many keys: most once, others twice or never, and some marked as deleted."""
    return [
        (
            f"k{key}",
            None,
            dice.choice([None, 1, 2]),
            dice.random() < 0.25,
            dice.choice([None, "x"]),
            dice.choice([1, 2]),
        )
        for key in range(keys)
        for _ in range(dice.choice([0, 1, 1, 2]))
    ]


@pytest.mark.parametrize(
    ("asked", "road"),
    [("as values", "written anew"), ("filled", "copied"), ("filled forward, tracked", "made again")],
    indirect=["road"],
)
def test_snapshots_in_any_order_come_to_the_oracle_s_versions(
    spark: SparkSession, tmp_path: Path, asked: str, *, is_long: bool
) -> None:
    temporal, rules = SNAPSHOTS[asked]
    dice = random.Random(11)
    accounts = Accounts(spark, tmp_path, declared(temporal, is_snapshot=True))
    # in order; after an outage; again with other rows; before all others and between two
    for number in (2, 3, 6, 3, 2, 0, 7, 5) if is_long else (2, 3, 5, 3, 0, 4):
        accounts.place(number, random_snapshot(dice, 100))
        assert accounts.found() == accounts.wanted(rules), number
    accounts.place(1, [])
    assert accounts.found() == accounts.wanted(rules)
    for number in (1, 3, 4):
        assert accounts.as_of(number) == accounts.wanted(rules, before=number), number


@pytest.mark.parametrize("road", ["made again", "copied"], indirect=True)
def test_a_delete_that_a_row_of_its_snapshot_follows_begins_no_life_again(spark: SparkSession, tmp_path: Path) -> None:
    """Each snapshot contains a row marked as deleted and the row that replaces it."""
    temporal, rules = SNAPSHOTS["as values"]
    accounts = Accounts(spark, tmp_path, declared(temporal, is_snapshot=True))
    for number in range(3):
        accounts.place(number, [("k1", None, 1, True, "x", 1), ("k1", None, 2, False, "y", 1)])
    assert accounts.found() == accounts.wanted(rules) == [("k1", micros(hour(0)), 253_402_214_400_000_000, "y", 1)]


def test_a_slice_is_placed_once(spark: SparkSession, tmp_path: Path) -> None:
    accounts = Accounts(spark, tmp_path, declared(PLAIN))
    accounts.place(0, [("k1", FIRST, 1, False, "x", 1)])
    manifest, identity = accounts.seal(1, [("k2", FIRST, 1, False, "y", 2)])
    steps = resolve(accounts.table, hour(999), accounts.records).steps
    version = place_slices(spark, accounts.lake, accounts.table, [manifest], identity, steps)
    assert place_slices(spark, accounts.lake, accounts.table, [manifest], identity, steps) == version
    assert head(accounts.folder) == version


@pytest.mark.soak
@by_every_road
def test_a_slice_whose_claim_was_killed_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    accounts = Accounts(spark, tmp_path, declared(PLAIN))
    accounts.place(0, [("k1", FIRST, 1, False, "x", 1)])
    before = accounts.found()
    manifest, identity = accounts.seal(1, [("k2", FIRST, 1, False, "y", 2)])
    steps = resolve(accounts.table, hour(999), accounts.records).steps

    def strike(point: str) -> None:
        if point == "merge":
            kill_claim(accounts.folder, identity.claim)

    with inject_faults(strike), pytest.raises(ClaimKilledError):
        place_slices(spark, accounts.lake, accounts.table, [manifest], identity, steps)
    assert accounts.found() == before


def live(accounts: Accounts) -> set[str]:
    return set(DeltaTable(accounts.folder).file_uris())


@by_every_road
@pytest.mark.sampled(len(ROADS))
def test_each_write_strategy_is_recognized_by_its_files_and_operation(
    spark: SparkSession, tmp_path: Path, road: str
) -> None:
    accounts = Accounts(spark, tmp_path, declared(PLAIN))
    accounts.place(0, [("k1", FIRST, 1, False, "x", 1), ("k2", FIRST, 1, False, "y", 2)])
    before = live(accounts)
    accounts.place(1, [("k1", FIRST + timedelta(days=1), 1, False, "z", 1)])
    found = live(accounts)
    assert any("/kept-" in path for path in found) == (road == "copied")
    assert (DeltaTable(accounts.folder).history(1)[0]["operation"] == "MERGE") == (road == "merged by Delta")
    assert not found & before
    assert [row[:4] for row in accounts.found()] == [
        ("k1", micros(FIRST), micros(FIRST + timedelta(days=1)), "x"),
        ("k1", micros(FIRST + timedelta(days=1)), 253_402_214_400_000_000, "z"),
        ("k2", micros(FIRST), 253_402_214_400_000_000, "y"),
    ]


@pytest.mark.parametrize("road", ["copied", BY_SPARK], indirect=True)
def test_files_without_a_touched_key_stay_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    accounts = Accounts(spark, tmp_path, declared(PLAIN))
    accounts.place(0, [("k1", FIRST, 1, False, "x", 1)])
    first = live(accounts)
    accounts.place(1, [("k2", FIRST, 1, False, "y", 2)])
    assert first < live(accounts)
    second = live(accounts) - first
    accounts.place(2, [("k1", FIRST + timedelta(days=1), 1, False, "z", 1)])
    assert live(accounts) & (first | second) == second


@pytest.mark.parametrize("road", ["copied"], indirect=True)
def test_where_most_versions_would_go_all_are_made_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_replacement, "_WHOLE_FROM", 0.5)
    accounts = Accounts(spark, tmp_path, declared(PLAIN))
    accounts.place(0, [(f"k{number}", FIRST, 1, False, "x", number) for number in range(4)])
    later = FIRST + timedelta(days=1)
    accounts.place(1, [("k1", later, 1, False, "y", 1)])
    assert any("/kept-" in path for path in live(accounts))
    accounts.place(2, [(f"k{number}", later + timedelta(days=1), 1, False, "z", 0) for number in range(3)])
    assert not any("/kept-" in path for path in live(accounts))
    assert accounts.found() == accounts.wanted(SETTINGS["plain"][1])


@pytest.mark.parametrize("road", ["copied"], indirect=True)
def test_unchanged_versions_are_neither_shuffled_nor_written_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    accounts = Accounts(spark, tmp_path, declared(PLAIN))
    accounts.place(0, [(f"k{number}", FIRST, 1, False, "x", number) for number in range(5_000)])
    manifest, identity = accounts.seal(1, [("k1", FIRST + timedelta(days=1), 1, False, "z", 1)])
    steps = resolve(accounts.table, hour(999), accounts.records).steps
    stages, jobs = work_so_far(spark)
    place_slices(spark, accounts.lake, accounts.table, [manifest], identity, steps)
    later, more = work_so_far(spark)
    new = [later[stage] for stage in later.keys() - stages.keys()]
    assert sum(written for _, written in new) == 2
    assert sum(shuffled for shuffled, _ in new) <= 20
    assert more - jobs == 6


def work_so_far(spark: SparkSession) -> tuple[dict[int, tuple[int, int]], int]:
    """Return rows shuffled and rows written by stage, and the number of jobs."""
    java: Any = spark.sparkContext
    context = java._jsc.sc()
    quantiles = java._gateway.new_array(java._jvm.double, 0)
    context.listenerBus().waitUntilEmpty()
    found = context.statusStore().stageList(None, False, False, quantiles, None)
    stages = [found.apply(at) for at in range(found.size())]
    told = {stage.stageId(): (stage.shuffleWriteRecords(), stage.outputRecords()) for stage in stages}
    return told, int(context.dagScheduler().numTotalJobs())


@pytest.mark.soak
@pytest.mark.parametrize("road", ["written anew", "copied"], indirect=True)
def test_a_write_is_committed_again_after_a_concurrent_commit(spark: SparkSession, tmp_path: Path) -> None:
    accounts = Accounts(spark, tmp_path, declared(PLAIN))
    accounts.place(0, [("k1", FIRST, 1, False, "x", 1), ("k2", FIRST, 1, False, "y", 2)])
    others = iter([999])

    def strike(point: str) -> None:
        if point == "rewritten":
            for other in others:
                kill_claim(accounts.folder, other)

    with inject_faults(strike):
        accounts.place(1, [("k1", FIRST + timedelta(days=1), 1, False, "z", 1)])
    assert [row[3] for row in accounts.found()] == ["x", "z", "y"]
    written = {path.parent for path in Path(accounts.folder, "state").rglob("*.parquet")}
    assert written == {Path(path).parent for path in live(accounts)} | {Path(accounts.folder, "state/c=1/v=0")}


@pytest.mark.parametrize("road", ["copied"], indirect=True)
def test_an_unchanged_snapshot_changes_no_file(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(Temporal(("k",)), is_snapshot=True)
    accounts = Accounts(spark, tmp_path, table, schema="k STRING, a STRING, b INT")
    accounts.place(0, [("k1", "x", 1), ("k2", "y", 2)])
    before = live(accounts)
    accounts.place(1, [("k2", "y", 2), ("k1", "x", 1)])
    assert live(accounts) == before
    accounts.place(2, [("k2", "z", 2), ("k1", "x", 1)])
    assert [row[3] for row in accounts.found()] == ["x", "y", "z"]


@pytest.mark.parametrize("road", ["copied"], indirect=True)
def test_keys_of_snapshots_may_have_any_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names include those that computations once used for their internal columns."""
    keys = ("told", "is_new", "n", "count_all")
    accounts = Accounts(
        spark,
        tmp_path,
        declared(Temporal(keys), is_snapshot=True),
        schema="told STRING, is_new BOOLEAN, n INT, count_all INT, a STRING",
    )
    accounts.place(0, [("k1", True, 1, 1, "x"), ("k1", False, 1, 1, "y")])
    version = accounts.place(1, [("k1", True, 1, 1, "z"), ("k1", False, 1, 1, "y")])
    current = {row["is_new"]: row["a"] for row in rows_in(accounts.folder) if row["rec_is_current"]}
    assert current == {True: "z", False: "y"}
    counted = version_counts(spark, accounts.folder, version, keys)
    monkeypatch.setattr(version_counting, "_MAX_ROWS_HERE", -1)
    version_counting._cache.clear()
    assert version_counts(spark, accounts.folder, version, keys) == counted
    assert counted is not None
    assert (counted.versions, counted.keys, counted.most_versions) == (3, 2, 2)


def test_columns_of_versions_may_have_any_names(spark: SparkSession) -> None:
    schema = "_old INT, rec_eff_time INT, _new INT"
    new, old = (spark.createDataFrame(rows, schema) for rows in ([(1, 1, 2), (2, 1, 2)], [(1, 1, 3), (2, 1, 2)]))
    found = temporal_commit._find_differences(new, old, ["_old"]).collect()
    assert [tuple(row) for row in found] == [(1, 1, 2, False)]


@pytest.mark.soak
@pytest.mark.parametrize("road", ["copied"], indirect=True)
def test_a_microsecond_makes_another_row_of_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(Temporal(("k",)), is_snapshot=True)
    accounts = Accounts(spark, tmp_path, table, schema="k STRING, seen TIMESTAMP")
    seen = datetime(2020, 1, 1, tzinfo=UTC)
    accounts.place(0, [("k1", seen), ("k2", seen)])
    accounts.place(1, [("k1", seen + timedelta(microseconds=1)), ("k2", seen)])
    shows = accounts.spark.read.format("delta").load(accounts.folder).selectExpr("k", "unix_micros(seen) % 1000000")
    assert sorted(map(tuple, shows.collect())) == [("k1", 0), ("k1", 1), ("k2", 0)]


@pytest.mark.soak
@pytest.mark.parametrize("road", ["copied"], indirect=True)
def test_a_change_of_one_of_two_rows_of_a_key_is_seen(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporal_commit, "_WHOLE_FROM", 9)
    table = declared(Temporal(("k",), order_by=("b",)), is_snapshot=True)
    accounts = Accounts(spark, tmp_path, table, schema="k STRING, a STRING, b INT")
    keys = [f"k{number:02d}" for number in range(12)]
    for label, said in enumerate(("old", "new")):
        accounts.place(label, [row for key in keys for row in ((key, "first", 1), (key, f"{said} {key}", 2))])
    current = {row["k"]: row["a"] for row in rows_in(accounts.folder) if row["rec_is_current"]}
    assert current == {key: f"new {key}" for key in keys}


@pytest.mark.soak
@pytest.mark.parametrize("road", ["copied"], indirect=True)
def test_a_null_after_a_snapshot_without_the_column_is_seen(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporal_commit, "_WHOLE_FROM", 9)
    table = declared(Temporal(("k",), are_all_values=True), is_snapshot=True)
    accounts = Accounts(spark, tmp_path, table, schema="k STRING, a STRING, b INT")
    accounts.place(0, [("k1", "x", 1), ("k2", "y", 1)])
    accounts.place(1, [("k1", 1), ("k2", 1)], "k STRING, b INT")
    accounts.place(2, [("k1", None, 1), ("k2", "y", 1)])
    start, end = (micros(hour(number)) for number in (0, 3))
    open_end = 253_402_214_400_000_000
    assert accounts.found() == [
        ("k1", start, end, "x", 1),
        ("k1", end, open_end, None, 1),
        ("k2", start, open_end, "y", 1),
    ]


@pytest.mark.soak
def test_rows_without_a_place_are_left_out_of_many_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Above a hundred columns Spark compiles no query and evaluates conditions in another order."""
    many = [f"c{number}" for number in range(120)]
    schema, rest = ", ".join([SCHEMA, *(f"{name} INT" for name in many)]), [None] * len(many)
    accounts = Accounts(spark, tmp_path, declared(PLAIN), schema=schema)
    accounts.place(0, [("k1", FIRST, 1, False, "x", 1, *rest), (None, FIRST, 1, False, "y", 2, *rest)])
    accounts.place(
        1, [("k1", FIRST + timedelta(days=1), 1, False, "y", 1, *rest), ("k2", None, 1, False, "z", 3, *rest)]
    )
    assert [(row[0], row[3]) for row in accounts.found()] == [("k1", "x"), ("k1", "y")]
