"""Finds the readers of SHARED views, and replaces references to them by reads of their stored rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from waterclock.flow.declarations import Flow, Query, Read, Table, TableReference


def list_shared_references(query: Query) -> tuple[TableReference, ...]:
    """Return the distinct references to SHARED views in a query, except references inside another SHARED view."""
    return tuple(dict.fromkeys(_references(query)))


def _references(query: Query) -> Iterator[TableReference]:
    for branch in query.branches:
        yield from _references(branch)
    for reference in query.tables:
        if reference.shared is not None:
            yield reference
        elif reference.view is not None:
            yield from _references(reference.view)


def queries_in(table: Table) -> tuple[Query, ...]:
    """Return the queries of a table: its own query, and those of the views that its Python function reads."""
    own = (table.query,) if table.query is not None else ()
    arguments = table.function.arguments if table.function is not None else ()
    return (*own, *(each.query for each in arguments if each.query is not None))


def views_shared_by(table: Table) -> tuple[str, ...]:
    """Return the distinct names of the SHARED views that a table reads."""
    found = (reference for query in queries_in(table) for reference in list_shared_references(query))
    return tuple(dict.fromkeys(each.shared for each in found if each.shared is not None))


def readers_of_shared(flow: Flow) -> Mapping[str, tuple[str, ...]]:
    """Map each SHARED view that several tables read to these tables.

    Companion tables with open windows, and tables with rules on inputs, are not included: they run a view's query
    again.
    """
    found: dict[str, list[str]] = {}
    for name, table in flow.tables.items():
        for view in views_shared_by(table) if table.open_of is None and not table.input_rules else ():
            found.setdefault(view, []).append(name)
    return {view: tuple(names) for view, names in sorted(found.items()) if len(names) > 1}


def rows_of_view(reference: TableReference) -> Query:
    """Return the query of the view to which `reference` refers, limited to the columns of the view's column list."""
    if reference.view is None:
        raise ValueError("a reference to a table has no query")
    if not reference.view_columns:
        return reference.view
    name = reference.shared or "w.view"
    text = f"SELECT * FROM {name}"
    start = len(text) - len(name)
    inside = replace(reference, start=start, end=len(text), alias="shown", alias_at=len(text), shared=None)
    return Query(text, reference.view.place, (inside,))


def replace_views(query: Query, rows: Mapping[TableReference, Read]) -> Query:
    """Return a query in which references to views, also within views, are replaced by the reads in `rows`."""
    branches = tuple(replace_views(branch, rows) for branch in query.branches)
    tables = tuple(_place_rows(reference, rows) for reference in query.tables)
    return replace(query, branches=branches, tables=tables)


def _place_rows(reference: TableReference, rows: Mapping[TableReference, Read]) -> TableReference:
    if reference in rows:
        return replace(reference, read=rows[reference], view=None, view_columns=(), shared=None)
    if reference.view is not None:
        return replace(reference, view=replace_views(reference.view, rows))
    return reference


def table_with_rows(table: Table, rows: Mapping[TableReference, Read]) -> Table:
    """Return a table in whose queries references to views are replaced by the reads in `rows`."""
    query = None if table.query is None else replace_views(table.query, rows)
    function = table.function
    if function is not None:
        arguments = tuple(
            each if each.query is None else replace(each, query=replace_views(each.query, rows))
            for each in function.arguments
        )
        function = replace(function, arguments=arguments)
    return replace(table, query=query, function=function)
