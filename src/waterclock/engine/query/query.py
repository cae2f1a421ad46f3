"""Answers queries over tables, now or as of a tick, and over the ledger's status tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.batches.rebuilding import is_moving, is_of_one_set
from waterclock.dpl.adhoc import adhoc_query, tables_of
from waterclock.dpl.query.pushdown import AskedOf, find_pushdown
from waterclock.dpl.query.splice import Spliced, splice
from waterclock.engine.damage import require_log, telling_damage
from waterclock.engine.query.held import held_frame, helds
from waterclock.engine.query.quarantine import quarantine_frame, quarantines
from waterclock.engine.query.ticks import AsOf, Moment, moment_of
from waterclock.engine.query.view_rows import find_shown_windows, frame_at_moment, frame_of_view
from waterclock.engine.query.views import find_viewed_table
from waterclock.engine.reads.as_of import frame_as_of
from waterclock.engine.reads.hidden import with_hidden, without
from waterclock.engine.reads.pin import build_empty_frame
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.queries import build_query_frame
from waterclock.engine.spark.user_functions import register_functions
from waterclock.engine.workplace import Workplace
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.choices import Kind, Mode
from waterclock.flow.declarations import Flat, Flow, Query, Read, Table
from waterclock.ledger.read.status import STATUS_TABLES as STATUS_COLUMNS
from waterclock.storage.log.delta_log import head
from waterclock.storage.log.open_tables import has_columns
from waterclock.storage.rows import rows_of
from waterclock.storage.slices.read import frame_at
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# how often a query is bound again because all tables were replaced at the same time
_MOST_LOOKS = 5
STATUS_TABLES = {f"waterclock.{name}": types for name, types in STATUS_COLUMNS.items()}


@dataclass(frozen=True, slots=True)
class AnsweredQuery:
    """The rows of a query: column names with Spark types, rows in the query's order, and whether rows were cut off.

    `moment` is the tick as of which the tables were read; None: their heads.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    moment: Moment | None = None


@telling_damage
def query(work: Workplace, sql: str, *, limit: int, as_of: AsOf | None = None) -> AnsweredQuery:
    """Run the query `sql` on the tables' heads, or as of a tick. At most `limit` rows are collected to the driver.

    Each table is read at one Delta version, taken before the query starts, so that no table changes under it. If a
    rebuild of all tables swaps in a new set, all are of the old set or all of the new. As of a tick, regular tables are
    read as of their last boundary before it, and partitioned ones up to it.
    Raises ProjectErrors for errors in the text, E730 for errors that Spark finds in it, E511, E512, E518, E521 to E523
    and E640 where the tables have no content as of the tick.
    """
    asked = adhoc_query(sql, work.flow, status_tables={**STATUS_TABLES, **_beside(work.flow)})
    tables = _tables(work.flow, asked)
    spark = work.sessions.own()
    for _ in range(_MOST_LOOKS):
        before = work.ledger.keeping.current_rebuilding()
        moment = moment_of(work, tables, as_of) if as_of is not None and tables else None
        spliced = _bind_tables(work, spark, asked, moment, _heads(work) if is_moving(before) else {})
        if is_of_one_set(before, work.ledger.keeping.current_rebuilding()):
            break
    return replace(_answer(work, spark, spliced, limit), moment=moment)


def _heads(work: Workplace) -> Mapping[str, int]:
    """Return the versions in the ledger: while a new table set is swapped in, they are all of the old one."""
    return {record.name: record.head_version for record in work.ledger.reads.tables()}


def _bind_tables(
    work: Workplace, spark: SparkSession, asked: Query, moment: Moment | None, heads: Mapping[str, int]
) -> Spliced:
    """Bind each table of a query to its rows, as views of a session."""
    names: dict[str, str] = {}

    def name_of(read: Read | Flat) -> str:
        if isinstance(read, Flat):
            raise TypeError(f"{read} is refused where no batch is")
        if read.table not in names:
            names[read.table] = f"wc_{len(names)}"
            of_status = STATUS_TABLES.get(read.table)
            set_aside, held = (of(work.flow).get(read.table) for of in (quarantines, helds))
            if of_status is not None:
                frame = _status_frame(work, spark, read.table, find_pushdown(asked, read.table, of_status))
            elif set_aside is not None:
                frame = quarantine_frame(work, spark, work.flow.tables[set_aside], moment)
            elif held is not None:
                frame = with_hidden(held_frame(work, spark, work.flow.tables[held]), work.flow.tables[held])
            elif find_viewed_table(work.flow, read.table) is not None:
                frame = _frame_of_view(work, spark, read.table, moment, heads)
            else:
                frame = _frame(work, spark, read.table, moment, heads.get(read.table))
            frame.createOrReplaceTempView(names[read.table])
        return names[read.table]

    return splice(asked, name_of)


def tables_asked(flow: Flow, sql: str) -> list[str]:
    """Return the tables of the lake that a query names, and views of them, in the order of the query.

    Raises ProjectErrors for errors in the text, E511 for an unknown table, E706 for a destination.
    """
    return _tables(flow, adhoc_query(sql, flow, status_tables={**STATUS_TABLES, **_beside(flow)}))


def _beside(flow: Flow) -> dict[str, str]:
    """Return a mapping from the names of quarantine and held views, which exist for users alone, to their tables."""
    return {**quarantines(flow), **helds(flow)}


def _tables(flow: Flow, asked: Query) -> list[str]:
    beside = _beside(flow)
    asked_of_lake = [name for name in tables_of(asked) if name not in STATUS_TABLES]
    bases = [beside[name] for name in asked_of_lake if name in beside]
    others = [name for name in asked_of_lake if name not in beside]
    named = [name if find_viewed_table(flow, name) else require_table(flow, name).name for name in others]
    return list(dict.fromkeys([*named, *(name for name in bases if flow.tables[name].kind is not Kind.PUBLISH)]))


@telling_damage
def preview(work: Workplace, table: str, *, limit: int) -> AnsweredQuery:
    """Return some rows of a table's newest label, without HIDDEN columns."""
    require_table(work.flow, table)
    frame = without(_frame(work, work.sessions.own(), table), work.flow.tables[table].hidden_columns)
    newest = work.ledger.reads.newest(table)
    if newest is not None and work.flow.tables[table].is_partitioned:
        frame = frame.where(f"timelabel = '{label_of(newest.label)}'")
    return _collect_answer(frame, limit)


def _answer(work: Workplace, spark: SparkSession, spliced: Spliced, limit: int) -> AnsweredQuery:
    register_functions(spark, work.root, work.flow, [spliced.text])
    arguments = {name: value for name, value in work.project.variables.items() if f":{name}" in spliced.text}
    try:
        return _collect_answer(build_query_frame(spark, spliced.text, arguments), limit)
    except Exception as raised:
        raise to_error(raised, where="query", spliced=spliced) from raised


def _collect_answer(frame: DataFrame, limit: int) -> AnsweredQuery:
    columns = tuple((field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    rows = rows_of(frame, limit + 1)
    return AnsweredQuery(columns, tuple(rows[:limit]), len(rows) > limit)


def _frame_of_view(
    work: Workplace, spark: SparkSession, name: str, moment: Moment | None, heads: Mapping[str, int]
) -> DataFrame:
    table = find_viewed_table(work.flow, name) or name
    require_log(work, table)
    if moment is not None:
        return frame_at_moment(work, spark, name, moment)
    shown = find_shown_windows(work.flow, work.ledger, work.real_now(), table)
    return frame_of_view(work, spark, table, lambda: _frame(work, spark, table, version=heads.get(table)), shown=shown)


def _frame(
    work: Workplace, spark: SparkSession, name: str, moment: Moment | None = None, version: int | None = None
) -> DataFrame:
    require_log(work, name)
    if moment is not None:
        return frame_as_of(work, spark, work.flow.tables[name], moment.tick, known_at=moment.known_at)
    folder = work.lake.folder(name)
    table = work.flow.tables[name]
    if not has_columns(folder):
        return with_hidden(build_empty_frame(spark, work.lake, table), table)
    at = head(folder) if version is None or version < 0 else version
    rows = frame_at(spark, folder, at, low=_find_retained_start(work, table), is_partitioned=table.is_partitioned)
    return with_hidden(rows, table)


def _find_retained_start(work: Workplace, table: Table) -> datetime | None:
    """Return the first window that a table keeps under RETAIN, whether or not older ones are still on disk."""
    newest = work.ledger.reads.newest(table.name) if table.retain is not None and table.mode is Mode.APPEND else None
    if newest is None or table.retain is None:
        return None
    return table.cadence.ceil(table.retain.before(newest.end, table.cadence.zone))


def require_table(flow: Flow, name: str) -> Table:
    """Return a table that can be read.

    Raises  E511 for an unknown one, E706 for a destination
    """
    if name not in flow.tables:
        raise WaterclockError("E511", f"no table {name}", fix=did_you_mean(name, flow.tables))
    if flow.tables[name].kind is Kind.PUBLISH:
        raise WaterclockError(
            "E706",
            f"{name} is a destination, not a table of the lake",
            where=name,
            fix=f"query {flow.tables[name].reads[0].table}, which is published there",
        )
    return flow.tables[name]


def _status_frame(work: Workplace, spark: SparkSession, name: str, asked: AskedOf) -> DataFrame:
    """Return the part of a status table that a query needs: NULL in unused columns, and only matching rows."""
    import pyarrow as pa

    types = STATUS_TABLES[name]
    conditions = [(each.column, each.operator, each.values) for each in asked.conditions]
    wanted = [column for column in types if column in asked.columns]
    found = work.ledger.past.columns(name.partition(".")[2], wanted, conditions)
    rows = len(next(iter(found.values())))
    arrow = {
        "STRING": pa.string(),
        "BIGINT": pa.int64(),
        "BOOLEAN": pa.bool_(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    }
    columns = {
        column: pa.array(found.pop(column), arrow[kind]) if column in found else pa.nulls(rows, arrow[kind])
        for column, kind in types.items()
    }
    return spark.createDataFrame(pa.table(columns))
