"""SORT BY orders the rows of each file, in the job that writes them, and changes neither rows nor digests (PT-52)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_slices
from waterclock.storage.commit.row_order import record_row_order
from waterclock.storage.lake import Lake
from waterclock.storage.log.identity import Identity
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.row_filter import (
    QUARANTINE,
    ROW_DROPPED,
    ROW_QUARANTINED,
    RowFilter,
    RowFilterSettings,
    RowRule,
)
from waterclock.storage.slices.writer import WrittenSlices, write_slices
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
T = datetime(2018, 3, 5, 8, tzinfo=UTC)
TABLE = "web.clicks"
SORT_BY = ("Land", "no column", "user")
HOURS = [T + timedelta(hours=number) for number in range(20)]


def clicks(spark: SparkSession, rows: int, labels: int = 1) -> DataFrame:
    """Return unsorted rows in two tasks. `land` has NULLs and empty texts."""
    texts = F.array(*(F.lit(label_of(label)) for label in HOURS[:labels]))
    frame = spark.range(0, rows, 1, 2).selectExpr(
        "id",
        "pmod(hash(id), 97) AS user",
        "element_at(array('', 'de', 'it', NULL), CAST(id * 7 % 4 + 1 AS INT)) AS land",
    )
    return frame.withColumn("timelabel", F.element_at(texts, (F.col("id") % labels + 1).cast("int")))


def write(
    frame: DataFrame, root: Path, labels: int = 1, *, sort_by: tuple[str, ...] = SORT_BY, first: int = 0, **more: Any
) -> WrittenSlices:
    lake = Lake(str(root))
    return write_slices(
        frame, folder=lake.folder(TABLE), claim=7, labels=HOURS[first : first + labels], lake=lake, code="c1",
        sort_by=sort_by, **more,
    )  # fmt: skip


def orders_in(folder: str, manifests: tuple[Manifest, ...], *, at: str = "") -> list[list[tuple[Any, ...]]]:
    """Return (land, user) of the rows of each file, in the order of the file."""
    found = []
    for manifest in manifests:
        for path in sorted(Path(folder, manifest.slice_path, at).glob("*.parquet")):
            table = pq.read_table(path, columns=["land", "user"], partitioning=None)
            found.append(list(zip(*(table[name].to_pylist() for name in ("land", "user")), strict=True)))
    return found


def is_in_order(rows: list[tuple[Any, ...]]) -> bool:
    return rows == sorted(rows, key=lambda row: (row[0] is not None, row[0] or "", row[1]))


def rules(frame: DataFrame) -> RowFilterSettings:
    row_rules = (RowRule("r0", "user % 5 > 0", ROW_QUARANTINED), RowRule("r1", "user % 7 > 0", ROW_DROPPED))
    return RowFilterSettings(RowFilter(row_rules), {name: name for name in frame.columns}, frame.schema.json())


# the digests of 17 labels are computed by a scan
@pytest.mark.parametrize(("labels", "is_filtered"), [(1, False), (3, False), (17, False), (1, True), (3, True)])
def test_each_file_is_in_order_and_rows_and_digests_are_the_same(
    spark: SparkSession, tmp_path: Path, labels: int, *, is_filtered: bool
) -> None:
    frame = clicks(spark, 3_000, labels)
    through: dict[str, Any] = {"through": rules(frame)} if is_filtered else {}
    plain = write(frame, tmp_path / "plain", labels, sort_by=(), **through).manifests
    ordered = write(frame, tmp_path / "sorted", labels, **through).manifests
    folder = Lake(str(tmp_path / "sorted")).folder(TABLE)
    files = orders_in(folder, ordered)
    assert len(files) >= labels
    assert all(map(is_in_order, files))
    assert not all(map(is_in_order, orders_in(Lake(str(tmp_path / "plain")).folder(TABLE), plain)))
    assert [(each.rows, each.digest, each.aside_rows) for each in ordered] == [
        (each.rows, each.digest, each.aside_rows) for each in plain
    ]
    assert all(each.digest for each in ordered)
    aside = orders_in(folder, ordered, at=QUARANTINE)
    assert bool(aside) == is_filtered
    assert all(map(is_in_order, aside))


def test_sorting_adds_no_exchange_and_a_group_is_sorted_once(spark: SparkSession, tmp_path: Path) -> None:
    for labels, rebalanced in ((1, 0), (3, 1)):
        frame = clicks(spark, 500, labels)
        plans = [
            _plan_of_write(spark, lambda: write(frame, tmp_path / f"{labels}{by}", labels, sort_by=by))  # noqa: B023
            for by in ((), SORT_BY)
        ]
        # an adaptive query prints its initial plan after the final one
        final = [plan.partition("Initial Plan")[0] for plan in plans]
        assert [len(re.findall(r"\bExchange\b", tree)) for tree in final] == [rebalanced, rebalanced]
        assert len(re.findall(r"\bSort\b", final[1])) == 1, final[1]


def _plan_of_write(spark: SparkSession, do: Callable[[], object]) -> str:
    """Return the tree of the plan of the write that `do` makes, as Spark's own page shows it."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    before = {each.executionId() for each in _executions(spark)}
    do()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    texts = [each.physicalPlanDescription() for each in _executions(spark) if each.executionId() not in before]
    [text] = [text for text in texts if "InsertIntoHadoopFsRelationCommand" in text]
    return str(text.partition("\n\n")[0])


def _executions(spark: SparkSession) -> list[Any]:
    """Return the newest queries on Spark's page, which forgets older ones."""
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    return [found.apply(at) for at in range(found.size())]


def test_a_search_reads_the_pages_that_may_have_the_value(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(0, 200_000, 1, 1).selectExpr("pmod(hash(id), 50000) AS user", "id AS payload")
    read = {}
    for by in ((), ("user",)):
        written = write(rows, tmp_path / str(by), sort_by=by)
        table = _committed(tmp_path / str(by), rows, written.manifests, by)
        read[by] = _scanned(spark, table, "user = 777")
    assert read[()] == (1, 200_000)
    assert read[("user",)][0] == 1
    assert read[("user",)][1] <= 20_000


def test_columns_beyond_the_32nd_have_statistics_that_spark_uses(spark: SparkSession, tmp_path: Path) -> None:
    wide = [f"id AS c{number}" for number in range(40)]
    frames = [spark.range(0, 100, 1, 1).selectExpr(*wide, f"id + {1000 * number} AS user") for number in range(2)]
    files = {}
    for by in ((), ("user",)):
        root = tmp_path / str(by)
        slices = [write(frame, root, sort_by=by, first=number).manifests[0] for number, frame in enumerate(frames)]
        files[by] = _scanned(spark, _committed(root, frames[0], slices, by), "user = 1050")[0]
    assert files == {(): 2, ("user",): 1}


def _committed(root: Path, rows: DataFrame, manifests: Sequence[Manifest], by: tuple[str, ...]) -> str:
    """Commit slices to a new table with this SORT BY, and return its folder."""
    folder = Lake(str(root)).folder(TABLE)
    create_table(folder, rows.schema, is_partitioned=False, project="shop")
    record_row_order(folder, by, project="shop")
    texts = tuple(label_of(manifest.label) for manifest in manifests)
    identity = Identity("shop", TABLE, "collect", texts, max(texts), 7, "c1")
    commit_slices(folder, identity, manifests, mode="append")
    return folder


def _scanned(spark: SparkSession, folder: str, condition: str) -> tuple[int, int]:
    """Return how many files a query opens, and how many rows its scan returns, by the scan's own metrics."""
    frame = spark.read.format("delta").load(folder).where(condition)
    assert frame.collect()
    metrics = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0).metrics()
    return metrics.apply("numFiles").value(), metrics.apply("numOutputRows").value()
