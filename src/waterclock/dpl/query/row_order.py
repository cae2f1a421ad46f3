"""Finds parts of a query whose result depends on the order in which Spark processes rows.

Spark does not guarantee an order: it depends on files, cores and join algorithms. If such a batch is made again, its
rows may differ without a reason, and all its readers are made again too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from waterclock.dpl.query.uniqueness import Uniqueness, keys_of_table
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.sql_parsing import parse_sql
from waterclock.dpl.syntax.tokens import dialect
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Query, Table

_BY_PLACE = (
    exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue, exp.First, exp.Last,
)  # fmt: skip
_PICKS = (exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.AnyValue)
_LISTS = (exp.ArrayAgg, exp.ArrayUniqueAgg, exp.GroupConcat)
_WRAPS = (exp.IgnoreNulls, exp.RespectNulls, exp.Filter, exp.Paren)
# functions whose result does not depend on the order of their list argument
_ORDERLESS = (exp.ArraySort, exp.ArraySize, exp.ArrayContains, exp.ArrayMin, exp.ArrayMax, exp.ArraySum)
_ORDERLESS_CALLS = frozenset({"CARDINALITY"})

_MODE = ("mode takes an arbitrary one of several most frequent values", "write mode(column, true), the least of them")
_END_WITH_KEY = "end the {} with unique columns, and declare these as KEY in the table that is read"


def find_arbitrary_order(node: Any, unique: Uniqueness) -> tuple[Any, str, str] | None:
    """Return the part of a node that depends on the order of rows, with a message and a fix; None if no part does."""
    problem = _check_limit(node, unique) or _check_function(node, unique)
    return None if problem is None else (_place_of(node), *problem)


def unique_of(flow: Flow, query: Query, reader: Table | None) -> Uniqueness:
    """Return the known unique keys of a query's inputs; `reader` is the query's table, None for a view."""
    return Uniqueness(_keys_at(flow, query, reader))


def parse_query(source: SourceText) -> Any:
    """Return the syntax tree of a query; None if it cannot be parsed, which another check reports."""
    try:
        trees = parse_sql(source, dialect().tokenize(source.text))
    except (SqlglotError, WaterclockError):
        return None
    return trees[0]


def _keys_at(flow: Flow, query: Query, reader: Table | None) -> dict[int, tuple[str, ...]]:
    """Map the offset of each table or view in a query to the columns that identify its rows."""
    keys: dict[int, tuple[str, ...]] = {}
    for each in query.tables:
        read = each.flat.read if each.flat is not None else each.read
        if read is not None:
            keys[each.start] = keys_of_table(flow, read, reader)
        elif each.view is not None:
            tree = parse_query(SourceText("", each.view.text))
            keys[each.start] = Uniqueness(_keys_at(flow, each.view, reader)).of_query(tree) or ()
    return keys


def _place_of(node: Any) -> Any:
    """Return the node whose position messages show: the LIMIT or OFFSET of a query, else the node itself."""
    if isinstance(node, exp.Query):
        return node.args.get("limit") or node.args.get("offset")
    return node


def _check_limit(node: Any, unique: Uniqueness) -> tuple[str, str] | None:
    if not isinstance(node, exp.Select | exp.SetOperation) or isinstance(node.parent, exp.Exists):
        return None
    limit = node.args.get("limit") or node.args.get("offset")
    if limit is None or _is_one_row(node):
        return None
    word = "LIMIT" if node.args.get("limit") else "OFFSET"
    order = node.args.get("order")
    if order is None:
        return f"{word} without ORDER BY takes arbitrary rows", f"add ORDER BY a key before {word}"
    if unique.is_ordered(node, order):
        return None
    return f"{word} takes arbitrary rows among ties in ORDER BY", _END_WITH_KEY.format("ORDER BY")


def _is_one_row(node: Any) -> bool:
    if not isinstance(node, exp.Select) or node.args.get("group") is not None:
        return False
    return node.args.get("from_") is None or any(
        isinstance(part, exp.AggFunc) and part.find_ancestor(exp.Window, exp.Select) is node
        for each in node.expressions
        for part in each.find_all(exp.AggFunc)
    )


def _check_function(node: Any, unique: Uniqueness) -> tuple[str, str] | None:
    if isinstance(node, exp.Mode):
        return None if node.args.get("deterministic") or isinstance(_enclosing_node(node), exp.WithinGroup) else _MODE
    if not isinstance(node, _BY_PLACE + _PICKS + _LISTS):
        return None
    window = _enclosing_node(node)
    if isinstance(window, exp.Window):
        return _check_window_order(node, window, unique)
    name = _find_function_name(node)
    if isinstance(node, _PICKS):
        return (
            f"{name} takes an arbitrary row of a group",
            "use min(...) or max(...), equal if all values of a group are equal; or max_by(value, a_time)",
        )
    if isinstance(node, _LISTS) and not _is_ordered(node, window):
        return f"the order of {name} is arbitrary", _fix_of_list(node, name)
    return None


def _check_window_order(node: Any, window: exp.Window, unique: Uniqueness) -> tuple[str, str] | None:
    """Return the message and the fix for a function whose window orders its rows ambiguously; else None."""
    select = window.find_ancestor(exp.Select)
    if select is None or isinstance(node, exp.AnyValue):
        return None
    partition, order = _window_order(window, select)
    if isinstance(node, exp.ArrayUniqueAgg) or (isinstance(node, _LISTS) and not order):
        name = _find_function_name(node)
        return None if _is_ordered(node, window.parent) else (
            f"the order of {name} is arbitrary", _fix_of_list(node, name)
        )  # fmt: skip
    named = [*partition, *(each.this for each in order)]
    if unique.is_unique_by(select, named):
        return None
    return (
        f"{_find_function_name(node)} uses an order in which rows may tie",
        _END_WITH_KEY.format("window's ORDER BY"),
    )


def _window_order(window: exp.Window, select: exp.Select) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the PARTITION BY and the ORDER BY expressions of a window, including those of its WINDOW clause."""
    named = next((each for each in select.args.get("windows") or () if each.name == window.alias), None)
    parts: list[Any] = list(window.args.get("partition_by") or ())
    order = window.args.get("order") or (named.args.get("order") if named is not None else None)
    if named is not None:
        parts.extend(named.args.get("partition_by") or ())
    return parts, order.expressions if order is not None else ()


def _enclosing_node(node: Any) -> Any:
    parent = node.parent
    while isinstance(parent, _WRAPS):
        parent = parent.parent
    return parent


def _is_ordered(node: Any, above: Any) -> bool:
    """Return whether the order of a collected list does not matter: it is sorted, or only counted or searched."""
    while isinstance(above, _WRAPS):
        above = above.parent
    if isinstance(above, exp.Anonymous):
        return above.name.upper() in _ORDERLESS_CALLS
    return isinstance(above, (exp.WithinGroup, *_ORDERLESS)) or node.find(exp.Order) is not None


def _fix_of_list(node: Any, name: str) -> str:
    if isinstance(node, exp.GroupConcat):
        return f"write {name}(...) WITHIN GROUP (ORDER BY ...)"
    return f"sort it: sort_array({name}(...))"


def _find_function_name(node: Any) -> str:
    names = {exp.ArrayUniqueAgg: "collect_set", exp.ArrayAgg: "collect_list", exp.GroupConcat: "listagg"}
    return names.get(type(node)) or str(node.sql_name().lower())
