"""The catalog: every table with its purpose, its owner and its freshness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from waterclock.flow.declarations import Table
from waterclock.operations.freshness import Freshness, freshness
from waterclock.operations.plan_excerpt import plan_of_due
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.timeline_bars import TimelineBar, build_timeline_bars
from waterclock.ui.page_query import Content, PageQuery, table_address
from waterclock.ui.pages.grid import axis_of, describe_piece, fresh_words

_STRIP = 30  # labels in the strip next to each name
_FACETS = ("layer", "owner", "tag", "kind", "state")


def catalog(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the selected tables, with counts for each filter value. The cost is that of `grid`."""
    tables, _ = parameters.tables(at)
    names = [table.name for table in tables]
    plan = plan_of_due(at, names)
    found = freshness(at.flow, names, at.snapshot, plan)
    wanted = {facet: parameters.values[facet] for facet in _FACETS if parameters.values.get(facet)}
    shown = [table for table in tables if _matches_filters(table, found[table.name], wanted)]
    axis = axis_of(at, shown, (), _STRIP)
    strips = {ribbon.table: ribbon for ribbon in build_timeline_bars(at, shown, axis, plan.batches)}
    return {
        "tables": [_describe_table(at, table, found[table.name], strips.get(table.name)) for table in shown],
        "of": len(tables),
        "columns": len(axis.columns),
        "facets": {facet: _count_values(tables, found, facet) for facet in _FACETS},
        "wanted": wanted,
    }


def values_of(table: Table, fresh: Freshness, facet: str) -> tuple[str, ...]:
    """Return a table's values for a filter: its schema (`layer`), owner, tags, kind or state."""
    if facet == "layer":
        return (table.name.rpartition(".")[0],)
    if facet == "owner":
        return (table.about.owner,) if table.about.owner else ()
    if facet == "tag":
        return table.about.tags
    return (str(table.kind),) if facet == "kind" else (str(fresh.state),)


def _matches_filters(table: Table, fresh: Freshness, wanted: dict[str, str]) -> bool:
    return all(value in values_of(table, fresh, facet) for facet, value in wanted.items())


def _count_values(tables: Iterable[Table], found: dict[str, Freshness], facet: str) -> dict[str, int]:
    counts = Counter(value for table in tables for value in values_of(table, found[table.name], facet))
    return dict(counts.most_common())


def _describe_table(at: OpenedProject, table: Table, fresh: Freshness, strip: TimelineBar | None) -> Content:
    return {
        "table": table.name,
        "layer": table.name.rpartition(".")[0],
        "name": table.name.rpartition(".")[2],
        "purpose": table.about.comment or "",
        "owner": table.about.owner or "",
        "tags": list(table.about.tags),
        "kind": str(table.kind),
        "state": str(fresh.state),
        "is_fresh": fresh.is_fresh,
        "fresh_to": fresh_words(table, fresh, at.now),
        "strip": [] if strip is None else [describe_piece(table, piece, at.now) for piece in strip.pieces],
        "address": table_address(table.name),
    }
