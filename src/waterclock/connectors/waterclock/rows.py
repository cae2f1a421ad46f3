"""Reads rows of another project's table from its storage: sealed slices, or a version of its Delta table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

from waterclock.batches.records import NO_VERSION, Pin
from waterclock.connectors.interface import Collected
from waterclock.connectors.waterclock.place import unreadable_project_error
from waterclock.connectors.windowing import TIME, label_sql, literal
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns, Unit
from waterclock.spark_sql import quote_name
from waterclock.timelabel.label import TIMELABEL, label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from waterclock.storage.slices.manifest import Manifest

_GONE = ("FILE_NOT_EXIST", "FAILED_READ_FILE", "PATH_NOT_FOUND", "FileNotFoundException")
_DENIED = ("Permission denied", "AccessControlException")


def columns_of(folder: str) -> Mapping[str, str] | None:
    """Return the names and types of a table's columns, without Spark; None before the table's first batch."""
    from waterclock.storage.log.open_tables import has_columns
    from waterclock.storage.slices.read import table_schema

    try:
        if not has_columns(folder):
            return None
        fields = table_schema(folder).fields
    except OSError as error:
        raise unreadable_project_error(folder, error) from error
    return {each.name: each.dataType.simpleString().upper() for each in fields if each.name != TIMELABEL}


def collect_pinned_rows(
    spark: SparkSession,
    folder: str,
    unit: Unit,
    pins: Sequence[tuple[Window, Pin]],
    columns: Columns,
    *,
    by_label: bool,
    folds: bool,
) -> Collected:
    """Read the pinned data of each window, each row with its label.

    Raises  E836 if the other project no longer has the data, E838 if it cannot be read
    """
    from waterclock.storage.log.open_tables import has_columns

    try:
        if not has_columns(folder):
            return Collected(_empty_frame(spark, unit, columns), is_empty=True)
        frame = _read_slices(spark, folder, unit, pins) if by_label else _states(spark, folder, unit, pins, folds=folds)
    except OSError as error:
        raise unreadable_project_error(folder, error) from error
    is_empty = by_label and not any(piece.rows for _, pin in pins for piece in pin.slices)
    seen = {each.name: each.dataType.simpleString() for each in frame.schema if each.name != TIMELABEL}
    return Collected(frame, is_empty=is_empty, seen=seen)


def _read_slices(spark: SparkSession, folder: str, unit: Unit, pins: Sequence[tuple[Window, Pin]]) -> DataFrame:
    """Read the slices of all windows in one scan, each row with the label of its window."""
    from waterclock.storage.slices.read import FILES_READ_DIRECTLY, frame_at, frame_of_slices, no_rows, table_schema

    schema = table_schema(folder)
    manifests = [_manifest(folder, piece.slice_path, unit) for _, pin in pins for piece in pin.slices]
    if not manifests:
        return no_rows(spark, schema)
    windows = [window for window, _ in pins]
    if sum(len(each.files) for each in manifests) <= FILES_READ_DIRECTLY:
        frame = frame_of_slices(spark, folder, manifests, schema)
    else:
        low, high = windows[0].start, windows[-1].end
        version = max(pin.version for _, pin in pins)
        frame = frame_at(spark, folder, version, low=low, high=high, is_partitioned=_is_partitioned(folder))
    return _by_window(frame, windows)


def _is_partitioned(folder: str) -> bool:
    from waterclock.storage.log.open_tables import open_table

    with open_table(folder) as table:
        return bool(table.partition_columns)


def _by_window(frame: DataFrame, windows: Sequence[Window]) -> DataFrame:
    names = [quote_name(name) for name in frame.columns if name != TIMELABEL]
    has_gaps = any(one.end != other.start for one, other in pairwise(windows))
    timed = frame.selectExpr(*names, f"to_timestamp({TIMELABEL}, 'yyyyMMddHHmmss') AS {TIME}")
    within = timed.where(f"{TIME} >= {literal(windows[0].start)} AND {TIME} < {literal(windows[-1].end)}")
    labelled = within.selectExpr(*names, f"{label_sql(TIME, windows, has_gaps=has_gaps)} AS {TIMELABEL}")
    return labelled.where(f"{TIMELABEL} IS NOT NULL") if has_gaps else labelled


def _states(
    spark: SparkSession, folder: str, unit: Unit, pins: Sequence[tuple[Window, Pin]], *, folds: bool
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    frames = [
        _state(spark, folder, unit, pin, folds=folds).drop(TIMELABEL).withColumn(TIMELABEL, F.lit(window.label))
        for window, pin in pins
    ]
    return reduce(lambda left, right: left.unionByName(right), frames)


def _state(spark: SparkSession, folder: str, unit: Unit, pin: Pin, *, folds: bool) -> DataFrame:
    """Read the state of a table that a pin refers to: the slice of a REPLACE table, else a Delta version."""
    from waterclock.storage.log.open_tables import is_readable
    from waterclock.storage.slices.read import frame_of_slices, frame_of_version, no_rows, table_schema

    if not pin.slices:
        return no_rows(spark, table_schema(folder))
    if not folds:
        return frame_of_slices(
            spark, folder, [_manifest(folder, each.slice_path, unit) for each in pin.slices], table_schema(folder)
        )
    if pin.version == NO_VERSION or not is_readable(folder, pin.version):
        raise WaterclockError(
            "E836",
            f"the state of {unit} as of {label_of(pin.high)} is not kept in the other project",
            where=str(unit),
            why="a MERGE or TEMPORAL table keeps the version of each tick for a while, until older labels are restated",
            fix="only its own project can make it again; to continue without it, `waterclock skip` this label",
        )
    return frame_of_version(spark, folder, pin.version)


def _manifest(folder: str, slice_path: str, unit: Unit) -> Manifest:
    from waterclock.storage.slices.manifest import read_manifest

    try:
        return read_manifest(folder, slice_path)
    except WaterclockError as error:
        if isinstance(error.__cause__, PermissionError):
            raise unreadable_project_error(folder, error.__cause__) from error
        raise _missing_slice_error(str(unit), f"{error.what}: {error.why}") from error


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
    said = str(error)
    if any(word in said for word in _DENIED):
        return unreadable_project_error(unit, PermissionError(said.partition("\n")[0]))
    return _missing_slice_error(unit, said.partition("\n")[0]) if any(word in said for word in _GONE) else None


def _empty_frame(spark: SparkSession, unit: Unit, columns: Columns) -> DataFrame:
    """Return an empty frame for a table that has no columns yet, because its batches so far were skipped.

    Raises  E836 if the collect does not declare the columns
    """
    if not columns.are_declared:
        raise WaterclockError(
            "E836",
            f"{unit} has no columns yet",
            where=str(unit),
            why="all its batches were skipped so far, and its columns are known from its first rows on",
            fix="declare the columns here with their types, or skip the label here too",
        )
    said = ", ".join(f"{quote_name(column.name)} {column.type}" for column in columns.named)
    return spark.createDataFrame([], f"{said}, {TIMELABEL} STRING")
