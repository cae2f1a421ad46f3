"""Computes the names and type families of the columns in a SELECT list, and finds items without a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.type_families import Family, family_of
from waterclock.dpl.query.visible_columns import UNKNOWN, Entry, Frame, Output, VisibleSource

_NAMELESS = (exp.Func, exp.Binary, exp.Unary, exp.Predicate, exp.Case, exp.Window, exp.Interval, exp.Subquery)
_MAKES_ROWS = (exp.UDTF, exp.Inline, exp.Explode, exp.Posexplode, exp.Stack)
_MAKES_ROWS_CALLED = frozenset(
    {"JSON_TUPLE", "INLINE_OUTER", "EXPLODE_OUTER", "POSEXPLODE_OUTER", "SQL_KEYWORDS", "COLLATIONS", "VARIANT_EXPLODE"}
)
_SOURCES = frozenset({"from_", "with_", "hint", "laterals", "joins"})
_NAMED_BY_ITSELF = frozenset({"WINDOW", "SESSION_WINDOW"})


def family_in(node: exp.Column, frame: Frame) -> Family | None:
    """Return the type family of a column in the scope `frame`; None if it is not known."""
    parts = node.parts
    if len(parts) == 1:
        return frame.family(parts[0].name)
    return frame.family(parts[1].name, parts[0].name) if len(parts) == 2 else None


def projection_of(node: Any, frame: Frame) -> Output:
    """Return the columns that one item of a SELECT list adds to the result."""
    if node.is_star and isinstance(node, exp.Star | exp.Column):
        return _star_output(node, frame)
    if isinstance(node, exp.Aliases):
        return Output(tuple(Entry(alias.name, node=node) for alias in node.aliases))
    name = _name_of(node)
    if name is None:  # an item without a name is refused; the names of other items are not known
        return Output((), is_whole=_is_nameless(_unwrap(node)))
    inner = node.this if isinstance(node, exp.Alias) else node
    return Output((Entry(name, family_of(inner, lambda column: family_in(column, frame)), node),))


def _name_of(node: Any) -> str | None:
    """Return the column name of an item, which is an alias, a column, a literal or window(); None for other items."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    bare = _unwrap(node)
    if isinstance(bare, exp.Column | exp.Literal):
        return str(bare.name)
    return str(bare.name.lower()) if _is_named_by_itself(bare) else None


def _star_output(node: Any, frame: Frame) -> Output:
    if isinstance(node, exp.Star):
        return _expand_star(node, node, frame.visible(), frozenset(frame.merged), is_whole=not frame.is_natural)
    source = frame.source(node.parts[0].name) if len(node.parts) == 2 else None
    return _expand_star(
        node.this, node, [source] if source else [VisibleSource("", UNKNOWN)], frozenset(), is_whole=True
    )


def _expand_star(
    star: exp.Star, node: Any, sources: Iterable[VisibleSource], merged: frozenset[str], *, is_whole: bool
) -> Output:
    """Return the columns of a `*`; columns in `merged`, which are those in USING, occur once."""
    left_out = {column.name.lower() for column in star.args.get("except_") or ()}
    sources = list(sources)
    entries: list[Entry] = []
    for source in sources:
        is_whole = is_whole and source.output.is_whole
        if source.output.is_whole:
            entries.extend(
                Entry(entry.name, entry.family, node)
                for entry in source.output.entries
                if not entry.is_hidden or entry.name.lower() in merged
            )
    seen: set[str] = set()
    kept = []
    for entry in entries:
        lower = entry.name.lower()
        if lower not in left_out and not (lower in merged and lower in seen):
            kept.append(entry)
        seen.add(lower)
    beneath = frozenset(entry.name.lower() for source in sources for entry in source.output.entries if entry.is_hidden)
    return Output(tuple(kept), is_whole=is_whole, beneath=beneath)


def _unwrap(node: Any) -> Any:
    """Return the node from which Spark takes an item's name: without brackets, and without a cast of a column."""
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and isinstance(_cast_value(node), exp.Column)):
        node = node.this
    return node


def _cast_value(cast: exp.Cast) -> Any:
    node = cast.this
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def time_windows_of(select: exp.Select) -> Iterator[tuple[str, Any]]:
    """Yield the calls of window() and session_window() in a SELECT, each with the name of the column that it adds.

    Spark adds this column to the SELECT's input rows, so all clauses may use it: `window.start`.
    """
    waiting = [value for part, value in select.args.items() if part not in _SOURCES]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, exp.Expression) and not isinstance(node, exp.Query):
            if _is_named_by_itself(node):
                yield node.name.lower(), node
            waiting.extend(node.iter_expressions())


def makes_rows(node: Any) -> bool:
    """Return whether an item of a SELECT list calls a function that makes several rows from one, such as `explode`."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper() in _MAKES_ROWS_CALLED
    return isinstance(node, _MAKES_ROWS)


def find_unnamed_items(tree: Any) -> Iterator[Any]:
    """Yield the items of a query's first SELECT for which Spark would generate a name that no table can have."""
    while isinstance(tree, exp.Subquery | exp.SetOperation):
        tree = tree.this
    for node in tree.expressions if isinstance(tree, exp.Select) else ():
        if _is_nameless(_unwrap(node)):
            yield node


def _is_nameless(bare: Any) -> bool:
    if isinstance(bare, exp.Dot):
        return isinstance(bare.expression, exp.Func)
    return isinstance(bare, _NAMELESS) and not makes_rows(bare) and not _is_named_by_itself(bare)


def _is_named_by_itself(bare: Any) -> bool:
    return isinstance(bare, exp.Anonymous) and bare.name.upper() in _NAMED_BY_ITSELF
