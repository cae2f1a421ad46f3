"""Makes the rows of transforms: the user's SQL or Python over pinned reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

from waterclock.dpl.query.flat_alone import flat_alone
from waterclock.dpl.query.splice import list_reads, splice
from waterclock.engine.batch.code_lineage import alias_inputs, note_lineage
from waterclock.engine.batch.input_rules import seen_by_queries, seen_by_query
from waterclock.engine.batch.late_rows import too_late
from waterclock.engine.batch.many_windows import Pins, rows_of_windows, shares_of
from waterclock.engine.batch.marks import require_time
from waterclock.engine.batch.open_windows import open_parts
from waterclock.engine.batch.share import SharedView, shared_rows
from waterclock.engine.batch.steps import step_rows
from waterclock.engine.reads.absent_parents import AbsentParents
from waterclock.engine.reads.flat_join import flat_frame
from waterclock.engine.reads.flat_parents import flat_frames
from waterclock.engine.reads.hidden import without
from waterclock.engine.reads.pin import PinnedRead, frame_of, set_label
from waterclock.engine.spark.errors import to_error, user_code_error
from waterclock.engine.spark.queries import build_query_frame
from waterclock.engine.spark.user_functions import load_function, register_functions
from waterclock.engine.workplace import Workplace
from waterclock.errors import WaterclockError
from waterclock.flow.checks import is_of_key
from waterclock.flow.declarations import Flat, PythonFunction, Query, Table, TableReference
from waterclock.flow.flats import flats_of
from waterclock.flow.shared import table_with_rows
from waterclock.planner.plan import Batch
from waterclock.planner.sharing import MOST_WINDOWS_OF_A_UNION
from waterclock.storage.slices.row_filter import MISSING
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    # the rows of each Read of one window, and of each Flat that was made of them
    _Frames = dict[Any, DataFrame]

_NOTHING_SHARED: Mapping[TableReference, SharedView] = {}


@dataclass(frozen=True, slots=True)
class _Window:
    """The window of some rows, and whether they are made without some of its inputs."""

    window: Window
    is_partial: bool


def transform_parts(
    work: Workplace,
    spark: SparkSession,
    table: Table,
    batches: Sequence[Batch],
    pins: Pins,
    absent: AbsentParents | None = None,
) -> list[tuple[Sequence[Batch], DataFrame]]:
    """Return the rows of all `batches`, with their label in `timelabel`, and the batches of each frame.

    One query makes many windows if Spark can turn it into one. Otherwise each batch's query is bound to its own window
    and reads, and Spark runs the union of some of them as one job. Windows that different queries make are never
    combined. `absent` collects the counts of rows without a FLAT parent as rows are written.
    """
    parts: list[tuple[Sequence[Batch], DataFrame]] = []
    if batches[0].opened:
        return open_parts(table, batches, pins, partial(transform_parts, work, spark, table))
    if table.choices:
        for choice, run in groupby(batches, key=lambda batch: table.choice_of(batch.window)):
            parts += transform_parts(work, spark, table.with_choice(choice), list(run), pins, absent)
        return parts
    shared: Mapping[TableReference, SharedView] = _NOTHING_SHARED
    # these read views by themselves: partial batches, open windows, and batches whose rules filter their inputs
    if not batches[0].missing and table.open_of is None and not table.input_rules:
        shared = shared_rows(work, spark, table, batches, pins, partial(_rows_of, work, spark))
    if shared or len(batches) == 1 or table.query is None or table.late_rows or _flats(table):
        return _window_by_window(work, spark, table, batches, pins, shared, absent)
    for share in shares_of(work, batches, pins):
        rows = _together(work, spark, table, share, pins) if len(share) > 1 else None
        parts += _window_by_window(work, spark, table, share, pins) if rows is None else [(share, rows)]
    return parts


def _together(
    work: Workplace, spark: SparkSession, table: Table, batches: Sequence[Batch], pins: Pins
) -> DataFrame | None:
    """Return the rows of windows by one query, or one for each branch of a UNION ALL BY NAME, or None if impossible."""
    if table.query is None:
        return None
    branches = []
    for query in table.query.branches or (table.query,):
        rows = rows_of_windows(work, spark, query, batches, pins, partial(seen_by_queries, table))
        if rows is None:
            return None
        branches.append(rows)
    return _by_name(table, branches) if table.query.branches else branches[0]


def _window_by_window(
    work: Workplace,
    spark: SparkSession,
    table: Table,
    batches: Sequence[Batch],
    pins: Pins,
    shared: Mapping[TableReference, SharedView] = _NOTHING_SHARED,
    absent: AbsentParents | None = None,
) -> list[tuple[Sequence[Batch], DataFrame]]:
    """Return the rows of each window by a query of its own. Rows of `shared` views already exist."""
    table = table_with_rows(table, {reference: view.read for reference, view in shared.items()}) if shared else table
    parts: list[tuple[Sequence[Batch], DataFrame]] = []
    for start in range(0, len(batches), MOST_WINDOWS_OF_A_UNION):
        share = batches[start : start + MOST_WINDOWS_OF_A_UNION]
        frames = [
            set_label(_rows_of(work, spark, table, batch, pins[batch.label], shared, absent), batch.window.label)
            for batch in share
        ]
        parts.append((share, reduce(lambda left, right: left.unionByName(right), frames)))
    return parts


def rows_over(
    work: Workplace,
    spark: SparkSession,
    table: Table,
    window: Window,
    frames: Mapping[Any, DataFrame],
    *,
    is_partial: bool = False,
) -> DataFrame:
    """Return the rows of a transform's window. `frames` has the rows of its reads, including FLATs."""
    table = table.with_choice(table.choice_of(window))
    if table.marks is not None:
        require_time(table, table.marks, frames)
    where, known = f"{table.name}@{window.label}", dict(frames)
    if table.function is not None and table.function.step is not None:
        return step_rows(work, spark, table, table.function, window, known)
    of = _Window(window, is_partial)
    if table.function is not None:
        return _python_rows(work, spark, table.function, of, known, where)
    if table.query is None:
        raise AssertionError(f"{table.name} has neither a query nor a function, which check refuses")
    if table.query.branches:
        return _by_name(table, [_sql_rows(work, spark, one, of, known, where) for one in table.query.branches])
    return _sql_rows(work, spark, table.query, of, known, where)


def _by_name(table: Table, branches: Sequence[DataFrame]) -> DataFrame:
    """Combine the branches of a UNION ALL BY NAME. Record the columns missing from each row's branch if they matter."""
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


def _rows_of(
    work: Workplace,
    spark: SparkSession,
    table: Table,
    batch: Batch,
    reads: tuple[PinnedRead, ...],
    shared: Mapping[TableReference, SharedView] = _NOTHING_SHARED,
    absent: AbsentParents | None = None,
) -> DataFrame:
    frames: _Frames = {}
    for pinned in (each for each in reads if not is_of_key(each.read)):
        frame = frame_of(spark, work.lake, work.flow, pinned)
        # a partial batch reads several spans of one table
        frames[pinned.read] = frames[pinned.read].unionByName(frame) if pinned.read in frames else frame
    for view in shared.values():
        frames[view.read] = view.rows[batch.label]
    own = table.with_choice(table.choice_of(batch.window))
    counted = None
    if absent is not None and own.query is not None and flat_alone(own.query) is not None:
        counted = partial(absent.observe, batch.label)
    frames |= flat_frames(work, spark, _flats(own), reads, frames, counted)
    frames = seen_by_query(table, frames) if table.input_rules else frames
    if table.late_rows is not None:
        return too_late(work, table, table.late_rows, batch, frames[table.reads[0]])
    if table.function is None or table.function.step is not None:
        return rows_over(work, spark, table, batch.window, frames, is_partial=batch.is_partial)
    frames, sources = alias_inputs(frames, [view.read for view in shared.values()])
    rows = rows_over(work, spark, table, batch.window, frames, is_partial=batch.is_partial)
    note_lineage(work, table, rows, frames, sources)
    return rows


def _flats(table: Table) -> tuple[Flat, ...]:
    """Return the FLAT reads of a transform."""
    if table.function is None:
        return flats_of(table.query) if table.query is not None else ()
    arguments = table.function.arguments
    own = tuple(argument.flat for argument in arguments if argument.flat is not None)
    return own + tuple(flat for each in arguments if each.query is not None for flat in flats_of(each.query))


def _sql_rows(
    work: Workplace, spark: SparkSession, query: Query, of: _Window, frames: _Frames, where: str
) -> DataFrame:
    """Return the rows of a query: a transform's own, or that of a view which a Python function reads."""
    for flat in flats_of(query):
        if flat not in frames:
            frames[flat] = flat_frame(work.flow, flat, frames)
    names = {read: f"wc_{of.window.label}_{index}" for index, read in enumerate(frames)}
    for read in (*list_reads(query), *flats_of(query)):
        frames[read].createOrReplaceTempView(names[read])
    spliced = splice(query, names.__getitem__)
    register_functions(spark, work.root, work.flow, [spliced.text])
    try:
        return build_query_frame(spark, spliced.text, _arguments(work, spliced.text, of))
    except Exception as raised:
        raise to_error(raised, where=where, spliced=spliced) from raised


def _arguments(work: Workplace, text: str, of: _Window) -> dict[str, Any]:
    values = {
        "wc_window_start": of.window.start,
        "wc_window_end": of.window.end,
        "wc_timelabel": of.window.label,
        "wc_is_partial": of.is_partial,
        **work.project.variables,
    }
    return {name: value for name, value in values.items() if f":{name}" in text}


def _python_rows(
    work: Workplace,
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
            arguments[argument.name] = without(rows, argument.left_out)
        elif argument.read is not None:
            arguments[argument.name] = without(frames[argument.read], argument.left_out)
    try:
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
