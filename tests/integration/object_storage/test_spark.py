"""Spark and delta-rs write the same tables in S3 at the same time, and no commit is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from tests.s3 import Server, free_port, server
from tests.s3_spark import Driver, Refused

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_MOST_SECONDS_OF_A_REFUSAL = 60


@dataclass
class Site:
    """A bucket for two drivers, and two unusable buckets: one refuses requests, the other's server is down."""

    server: Server
    bucket: str
    drivers: tuple[Driver, Driver]
    refusing: str
    gone: str

    def url(self, path: str) -> str:
        return f"s3://{self.bucket}/{path}"

    def rows(self, path: str) -> list[int]:
        table = DeltaTable(self.url(path), storage_options=self.server.for_delta())
        return sorted(table.to_pyarrow_table()["id"].to_pylist())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("s3")
    bucket, refusing, gone = (server().new_bucket() for _ in range(3))
    confs = {
        f"spark.hadoop.fs.s3a.bucket.{refusing}.secret.key": "another",
        f"spark.hadoop.fs.s3a.bucket.{gone}.endpoint": f"http://127.0.0.1:{free_port()}",
    }
    first, second = (Driver(folder / name, server().options(), confs) for name in ("first", "second"))
    for driver in (first, second):
        driver.ask("SELECT 1")
    for driver in (first, second):
        driver.answer()  # waits until both are up
    yield Site(server(), bucket, (first, second), refusing, gone)
    first.close()
    second.close()


def test_a_job_s_files_are_put_in_place_without_a_copy(site: Site) -> None:
    driver, url = site.drivers[0], site.url("files")
    before = len(site.server.requests())
    driver.sql(f"INSERT OVERWRITE DIRECTORY '{url}' USING parquet SELECT /*+ REPARTITION(3) */ id FROM range(9)")
    written = site.server.requests()[before:]
    assert not [request for request in written if request.startswith("CopyObject")]
    assert driver.sql(f"SELECT count(*), sum(id) FROM parquet.`{url}`") == [[9, 36]]
    assert driver.sql(f"SELECT count(*) FROM parquet.`{url.replace('s3:', 's3a:')}`") == [[9]]


@pytest.mark.soak
def test_spark_and_delta_rs_write_one_table(site: Site) -> None:
    driver, url = site.drivers[0], site.url("table")
    write_deltalake(url, pa.table({"id": [1, 2]}), storage_options=site.server.for_delta())
    driver.sql(f"INSERT INTO delta.`{url}` VALUES (3)")
    write_deltalake(url, pa.table({"id": [4]}), storage_options=site.server.for_delta(), mode="append")
    driver.sql(
        f"MERGE INTO delta.`{url}` t USING (SELECT id FROM range(4, 6)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET id = s.id * 10 WHEN NOT MATCHED THEN INSERT *"
    )
    assert site.rows("table") == [1, 2, 3, 5, 40]
    assert driver.sql(f"SELECT id FROM delta.`{url}` ORDER BY id") == [[1], [2], [3], [5], [40]]


def test_the_server_decides_whose_a_version_is(site: Site) -> None:
    first, second = site.drivers
    path = f"decided/_delta_log/{0:020}.json"
    first.put(site.url(path), "first")
    with pytest.raises(Refused, match="FileAlreadyExistsException"):
        second.put(site.url(path), "second")
    assert f"PutObject /{site.bucket}/{path} 412" in site.server.requests()
    first.put(site.url(path), "first")  # as after a lost response
    assert (site.server.folder_of(site.bucket) / path).read_text(encoding="ascii") == "first\n"


@pytest.mark.soak
def test_of_commits_that_race_none_is_lost(site: Site, *, is_long: bool) -> None:
    url, options, commits = site.url("race"), site.server.for_delta(), 8 if is_long else 4
    write_deltalake(url, pa.table({"id": [0]}), storage_options=options)
    for number, driver in enumerate(site.drivers, start=1):
        driver.sql(f"SELECT count(*) FROM delta.`{url}`")  # both have started before either commits
        driver.ask(*(f"INSERT INTO delta.`{url}` VALUES ({number * 100 + at})" for at in range(commits)))
    told = [0]
    for at in range(300, 330 if is_long else 315):
        try:
            write_deltalake(
                url,
                pa.table({"id": [at]}),
                storage_options=options,
                mode="append",
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except CommitFailedError:
            continue
        told.append(at)
        time.sleep(0.1)
    for driver in site.drivers:
        driver.answer()
    assert site.rows("race") == sorted([*told, *range(100, 100 + commits), *range(200, 200 + commits)])


def test_a_refused_secret_is_reported_quickly(site: Site) -> None:
    start = time.monotonic()
    with pytest.raises(Refused, match="403"):
        site.drivers[0].sql(f"INSERT OVERWRITE DIRECTORY 's3://{site.refusing}/a' USING parquet SELECT 1")
    assert time.monotonic() - start < _MOST_SECONDS_OF_A_REFUSAL


def test_an_unreachable_server_is_reported_quickly(site: Site) -> None:
    start = time.monotonic()
    with pytest.raises(Refused, match="Connection refused"):
        site.drivers[0].sql(f"INSERT OVERWRITE DIRECTORY 's3://{site.gone}/a' USING parquet SELECT 1")
    assert time.monotonic() - start < _MOST_SECONDS_OF_A_REFUSAL
