"""Tells whether a query makes each row of one row of a FLAT, and which columns it hands on unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from waterclock.dpl.query.splice import splice
from waterclock.flow.declarations import Query
from waterclock.timelabel.label import TIMELABEL

_DIALECT = "databricks"
_CLAUSES = {"expressions", "from", "from_", "where"}
_OF_A_TABLE = ("joins", "pivots", "sample")
# they take several rows, make several, or nobody here knows what they do
_NOT_OF_A_ROW = (exp.AggFunc, exp.Window, exp.Query, exp.UDTF, exp.Explode, exp.Anonymous, exp.AnonymousAggFunc)


def handed_on(query: Query, columns: Iterable[str]) -> Mapping[str, str] | None:
    """Return the name under which each column of the query's FLAT comes out unchanged, by its own in lower case.

    `columns` are those of the FLAT, which a `*` stands for. None where a row is not made of one row alone, or of more
    than that row: of another table, of the batch's own values or of variables, which may be others another time.
    """
    if query.branches or query.values or query.variables or len(query.tables) != 1 or query.tables[0].flat is None:
        return None
    try:
        select: Any = exp.maybe_parse(splice(query, lambda _: "wc_flat").text, dialect=_DIALECT)
    except SqlglotError:
        return None
    if not isinstance(select, exp.Select) or not _is_row_by_row(select):
        return None
    found: dict[str, str] = {}
    for each in select.expressions:
        inner = each.unalias()
        if each.is_star:
            if any((inner if isinstance(inner, exp.Star) else inner.this).args.values()):
                return None  # EXCEPT, RENAME: it is enough to know of plain lists
            for name in columns:
                found.setdefault(name.lower(), name)
        elif isinstance(inner, exp.Column):
            found.setdefault(inner.name.lower(), each.alias_or_name)
    return found


def _is_row_by_row(select: exp.Select) -> bool:
    clauses = {name for name, value in select.args.items() if value}
    source = select.find(exp.Table)
    if not clauses <= _CLAUSES or source is None or any(source.args.get(name) for name in _OF_A_TABLE):
        return False
    where = select.args.get("where")
    nodes = [node for each in (*select.expressions, *([where] if where else [])) for node in each.walk()]
    # which batch brought a row may be another one, though nothing else of it is
    is_labelled = any(isinstance(node, exp.Column) and node.name.lower() == TIMELABEL for node in nodes)
    return not is_labelled and not any(isinstance(node, _NOT_OF_A_ROW) for node in nodes)
