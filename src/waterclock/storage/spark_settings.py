"""The settings of a Spark session under which what it writes is right, and quick."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_CONFS: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "false",
        # Spark would put variables of the environment, secrets among them, into texts that say ${env:NAME}
        "spark.sql.variable.substitute": "false",
        # Parquet statistics of INT96 are useless, and delta-rs reads microseconds
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        # a slice holds its Parquet files and its manifest: no _SUCCESS, no .crc beside each file
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        # Spark 4.2.0 waits for ever where it hands columns of a Parquet scan to a Python function as they are
        "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
        # in the place of an exchange without rows Spark would put an empty relation, and forget what watched its rows
        "spark.sql.adaptive.optimizer.excludedRules": (
            "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
        ),
        # the default of 50 tasks for each look at a Delta version costs seconds
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "8",
        # Java compiles no method that is longer, as forty rules on rows are: many short ones are to be made of it then
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # up to here file lists are read by the driver, not by a Spark job
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "512",
        # VACUUM lists by that many tasks: 10,000 by default, which takes 20 s where 32 take 2 s
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    }
)

# Delta's own log store for S3 lets one of two commits at once replace the other (docs/decisions/spark-commits-to-s3.md)
LOG_STORE = "waterclock.storage.ConditionalLogStore"
LOG_STORE_OF_S3 = "spark.delta.logStore.s3.impl"

PARTITIONS = "spark.sql.shuffle.partitions"
# of Parquet as it lies on disk, which is two to four times as much when it is decoded; partitions that turn out small
# Spark itself puts together
_BYTES_A_PARTITION = 16 * 1024 * 1024
# beyond, Spark keeps sizes of blocks as averages, and sees no skew in them
_MOST_PARTITIONS = 2000


def require_log_store(spark: SparkSession, folder: str) -> None:
    """Refuse a commit by Spark to a table in S3 where its log store would not leave that to S3.

    Delta asks the conf of the whole context, not that of a session. Cost: a look at a conf.
    Raises  E633 naming what the server, or whoever opened the session, must be started with
    """
    if not folder.startswith("s3://") or spark.conf.get(LOG_STORE_OF_S3, None) == LOG_STORE:
        return
    raise WaterclockError(
        "E633",
        "this Spark cannot commit to S3",
        where=folder,
        why="it was started with a log store of Delta's that looks whether a version is free and writes then: of two "
        "commits at once one would be lost",
        fix=f"start it with --conf {LOG_STORE_OF_S3}={LOG_STORE} and the jars that "
        "`python -m waterclock.engine.spark.jars s3` prints",
    )


def shuffle_partitions(size: int) -> int:
    """Return into how many parts Spark shuffles what is made of so many bytes of Parquet.

    One for each 16 MiB, no fewer than the default, no more than 2,000.
    """
    return max(int(SESSION_CONFS[PARTITIONS]), min(-(-size // _BYTES_A_PARTITION), _MOST_PARTITIONS))
