"""Finds parts of a query for which Spark certainly moves rows between tasks. Other parts are left to Spark's plan.

Spark reads a table with several tasks, and does not know which of them has which values. To group, rank, sort or limit
these rows, it moves them between tasks (a shuffle). If a hint or a join comes first, only the plan shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.column_scope import start_of
from waterclock.dpl.query.names_in_query import NamedTable, QueryNames


def find_shuffles(
    found: QueryNames, views: Mapping[str, QueryNames], in_buckets: Collection[str] = ()
) -> Iterator[tuple[Any, str]]:
    """Yield the nodes of a query that certainly need a shuffle, each with its SQL keyword.

    `views` are the queries of the views that it may read. Nodes within these queries are not returned. `in_buckets` are
    the tables with BUCKET BY: whether their rows are moved, only the plan shows.
    """
    reader = _Reader(found, views, in_buckets)
    for node in found.tree.walk() if found.tree is not None else ():
        part = _gathering_part(node)
        if part is not None and reader.is_spread_below(node):
            yield part


class _Reader:
    """Decides whether the rows of a query's sources are certainly spread over several tasks, in no known order."""

    def __init__(self, names: QueryNames, views: Mapping[str, QueryNames], in_buckets: Collection[str]) -> None:
        self.tables: dict[int, NamedTable] = {table.start: table for table in names.tables}
        self.views = views
        self.in_buckets = in_buckets

    def is_spread_below(self, node: Any) -> bool:
        """Return whether the rows that a SELECT or a set operation works on are certainly spread."""
        if isinstance(node, exp.SetOperation):
            return self.is_spread(node.this) and self.is_spread(node.expression)
        if node.args.get("laterals"):
            return False
        from_ = node.args.get("from_")
        sources = [from_.this] if from_ is not None else []
        sources += [join.this for join in node.args.get("joins") or ()]
        return bool(sources) and all(map(self.is_spread, sources))

    def is_spread(self, source: Any) -> bool:
        """Return whether the rows of a table, subquery or view are certainly spread."""
        if source.args.get("pivots") or source.args.get("sample"):
            return False
        if isinstance(source, exp.Table):
            return self._is_table_spread(self.tables.get(start_of(source) or -1))
        if isinstance(source, exp.Subquery):
            return not source.args.get("joins") and self.is_spread(source.this)
        is_known = isinstance(source, exp.Union) or (isinstance(source, exp.Select) and not _is_aggregate(source))
        is_plain = is_known and not source.args.get("hint") and _gathering_part(source) is None
        return is_plain and self.is_spread_below(source)

    def _is_table_spread(self, named: NamedTable | None) -> bool:
        if named is None or named.mark or named.name in self.in_buckets:
            return False
        view = self.views.get(named.name)
        return view is None or (
            view.tree is not None and _Reader(view, self.views, self.in_buckets).is_spread(view.tree)
        )


def _gathering_part(node: Any) -> tuple[Any, str] | None:
    """Return the part of a SELECT or a set operation that needs rows of several tasks, with its keyword, or None."""
    if isinstance(node, exp.SetOperation):
        word = type(node).__name__.upper()
        return (node, word) if not isinstance(node, exp.Union) or node.args.get("distinct") else _ordering_part(node)
    if not isinstance(node, exp.Select):
        return None
    group = node.args.get("group")
    if group is not None and (group.expressions or group.args.get("all")):
        return group, "GROUP BY"
    if node.args.get("distinct") is not None:
        return node.args["distinct"], "DISTINCT"
    window = next((each for each in node.find_all(exp.Window) if each.find_ancestor(exp.Select) is node), None)
    if window is not None:
        return window, "OVER"
    return _ordering_part(node)


def _ordering_part(node: Any) -> tuple[Any, str] | None:
    if node.args.get("limit") is not None:
        return node.args["limit"], "LIMIT"
    return (node.args["order"], "ORDER BY") if node.args.get("order") is not None else None


def _is_aggregate(select: exp.Select) -> bool:
    """Return whether a SELECT without GROUP BY aggregates all rows to one."""
    return any(each.find_ancestor(exp.Select) is select for each in select.find_all(exp.AggFunc))
