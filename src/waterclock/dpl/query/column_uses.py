"""Finds how a query uses a column: to filter, join, group or sort rows, in window functions, or as a value.

The result may contain too many uses, never too few: an ambiguous name counts as a use of each column that it may mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from waterclock.dpl.query.splice import splice
from waterclock.dpl.syntax.tokens import parse_query_text
from waterclock.flow.declarations import Flat, Query, Read

FILTER, JOIN, GROUP, SORT, WINDOW, VALUE = "filter", "join", "group", "sort", "window", "value"
_CLAUSES: tuple[tuple[type[exp.Expression], str], ...] = (
    (exp.Where, FILTER),
    (exp.Having, FILTER),
    (exp.Qualify, FILTER),
    (exp.Window, WINDOW),
    (exp.Join, JOIN),
    (exp.Group, GROUP),
    (exp.Order, SORT),
)


def uses_in(query: Query, table: str, column: str) -> frozenset[str]:
    """Return the uses of a table's column in a query: `filter`, `join`, `group`, `sort`, `window`, `value`."""
    return frozenset(uses_of(query, table).get(column.lower(), ()))


def uses_of(query: Query, table: str) -> Mapping[str, set[str]]:
    """Map each name in a query that may be a column of a table, in lower case, to its uses."""
    found: dict[str, set[str]] = {}
    for part in query.branches or (query,):
        for name, use in _find_uses(part, table):
            found.setdefault(name, set()).add(use)
    return found


def _find_uses(query: Query, table: str) -> Iterator[tuple[str, str]]:
    names: dict[Read | Flat, str] = {}
    text = splice(query, lambda read: names.setdefault(read, f"wc_{len(names)}")).text
    try:
        tree = parse_query_text(text)
    except (SqlglotError, ValueError, RecursionError):
        return
    others = _other_aliases(
        tree, {name for read, name in names.items() if _reads_table(read, table)}, set(names.values())
    )
    for node in tree.find_all(exp.Column):
        if isinstance(node.parent, exp.Star) or isinstance(node.this, exp.Star):  # EXCEPT leaves it out
            continue
        if not _is_other_column(node, others):
            clause = _find_use(node)
            yield from ((part.name.lower(), clause) for part in node.parts)
    for join in tree.find_all(exp.Join):
        yield from ((each.name.lower(), JOIN) for each in join.args.get("using") or ())


def _reads_table(read: Read | Flat, table: str) -> bool:
    reads: Iterable[Read] = (read,) if isinstance(read, Read) else read.included_reads
    return any(each.table == table for each in reads)


def _other_aliases(tree: Any, own: set[str], reads: set[str]) -> set[str]:
    """Return the aliases in a query that denote only reads of other tables: those in `reads` that are not in `own`."""
    names_by_alias: dict[str, set[str]] = {}
    for node in tree.find_all(exp.Table, exp.Subquery, exp.CTE, exp.Lateral):
        name = node.name if isinstance(node, exp.Table) else ""
        names_by_alias.setdefault(node.alias_or_name.lower(), set()).add(name)
    return {alias for alias, names in names_by_alias.items() if names <= reads - own}


def _is_other_column(node: exp.Column, others: set[str]) -> bool:
    parts = node.parts
    return len(parts) > 1 and parts[0].name.lower() in others


def _find_use(node: Any) -> str:
    at: Any = node
    while at is not None and not isinstance(at, exp.Query):
        for kind, word in _CLAUSES:
            if isinstance(at, kind):
                is_of_call = word == SORT and isinstance(at.parent, (exp.Window, exp.WithinGroup))
                return WINDOW if is_of_call else word
        at = at.parent
    return VALUE
