"""Builds the rows of one window of a transform: runs its SQL query or Python function over the rows of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.dpl.python.loader import import_from
from waterclock.dpl.query.splice import list_reads, splice
from waterclock.engine.batch.stateful_functions import run_stateful_function
from waterclock.engine.reads.flat_join import flat_frame
from waterclock.engine.reads.hidden import drop_columns
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error, user_code_error
from waterclock.engine.spark.queries import build_query_frame
from waterclock.engine.spark.user_functions import load_function, register_functions
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import PythonFunction, Query, Table
from waterclock.flow.enums import ReadKind
from waterclock.flow.flats import flats_of
from waterclock.flow.watermarks import Watermark
from waterclock.similar_names import did_you_mean
from waterclock.storage.slices.row_filter import MISSING
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    # maps each Read of one window, and each Flat that was made from them, to its rows
    _Frames = dict[Any, DataFrame]


@dataclass(frozen=True, slots=True)
class _Window:
    """The window for which rows are made, and whether some of its inputs are missing (PARTIAL)."""

    window: Window
    is_partial: bool


def compute_rows(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    window: Window,
    frames: Mapping[Any, DataFrame],
    *,
    is_partial: bool = False,
) -> DataFrame:
    """Build the rows of a transform's window. `frames` has the rows of its inputs, including FLATs."""
    table = table.with_choice(table.choice_of(window))
    if table.marks is not None:
        require_time(table, table.marks, frames)
    where, known = f"{table.name}@{window.label}", dict(frames)
    if table.function is not None and table.function.step is not None:
        return run_stateful_function(work, spark, table, table.function, window, known)
    of = _Window(window, is_partial)
    if table.function is not None:
        return _python_rows(work, spark, table.function, of, known, where)
    if table.query is None:
        raise AssertionError(f"{table.name} has neither a query nor a function, which check refuses")
    if table.query.branches:
        return union_by_name(table, [_sql_rows(work, spark, one, of, known, where) for one in table.query.branches])
    return _sql_rows(work, spark, table.query, of, known, where)


def union_by_name(table: Table, branches: Sequence[DataFrame]) -> DataFrame:
    """Combine the branches of a UNION ALL BY NAME.

    For a TEMPORAL table with value columns, an extra column lists the columns that a row's branch is missing.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from waterclock.temporal import union_sources

    names = dict.fromkeys(name for branch in branches for name in branch.columns)
    temporal = table.temporal
    if temporal is not None and (temporal.values or temporal.are_all_values):
        lacking = [[name for name in names if name not in branch.columns] for branch in branches]
        branches = [
            branch.withColumn(MISSING, F.array(*map(F.lit, absent)).cast("array<string>"))
            for branch, absent in zip(branches, lacking, strict=True)
        ]
    return union_sources(*branches)


def _sql_rows(
    work: RunContext, spark: SparkSession, query: Query, of: _Window, frames: _Frames, where: str
) -> DataFrame:
    """Build the rows of a query: the query of a transform, or of a view that a Python function reads."""
    for flat in flats_of(query):
        if flat not in frames:
            frames[flat] = flat_frame(work.flow, flat, frames)
    names = {read: f"wc_{of.window.label}_{index}" for index, read in enumerate(frames)}
    for read in (*list_reads(query), *flats_of(query)):
        frames[read].createOrReplaceTempView(names[read])
    spliced = splice(query, names.__getitem__)
    register_functions(spark, work.root, work.flow, [spliced.text], work.keys)
    try:
        return build_query_frame(spark, spliced.text, _query_arguments(work, spliced.text, of))
    except Exception as raised:
        raise to_error(raised, where=where, spliced=spliced) from raised


def _query_arguments(work: RunContext, text: str, of: _Window) -> dict[str, Any]:
    values = {
        "wc_window_start": of.window.start,
        "wc_window_end": of.window.end,
        "wc_timelabel": of.window.label,
        "wc_is_partial": of.is_partial,
        **work.project.variables,
    }
    return {name: value for name, value in values.items() if f":{name}" in text}


def _python_rows(
    work: RunContext,
    spark: SparkSession,
    function: PythonFunction,
    of: _Window,
    frames: _Frames,
    where: str,
) -> DataFrame:
    call = load_function(work.root, function)
    arguments: dict[str, Any] = {}
    for argument in function.arguments:
        if argument.is_window:
            arguments[argument.name] = of.window
        elif argument.variable is not None:
            arguments[argument.name] = work.project.variables[argument.variable]
        elif argument.query is not None:
            arguments[argument.name] = _sql_rows(work, spark, argument.query, of, frames, where)
        elif argument.flat is not None:
            known = argument.flat in frames
            rows = frames[argument.flat] if known else flat_frame(work.flow, argument.flat, frames)
            arguments[argument.name] = drop_columns(rows, argument.left_out)
        elif argument.read is not None:
            arguments[argument.name] = drop_columns(frames[argument.read], argument.left_out)
    try:
        with import_from(work.root):
            made = call(**arguments)
    except Exception as raised:
        raise user_code_error(raised, where=where, file=work.root / function.file, root=work.root) from raised
    if not hasattr(made, "createOrReplaceTempView"):
        raise WaterclockError(
            "E722",
            f"{function.name} returned {type(made).__name__}, not a DataFrame",
            where=f"{function.file} ({where})",
            fix="return a DataFrame from the transform",
        )
    result: DataFrame = made
    return result


def require_time(table: Table, watermark: Watermark, frames: Mapping[Any, DataFrame]) -> None:
    """Raise E715 if the rows have no column of the watermark, or its time column is no TIMESTAMP."""
    read, rows = next((read, frame) for read, frame in frames.items() if read.kind is ReadKind.PLAIN)
    types = {field.name.lower(): field.dataType.simpleString() for field in rows.schema.fields}
    absent = [name for name in (watermark.column, *watermark.per) if name.lower() not in types]
    found = types.get(watermark.column.lower())
    if not absent and found == "timestamp":
        return
    what = f"{read.table} has no column {absent[0]}" if absent else f"{watermark.column} of {read.table} is {found}"
    near = did_you_mean(absent[0], rows.columns) if absent else None
    raise WaterclockError(
        "E715",
        what if absent else f"{what}, not TIMESTAMP",
        where=str(table.place),
        why=f"WATERMARK measures the progress of {read.table} by {watermark.column}",
        fix=near
        or f"declare {watermark.column} TIMESTAMP in the columns of {read.table}, then `waterclock rebuild --all`",
    )
