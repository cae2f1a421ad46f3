"""Records the column lineage of a Python transform, read from Spark's plan of its rows.

Each input gets an alias in the plan, below any that the code adds. The aliases cost nothing at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from waterclock.engine.batch.plan_lineage import Sources, lineage_of
from waterclock.engine.batch.plan_tree import plan_of
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.analysed_plan import analysed_plan, shows_plan
from waterclock.flow.code_lineage import CodeLineage, Input, unknown_lineage
from waterclock.flow.declarations import Flat, Read, Table
from waterclock.flow.flats import flat_columns
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame

_NAME = "_waterclock_read_"
_NO_PLAN = "rows made over Spark Connect"
_UNREADABLE = "its plan"


def alias_inputs(frames: Mapping[Any, DataFrame], shared: Collection[Read]) -> tuple[dict[Any, DataFrame], Sources]:
    """Alias a transform's inputs in its plan.

    Return the inputs, and for each alias a function from its columns to the table's. Rows of SHARED views, which were
    computed before, get no alias: the lineage of columns made from them is unknown.
    """
    columns: dict[str, Sequence[str]] = {}
    if any(isinstance(read, Flat) for read in frames):
        columns = {read.table: frame.columns for read, frame in frames.items() if isinstance(read, Read)}
    renamed: dict[Any, DataFrame] = {}
    sources: dict[str, Callable[[str], Input]] = {}
    for at, (read, frame) in enumerate(frames.items()):
        column_of = _columns_of_flat(read, columns) if isinstance(read, Flat) else _columns_of_read(read)
        if read in shared or column_of is None or not shows_plan(frame):
            renamed[read] = frame
            continue
        name = f"{_NAME}{at}"
        renamed[read] = frame.alias(name)
        sources[name] = column_of
    return renamed, sources


def record_lineage(
    work: RunContext, table: Table, rows: DataFrame, frames: Mapping[Any, DataFrame], sources: Sources
) -> None:
    """Record the column lineage of a Python transform's rows.

    Cost: some milliseconds for each version of its code and of its inputs' columns, or for each batch if the code
    branches.
    """
    if table.function is None:
        return
    tables = tuple(dict.fromkeys(read.table for read in table.reads))
    if not shows_plan(rows):  # without a plan, reading the column names would cost a request to the server
        if not work.code_lineages.is_shown(table, _NO_PLAN):
            work.code_lineages.add(table, _NO_PLAN, unknown_lineage(["*"], tables, [_NO_PLAN]))
        return
    findings = work.code_lineages.analyse(table.function)
    inputs = tuple((str(read), tuple(frame.columns)) for read, frame in frames.items())
    if not findings.may_branch and work.code_lineages.is_shown(table, inputs):
        return
    found = _trace_lineage(rows, rows.columns, sources, tables)
    if findings.collecting_calls:
        found |= unknown_lineage(found.columns, tables, findings.collecting_calls)
    columns = {name: made for name, made in found.columns.items() if name.lower() != TIMELABEL}
    work.code_lineages.add(table, inputs, CodeLineage(columns, found.uses))


def _trace_lineage(rows: DataFrame, names: Sequence[str], sources: Sources, tables: Sequence[str]) -> CodeLineage:
    text = analysed_plan(rows)
    if text is None:
        return unknown_lineage(names, tables, [_UNREADABLE])
    try:
        return lineage_of(plan_of(text), names, sources, tables)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return unknown_lineage(names, tables, [_UNREADABLE])


def _columns_of_read(read: Read) -> Callable[[str], Input]:
    return lambda column: (read.table, column)


def _columns_of_flat(flat: Flat, columns: Mapping[str, Sequence[str]]) -> Callable[[str], Input] | None:
    found = flat_columns(flat, columns.get)
    if found is None:
        return None
    by_name = {each.name.lower(): (each.table, each.column) for each in found}
    return lambda column: by_name.get(column.lower(), (flat.read.table, column))
