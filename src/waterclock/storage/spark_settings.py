"""The settings of a Spark session under which what it writes is right, and quick."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SESSION_CONFS: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "false",
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
        # up to here file lists are read by the driver, not by a Spark job
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "512",
        # VACUUM lists by that many tasks: 10,000 by default, which takes 20 s where 32 take 2 s
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    }
)

PARTITIONS = "spark.sql.shuffle.partitions"
# of Parquet as it lies on disk, which is two to four times as much when it is decoded; partitions that turn out small
# Spark itself puts together
_BYTES_A_PARTITION = 16 * 1024 * 1024
# beyond, Spark keeps sizes of blocks as averages, and sees no skew in them
_MOST_PARTITIONS = 2000


def shuffle_partitions(size: int) -> int:
    """Return into how many parts Spark shuffles what is made of so many bytes of Parquet.

    One for each 16 MiB, no fewer than the default, no more than 2,000.
    """
    return max(int(SESSION_CONFS[PARTITIONS]), min(-(-size // _BYTES_A_PARTITION), _MOST_PARTITIONS))
