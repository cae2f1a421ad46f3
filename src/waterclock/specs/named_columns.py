"""Finds undeclared columns of collects with open column lists, by the names in the queries that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from waterclock.dpl.query.splice import splice
from waterclock.dpl.syntax.tokens import parse_query_text
from waterclock.flow.declarations import Flat, Flow, Query, Read, Table
from waterclock.flow.enums import Kind
from waterclock.timelabel.label import TIMELABEL

_DIALECT = "databricks"


def named_columns(flow: Flow) -> dict[str, tuple[str, ...]]:
    """Map each collect with an open column list to the undeclared columns that the queries of the flow name.

    A name that may belong to several tables is left out if one of them declares it, or if its table is unclear. The
    names used in Python transforms are unknown.
    """
    found: dict[str, dict[str, str]] = {}
    for table in flow.tables.values():
        for query in _list_queries(table):
            for name, column in _find_in_query(flow, query):
                declared = {each.name.lower() for each in flow.tables[name].columns.named}
                if column.lower() not in declared | {TIMELABEL}:
                    found.setdefault(name, {}).setdefault(column.lower(), column)
    return {name: tuple(columns.values()) for name, columns in found.items()}


def _list_queries(table: Table) -> Iterator[Query]:
    if table.query is not None:
        yield from table.query.branches or (table.query,)
    for argument in table.function.arguments if table.function else ():
        if argument.query is not None:
            yield argument.query


def _find_in_query(flow: Flow, query: Query) -> Iterator[tuple[str, str]]:
    reads: dict[Read | Flat, str] = {}
    text = splice(query, lambda read: reads.setdefault(read, f"wc_{len(reads)}")).text
    sight = _ColumnResolver(flow, {name: read.table for read, name in reads.items() if isinstance(read, Read)})
    try:
        for scope in traverse_scope(parse_query_text(text)):
            yield from sight.of(scope)
    except (SqlglotError, ValueError, RecursionError):
        return


@dataclass(slots=True)
class _ColumnResolver:
    """Resolves the column names of one query. `tables` maps the names in its FROM to tables of the flow."""

    flow: Flow
    tables: Mapping[str, str]
    _busy: set[int] = field(default_factory=set)

    def of(self, scope: Scope) -> Iterator[tuple[str, str]]:
        """Yield the columns of open collects that one SELECT names, each as a pair of collect and column."""
        aliases = _list_aliases(scope.expression)
        for column in scope.columns:
            if column.table:
                yield from self._resolve_column([scope.sources.get(column.table)], column.name)
            elif column.name.lower() not in aliases or _is_in_alias_of_its_name(column):
                yield from self._resolve_column(list(scope.sources.values()), column.name)
        for join in scope.expression.args.get("joins") or ():
            for name in join.args.get("using") or ():
                for source in scope.sources.values():
                    yield from self._resolve_column([source], name.name)

    def _resolve_column(self, sources: list[Any], column: str) -> Iterator[tuple[str, str]]:
        """Yield the open collect that a column belongs to, and the column; nothing if that is uncertain."""
        open_ones: set[str] = set()
        for source in sources:
            found = self._find_open_collects(source, column)
            if found is None:
                return  # the source has the column, so it belongs to no open collect
            open_ones |= found
        if len(open_ones) == 1:
            yield open_ones.pop(), column

    def _find_open_collects(self, source: Any, column: str) -> set[str] | None:
        """Return the open collects that a source's column may belong to, or None if the source certainly has it."""
        if isinstance(source, exp.Table):
            return self._open_collects_of_table(self.tables.get(source.name), column)
        if not isinstance(source, Scope) or id(source) in self._busy:
            return set()
        select = source.expression
        if column.lower() in _list_selected_names(select):
            return None
        if not select.is_star:
            return set()
        self._busy.add(id(source))
        try:
            found = [self._find_open_collects(inner, column) for inner in source.sources.values()]
        finally:
            self._busy.discard(id(source))
        return None if None in found else set().union(*(each for each in found if each))

    def _open_collects_of_table(self, name: str | None, column: str) -> set[str] | None:
        if name is None:
            return None  # a FLAT read, which may have the column
        table = self.flow.tables[name]
        if any(each.name.lower() == column.lower() for each in table.columns.named):
            return None
        return {name} if table.kind is Kind.COLLECT and table.columns.is_open else set()


def _list_selected_names(query: Any) -> set[str]:
    return {name.lower() for name in query.named_selects}


def _is_in_alias_of_its_name(column: exp.Column) -> bool:
    """Return whether a column is the x of `upper(x) AS x`: that x belongs to a table, any other x is the alias."""
    alias = column.find_ancestor(exp.Alias)
    return alias is not None and alias.alias.lower() == column.name.lower()


def _list_aliases(query: Any) -> set[str]:
    return {each.alias.lower() for each in query.selects if isinstance(each, exp.Alias)}
