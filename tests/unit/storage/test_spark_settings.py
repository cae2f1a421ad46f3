"""Settings of Spark: shuffle partitions follow the size of inputs; and which versions may commit to S3."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from waterclock.errors import WaterclockError
from waterclock.storage.spark_settings import (
    LOG_STORE,
    PARTITIONS,
    SESSION_CONFS,
    require_log_store,
    shuffle_partitions,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("size", "parts"),
    [(0, 8), (128 * MIB, 8), (128 * MIB + 1, 9), (GIB, 64), (10 * GIB, 640), (1000 * GIB, 2000)],
)
def test_partitions_follow_the_bytes_that_are_read(size: int, parts: int) -> None:
    assert shuffle_partitions(size) == parts


def test_little_is_shuffled_as_the_session_is_set() -> None:
    assert SESSION_CONFS[PARTITIONS] == str(shuffle_partitions(0))


def spark_with(**confs: str) -> SparkSession:
    return cast("SparkSession", SimpleNamespace(conf={name.replace("_", "."): value for name, value in confs.items()}))


def test_spark_commits_to_s3_by_a_log_store_that_loses_none_or_not_at_all() -> None:
    for spark in (spark_with(), spark_with(spark_delta_logStore_s3_impl="io.delta.storage.S3SingleDriverLogStore")):
        with pytest.raises(WaterclockError, match=r"E633 .*\n  s3://lake/tables/raw/a") as refused:
            require_log_store(spark, "s3://lake/tables/raw/a")
        assert LOG_STORE in (refused.value.fix or "")
        require_log_store(spark, "/srv/lake/tables/raw/a")
    require_log_store(spark_with(spark_delta_logStore_s3_impl=LOG_STORE), "s3://lake/tables/raw/a")
