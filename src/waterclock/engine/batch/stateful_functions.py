"""Runs stateful rules in Python: for each key, from the previous state and the window's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from waterclock.engine.reads.hidden import drop_columns
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.user_functions import load_function
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import PythonFunction, Table
from waterclock.flow.stateful_steps import AFTER, BEFORE, ROWS, STATE
from waterclock.similar_names import did_you_mean
from waterclock.spark_sql import quote_name
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def run_stateful_function(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    function: PythonFunction,
    window: Window,
    frames: Mapping[Any, DataFrame],
) -> DataFrame:
    """Return the rows that a stateful function makes for this table: its new state, or its output rows.

    Cost: an exchange of both sides by the key; all rows of one key go through Python together, in one task.
    """
    step = function.step
    if step is None:
        raise AssertionError(f"{function.name} keeps no state")
    reads = {
        argument.name: drop_columns(
            frames[argument.read], [name for name in argument.left_out if name not in step.keys]
        )
        for argument in function.arguments
        if argument.read is not None
    }
    rows, state = reads[ROWS].drop(TIMELABEL), reads[STATE].drop(TIMELABEL)
    for side, frame in ((ROWS, rows), (STATE, state)):
        _require_keys(table, function, step.keys, side, frame)
    within = SimpleNamespace(
        start=window.start,
        end=window.end,
        label=window.label,
        watermark=_newest_watermark(reads.get(BEFORE)),
        next_watermark=_newest_watermark(reads.get(AFTER)),
    )
    columns = ", ".join(f"{quote_name(column.name)} {column.type}" for column in table.columns.named)
    schema = spark.createDataFrame([], columns).toArrow().schema
    call = _wrap_per_key(load_function(work.root, function), within, schema, table.name, is_state=step.is_state)
    keys = [quote_name(key) for key in step.keys]
    return state.groupBy(*keys).cogroup(rows.groupBy(*keys)).applyInArrow(call, columns)


def _newest_watermark(frame: DataFrame | None) -> Any:
    """Return the newest watermark, in UTC. None without a frame or without rows. Cost: a job over a small table."""
    return None if frame is None else frame.selectExpr("max(watermark) AS at").toArrow().column("at")[0].as_py()


def _require_keys(table: Table, function: PythonFunction, keys: Sequence[str], side: str, frame: DataFrame) -> None:
    known = {name.lower() for name in frame.columns}
    for key in keys:
        if key.lower() not in known:
            raise WaterclockError(
                "E716",
                f"the {side} of {table.name} {'have' if side == ROWS else 'has'} no column {key}",
                where=str(function.place),
                why="`key` lists columns that both the rows and the state have",
                fix=did_you_mean(key, frame.columns) or f"known: {', '.join(frame.columns[:5])}",
            )


def _wrap_per_key(  # self-contained: Spark's workers may not have waterclock installed
    call: Callable[..., Any], window: Any, schema: pa.Schema, name: str, *, is_state: bool
) -> Callable[[tuple[pa.Scalar, ...], pa.Table, pa.Table], pa.Table]:
    columns = list(schema.names)

    def by_key(key: tuple[pa.Scalar, ...], state: pa.Table, rows: pa.Table) -> pa.Table:
        import pyarrow as pa

        values = tuple(part.as_py() for part in key)
        made = call(values if len(values) > 1 else values[0], state.to_pylist(), rows.to_pylist(), window)
        if not isinstance(made, tuple) or len(made) != 2:
            raise ValueError(f"wc.stateful: {name} returned {type(made).__name__} | it must return two lists of rows |")
        given = list(made[0 if is_state else 1])
        for row in given:
            if not isinstance(row, dict):
                raise ValueError(f"wc.stateful: {name} returned a row of type {type(row).__name__} | a row is a dict |")  # noqa: TRY004
            unknown = [str(column) for column in row if column not in columns]
            if unknown:
                raise ValueError(
                    f"wc.stateful: {name} returned rows with {', '.join(unknown)} | its columns are "
                    f"{', '.join(columns)} |"
                )
        try:
            return pa.Table.from_pylist(given, schema=schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            message = str(error).replace("|", " ").replace("\n", " ")
            raise ValueError(f"wc.stateful: {name} returned a value of another type | {message} |") from error

    return by_key
