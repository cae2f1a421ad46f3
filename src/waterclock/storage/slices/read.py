"""Reads rows of a table: of a version through the Delta log, or of sealed slices directly from their files."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from stat import S_ISREG
from typing import TYPE_CHECKING, Protocol, cast

from deltalake.exceptions import DeltaError
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from waterclock.files.filesystem import entry_path
from waterclock.files.object_stores import is_remote
from waterclock.spark_sql import literal_path
from waterclock.storage.fetched_rows import map_leaf_types
from waterclock.storage.lake import STAGE
from waterclock.storage.log.delta_log import damaged_log
from waterclock.storage.log.live_files import (
    LiveFile,
    damaged_file_error,
    is_plain,
    live_files,
    may_contain_range,
    open_delta,
    open_kept_version,
)
from waterclock.storage.log.open_tables import find_schema, open_table
from waterclock.storage.slices.manifest import Manifest, require_within
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.storage.schema_types import Schema

# Up to this number of sealed files, reading them is faster than the first read of a Delta version (three jobs). It is
# as fast as a second one: 1 file 0.03 s, 100 files 0.2 s, 500 files 0.5 s, 800 files 2.7 s. Reads of the version took 2
# to 3 s and 0.3 to 0.6 s on the same busy machine. Beyond 512 Spark lists files by a job (SESSION_CONFS).
FILES_READ_DIRECTLY = 500
# metadata of columns that contains no SQL: comments, and what column mapping, wider types and CHAR need
_READ_METADATA = frozenset({"comment", "__CHAR_VARCHAR_TYPE_STRING", "delta.typeChanges"})
_COLUMN_MAPPING = "delta.columnMapping."


class RecordedFile(Protocol):
    """A file that a log or a manifest records: its path below the table's folder, and its size in bytes."""

    @property
    def path(self) -> str:
        """The path relative to the table's folder."""

    @property
    def size(self) -> int:
        """The size with which the file was written, in bytes."""


def frame_at(
    spark: SparkSession,
    folder: str,
    version: int,
    *,
    low: datetime | None = None,
    high: datetime | None = None,
    without: Collection[str] = (),
    is_partitioned: bool,
) -> DataFrame:
    """Return a table as of a Delta version, with only the rows whose labels are in `[low, high)` and not in `without`.

    Files that have rows of labels in `without` alone are not read, unless Delta must read an unpartitioned table.
    Cost: no job here. A small number of live files is listed by delta-rs in some milliseconds, and read as files. Many
    files, and layouts that need it, are read through Spark's Delta log. The first such read of a version costs three
    jobs. Raises E605 for a file on a disk whose size differs from the recorded one.
    """
    bounds = (None if low is None else label_of(low), None if high is None else label_of(high))
    direct = _live_files(folder, version, bounds, without, is_partitioned=is_partitioned)
    rows = _filter_labels(_frame(spark, folder, version, direct), bounds)
    return rows.where(~F.col(TIMELABEL).isin(sorted(without))) if without else rows


def try_frame_at_version(
    spark: SparkSession,
    folder: str,
    version: int,
    *,
    low: datetime | None = None,
    high: datetime | None = None,
    is_partitioned: bool,
) -> DataFrame | None:
    """Return the result of `frame_at`, or None if the version's log or files no longer exist.

    Cost: as `frame_at`; the log is opened at the version, some 10 ms, and each file is looked up.
    """
    bounds = (None if low is None else label_of(low), None if high is None else label_of(high))
    table = open_kept_version(folder, version, *bounds)
    if table is None:
        return None
    schema, plain = table.schema().to_json(), is_plain(table)
    direct = _list_direct_files(
        folder, live_files(table), schema, bounds, is_plain=plain, is_partitioned=is_partitioned
    )
    return _filter_labels(_frame(spark, folder, table.version(), direct), bounds)


def frame_of_version(spark: SparkSession, folder: str, version: int) -> DataFrame:
    """Return the rows of a version of an unpartitioned table, also after OPTIMIZE and VACUUM have moved them."""
    with open_table(folder) as table:
        is_newest = table.version == version
    kept = None if is_newest else try_frame_at_version(spark, folder, version, is_partitioned=False)
    return frame_at(spark, folder, version, is_partitioned=False) if kept is None else kept


def _frame(spark: SparkSession, folder: str, version: int, direct: tuple[list[LiveFile], str] | None) -> DataFrame:
    if direct is not None:
        return frame_of_files(spark, folder, *direct)
    frame = spark.read.format("delta").option("versionAsOf", version).load(folder)
    unknown_keys = sorted(key for key in _metadata_keys(frame.schema) if not _is_readable_metadata(key))
    if unknown_keys:
        why = f"a column has the metadata {unknown_keys[0]}, and Spark may evaluate SQL in it"
        raise damaged_log(folder, f"{folder}/_delta_log", why)
    return frame


def _filter_labels(frame: DataFrame, bounds: tuple[str | None, str | None]) -> DataFrame:
    if bounds[0] is not None:
        frame = frame.where(F.col(TIMELABEL) >= F.lit(bounds[0]))
    if bounds[1] is not None:
        frame = frame.where(F.col(TIMELABEL) < F.lit(bounds[1]))
    return frame


def frame_of_slices(
    spark: SparkSession, folder: str, manifests: Sequence[Manifest], schema: Schema | None = None
) -> DataFrame:
    """Return the rows of sealed slices, in the columns of `schema`, by default those of the last slice.

    Columns that a slice does not have are null. Cost: no job here; about a millisecond a file to list and open.
    Raises E605 for a file on a disk whose size differs from that in its manifest.
    """
    text = schema if isinstance(schema, str) else manifests[-1].schema if schema is None else schema.json()
    return frame_of_files(spark, folder, [file for manifest in manifests for file in manifest.files], text)


def table_schema(folder: str) -> StructType:
    """Return the table's current columns and types, with `timelabel`. Needs no JVM. Raises E623 without a table."""
    with open_table(folder) as table:
        return _parse_schema(table.schema)


def find_table_schema(folder: str) -> StructType | None:
    """Return what `table_schema` does, or None without a table or before its first batch since a reset."""
    schema = find_schema(folder)
    return None if schema is None else _parse_schema(schema)


def _parse_schema(schema: str) -> StructType:
    """Parse a schema's JSON without metadata of columns: its defaults may be SQL, which Spark would evaluate."""
    return cast("StructType", map_leaf_types(StructType.fromJson(json.loads(schema)), lambda leaf: leaf))


def _metadata_keys(kind: DataType) -> Iterator[str]:
    """Yield the keys of all metadata of a type's fields, also of nested ones."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from field.metadata or ()
            yield from _metadata_keys(field.dataType)
    elif isinstance(kind, ArrayType):
        yield from _metadata_keys(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _metadata_keys(kind.keyType)
        yield from _metadata_keys(kind.valueType)


def _is_readable_metadata(key: str) -> bool:
    return key in _READ_METADATA or key.startswith(_COLUMN_MAPPING)


def frame_of_files(spark: SparkSession, folder: str, files: Sequence[RecordedFile], schema: str) -> DataFrame:
    """Return the rows of Parquet files below the table's folder, in the columns and types of a schema's JSON.

    Raises E605 for a file on a disk whose size differs from the recorded one. Cost: one `stat` for each file on a disk,
    and no request to an object store.
    """
    require_sizes(folder, files)
    return _frame_of_paths(spark, folder, [file.path for file in files], schema)


def frame_of_folder(spark: SparkSession, folder: str, name: str, schema: str) -> DataFrame:
    """Return the rows of all Parquet files in the folder `name` below `folder`, whose sizes nothing records."""
    return _frame_of_paths(spark, folder, [name], schema)


def _frame_of_paths(spark: SparkSession, folder: str, paths: Sequence[str], schema: str) -> DataFrame:
    wanted = _parse_schema(schema)
    if not paths:
        return no_rows(spark, wanted)
    # without this option the folders y=, m=, d= would become columns
    reader = spark.read.schema(wanted).option("recursiveFileLookup", "true")
    return reader.parquet(*(literal_path(str(entry_path(folder, path))) for path in paths))


def require_sizes(folder: str, files: Sequence[RecordedFile]) -> None:
    """Raise E605 for a file whose size is not the recorded one, as after a power failure or an incomplete copy.

    Spark would read an empty file as one without rows. In an object store a file is complete or absent, so this is not
    checked there. Cost: some microseconds for each file.
    """
    if is_remote(folder):
        return
    for file in files:
        try:
            found = os.stat(f"{folder}/{file.path}")  # noqa: PTH116 - thousands of Paths
        except FileNotFoundError:
            continue  # Spark reports it
        if S_ISREG(found.st_mode) and found.st_size != file.size:
            raise damaged_file_error(folder, file.path, found.st_size, file.size)


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame that Spark knows to be empty. Frames derived from it mostly need no job."""
    return spark.createDataFrame([], schema).limit(0)


def _live_files(
    folder: str,
    version: int,
    bounds: tuple[str | None, str | None],
    without: Collection[str],
    *,
    is_partitioned: bool,
) -> tuple[list[LiveFile], str] | None:
    """List the live files that may have labels within the bounds, and the schema, or None if Delta must read them."""
    with open_table(folder) as kept:
        if kept.version == version:
            files, schema, plain = list(kept.files.values()), kept.schema, kept.is_plain
        else:
            try:
                table = open_delta(folder, version)
            except DeltaError as error:  # Spark may read it, but its files could not be checked
                raise damaged_log(folder, f"{folder}/_delta_log", str(error).partition("\n")[0][:300]) from error
            files, schema, plain = live_files(table), table.schema().to_json(), is_plain(table)
    files = [file for file in files if file.only_label not in without]
    return _list_direct_files(folder, files, schema, bounds, is_plain=plain, is_partitioned=is_partitioned)


def _list_direct_files(
    folder: str,
    files: Sequence[LiveFile],
    schema: str,
    bounds: tuple[str | None, str | None],
    *,
    is_plain: bool,
    is_partitioned: bool,
) -> tuple[list[LiveFile], str] | None:
    wanted = [file for file in files if may_contain_range(file, *bounds)]
    try:
        for file in wanted:
            require_within(file.path)
    except ValueError as error:
        raise damaged_log(folder, f"{folder}/_delta_log", str(error)) from error
    # Spark leaves out the partition column in files that it writes itself, such as those of OPTIMIZE
    have_labels = not is_partitioned or all(file.path.startswith(f"{STAGE}/") for file in wanted)
    if is_plain and have_labels and len(wanted) <= FILES_READ_DIRECTLY:
        return wanted, schema
    require_sizes(folder, wanted)
    return None
