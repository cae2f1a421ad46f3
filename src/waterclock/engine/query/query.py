"""Answers queries over tables, now or as of a tick, and over the ledger's status tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from waterclock.batches.rebuilding import is_moving, is_of_one_set
from waterclock.dpl.adhoc import adhoc_query, no_table_error, tables_of
from waterclock.dpl.query.granted_select import GrantedSelect
from waterclock.dpl.query.pushdown import find_pushdown
from waterclock.dpl.query.splice import SplicedQuery, splice
from waterclock.engine.damage import reporting_damage
from waterclock.engine.query.granted_frames import grant_frame, restricted_moment, restricted_query
from waterclock.engine.query.held_rows import frame_of_held_batches, held_views
from waterclock.engine.query.quarantine import quarantine_frame, quarantine_views
from waterclock.engine.query.table_frames import (
    STATUS_TABLES,
    find_unpaired_labels,
    frame_of_table,
    frames_by_name,
    status_frame,
)
from waterclock.engine.query.ticks import MissingLabels, RequestedTick, ResolvedTick, require_tick, resolve_tick
from waterclock.engine.query.views import find_viewed_table
from waterclock.engine.reads.hidden import add_hidden_columns, drop_columns
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.granted_plan import check_granted_plan, prepare_restricted_session
from waterclock.engine.spark.queries import build_query_frame
from waterclock.engine.spark.user_functions import register_functions
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flat, Flow, Query, Read, Table
from waterclock.flow.enums import Kind
from waterclock.flow.table_visibility import TableVisibility, form_of, grants_of, is_restricted
from waterclock.permissions.users_and_roles import Person
from waterclock.storage.fetched_rows import rows_of
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# the maximum number of times that a query is bound, if rebuilds replace all tables meanwhile
_MOST_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class AnsweredQuery:
    """The result of a query: column names with Spark types, rows in the query's order, and whether rows were cut off.

    `moment` is the tick as of which the tables were read; None: their current versions. `unpaired` are the labels of
    tables with APART that were left out, because the columns that are kept apart were not made of the same inputs and
    by the same code yet.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    moment: ResolvedTick | None = None
    unpaired: tuple[MissingLabels, ...] = ()


@reporting_damage
def query(
    work: RunContext, sql: str, *, limit: int, as_of: RequestedTick | None = None, person: Person | None = None
) -> AnsweredQuery:
    """Run the query `sql` on the current tables, or as of a tick. At most `limit` rows are collected to the driver.

    Each table is read at one Delta version, taken before the query starts, so that no table changes under it. If a
    rebuild of all tables swaps in a new set, all tables are of the old set or all of the new. As of a tick, regular
    tables are read as of their last boundary before it, and partitioned ones up to it. `person` sees only what is
    granted to them; None is the owner of the project.

    Raises ProjectErrors for errors in the text, E730 for errors that Spark finds in it, and E511, E512, E518, E521 to
    E523 or E640 if the tables have no content as of the tick.
    """
    viewer = person if person is not None and is_restricted(work.flow, person) else None
    parsed = _read_query(work.flow, sql, viewer)
    tables = _queried_tables(work.flow, parsed)
    if as_of is not None and not tables:
        require_tick(work.flow, as_of)
    spark = work.sessions.own()
    if viewer is not None:
        prepare_restricted_session(spark)
    for _ in range(_MOST_ATTEMPTS):
        before = work.ledger.maintenance.current_rebuilding()
        moment = _find_moment(work, tables, as_of, viewer) if as_of is not None and tables else None
        heads = _head_versions(work) if is_moving(before) else {}
        unpaired, versions = find_unpaired_labels(work, tables if moment is None else ())
        heads = {**versions, **heads}
        spliced, granted = _bind_tables(work, spark, parsed, moment, heads, viewer, unpaired)
        if is_of_one_set(before, work.ledger.maintenance.current_rebuilding()):
            break
    left_out = tuple(MissingLabels(name, labels[0], labels[-1], len(labels)) for name, labels in unpaired.items())
    if viewer is not None:
        return replace(_answer_restricted(work, spark, spliced, limit, granted), moment=moment, unpaired=left_out)
    return replace(_answer_unrestricted(work, spark, spliced, limit), moment=moment, unpaired=left_out)


def _find_moment(work: RunContext, tables: list[str], as_of: RequestedTick, viewer: Person | None) -> ResolvedTick:
    if viewer is None:
        return resolve_tick(work, tables, as_of)
    return restricted_moment(work, tables, as_of, viewer)


def _read_query(flow: Flow, sql: str, viewer: Person | None) -> Query:
    """Parse and check a query. A viewer can name only what is granted, and no status tables: these show all tables."""
    if viewer is None:
        return adhoc_query(sql, flow, status_tables={**STATUS_TABLES, **_map_view_tables(flow)})
    status_tables = [name for name in _map_view_tables(flow) if form_of(flow, viewer, name) is not TableVisibility.NONE]
    return restricted_query(sql, flow, viewer, status_tables)


def _head_versions(work: RunContext) -> Mapping[str, int]:
    """Map each table to its version in the ledger. While new tables replace the old ones, all are of the old set."""
    return {record.name: record.head_version for record in work.ledger.reads.tables()}


def _bind_tables(
    work: RunContext,
    spark: SparkSession,
    parsed: Query,
    moment: ResolvedTick | None,
    heads: Mapping[str, int],
    viewer: Person | None,
    unpaired: Mapping[str, Collection[datetime]],
) -> tuple[SplicedQuery, Mapping[str, GrantedSelect | None]]:
    """Create a session view for each table of a query. Return the query on these views, and the grants of each view."""
    names: dict[str, str] = {}
    granted: dict[str, GrantedSelect | None] = {}
    frame_of = frames_by_name(work, spark, tables_of(parsed), moment, heads, unpaired)

    def name_of(read: Read | Flat) -> str:
        if isinstance(read, Flat):
            raise TypeError(f"{read} is refused where no batch is")
        if read.table not in names:
            names[read.table] = f"wc_{len(names)}"
            of_status = STATUS_TABLES.get(read.table)
            set_aside, held = (of(work.flow).get(read.table) for of in (quarantine_views, held_views))
            if of_status is not None:
                frame = status_frame(work, spark, read.table, find_pushdown(parsed, read.table, of_status))
            elif set_aside is not None:
                frame = quarantine_frame(work, spark, work.flow.tables[set_aside], moment)
            elif held is not None:
                frame = add_hidden_columns(
                    frame_of_held_batches(work, spark, work.flow.tables[held]), work.flow.tables[held]
                )
            else:
                frame = frame_of(read.table)
            grants = None if viewer is None else grants_of(work.flow, viewer, read.table)
            seen = None
            if viewer is not None and grants is not None:
                frame, seen = grant_frame(work, spark, frame, grants, viewer, read.table)
            granted[names[read.table]] = seen
            frame.createOrReplaceTempView(names[read.table])
        return names[read.table]

    return splice(parsed, name_of), granted


def list_queried_tables(flow: Flow, sql: str) -> list[str]:
    """Return the tables and views of the lake that a query reads, in the order of the query.

    Raises ProjectErrors for errors in the text, E511 for an unknown table, E706 for a destination.
    """
    return _queried_tables(flow, adhoc_query(sql, flow, status_tables={**STATUS_TABLES, **_map_view_tables(flow)}))


def _map_view_tables(flow: Flow) -> dict[str, str]:
    """Map the names of quarantine and held views, which no statement can read, to their tables."""
    return {**quarantine_views(flow), **held_views(flow)}


def _queried_tables(flow: Flow, parsed: Query) -> list[str]:
    view_tables = _map_view_tables(flow)
    asked_of_lake = [name for name in tables_of(parsed) if name not in STATUS_TABLES]
    bases = [view_tables[name] for name in asked_of_lake if name in view_tables]
    others = [name for name in asked_of_lake if name not in view_tables]
    named = [name if find_viewed_table(flow, name) else require_table(flow, name).name for name in others]
    return list(dict.fromkeys([*named, *(name for name in bases if flow.tables[name].kind is not Kind.PUBLISH)]))


@reporting_damage
def preview(work: RunContext, table: str, *, limit: int) -> AnsweredQuery:
    """Return some rows of a table's newest label, without HIDDEN columns."""
    require_table(work.flow, table)
    frame = drop_columns(frame_of_table(work, work.sessions.own(), table), work.flow.tables[table].hidden_columns)
    newest = work.ledger.reads.newest(table)
    if newest is not None and work.flow.tables[table].is_partitioned:
        frame = frame.where(f"timelabel = '{label_of(newest.label)}'")
    return _collect_answer(frame, limit)


def _answer_unrestricted(work: RunContext, spark: SparkSession, spliced: SplicedQuery, limit: int) -> AnsweredQuery:
    register_functions(spark, work.root, work.flow, [spliced.text])
    arguments = {name: value for name, value in work.project.variables.items() if f":{name}" in spliced.text}
    try:
        return _collect_answer(build_query_frame(spark, spliced.text, arguments), limit)
    except Exception as raised:
        raise to_error(raised, where="query", spliced=spliced) from raised


def _answer_restricted(
    work: RunContext,
    spark: SparkSession,
    spliced: SplicedQuery,
    limit: int,
    granted: Mapping[str, GrantedSelect | None],
) -> AnsweredQuery:
    """Answer a query of a person who does not see all tables, after checking Spark's plan against the grants.

    The text of an error that a row causes is not shown.
    """
    register_functions(spark, work.root, work.flow, [spliced.text])
    arguments = {name: value for name, value in work.project.variables.items() if f":{name}" in spliced.text}
    try:
        check = partial(check_granted_plan, granted=granted)
        frame = build_query_frame(spark, spliced.text, arguments, check=check)
    except Exception as raised:
        raise to_error(raised, where="query", spliced=spliced) from raised
    with suppress(Exception):  # its text may quote a row
        return _collect_answer(frame, limit)
    raise WaterclockError(
        "E947",
        "the query failed while it ran",
        why="the reason is not shown, because it could contain values that are not granted to you",
        fix="use try_divide and try_cast; or ask an administrator to run the query",
    )


def _collect_answer(frame: DataFrame, limit: int) -> AnsweredQuery:
    columns = tuple((field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    rows = rows_of(frame, limit + 1)
    return AnsweredQuery(columns, tuple(rows[:limit]), len(rows) > limit)


def require_table(flow: Flow, name: str) -> Table:
    """Return a table that can be read. Raises E511 for an unknown one, E706 for a destination."""
    if name not in flow.tables:
        raise no_table_error(name, flow)
    if flow.tables[name].kind is Kind.PUBLISH:
        raise WaterclockError(
            "E706",
            f"{name} is a destination, not a table of the lake",
            where=name,
            fix=f"query {flow.tables[name].reads[0].table}, which is published there",
        )
    return flow.tables[name]
