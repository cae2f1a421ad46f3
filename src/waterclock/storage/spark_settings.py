"""Settings of a Spark session that make its writes correct and fast."""

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
        # as TIMESTAMP_NTZ, each TIMESTAMP of a declaration or a CAST would be a local time
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.decimalOperations.allowPrecisionLoss": "true",
        "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
        # a cluster may skip files that are gone or damaged: their rows would be missing without an error
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
        # otherwise Spark replaces ${env:NAME} in texts by environment variables, secrets among them
        "spark.sql.variable.substitute": "false",
        # Parquet statistics of INT96 are useless, and delta-rs reads microseconds
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        # a slice contains only its Parquet files and its manifest: no _SUCCESS, and no .crc next to each file
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        # Spark 4.2.0 waits forever when it passes columns of a Parquet scan to a Python function unchanged
        "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
        # otherwise Spark replaces an exchange without rows by an empty relation, and drops the observation of its rows
        "spark.sql.adaptive.optimizer.excludedRules": (
            "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
        ),
        # the default of 50 tasks for each read of a Delta version costs seconds
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "8",
        # Java does not compile longer methods, such as one with forty rules on rows. Spark then splits them into short
        # ones
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # up to this number of paths the driver lists the files itself, without a Spark job
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "512",
        # VACUUM lists files in this number of tasks: the default of 10,000 takes 20 s, 32 take 2 s
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    }
)

# Delta's own log store for S3 lets one of two concurrent commits replace the other: see
# docs/decisions/spark-commits-to-s3.md
LOG_STORE = "waterclock.storage.ConditionalLogStore"
LOG_STORE_OF_S3 = "spark.delta.logStore.s3.impl"

PARTITIONS = "spark.sql.shuffle.partitions"
# Bytes of Parquet on disk; decoded, they take two to four times as much. Spark itself coalesces partitions that turn
# out small
_BYTES_A_PARTITION = 16 * 1024 * 1024
# above this number Spark keeps only average block sizes, and cannot detect skew
_MAX_PARTITIONS = 2000


def require_log_store(spark: SparkSession, folder: str) -> None:
    """Raise E633 if Spark cannot safely commit to a table in S3 because it uses another log store.

    The error names the options with which the Spark server, or the session's creator, must start. Delta reads this
    setting from the Spark context, not from the session. Cost: one lookup.
    """
    if not folder.startswith("s3://") or spark.conf.get(LOG_STORE_OF_S3, None) == LOG_STORE:
        return
    raise WaterclockError(
        "E633",
        "this Spark cannot commit to S3",
        where=folder,
        why=(
            "its Delta log store checks for a free version and then writes: of two concurrent commits one would be lost"
        ),
        fix=f"start it with --conf {LOG_STORE_OF_S3}={LOG_STORE} and the jars that "
        "`python -m waterclock.engine.spark.jars s3` prints",
    )


def shuffle_partitions(size: int) -> int:
    """Return the number of shuffle partitions for `size` bytes of Parquet: one per 16 MiB, 2,000 at most."""
    return max(int(SESSION_CONFS[PARTITIONS]), min(-(-size // _BYTES_A_PARTITION), _MAX_PARTITIONS))
