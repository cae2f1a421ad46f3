"""Applies grants to queries: a person sees only granted tables, rows and columns, with their masks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.dpl.adhoc import adhoc_query
from waterclock.dpl.query.granted_select import GrantedSelect, granted_select
from waterclock.dpl.query.visible_flow import check_restricted_calls, show_flow
from waterclock.dpl.resolve.literals import literal
from waterclock.engine.query.ticks import RequestedTick, ResolvedTick, resolve_tick
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.user_functions import register_functions
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.declarations import Flow, Query
from waterclock.flow.grants import Grant
from waterclock.flow.table_visibility import TableVisibility, form_of
from waterclock.permissions.users_and_roles import Person
from waterclock.planner.query_ticks import read_tick
from waterclock.spark_sql import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WITH_REASONS = frozenset({"E522", "E523"})


def restricted_query(sql: str, flow: Flow, viewer: Person, status_tables: Collection[str]) -> Query:
    """Parse the query of a person who does not see all tables. It can name granted tables and `status_tables` only.

    Raises ProjectErrors for errors in the text, and for functions that such a query cannot call.
    """
    parsed = adhoc_query(sql, show_flow(flow, viewer), status_tables=status_tables)
    if errors := check_restricted_calls(parsed.text, flow):
        raise ProjectErrors(errors)
    return parsed


def restricted_moment(
    work: RunContext, tables: Collection[str], requested: RequestedTick, viewer: Person
) -> ResolvedTick:
    """Resolve the tick of a query for a person who does not see all tables. It contains no batches of other tables.

    Raises the same errors as `resolve_tick`, but E522 and E523 do not contain the reason, which may be the error of a
    batch.
    """
    read_tick(requested.tick, show_flow(work.flow, viewer), requested.zone)  # a tick can name a table
    try:
        found = resolve_tick(work, tables, requested)
    except WaterclockError as error:
        if error.code not in _WITH_REASONS:
            raise
        raise WaterclockError(
            error.code,
            f"the tables cannot be read as of {requested.tick}",
            why="the reason is not shown, because it could contain values that are not granted to you",
            fix="query as of another tick, or ask an administrator",
        ) from None

    def is_shown(name: str) -> bool:
        return form_of(work.flow, viewer, name) is not TableVisibility.NONE

    return replace(
        found,
        behind={name: labels for name, labels in found.behind.items() if is_shown(name)},
        missing=tuple(gap for gap in found.missing if is_shown(gap.table)),
        awaited=tuple(gap for gap in found.awaited if is_shown(gap.table)),
    )


def grant_frame(
    work: RunContext, spark: SparkSession, frame: DataFrame, grants: Sequence[Grant], person: Person, name: str
) -> tuple[DataFrame, GrantedSelect]:
    """Return the rows of a table as a person sees them, and the SELECT that computes them.

    Raises E946 if no column is granted.
    """
    attributes = {key: literal(value) for key, value in person.attributes.items()}
    texts = [text for grant in grants for text in (grant.where, *(each.mask for each in grant.columns)) if text]
    register_functions(spark, work.root, work.flow, texts)
    seen = granted_select(grants, frame.columns, attributes)
    mixed = [column.name for column in seen.columns if len(_result_types(frame, column.masks)) > 1]
    if mixed:
        seen = granted_select(grants, frame.columns, attributes, as_text=mixed)
    if not seen.columns:
        raise WaterclockError(
            "E946", f"no column of {name} is granted to {person.name}", fix="ask an administrator for a GRANT"
        )
    rows = frame if seen.where is None else frame.where(seen.where)
    return rows.selectExpr(*(f"{column.sql} AS {quote_name(column.name)}" for column in seen.columns)), seen


def _result_types(frame: DataFrame, expressions: Sequence[str]) -> set[str]:
    return {kind for _, kind in frame.selectExpr(*expressions).dtypes} if len(expressions) > 1 else set()
