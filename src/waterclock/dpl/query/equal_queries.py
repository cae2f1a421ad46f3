"""Proves that two queries differ only in names that no row shows: the aliases of tables and sub-queries, and CTEs.

Both queries have the same tokens except such names, and each name is bound to the same place. All else is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from waterclock.dpl.query.names_in_query import FLAT
from waterclock.dpl.syntax.sql_parsing import parse_sql
from waterclock.dpl.syntax.statements import ParsedQuery
from waterclock.errors import WaterclockError

# nodes whose names have other scopes, or that name aliases in other ways than by `alias.column`
_UNKNOWN = (exp.Lateral, exp.Pivot, exp.Hint, exp.Unnest, exp.MatchRecognize, exp.QueryTransform, exp.TableFromRows)
_MOST_TOKENS = 20_000
_ALIAS = "alias"
_QUALIFIERS = ("catalog", "db", "table")


def bound_tokens(query: ParsedQuery) -> list[Any] | None:
    """Return the tokens of a query, with each alias of a source and each CTE replaced by the number of its declaration.

    Two queries with equal results differ in no row. An alias of a column is not replaced, also not in a sub-query. A
    qualifier is the alias that is in scope: a column of a struct type with the name of an alias is not considered.
    None if a name cannot be bound with certainty. Cost: the query is parsed.
    """
    if len(query.tokens) > _MOST_TOKENS or any(token.text.upper() in {FLAT, "|>"} for token in query.tokens):
        return None
    try:
        trees = parse_sql(query.span.source, query.tokens)
        if len(trees) != 1 or trees[0] is None or trees[0].find(*_UNKNOWN) is not None:
            return None
        bound = _Binder(trees[0]).bind()
    except (SqlglotError, WaterclockError, _UnknownError):
        return None
    return [
        SimpleNamespace(token_type=_ALIAS, text=bound[token.start]) if token.start in bound else token
        for token in query.tokens
    ]


class _UnknownError(Exception):
    """Raised for a query whose names cannot be bound with certainty."""


class _Binder:
    """Binds the names of a syntax tree to the aliases that declare them."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._scopes: dict[int, Mapping[str, Any]] = {}

    def bind(self) -> dict[int, str]:
        """Map the offset of each bound name to the number of its declaration. Raises _UnknownError."""
        found: dict[int, Any] = {}
        for node in self._tree.walk():
            if isinstance(node, exp.TableAlias):
                found[_offset(node.this)] = node.this
            elif isinstance(node, exp.Table) and node.args.get("db") is None:
                if (cte := _find_cte(node)) is not None:
                    found[_offset(node.this)] = cte
            elif isinstance(node, exp.Column):
                qualifier = _first_part(node)
                declared = None if qualifier is None else self._find_source(node, qualifier.name)
                if declared is not None:
                    found[_offset(qualifier)] = declared
                    _require_named(node)
        numbers = {offset: f"\x00{index}" for index, offset in enumerate(sorted({*map(_offset, found.values())}))}
        return {offset: numbers[_offset(declared)] for offset, declared in found.items()}

    def _find_source(self, column: Any, name: str) -> Any:
        """Return the declaration of the source with a name that is in scope at a column, or None."""
        child, skips = column, False
        while (parent := child.parent) is not None:
            if isinstance(parent, exp.From | exp.With) or (isinstance(parent, exp.Join) and child is parent.this):
                skips = True  # a sub-query in FROM, and a CTE, do not see the sources next to them
            elif isinstance(parent, exp.Select):
                if not skips and (declared := self._sources(parent).get(name.lower())) is not None:
                    return declared
                skips = False
            child = parent
        return None

    def _sources(self, select: Any) -> Mapping[str, Any]:
        """Map the names of a SELECT's sources to the identifiers that declare them, those of unbound tables to None."""
        if id(select) not in self._scopes:
            found: dict[str, Any] = {}
            from_ = select.args.get("from_")
            for source in (*([from_.this] if from_ else ()), *(each.this for each in select.args.get("joins") or ())):
                if not isinstance(source, exp.Table | exp.Subquery) or source.args.get("joins"):
                    raise _UnknownError
                alias = source.args.get("alias")
                name = source.alias_or_name.lower()
                is_plain = isinstance(source.this, exp.Identifier | exp.Func | exp.Query)
                if name in found or not is_plain:
                    raise _UnknownError
                declared = alias.this if alias is not None and alias.this is not None else None
                if declared is None and isinstance(source, exp.Table) and source.args.get("db") is None:
                    declared = _find_cte(source)
                if name:
                    found[name] = declared
            self._scopes[id(select)] = found
        return self._scopes[id(select)]


def _require_named(column: Any) -> None:
    """Raise _UnknownError for a column in an expression of a SELECT list without an alias: its name is derived."""
    child = column
    while (parent := child.parent) is not None:
        is_listed = isinstance(parent, exp.Select) and child.arg_key == "expressions"
        if is_listed and not isinstance(child, exp.Alias | exp.Column):
            raise _UnknownError
        child = parent


def _first_part(column: Any) -> Any:
    """Return the first qualifier of a column, or None if it has none."""
    return next((column.args[key] for key in _QUALIFIERS if column.args.get(key) is not None), None)


def _find_cte(table: Any) -> Any:
    """Return the identifier that declares the CTE which a table reference names, or None. Raises _UnknownError."""
    child, name = table, table.name.lower()
    while (parent := child.parent) is not None:
        for ctes in _visible_ctes(parent, child):
            named = [cte.args["alias"].this for cte in ctes if cte.alias.lower() == name]
            if len(named) > 1:
                raise _UnknownError
            if named:
                return named[0]
        child = parent
    return None


def _visible_ctes(parent: Any, child: Any) -> Iterator[list[Any]]:
    if isinstance(parent, exp.With):
        at = next(index for index, cte in enumerate(parent.expressions) if cte is child)
        yield parent.expressions[: at + bool(parent.args.get("recursive"))]
    elif (clause := parent.args.get("with_")) is not None and clause is not child:
        yield clause.expressions


def _offset(identifier: Any) -> int:
    found = identifier.meta.get("start")
    if not isinstance(found, int):
        raise _UnknownError
    return found
