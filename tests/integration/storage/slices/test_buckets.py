"""BUCKET BY: Spark reads sealed slices in buckets without an exchange, with the rows of a plain read (PT-51)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, StructType

from waterclock.engine.reads.bucketed_inputs import bucketed_frame, drop_bucketed_tables, no_buckets_why
from waterclock.engine.spark.exchanges import exchanges_in, first_plan
from waterclock.errors import WaterclockError
from waterclock.storage.lake import Lake
from waterclock.storage.slices.buckets import Bucketing, bucket_of
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.row_filter import ROW_QUARANTINED, RowFilter, RowFilterSettings, RowRule
from waterclock.storage.slices.writer import write_slices
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
TABLE = "web.clicks"
HOURS = [datetime(2018, 3, 5, 8, tzinfo=UTC) + timedelta(hours=number) for number in range(5)]
KEYS = {"name": ("name",), "price, user": ("price", "user")}


def clicks(spark: SparkSession, rows: int = 600, labels: int = 1, *, seed: int = 0) -> DataFrame:
    """Return rows in three tasks. Each column has NULLs."""
    texts = F.array(*(F.lit(label_of(label)) for label in HOURS[:labels]))
    return (
        spark.range(0, rows, 1, 3)
        .selectExpr(
            "id",
            f"nullif(pmod(xxhash64(id, {seed}), 50), 0) AS user",
            f"nullif(concat('ü', pmod(xxhash64(id, {seed}, 3), 40)), 'ü0') AS name",
            "CAST(nullif(pmod(xxhash64(id, 5), 30), 0) / 4 AS DECIMAL(12, 3)) AS price",
        )
        .withColumn("timelabel", F.element_at(texts, (F.col("id") % labels + 1).cast("int")))
    )


def write(
    frame: DataFrame, root: Path, by: Sequence[str], *, labels: Sequence[datetime] = HOURS[:1], n: int = 4,
    claim: int = 7, **more: Any,
) -> tuple[Manifest, ...]:  # fmt: skip
    lake = Lake(str(root))
    return write_slices(
        frame, folder=lake.folder(TABLE), claim=claim, labels=labels, lake=lake, code="c1", sort_by=by,
        clustering=Bucketing(tuple(by), n), **more,
    ).manifests  # fmt: skip


def folder_of(root: Path) -> str:
    return Lake(str(root)).folder(TABLE)


def schema_of(manifest: Manifest) -> StructType:
    return StructType.fromJson(json.loads(manifest.schema))


def _tables(session: SparkSession) -> set[str]:
    return {str(each.tableName) for each in session.sql("SHOW TABLES IN default").collect()}


def exchanges(frame: DataFrame) -> int:
    return len(exchanges_in(first_plan(frame)))


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = spark.newSession()
    own.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield own
    drop_bucketed_tables(own)


@pytest.mark.parametrize("by", KEYS)
def test_joins_groups_and_windows_have_the_rows_of_plain_reads_without_an_exchange(
    session: SparkSession, tmp_path: Path, by: str
) -> None:
    keys = KEYS[by]
    clicked = [*write(clicks(session, labels=3), tmp_path / "clicks", keys, labels=HOURS[:3]),
               *write(clicks(session, seed=4), tmp_path / "clicks", keys, labels=HOURS[3:4], claim=8)]  # fmt: skip
    bought = write(clicks(session, 300, seed=1), tmp_path / "bought", keys)
    views = {}
    for name, manifests in (("clicks", clicked), ("bought", list(bought))):
        folder = folder_of(tmp_path / name)
        schema = schema_of(manifests[0])
        found = bucketed_frame(session, folder, manifests, schema)
        assert found is not None
        views[name] = (found, frame_of_slices(session, folder, manifests, schema))
    queries = (
        f"SELECT {by}, count(*), sum(id) FROM clicks GROUP BY {by}",
        f"SELECT timelabel, {by}, count(DISTINCT id) FROM clicks GROUP BY timelabel, {by}",
        f"SELECT id, row_number() OVER (PARTITION BY {by} ORDER BY id, timelabel) FROM clicks",
        f"SELECT c.id, b.id FROM clicks c JOIN bought b USING ({by})",
        f"SELECT c.id, b.id FROM clicks c FULL JOIN bought b USING ({by})",
    )
    for query in queries:
        rows, moved = [], []
        for at in (0, 1):
            for name, frames in views.items():
                frames[at].createOrReplaceTempView(name)
            made = session.sql(query)
            moved.append(exchanges(made))
            rows.append(Counter(map(tuple, made.collect())))
        assert rows[0] == rows[1]
        assert rows[0]
        assert moved[0] == 0, query
        assert moved[1] > 0


def test_the_size_of_a_table_is_known_so_one_task_may_read_it_and_it_is_broadcast(
    session: SparkSession, tmp_path: Path
) -> None:
    written = write(clicks(session), tmp_path, ("user",))
    found = bucketed_frame(session, folder_of(tmp_path), written, schema_of(written[0]))
    assert found is not None
    found.createOrReplaceTempView("clicks")
    one = "(SELECT /*+ COALESCE(1) */ id, user FROM clicks)"
    joined = session.sql(f"SELECT a.id FROM {one} a LEFT JOIN {one} b USING (id)")
    assert exchanges(joined) == 0
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "10MB")
    assert "BroadcastHashJoin" in first_plan(session.sql("SELECT a.id FROM clicks a JOIN clicks b USING (id)"))


def test_each_file_has_the_bucket_that_spark_computes_in_groups_and_with_quarantined_rows(
    session: SparkSession, tmp_path: Path
) -> None:
    rules = RowFilter((RowRule("r0", "user % 5 > 0", ROW_QUARANTINED),))
    for labels, is_filtered in ((1, False), (3, True)):
        frame = clicks(session, labels=labels)
        through = RowFilterSettings(rules, {name: name for name in frame.columns}, frame.schema.json())
        root = tmp_path / str(labels)
        more: dict[str, Any] = {"through": through} if is_filtered else {}
        for manifest in write(frame, root, ("user",), labels=HOURS[:labels], **more):
            assert read_manifest(folder_of(root), manifest.slice_path) == manifest
            assert (manifest.bucketed_by, manifest.buckets) == (("user",), 4)
            assert len(manifest.files) > 1
            for file in manifest.files:
                rows = frame_of_slices(session, folder_of(root), [replace(manifest, files=(file,))])
                buckets = {row[0] for row in rows.selectExpr("pmod(hash(user), 4)").collect()}
                assert buckets == {bucket_of(file.path)}
                users = [row[0] for row in rows.select("user").collect()]
                assert users == sorted(users, key=lambda user: (user is not None, user))


def test_slices_that_are_not_in_the_same_buckets_are_read_plainly(session: SparkSession, tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    [one] = write(clicks(session), tmp_path, ("user",))
    [other] = write(clicks(session), tmp_path, ("user",), labels=HOURS[1:2], n=2)
    [plain] = write_slices(
        clicks(session), folder=folder, claim=9, labels=HOURS[2:3], lake=Lake(str(tmp_path)), code="c"
    ).manifests
    schema = schema_of(one)
    wider = StructType.fromJson(schema.jsonValue()).add("more", IntegerType())
    changed = replace(one, schema=one.schema.replace('"long"', '"integer"'))
    assert no_buckets_why([one], schema) == no_buckets_why([one], wider) == ""
    assert no_buckets_why([one, other], schema) == (
        "label 20180305090000 is in buckets by other columns, or in another number of them"
    )
    assert no_buckets_why([plain], schema) == "label 20180305100000 is not in buckets"
    assert no_buckets_why([changed], schema) == "label 20180305080000 has columns of other types"
    assert bucketed_frame(session, folder, [one, plain], schema) is None
    read = bucketed_frame(session, folder, [one], wider)
    assert read is not None
    assert {row.more for row in read.collect()} == {None}
    Path(folder, one.files[0].path).write_bytes(b"")
    with pytest.raises(WaterclockError) as raised:
        bucketed_frame(session, folder, [one], schema)
    assert raised.value.code == "E605"


def test_the_tables_of_a_session_are_dropped_and_its_files_stay(session: SparkSession, tmp_path: Path) -> None:
    [one] = write(clicks(session), tmp_path, ("user",))
    before = _tables(session)
    assert bucketed_frame(session, folder_of(tmp_path), [one], schema_of(one)) is not None
    drop_bucketed_tables(session)
    assert _tables(session) == before
    assert all(Path(folder_of(tmp_path), file.path).exists() for file in one.files)
