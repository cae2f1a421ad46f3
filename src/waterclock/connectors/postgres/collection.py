"""Reads rows of a PostgreSQL database into a Spark frame, in bounded memory and as of one moment.

A small result is passed to Spark directly. A big one is split into parts, which Spark's Python workers read in
parallel. The first transaction stays open and exports its snapshot, so all parts are read as of the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Collected
from waterclock.connectors.postgres.extract import PostgresExtract, count_excluded_rows, estimate_size, parts_of
from waterclock.connectors.postgres.rows import batches, schema_of
from waterclock.connectors.spark_frames import DIRECT_ROWS, are_few, read_by_workers, read_if_few
from waterclock.connectors.sql.collect_results import collect_in_driver, collect_while_open
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.connectors.postgres.database import Connection


def collect_rows(
    spark: SparkSession,
    connection: Connection,
    close: Callable[[], None],
    extract: PostgresExtract,
    left_out: tuple[str, ...],
    *,
    partitions: int | None = None,
) -> Collected:
    """Read the rows of `extract` in the open transaction if they are few; else let Spark's workers read them.

    `close` ends the transaction. For a small result it is called here. For a big one it is called when the counts of
    `set_aside` are requested, after the frame was evaluated, or when the frame is discarded.
    """
    counts = count_excluded_rows(connection, extract)
    read = _read_if_few(connection, extract) if are_few(*estimate_size(connection, extract)) else None
    source: dict[str, Any] = {"database": extract.database.name}
    if read is not None:
        close()
        return collect_in_driver(spark, read, schema_of(extract), counts, left_out, source)
    parts = parts_of(connection, extract, partitions)
    frame = _read_by_workers(spark, connection, extract, parts)
    return collect_while_open(frame, close, counts, left_out, {**source, "parts": len(parts)})


def _read_if_few(connection: Connection, extract: PostgresExtract) -> list[pa.RecordBatch] | None:
    """Read the rows if they are few. If they are not, roll back to a savepoint, so that the transaction continues."""
    from psycopg import Rollback

    fetched = [0]  # also counts rows in gaps between windows, which the SQL bounds do not exclude
    with connection.transaction() as reading:
        read = read_if_few(batches(connection, replace(extract, most=DIRECT_ROWS + 1), fetched), fetched)
        if read is None:
            raise Rollback(reading)
    return read


def _read_by_workers(
    spark: SparkSession, connection: Connection, extract: PostgresExtract, parts: Sequence[str | None]
) -> DataFrame:
    row = connection.execute("SELECT pg_export_snapshot()").fetchone()
    extracts = [replace(extract, part=part, snapshot=row[0] if row else None) for part in parts]
    return read_by_workers(spark, extracts, _read_part, extract.fields)


def _read_part(extract: PostgresExtract) -> Iterator[pa.RecordBatch]:
    try:
        with extract.database.open_for_reading(extract.where, snapshot=extract.snapshot) as connection:
            yield from batches(connection, extract)
    except WaterclockError as error:
        raise _explain_lost_snapshot(error, extract) from error


def _explain_lost_snapshot(error: WaterclockError, extract: PostgresExtract) -> WaterclockError:
    if extract.snapshot is None or "snapshot" not in (error.why or ""):
        return error
    return WaterclockError(
        "E814",
        "the database ended the snapshot from which its parts are read",
        where=extract.where,
        why=error.why,
        fix="it is tried again; check why the server ended it: a restart, a pooler, a limit on transactions",
        transient=True,
    )
