"""Warns of valid queries whose result may differ from the intended one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.row_order import find_arbitrary_order, parse_query, unique_of
from waterclock.dpl.query.storable_columns import span_of
from waterclock.dpl.query.text_times import find_text_read_in_utc, types_of
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Query, Table

_WHY_ORDER = "Spark does not guarantee an order of rows, so a repeated batch may differ, and its readers run again too"
_WHY_LABEL = "timelabel is a column of every table, and * includes it"


def query_warnings(flow: Flow) -> list[WaterclockError]:
    """Return warnings for parts of queries that depend on row order, use `timelabel` implicitly, or read times in UTC.

    Parses each query of the flow.
    """
    found: list[WaterclockError] = []
    for table in flow.tables.values():
        for query in (table.query.branches or (table.query,)) if table.query is not None else ():
            found.extend(_warn_of_query(flow, query, table))
    for view in flow.views.values():
        for query in view.query.branches or (view.query,):
            found.extend(_warn_of_query(flow, query, None))
    return found


def _warn_of_query(flow: Flow, query: Query, reader: Table | None) -> Iterator[WaterclockError]:
    source = SourceText(query.place.file, query.text, query.place.line, query.place.column)
    tree = parse_query(source)
    unique = unique_of(flow, query, reader)
    whole = source.span(0, len(query.text))
    zone, types = _zone(flow, reader), types_of(flow, query)
    for node in tree.walk() if tree is not None else ():
        chance = find_arbitrary_order(node, unique)
        if chance is not None:
            at, what, fix = chance
            yield span_of(at, whole).refuse("W201", what, why=_WHY_ORDER, fix=fix)
        for check in _LABEL_CHECKS:
            seen = check(node)
            if seen is not None:
                at, what, fix = seen
                yield span_of(at, whole).refuse("W202", what, why=_WHY_LABEL, fix=fix)
        read = find_text_read_in_utc(node, types) if zone != "UTC" else None
        if read is not None:
            at, written = read
            yield span_of(at, whole).refuse(
                "W204",
                f"{written} reads a string without an offset in UTC, not in {zone}",
                why="Spark's session is in UTC; a column that is declared TIMESTAMP is read in the table's zone",
                fix=f"declare the column TIMESTAMP in the column list, and select the string; or "
                f"to_utc_timestamp(..., '{zone}')",
            )


def _zone(flow: Flow, reader: Table | None) -> str:
    """Return the time zone of a query's table; for a view, the first zone of the flow's tables other than UTC."""
    if reader is not None:
        return reader.cadence.zone
    return next((table.cadence.zone for table in flow.tables.values() if table.cadence.zone != "UTC"), "UTC")


def _find_natural_join(node: Any) -> tuple[Any, str, str] | None:
    if not isinstance(node, exp.Join) or node.method != "NATURAL" or not _is_stored(node.this):
        return None
    return node.this, "NATURAL JOIN also joins by timelabel", "write JOIN ... USING (columns)"


def _find_star_of_function(node: Any) -> tuple[Any, str, str] | None:
    if not isinstance(node, exp.Star) or any(
        each.name.lower() == "timelabel" for each in node.args.get("except_") or ()
    ):
        return None
    column = node.parent if isinstance(node.parent, exp.Column) else None
    call = (column or node).parent
    if not isinstance(call, exp.Func) or isinstance(call, exp.Count):
        return None
    select = call.find_ancestor(exp.Select)
    if select is None or not any(map(_is_stored, _sources(select, column.table if column is not None else ""))):
        return None
    name = call.name if isinstance(call, exp.Anonymous) else str(call.sql_name()).lower()
    star = f"{column.table}.*" if column is not None and column.table else "*"
    return call, f"{name}({star}) includes timelabel", f"write {star} EXCEPT (timelabel), or name the columns"


_LABEL_CHECKS: tuple[Callable[[Any], tuple[Any, str, str] | None], ...] = (_find_natural_join, _find_star_of_function)


def _sources(select: exp.Select, alias: str) -> Iterator[Any]:
    """Yield the sources in FROM and JOIN with an alias; all of them if `alias` is empty."""
    from_ = select.args.get("from_")
    found = [from_.this] if from_ is not None else []
    found += [join.this for join in select.args.get("joins") or ()]
    return (each for each in found if not alias or str(each.alias_or_name).lower() == alias.lower())


def _is_stored(node: Any) -> bool:
    """Return whether a source is a table of the flow, by its name or in a read function, and no subquery or CTE."""
    return isinstance(node, exp.Table) and (bool(node.db) or isinstance(node.this, exp.Func))
