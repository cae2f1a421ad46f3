"""Reads rows of another project's table from its storage: sealed slices, or a version of its Delta table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

from waterclock.batches.records import NO_VERSION, Pin
from waterclock.connectors.interface import Collected
from waterclock.connectors.waterclock.outside_links import require_no_links
from waterclock.connectors.waterclock.project_location import unreadable_project_error
from waterclock.connectors.windowing import TIME, instant_literal, label_sql
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns, Unit
from waterclock.spark_sql import quote_name
from waterclock.timelabel.label import TIMELABEL, label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from waterclock.storage.slices.manifest import Manifest

_MISSING_FILE = ("FILE_NOT_EXIST", "FAILED_READ_FILE", "PATH_NOT_FOUND", "FileNotFoundException")
_DENIED = ("Permission denied", "AccessControlException")


def columns_of(folder: str) -> Mapping[str, str] | None:
    """Return the names and types of a table's columns, without Spark; None before the table's first batch."""
    from waterclock.storage.slices.read import find_table_schema

    try:
        schema = find_table_schema(folder)
    except OSError as error:
        raise unreadable_project_error(folder, error) from error
    if schema is None:
        return None
    return {each.name: each.dataType.simpleString().upper() for each in schema.fields if each.name != TIMELABEL}


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a table of another project: the project's storage and the table's folder."""

    spark: SparkSession
    storage: str
    folder: str
    unit: Unit


def collect_pinned_rows(
    read: Read, pins: Sequence[tuple[Window, Pin]], columns: Columns, *, by_label: bool, folds: bool
) -> Collected:
    """Read the versions `pins` of another project's table, one for each window, with the window's label in each row.

    Raises E836 if the other project no longer has the data, E838 if it cannot be read.
    """
    from waterclock.storage.log.open_tables import has_columns

    try:
        if not has_columns(read.folder):
            return Collected(_empty_frame(read.spark, read.unit, columns), is_empty=True)
        frame = _read_slices(read, pins) if by_label else _read_states(read, pins, folds=folds)
    except OSError as error:
        raise unreadable_project_error(read.folder, error) from error
    except WaterclockError as error:
        if error.code == "E605":
            raise _missing_slice_error(str(read.unit), f"{error.what}: {error.why}") from error
        if error.code != "E643":
            raise
        raise unreadable_project_error(read.folder, ValueError(f"{error.what}: {error.why}")) from error
    is_empty = by_label and not any(piece.rows for _, pin in pins for piece in pin.slices)
    seen = {each.name: each.dataType.simpleString() for each in frame.schema if each.name != TIMELABEL}
    return Collected(frame, is_empty=is_empty, source_columns=seen)


def _read_slices(read: Read, pins: Sequence[tuple[Window, Pin]]) -> DataFrame:
    """Read the slices of all windows by one scan, each row with the label of its window."""
    from waterclock.storage.slices.read import FILES_READ_DIRECTLY, frame_at, no_rows, table_schema

    manifests = [_read_slice_manifest(read, piece.slice_path) for _, pin in pins for piece in pin.slices]
    if not manifests:
        return no_rows(read.spark, table_schema(read.folder))
    windows = [window for window, _ in pins]
    if sum(len(each.files) for each in manifests) <= FILES_READ_DIRECTLY:
        frame = _frame_of_slices(read, manifests)
    else:
        low, high = windows[0].start, windows[-1].end
        version = max(pin.version for _, pin in pins)
        is_partitioned = _require_no_links(read, version)
        frame = frame_at(read.spark, read.folder, version, low=low, high=high, is_partitioned=is_partitioned)
    return _label_by_window(frame, windows)


def _frame_of_slices(read: Read, manifests: Sequence[Manifest]) -> DataFrame:
    from waterclock.storage.slices.read import frame_of_slices, table_schema

    require_no_links(read.storage, read.folder, [file.path for manifest in manifests for file in manifest.files])
    return frame_of_slices(read.spark, read.folder, manifests, table_schema(read.folder))


def _require_no_links(read: Read, version: int) -> bool:
    """Raise E838 if a file of a table version is a link. Return whether the table is partitioned."""
    from waterclock.storage.log.live_files import live_files, open_kept_version
    from waterclock.storage.log.open_tables import open_table

    with open_table(read.folder) as table:
        paths = list(table.files)
        is_newest, is_partitioned = table.version == version, bool(table.partition_columns)
    kept = None if is_newest else open_kept_version(read.folder, version)
    require_no_links(read.storage, read.folder, paths if kept is None else [each.path for each in live_files(kept)])
    return is_partitioned


def _label_by_window(frame: DataFrame, windows: Sequence[Window]) -> DataFrame:
    names = [quote_name(name) for name in frame.columns if name != TIMELABEL]
    has_gaps = any(one.end != other.start for one, other in pairwise(windows))
    timed = frame.selectExpr(*names, f"to_timestamp({TIMELABEL}, 'yyyyMMddHHmmss') AS {TIME}")
    within = timed.where(
        f"{TIME} >= {instant_literal(windows[0].start)} AND {TIME} < {instant_literal(windows[-1].end)}"
    )
    labelled = within.selectExpr(*names, f"{label_sql(TIME, windows, has_gaps=has_gaps)} AS {TIMELABEL}")
    return labelled.where(f"{TIMELABEL} IS NOT NULL") if has_gaps else labelled


def _read_states(read: Read, pins: Sequence[tuple[Window, Pin]], *, folds: bool) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    frames = [
        _read_state(read, pin, folds=folds).drop(TIMELABEL).withColumn(TIMELABEL, F.lit(window.label))
        for window, pin in pins
    ]
    return reduce(lambda left, right: left.unionByName(right), frames)


def _read_state(read: Read, pin: Pin, *, folds: bool) -> DataFrame:
    """Read the state of a table at a pinned version: a slice of a REPLACE table, else a version of its Delta table."""
    from waterclock.storage.log.open_tables import is_readable
    from waterclock.storage.slices.read import frame_of_version, no_rows, table_schema

    if not pin.slices:
        return no_rows(read.spark, table_schema(read.folder))
    if not folds:
        return _frame_of_slices(read, [_read_slice_manifest(read, each.slice_path) for each in pin.slices])
    if pin.version == NO_VERSION or not is_readable(read.folder, pin.version):
        raise WaterclockError(
            "E836",
            f"the state of {read.unit} as of {label_of(pin.high)} is not kept in the other project",
            where=str(read.unit),
            why="a MERGE or TEMPORAL table keeps the version of each tick for a while, until older labels are restated",
            fix="only its own project can make it again; to continue without it, `waterclock skip` this label",
        )
    _require_no_links(read, pin.version)
    return frame_of_version(read.spark, read.folder, pin.version)


def _read_slice_manifest(read: Read, slice_path: str) -> Manifest:
    from waterclock.storage.slices.manifest import read_manifest

    try:
        return read_manifest(read.folder, slice_path)
    except WaterclockError as error:
        if isinstance(error.__cause__, PermissionError):
            raise unreadable_project_error(read.folder, error.__cause__) from error
        raise _missing_slice_error(str(read.unit), f"{error.what}: {error.why}") from error


def _missing_slice_error(where: str, why: str) -> WaterclockError:
    return WaterclockError(
        "E836",
        "a slice of the other project is gone",
        where=where,
        why=why,
        fix="if it was restated, the next run reads the new slice; if not, make it again in its own project",
        transient=True,
    )


def missing_file_error(unit: str, error: BaseException) -> WaterclockError | None:
    """Return an error if Spark did not find or could not read a file of the other project; else None."""
    message = str(error)
    if any(word in message for word in _DENIED):
        return unreadable_project_error(unit, PermissionError(message.partition("\n")[0]))
    return (
        _missing_slice_error(unit, message.partition("\n")[0])
        if any(word in message for word in _MISSING_FILE)
        else None
    )


def _empty_frame(spark: SparkSession, unit: Unit, columns: Columns) -> DataFrame:
    """Return an empty frame for a table that has no columns yet, because its batches so far were skipped.

    Raises E836 if the collect does not declare the columns.
    """
    if not columns.are_declared:
        raise WaterclockError(
            "E836",
            f"{unit} has no columns yet",
            where=str(unit),
            why="all its batches were skipped so far, and its columns are known from its first rows on",
            fix="declare the columns here with their types, or skip the label here too",
        )
    fields = ", ".join(f"{quote_name(column.name)} {column.type}" for column in columns.named)
    return spark.createDataFrame([], f"{fields}, {TIMELABEL} STRING")
