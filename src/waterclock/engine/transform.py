"""Makes the rows of transforms: the user's SQL or Python over pinned reads (ARCHITECTURE sections 4 and 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from waterclock.dpl import reads_of, splice
from waterclock.engine.functions import load_function, register_functions
from waterclock.engine.reads import PinnedRead, frame_of, labelled
from waterclock.engine.translate import to_error, user_code_error
from waterclock.engine.workplace import Workplace
from waterclock.errors import WaterclockError
from waterclock.flow import PythonFunction, Query, Read, Table
from waterclock.planner import Batch
from waterclock.timelabel import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def transform_frame(
    work: Workplace,
    spark: SparkSession,
    table: Table,
    batches: Sequence[Batch],
    pins: Mapping[datetime, tuple[PinnedRead, ...]],
) -> DataFrame:
    """Give the rows of all `batches`, each batch's with its label in `timelabel`.

    Every batch's query is bound to its own window and reads; Spark runs their union as one job.
    """
    frames = [labelled(_rows_of(work, spark, table, batch, pins[batch.label]), batch.window.label) for batch in batches]
    return reduce(lambda left, right: left.unionByName(right), frames)


def rows_over(
    work: Workplace, spark: SparkSession, table: Table, window: Window, frames: Mapping[Read, DataFrame]
) -> DataFrame:
    """Give the rows that a transform makes of one window, with `frames` for what it reads."""
    where = f"{table.name}@{window.label}"
    if table.function is not None:
        return _python_rows(work, spark, table.function, window, frames, where)
    if table.query is None:
        raise AssertionError(f"{table.name} has neither a query nor a function, which check refuses")
    return _sql_rows(work, spark, table.query, window, frames, where)


def _rows_of(
    work: Workplace, spark: SparkSession, table: Table, batch: Batch, reads: tuple[PinnedRead, ...]
) -> DataFrame:
    frames = {pinned.read: frame_of(spark, work.lake, work.flow, pinned) for pinned in reads}
    return rows_over(work, spark, table, batch.window, frames)


def _sql_rows(
    work: Workplace, spark: SparkSession, query: Query, window: Window, frames: Mapping[Read, DataFrame], where: str
) -> DataFrame:
    """Give the rows of a query, a transform's own or that of a view which a Python function reads."""
    names = {read: f"wc_{window.label}_{index}" for index, read in enumerate(frames)}
    for read in reads_of(query):
        frames[read].createOrReplaceTempView(names[read])
    spliced = splice(query, names.__getitem__)
    register_functions(spark, work.root, work.flow, [spliced.text])
    try:
        return spark.sql(spliced.text, args=_arguments(work, spliced.text, window))
    except Exception as raised:
        raise to_error(raised, where=where, spliced=spliced) from raised


def _arguments(work: Workplace, text: str, window: Window) -> dict[str, Any]:
    values = {
        "wc_window_start": window.start,
        "wc_window_end": window.end,
        "wc_timelabel": window.label,
        **work.project.variables,
    }
    return {name: value for name, value in values.items() if f":{name}" in text}


def _python_rows(
    work: Workplace,
    spark: SparkSession,
    function: PythonFunction,
    window: Window,
    frames: Mapping[Read, DataFrame],
    where: str,
) -> DataFrame:
    call = load_function(work.root, function)
    arguments: dict[str, Any] = {}
    for argument in function.arguments:
        if argument.is_window:
            arguments[argument.name] = window
        elif argument.variable is not None:
            arguments[argument.name] = work.project.variables[argument.variable]
        elif argument.query is not None:
            arguments[argument.name] = _sql_rows(work, spark, argument.query, window, frames, where)
        elif argument.read is not None:
            arguments[argument.name] = frames[argument.read]
    try:
        made = call(**arguments)
    except Exception as raised:
        raise user_code_error(raised, where=where, file=work.root / function.file, root=work.root) from raised
    if not hasattr(made, "createOrReplaceTempView"):
        raise WaterclockError(
            "E722",
            f"{function.name} gave {type(made).__name__}, not a DataFrame",
            where=f"{function.file} ({where})",
            fix="return the DataFrame that the transform makes",
        )
    result: DataFrame = made
    return result
