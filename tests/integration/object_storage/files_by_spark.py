"""The connection type `files` on a bucket, tested by the public suites for connectors that read with Spark.

`test_files_by_spark` runs this file in a process of its own: the tests' shared Spark has no S3 support.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.stores import HeldBucket, JsonBucket, KindBucket, LandingBucket, ParquetBucket, TimedBucket, fresh_bucket
from tests.systems import LandingFolder, unit_of
from waterclock.engine.spark.jars import delta_jars, object_storage_jars
from waterclock.engine.spark.object_storage import confs_of_stores
from waterclock.engine.spark.session import open_session
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import file_exists, remove_file
from waterclock.files.object_stores import store_of
from waterclock.testing.connectors import ArrivalConformance, SnapshotConformance, WindowConformance, declared
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAY = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    store = store_of(fresh_bucket())
    assert store is not None
    jars = ",".join(jar.as_uri() for jar in (*delta_jars(), *object_storage_jars("s3")))
    own = {"spark.jars": jars, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}
    session = open_session("local[2]", tmp_path_factory.mktemp("spark"), {**own, **confs_of_stores([store])})
    yield session
    session.stop()


class TestStoredFilesByArrival(ArrivalConformance):
    @pytest.fixture(params=["both", "landing", "archive"])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> LandingFolder:
        if request.param == "both":
            return LandingBucket(tmp_path)
        if request.param == "landing":
            return JsonBucket(tmp_path, "s3", "local")
        return ParquetBucket(tmp_path, "local", "s3")


class TestStoredFilesByDataTime(WindowConformance):
    @pytest.fixture(params=["America/New_York", None])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> TimedBucket:
        return TimedBucket(tmp_path, request.param)


class TestStoredFilesAsSnapshot(SnapshotConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> HeldBucket:
        return HeldBucket(tmp_path)


NAMES = [
    "a b+c%20ü.csv",
    "a#b?c*d[e]{f}.csv",
    "x~y\\z.csv",
    "q\"'<>|^`.csv",
    "%2F.csv",
    "a:b@c&d=e$f,g;h!.csv",
    "é漢😀.csv",
]


def test_a_row_has_the_label_of_its_file_for_any_file_name(spark: SparkSession, tmp_path: Path) -> None:
    system = LandingBucket(tmp_path)
    for number, name in enumerate(NAMES):
        (system.source / name).write_bytes(f"id\n{number}\n".encode())
    collector: Any = system.connector.collector(system.setting)
    unit = unit_of("landing", "shop/orders/*.csv")
    items = {item.name: item for item in collector.arrivals(unit).items}
    assert sorted(items) == sorted(f"shop/orders/{name}" for name in NAMES)
    collector.archive(unit, [items[f"shop/orders/{name}"] for name in NAMES[::2]])
    items = {item.name: item for item in collector.arrivals(unit).items}
    taken = {DAY + timedelta(days=at): [items[f"shop/orders/{name}"]] for at, name in enumerate(NAMES)}
    rows = collector.read_items(spark, unit, taken, declared(), "UTC").frame.collect()
    assert {row["id"]: row[TIMELABEL] for row in rows} == {
        str(at): label_of(DAY + timedelta(days=at)) for at in range(len(NAMES))
    }


def evaluated(spark: SparkSession, system: LandingFolder, columns: Any, *, is_gone: bool = False) -> WaterclockError:
    """Return the error that reading the one existing file is converted to."""
    collector: Any = system.connector.collector(system.setting)
    items = collector.arrivals(system.unit).items
    frame = collector.read_items(spark, system.unit, {DAY: items}, columns, "UTC").frame
    if is_gone:
        remove_file(items[0].path)
    with pytest.raises(Exception, match="FAILED_READ_FILE") as error:
        frame.collect()
    explained = collector.explain(system.unit, columns, error.value)
    assert isinstance(explained, WaterclockError)
    return explained


def test_a_broken_row_is_named_by_its_file_and_line(spark: SparkSession, tmp_path: Path) -> None:
    system = LandingBucket(tmp_path)
    path = system.put(DAY, [{"id": "1", "note": "n"}, {"id": "x", "note": "n"}])
    error = evaluated(spark, system, declared(("id", "INT")))
    assert (error.code, error.where) == ("E806", f"{path}:3")


def test_a_file_deleted_before_it_is_read_is_a_transient_error(spark: SparkSession, tmp_path: Path) -> None:
    system = LandingBucket(tmp_path)
    path = system.put(DAY, [{"id": "1", "note": "n"}])
    error = evaluated(spark, system, declared(), is_gone=True)
    assert not file_exists(path)
    assert (error.code, error.where, error.transient) == ("E807", str(path), True)


@pytest.mark.parametrize("archive", ["s3", "local"])
@pytest.mark.parametrize("kind", ["json", "xml", "txt", "avro", "xlsx", "zip"])
def test_each_kind_is_read_from_a_bucket_and_from_the_archive(
    spark: SparkSession, tmp_path: Path, kind: str, archive: str
) -> None:
    system = KindBucket(tmp_path, kind, "s3", archive)
    for at, note in enumerate(("n", "é")):
        system.put(DAY + timedelta(days=at), [{"id": f"{at}", "note": note}])
    collector: Any = system.connector.collector(system.setting)
    collector.archive(system.unit, collector.arrivals(system.unit).items[:1])
    items = collector.arrivals(system.unit).items
    assert [item.is_archived for item in items] == [True, False]
    collected = collector.read_items(spark, system.unit, {item.stamp: [item] for item in items}, declared(), "UTC")
    found = {(row["id"], row["note"], row[TIMELABEL]) for row in collected.frame.collect()}
    assert found == {("0", "n", label_of(DAY)), ("1", "é", label_of(DAY + timedelta(days=1)))}
    collected.close()
