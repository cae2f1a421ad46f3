"""Computes how many bytes a batch reads, from ledger and logs, to choose Spark's shuffle partitions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.engine.reads.pin import PinnedRead
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.spark_settings import PARTITIONS, shuffle_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.flow.declarations import Flow


def bytes_read(lake: Lake, flow: Flow, pins: Iterable[tuple[PinnedRead, ...]]) -> int:
    """Return the number of Parquet bytes that labels read, given their pinned reads. Shared slices count once.

    For a MERGE or TEMPORAL table these are its current live files, whichever state is read. Cost: a step per slice.
    """
    total, seen = 0, dict[str, datetime]()
    read = [each for reads in pins for each in reads if each.slices]
    for pinned in sorted(read, key=lambda each: (each.slices[0].label, each.slices[-1].label)):
        table = pinned.read.table
        if flow.tables[table].is_fold:
            total += 0 if table in seen else count_live_bytes(lake.folder(table))
            seen[table] = pinned.slices[-1].label
            continue
        # An interval contains all slices between its ends, so those up to the last one seen are counted already.
        known = seen.get(table)
        begin = 0 if known is None else bisect_right(pinned.slices, known, key=lambda piece: piece.label)
        total += sum(piece.bytes for piece in pinned.slices[begin:])
        seen[table] = max(pinned.slices[-1].label, known or pinned.slices[-1].label)
    return total


def count_live_bytes(folder: str) -> int:
    """Return the bytes of a table's live files, 0 if it does not exist. Cost: a read of its log, a step per file."""
    if not table_exists(folder):
        return 0
    with open_table(folder) as table:
        return sum(file.size for file in table.files.values())


def set_shuffle_partitions(spark: SparkSession, size: int) -> None:
    """Raise a session's shuffle partitions to the number that fits `size` bytes of Parquet. Never lower it."""
    wanted = shuffle_partitions(size)
    if wanted == shuffle_partitions(0):
        return
    is_set = spark.conf.get(PARTITIONS) or ""
    if is_set.isdigit() and int(is_set) < wanted:  # some platforms set "auto"
        spark.conf.set(PARTITIONS, str(wanted))
