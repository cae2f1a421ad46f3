"""CLUSTER BY splits the rows of a label by values, and changes neither rows nor digests nor counts (PT-52)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

from waterclock.engine.spark.exchanges import final_plan
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_slices
from waterclock.storage.commit.row_order import record_row_order
from waterclock.storage.lake import Lake
from waterclock.storage.log.identity import Identity
from waterclock.storage.slices import clustering
from waterclock.storage.slices.clustering import Clustering, plan_clustering
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.row_filter import (
    QUARANTINE,
    ROW_DROPPED,
    ROW_KEPT,
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
TABLE = "web.clicks"
HOURS = [datetime(2018, 3, 5, 8, tzinfo=UTC) + timedelta(hours=number) for number in range(20)]
ROWS = 12_000


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split slices into files of some 40 KB."""
    monkeypatch.setattr(clustering, "TARGET_BYTES", 40_000)


def clicks(spark: SparkSession, rows: int = ROWS, labels: int = 1, *, seed: int = 0) -> DataFrame:
    """Return unsorted rows in two tasks. `user`, `device` and `name` are independent; each has NULLs."""
    texts = F.array(*(F.lit(label_of(label)) for label in HOURS[:labels]))
    frame = spark.range(0, rows, 1, 2).selectExpr(
        "id",
        f"nullif(pmod(xxhash64(id, {seed}, 1), 5000), 0) AS user",
        f"nullif(pmod(xxhash64(id, {seed}, 2), 3000), 0) AS device",
        f"nullif(concat('n', pmod(xxhash64(id, {seed}, 3), 4000)), 'n0') AS name",
        "timestamp_seconds(pmod(xxhash64(id, 4), 80000)) AS at",
        "CAST(pmod(xxhash64(id, 5), 100000) AS DECIMAL(12, 3)) / 7 AS price",
    )
    return frame.withColumn("timelabel", F.element_at(texts, (F.col("id") % labels + 1).cast("int")))


def write(
    spark: SparkSession,
    frame: DataFrame,
    root: Path,
    by: Sequence[str],
    last: Manifest | None = None,
    *,
    labels: Sequence[datetime] = HOURS[:1],
    claim: int = 7,
    **more: Any,
) -> WrittenSlices:
    lake = Lake(str(root))
    folder = lake.folder(TABLE)
    split = plan_clustering(spark, folder, by, last) if by else None
    return write_slices(
        frame, folder=folder, claim=claim, labels=labels, lake=lake, code="c1", sort_by=by, clustering=split, **more
    )


def values(root: Path, manifest: Manifest, *columns: str, at: str = "") -> list[list[tuple[Any, ...]]]:
    """Return the values of columns in each file, in the order of the file."""
    found = []
    for path in sorted(Path(Lake(str(root)).folder(TABLE), manifest.slice_path, at).glob("*.parquet")):
        table = pq.read_table(path, columns=list(columns), partitioning=None)
        found.append(list(zip(*(table[name].to_pylist() for name in columns), strict=True)))
    return found


def in_order(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])


def are_apart(files: Sequence[Sequence[tuple[Any, ...]]]) -> bool:
    """Return whether no value of the first column is in two files."""
    spans = sorted(
        (min(known), max(known)) for rows in files if (known := [row[0] for row in rows if row[0] is not None])
    )
    return all(one[1] < other[0] for one, other in pairwise(spans))


# the digests of 17 labels are computed by a scan
@pytest.mark.parametrize(("labels", "is_filtered"), [(1, False), (17, False), (1, True), (3, True)])
def test_rows_digests_and_counts_are_those_without_it(
    spark: SparkSession, tmp_path: Path, labels: int, *, is_filtered: bool
) -> None:
    last = write(spark, clicks(spark), tmp_path / "last", ("user",)).manifests[0]
    frame = clicks(spark, ROWS, labels, seed=1)
    rules = (RowRule("r0", "user % 5 > 0", ROW_QUARANTINED), RowRule("r1", "user % 7 > 0", ROW_DROPPED),
             RowRule("r2", "user % 11 > 0", ROW_KEPT))  # fmt: skip
    names = {name: name for name in frame.columns}
    through: dict[str, Any] = (
        {"through": RowFilterSettings(RowFilter(rules), names, frame.schema.json())} if is_filtered else {}
    )
    plain = write(spark, frame, tmp_path / "plain", (), labels=HOURS[:labels], **through)
    for by, before in ((("user",), last), (("user", "device"), last), (("user",), None)):
        if before or not (is_filtered and labels > 1):
            root = tmp_path / f"{by}{before is None}"
            found = write(spark, frame, root, by, before, labels=HOURS[:labels], **through)
            assert [(each.rows, each.digest, each.aside_rows, each.aside_digest) for each in found.manifests] == [
                (each.rows, each.digest, each.aside_rows, each.aside_digest) for each in plain.manifests
            ]
            assert all(each.digest for each in found.manifests)
            assert found.filter_counts == plain.filter_counts
            if by == ("user",):
                for each in found.manifests:
                    files = values(root, each, "user", at="")
                    assert all(rows == in_order(rows) for rows in files)
                    assert are_apart(files)
                    assert len(files) > (1 if labels == 1 or before else 0)
                    assert all(rows == in_order(rows) for rows in values(root, each, "user", at=QUARANTINE))


@pytest.mark.parametrize("column", ["name", "at", "price"])
def test_the_next_slice_is_split_by_the_greatest_values_of_the_last_without_a_job(
    spark: SparkSession, tmp_path: Path, column: str
) -> None:
    folder = Lake(str(tmp_path)).folder(TABLE)
    first = write(spark, clicks(spark), tmp_path, (column,)).manifests[0]
    assert len(first.files) > 2
    split = plan_clustering(_no_spark(), folder, (column,), first)
    assert split.files == len(first.files)
    found = write(spark, clicks(spark, seed=1), tmp_path, (column,), first, labels=HOURS[1:2]).manifests[0]
    files = values(tmp_path, found, column)
    assert len(files) == split.files
    assert are_apart(files)
    assert all(rows == in_order(rows) for rows in files)
    greatest = [max(row[0] for row in rows if row[0] is not None) for rows in values(tmp_path, first, column)]
    for bound in sorted(greatest)[:-1]:  # each value stays on its side of each bound
        assert all(len({row[0] <= bound for row in rows if row[0] is not None}) == 1 for rows in files)


def _no_spark() -> Any:
    """Return an object that fails when it is used, so that no job can run."""
    return None


def test_small_slices_are_sorted_and_not_split(spark: SparkSession, tmp_path: Path) -> None:
    small = write(spark, clicks(spark, 300).coalesce(1), tmp_path, ("user",)).manifests[0]
    [rows] = values(tmp_path, small, "user")
    assert rows == in_order(rows)
    folder = Lake(str(tmp_path)).folder(TABLE)
    assert plan_clustering(_no_spark(), folder, ("user",), None) == Clustering(("user",))
    assert plan_clustering(_no_spark(), folder, ("user",), small) == Clustering(("user",))


def test_slices_of_another_order_or_of_uneven_files_are_sampled(spark: SparkSession, tmp_path: Path) -> None:
    folder = Lake(str(tmp_path)).folder(TABLE)
    plain = write(spark, clicks(spark), tmp_path, ()).manifests[0]
    split = plan_clustering(spark, folder, ("user",), plain)
    bounds = [int(text) for text in split.bounds[0]]
    assert len(bounds) == split.files - 1 > 2
    shares = [abs(bound / 5000 - at / split.files) for at, bound in enumerate(bounds, 1)]
    assert max(shares) < 0.05
    skewed = clicks(spark).withColumn("user", F.expr("if(id % 10 < 7, 77, user)"))
    uneven = write(spark, skewed, tmp_path, ("user",), plain, labels=HOURS[1:2]).manifests[0]
    sizes = sorted(file.size for file in uneven.files)
    assert sizes[-1] > 2 * sizes[len(sizes) // 2]
    again = plan_clustering(spark, folder, ("user",), uneven)
    assert again.bounds[0].count("77") == 1
    found = write(spark, skewed, tmp_path, ("user",), uneven, labels=HOURS[2:3]).manifests[0]
    assert are_apart(values(tmp_path, found, "user"))


def test_all_rows_of_one_value_or_none_are_not_split(spark: SparkSession, tmp_path: Path) -> None:
    for user in ("7", "CAST(NULL AS BIGINT)"):
        frame = clicks(spark).withColumn("user", F.expr(user))
        root = tmp_path / user
        first = write(spark, frame, root, ("user",)).manifests[0]
        following = write(spark, frame, root, ("user",), first, labels=HOURS[1:2]).manifests[0]
        both = write(spark, frame, root, ("user", "device"), first, labels=HOURS[2:3]).manifests[0]
        assert [each.rows for each in (first, following, both)] == [ROWS] * 3
        assert {row for rows in values(root, following, "user") for row in rows} == {(7 if user == "7" else None,)}


def test_a_slice_with_missing_files_is_not_used_to_plan_clustering(spark: SparkSession, tmp_path: Path) -> None:
    folder = Lake(str(tmp_path)).folder(TABLE)
    plain = write(spark, clicks(spark), tmp_path, ()).manifests[0]
    Path(folder, plain.files[0].path).unlink()
    assert plan_clustering(_no_spark(), folder, ("user",), plain) == Clustering(("user",))


def test_rows_are_made_once_and_observed_once(spark: SparkSession, tmp_path: Path) -> None:
    for by in (("user",), ("user", "device")):
        root, last = tmp_path / str(by), None
        for number in range(3):
            calls = spark.sparkContext.accumulator(0)
            seen = Observation()
            frame = clicks(spark, seed=number).observe(seen, F.count(F.lit(1)).alias("rows"))
            frame = frame.withColumn("id", _counting(calls)("id"))
            last = write(spark, frame, root, by, last, labels=HOURS[number : number + 1]).manifests[0]
            assert calls.value == ROWS
            assert seen.get == {"rows": ROWS}
            assert last.digest is not None
            assert len(last.files) > 2


def _counting(calls: Any) -> Any:
    """Return a Python function for Spark that returns its argument, and counts its calls."""

    def count(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Spark reads the types of hints
        calls.add(1)
        return value

    return F.udf(count, LongType())


def test_searches_open_few_files_and_read_few_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "TARGET_BYTES", 150_000)
    searches = ("user = 777", "device = 777", "user BETWEEN 700 AND 800 AND device BETWEEN 700 AND 800")
    found: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    by: tuple[str, ...]
    for by in ((), ("user",), ("user", "device")):
        root = tmp_path / str(by)
        slices: list[Manifest] = []
        for number in range(2):
            slices += write(
                spark, clicks(spark, 50_000, seed=number), root, by, slices[-1] if slices else None,
                labels=HOURS[number : number + 1], claim=7 + number,
            ).manifests  # fmt: skip
        folder = _committed(root, clicks(spark), slices, by)
        found[by] = [_scanned(spark, folder, search) for search in searches]
        total = sum(len(each.files) for each in slices)
        assert total >= 10 or not by
        opened = [files for files, _ in found[by]]
        assert opened == {(): [total] * 3, ("user",): [2, total, 2]}.get(by, opened)
        assert max(opened[:2]) <= total * 0.6 or ("device" not in by)
        assert opened[2] <= total * 0.4 or not by
    rows = {by: [rows for _, rows in each] for by, each in found.items()}
    assert rows[()] == [100_000] * 3
    assert rows[("user",)][0] <= 20_000
    assert max(rows[("user", "device")]) <= 60_000
    assert rows[("user", "device")][2] <= 40_000


def test_a_group_is_sorted_once_also_along_a_curve(spark: SparkSession, tmp_path: Path) -> None:
    last = write(spark, clicks(spark), tmp_path, ("user", "device")).manifests[0]
    for by in (("user",), ("user", "device")):
        plans: list[str] = []

        @contextmanager
        def note(rows: DataFrame, path: str) -> Iterator[None]:
            del rows
            yield
            plans.append(final_plan(spark, path) or "")  # noqa: B023

        frame = clicks(spark, labels=3, seed=1)
        write(spark, frame, tmp_path / str(by), by, last, labels=HOURS[:3], around_write=note)
        [found] = [plan.partition("Initial Plan")[0].partition("\n\n")[0] for plan in plans]
        assert len(re.findall(r"\bExchange\b", found)) == 1, found
        assert len(re.findall(r"\bSort\b", found)) == 1, found


def _committed(root: Path, rows: DataFrame, manifests: Sequence[Manifest], by: tuple[str, ...]) -> str:
    folder = Lake(str(root)).folder(TABLE)
    create_table(folder, rows.schema, is_partitioned=False, project="shop")
    record_row_order(folder, by, project="shop")
    texts = tuple(label_of(manifest.label) for manifest in manifests)
    commit_slices(folder, Identity("shop", TABLE, "collect", texts, max(texts), 7, "c1"), manifests, mode="append")
    return folder


def _scanned(spark: SparkSession, folder: str, condition: str) -> tuple[int, int]:
    """Return how many files a query opens, and how many rows its scan returns, by the scan's own metrics."""
    frame = spark.read.format("delta").load(folder).where(condition)
    frame.collect()
    metrics = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0).metrics()
    return metrics.apply("numFiles").value(), metrics.apply("numOutputRows").value()
