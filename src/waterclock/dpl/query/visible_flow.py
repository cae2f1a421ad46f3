"""Computes the part of a flow that a user can name in queries: tables, views and columns with a grant. Pure logic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from waterclock.dpl.query.builtins import FUNCTIONS, called_functions, find_calls
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.tokens import dialect
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Function, Query, Table
from waterclock.flow.table_visibility import TableVisibility, form_of, grants_of
from waterclock.permissions.users_and_roles import Person

_REFUSED = frozenset("raise_error assert_true input_file_name input_file_block_start input_file_block_length".split())
"""Functions that can fail at a row of the caller's choice, or that show where rows are stored."""


def show_flow(flow: Flow, person: Person) -> Flow:
    """Return the part of a flow that a user can name in queries.

    HIDDEN columns that are not granted lose this property, because the user does not see them in any case. A view or a
    publish is left out if it reads a table that the user cannot name.
    """
    tables = {
        name: _show_table(flow, person, table)
        for name, table in flow.tables.items()
        if form_of(flow, person, name) is not TableVisibility.NONE
    }
    tables = {
        name: table for name, table in tables.items()
        if table.destination is None or all(read.table in tables for read in table.reads)
    }  # fmt: skip
    views = {name: view for name, view in flow.views.items() if all(each in tables for each in _tables_of(view.query))}
    return replace(flow, tables=tables, views=views)


def check_restricted_calls(sql: str, flow: Flow) -> list[WaterclockError]:
    """Return errors for functions that a query of a restricted user cannot call, directly or through other functions.

    These are functions that fail at a row of the caller's choice, and Python code: an error message or a side effect
    could reveal rows that Spark filters only afterwards.
    """
    return list(_refused_calls(sql, {**FUNCTIONS, **flow.functions}))


def _refused_calls(sql: str, functions: Mapping[str, Function]) -> Iterator[WaterclockError]:
    source, tokens = SourceText("query", sql), dialect().tokenize(sql)
    for name, token in find_calls(tokens, [*_REFUSED, *functions]):
        if name not in _REFUSED and not _is_refused(name, functions):
            continue
        yield source.span(token.start, token.end + 1).refuse(
            "E946", f"{token.text} cannot be called in this query",
            why="it could reveal rows or values that are not granted to you",
            fix="remove the call, or ask an administrator for a TRANSFORM that contains it",
        )  # fmt: skip


def _is_refused(name: str, functions: Mapping[str, Function]) -> bool:
    """Return whether a function is Python code, or calls a refused function, directly or through others."""
    called = called_functions(functions, [f"{name}(x)"])
    return any(
        function.python is not None or next(find_calls(dialect().tokenize(function.body or ""), _REFUSED), None)
        for function in called
    )


def _show_table(flow: Flow, person: Person, table: Table) -> Table:
    grants = grants_of(flow, person, table.name)
    if grants is None or not table.hidden_columns:
        return table
    named = tuple(
        replace(column, is_hidden=column.is_hidden and any(grant.has(column.name) for grant in grants))
        for column in table.columns.named
    )
    return replace(table, columns=replace(table.columns, named=named))


def _tables_of(query: Query) -> Iterator[str]:
    for branch in query.branches:
        yield from _tables_of(branch)
    for reference in query.tables:
        if reference.read is not None:
            yield reference.read.table
        elif reference.flat is not None:
            yield from (read.table for read in reference.flat.included_reads)
        elif reference.view is not None:
            yield from _tables_of(reference.view)
