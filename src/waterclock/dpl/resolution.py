"""Which columns a query has and names, as far as what it reads is known: what is unsure is no error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from waterclock.dpl.source import Source, Span
from waterclock.errors import WaterclockError, nearest

Names = dict[str, str]  # in lower case → as written: Spark's columns know no case
_UNITS = frozenset("YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND ALL".split())
_NAMELESS = (exp.Func, exp.Binary, exp.Not, exp.Case, exp.Window)
_UNSURE = (exp.Cast, exp.Anonymous, exp.UDTF, exp.Inline, exp.Explode, exp.Posexplode, exp.Stack, exp.Dot)
_MOST_LISTED = 12


def names_of(columns: Iterable[str]) -> Names:
    """Give columns the form in which they are looked up."""
    return {column.lower(): column for column in columns}


@dataclass(slots=True)
class Frame:
    """What is in sight inside of one SELECT: its sources with their columns (None: not known), and what is outside."""

    sources: list[tuple[str, Names | None]] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    aliases: set[str] = field(default_factory=set)
    outer: Frame | None = None

    def source(self, name: str) -> tuple[str, Names | None] | None:
        """Give the source of that alias, looking outwards."""
        lower = name.lower()
        for source in self.sources:
            if source[0].lower() == lower:
                return source
        return self.outer.source(name) if self.outer else None

    def has(self, name: str) -> bool:
        """Tell whether a column of that name is in sight, or may be."""
        lower = name.lower()
        if lower in self.aliases or any(columns is None or lower in columns for _, columns in self.sources):
            return True
        return self.outer.has(name) if self.outer else False

    def all_sources(self) -> list[tuple[str, Names | None]]:
        """List all sources in sight, the nearest first."""
        return [*self.sources, *(self.outer.all_sources() if self.outer else [])]


class Resolver:
    """Resolves the columns of one query.

    `columns_at` gives the columns of the reference that starts at an offset, `alias_at` the name that it goes by where
    the user gave it none.
    """

    def __init__(
        self, source: Source, columns_at: Callable[[int], Names | None], alias_at: Callable[[int], str]
    ) -> None:
        self.source = source
        self.columns_at = columns_at
        self.alias_at = alias_at
        self.errors: list[WaterclockError] = []

    def output(
        self, query: Any, outer: Frame | None = None, ctes: Mapping[str, Names | None] | None = None
    ) -> Names | None:
        """Give the columns a query makes, None where they are not all known; what it names wrongly goes to `errors`."""
        ctes = self._ctes(query, outer, dict(ctes or {}))
        if isinstance(query, exp.Subquery):
            return self.output(query.this, outer, ctes)
        if isinstance(query, exp.SetOperation):
            left = self.output(query.left, outer, ctes)
            self.output(query.right, outer, ctes)
            return left
        if isinstance(query, exp.Select):
            return self._select(query, outer, ctes)
        return None

    def _ctes(self, query: Any, outer: Frame | None, ctes: dict[str, Names | None]) -> dict[str, Names | None]:
        clause = query.args.get("with_")
        for cte in clause.expressions if clause else ():
            name = cte.alias.lower()
            if clause.args.get("recursive"):
                ctes[name] = _aliased(cte, None)
            ctes[name] = _aliased(cte, self.output(cte.this, outer, ctes))
        return ctes

    def _select(self, query: exp.Select, outer: Frame | None, ctes: Mapping[str, Names | None]) -> Names | None:
        frame = Frame(outer=outer)
        from_ = query.args.get("from_")
        if from_ is not None:
            self._source(from_.this, frame, ctes)
        for join in query.args.get("joins") or ():
            self._source(join.this, frame, ctes)
            if join.args.get("kind") in {"SEMI", "ANTI"}:
                frame.hidden.add(frame.sources[-1][0].lower())
        for lateral in query.args.get("laterals") or ():
            self._source(lateral, frame, ctes)
        frame.aliases = {name.lower() for name in map(_alias, query.expressions) if name}
        for part, value in query.args.items():
            if part not in {"from_", "with_", "hint", "laterals", "joins"}:
                self._walk(value, frame, ctes)
        for join in query.args.get("joins") or ():
            self._walk(join.args.get("on"), frame, ctes)
            self._using(join, frame)
        return self._projected(query, frame)

    def _source(self, node: Any, frame: Frame, ctes: Mapping[str, Names | None]) -> None:
        """Add what stands in FROM or JOIN to the frame."""
        for join in node.args.get("joins") or () if isinstance(node, exp.Table | exp.Subquery) else ():
            self._source(join.this, frame, ctes)
        if isinstance(node, exp.Table):
            start = _start(node)
            called = node.alias_or_name or ("" if start is None else self.alias_at(start))
            frame.sources.append((called, self._table(node, ctes)))
        elif isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Table):  # brackets around joins
                self._source(node.this, frame, ctes)
                return
            columns = self.output(node, frame.outer, ctes)
            frame.sources.append((node.alias_or_name, _unless_pivoted(node, _aliased(node, columns))))
        elif isinstance(node, exp.Lateral):
            columns = self.output(node.this, frame, ctes) if isinstance(node.this, exp.Subquery) else None
            if columns is None:
                self._walk(node.this, frame, ctes)
            frame.sources.append((node.alias_or_name, _aliased(node, columns)))
        else:
            alias = node.args.get("alias") if node is not None else None
            frame.sources.append((node.alias_or_name if alias else "", _aliased(node, None) if alias else None))

    def _table(self, node: exp.Table, ctes: Mapping[str, Names | None]) -> Names | None:
        if isinstance(node.this, exp.Identifier) and not node.args.get("db") and node.name.lower() in ctes:
            columns = ctes[node.name.lower()]
        else:
            start = _start(node)
            columns = None if start is None else self.columns_at(start)
        return _unless_pivoted(node, _aliased(node, columns))

    def _walk(self, node: Any, frame: Frame, ctes: Mapping[str, Names | None]) -> None:
        """Check every column below a node; a query inside of it sees this frame from within its own."""
        if isinstance(node, list):
            for one in node:
                self._walk(one, frame, ctes)
        elif isinstance(node, exp.Query):
            self.output(node, frame, ctes)
        elif isinstance(node, exp.Column):
            self._column(node, frame)
        elif isinstance(node, exp.Star):
            self._walk(node.args.get("replace"), frame, ctes)
        elif isinstance(node, exp.Expression):
            for child in node.iter_expressions():
                self._walk(child, frame, ctes)

    def _column(self, node: exp.Column, frame: Frame) -> None:
        parts = node.parts
        first = parts[0]
        if isinstance(first, exp.Star) or first.name.startswith("_metadata"):
            return
        source = frame.source(first.name) if len(parts) > 1 else None
        if source is not None:
            column = parts[1]
            known = source[1]
            if isinstance(column, exp.Star) or known is None or column.name.lower() in known or frame.has(first.name):
                return
            self._unknown(column, f"{source[0]}.{column.name}", [source])
        elif not frame.has(first.name):
            if len(parts) == 1 and first.name.upper() in _UNITS:
                return
            name = ".".join(part.name for part in parts)
            self._unknown(first, name, frame.all_sources(), end=parts[-1])

    def _unknown(self, node: Any, name: str, sources: list[tuple[str, Names | None]], *, end: Any = None) -> None:
        start = node.meta.get("start")
        if start is None:
            return
        last = (end if end is not None else node).meta.get("end", start)
        known = {f"{alias}.{column}": column for alias, columns in sources for column in (columns or {}).values()}
        self.errors.append(unknown_column(self.source.span(start, last + 1), name, known, sources))

    def _using(self, join: Any, frame: Frame) -> None:
        for column in join.args.get("using") or ():
            alias, known = next(
                ((alias, columns) for alias, columns in frame.sources if alias == join.this.alias_or_name), ("", None)
            )
            if known is not None and column.name.lower() not in known:
                self._unknown(column, f"{alias}.{column.name}", [(alias, known)])

    def _projected(self, query: exp.Select, frame: Frame) -> Names | None:
        columns: Names = {}
        for projection in query.expressions:
            names = _projection(projection, frame)
            if names is None:
                return None
            columns.update(names_of(names))
        return columns


def _start(node: exp.Table) -> int | None:
    """Give the offset of a table's name, or of the read function around it; None where the parser made it up."""
    first = node.parts[0] if isinstance(node.this, exp.Identifier) else node.this
    start: int | None = first.meta.get("start") if first is not None else None
    return start


def _projection(node: Any, frame: Frame) -> list[str] | None:
    """Give the names that one entry of a SELECT makes; None where they are not known."""
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        star = node if isinstance(node, exp.Star) else node.this
        sources = [source for source in frame.sources if source[0].lower() not in frame.hidden]
        if isinstance(node, exp.Column):
            source = frame.source(node.parts[0].name) if len(node.parts) == 2 else None
            sources = [source] if source else [("", None)]
        return _star(star, sources)
    if isinstance(node, exp.Aliases):
        return [alias.name for alias in node.aliases]
    if isinstance(node, exp.Alias):
        return [node.alias]
    if isinstance(node, exp.Column | exp.Literal):
        return [node.name]
    return None if isinstance(node, _UNSURE) else []


def _star(star: exp.Star, sources: list[tuple[str, Names | None]]) -> list[str] | None:
    left_out = {column.name.lower() for column in star.args.get("except_") or ()}
    names: list[str] = []
    for _, columns in sources:
        if columns is None:
            return None
        names.extend(column for lower, column in columns.items() if lower not in left_out)
    return names


def _alias(node: Any) -> str | None:
    return node.alias if isinstance(node, exp.Alias) else None


def _aliased(node: Any, columns: Names | None) -> Names | None:
    """Give the columns under the names that an alias gives them: `t(a, b)`."""
    alias = node.args.get("alias")
    renamed = alias.args.get("columns") if alias is not None and isinstance(alias, exp.TableAlias) else None
    return names_of(column.name for column in renamed) if renamed else columns


def _unless_pivoted(node: Any, columns: Names | None) -> Names | None:
    return None if node.args.get("pivots") else columns


def unknown_column(
    span: Span, name: str, known: Mapping[str, str], sources: Iterable[tuple[str, Names | None]]
) -> WaterclockError:
    """Make the error for a column that nothing in sight has. `known` are columns by their whole names."""
    bare = name.rpartition(".")[2]
    close = nearest(bare, list(dict.fromkeys(known.values())))
    whole = [next(full for full, column in known.items() if column == match) for match in close]
    shown = whole if "." in name else close
    lists = [f"{alias} has {_list(columns)}" for alias, columns in sources if columns is not None]
    return span.refuse(
        "E203",
        f"unknown column {name}",
        why="; ".join(lists) or None,
        fix=f"did you mean {' or '.join(shown)}?" if shown else None,
    )


def _list(columns: Names) -> str:
    names = list(columns.values())
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more if names else "no columns"


def nameless(tree: Any) -> Iterator[Any]:
    """Find entries of a query's first SELECT for which Spark would make up a name that no table can have."""
    while isinstance(tree, exp.Subquery | exp.SetOperation):
        tree = tree.this
    if isinstance(tree, exp.Select):
        yield from (node for node in tree.expressions if isinstance(node, _NAMELESS) and not isinstance(node, _UNSURE))
