"""Computes the input columns from which each column of a query is derived, and whether they are all known."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.projections import makes_rows, time_windows_of
from waterclock.dpl.syntax.pipes import is_piped

_COUNT = re.compile(r"[1-9][0-9]{0,5}")  # the number of rows that STACK makes


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """The input columns from which a value derives, as pairs of a source's name and a column.

    `is_known`: these are all of them; else there may be others. `is_computed`: it is not a copy of one of them.
    """

    inputs: frozenset[tuple[str, str]] = frozenset()
    is_known: bool = True
    is_computed: bool = False

    def __or__(self, other: ColumnOrigin) -> ColumnOrigin:
        return ColumnOrigin(
            self.inputs | other.inputs, self.is_known and other.is_known, self.is_computed or other.is_computed
        )


NOTHING = ColumnOrigin()
COMPUTED = ColumnOrigin(is_computed=True)
UNKNOWN = ColumnOrigin(is_known=False)
Rest = Callable[[str], ColumnOrigin | None]


@dataclass(frozen=True, slots=True)
class FollowedCalls:
    """Functions at which the trace of a column's origin changes. Names are in lower case.

    `ends`: their results are not traced further, as if they had no arguments. `starts`: the function itself counts as
    an origin as well, written as the pair `("", name)`.
    """

    ends: frozenset[str] = frozenset()
    starts: frozenset[str] = frozenset()


ALL_CALLS = FollowedCalls()


@dataclass(frozen=True, slots=True)
class FlowColumn:
    """A column of a query's result; `node` is the item of its top SELECT that defines it."""

    name: str
    origin: ColumnOrigin
    node: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """The columns of a query or source: those with known names, and `rests` for groups of columns with unknown names.

    A rest is a function that maps a column's name to its origin. It represents the `*` of a table whose columns are not
    all known (listed in `opens`), the fields of a struct, or the result of a function such as `explode`.
    """

    columns: tuple[FlowColumn, ...] = ()
    rests: tuple[Rest, ...] = ()
    opens: tuple[str, ...] = ()
    is_known: bool = True
    aliases: frozenset[str] = frozenset()  # of the query's sources, in lower case: steps after |> may still use them

    def find(self, name: str) -> ColumnOrigin | None:
        """Return the origin of the column `name`; None if no known column has it, UNKNOWN if that is uncertain."""
        lower = name.lower()
        found = [column.origin for column in self.columns if column.name.lower() == lower]
        if found:
            return found[0] if len(found) == 1 else UNKNOWN
        if not self.is_known:
            return UNKNOWN
        return None

    def find_beyond(self, name: str) -> ColumnOrigin | None:
        """Return the origin of the column `name` if one of `rests` may contain it; None if there are no `rests`."""
        return self.rests[0](name) if len(self.rests) == 1 else UNKNOWN if self.rests else None

    def whole(self) -> ColumnOrigin:
        """Return the origin of all columns together."""
        origin = ColumnOrigin(is_known=self.is_known and not self.rests)
        for column in self.columns:
            origin |= column.origin
        return origin


LOST = ColumnSource(is_known=False)


@dataclass(slots=True)
class _Frame:
    sources: list[tuple[str, ColumnSource]] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    piped: ColumnSource | None = None  # the input of a step after |>
    unnamed: ColumnSource | None = None  # the result of a query in brackets without an alias
    sides: dict[str, str] = field(default_factory=dict)  # maps a USING column to the join's side that gives its value
    time_windows: dict[str, ColumnOrigin] = field(default_factory=dict)  # origins of window() and session_window()
    made: dict[str, ColumnOrigin] = field(default_factory=dict)
    windows: Mapping[str, Any] = field(default_factory=dict)
    outer: _Frame | None = None

    def source(self, alias: str) -> ColumnSource | None:
        for name, made in self.sources:
            if name.lower() == alias.lower():
                return made
        return self.outer.source(alias) if self.outer else None

    def source_or_piped(self, alias: str) -> ColumnSource | None:
        """Return the source with an alias; or the input of this step after |>, if that derives from such a source."""
        found = self.source(alias)
        if found is None and self.piped is not None and alias.lower() in self.piped.aliases:
            return self.piped
        return found

    def column(self, name: str) -> ColumnOrigin:
        lower = name.lower()
        if lower in self.time_windows:
            return self.time_windows[lower]
        visible = [made for alias, made in self.sources if alias.lower() not in self.hidden]
        found = [origin for made in visible if (origin := made.find(name)) is not None]
        if len(found) > 1:
            return self._merge_join_column(lower, found)
        if found:
            return found[0]
        beyond = [origin for made in visible if (origin := made.find_beyond(name)) is not None]
        if lower in self.made and not beyond:
            return self.made[lower]
        if beyond:
            return beyond[0] if len(beyond) == 1 and lower not in self.made else UNKNOWN
        return self.outer.column(name) if self.outer else UNKNOWN

    def _merge_join_column(self, lower: str, found: Sequence[ColumnOrigin]) -> ColumnOrigin:
        side = self.sides.get(lower)
        if side is None:
            return UNKNOWN
        if side == "FULL":
            return _unite_origins(found)
        return found[-1] if side == "RIGHT" else found[0]


class ColumnFlow:
    """Computes the origins of a query's columns. `read(name)` returns the columns of an input table."""

    def __init__(self, read: Callable[[str], ColumnSource | None], calls: FollowedCalls = ALL_CALLS) -> None:
        self.read = read
        self.calls = calls

    def query(
        self, query: Any, outer: _Frame | None = None, ctes: Mapping[str, ColumnSource] | None = None
    ) -> ColumnSource:
        """Return the columns of a query with their origins."""
        ctes = self._ctes(query, outer, dict(ctes or {}))
        if isinstance(query, exp.Subquery):
            return self._apply_alias(query, self.query(query.this, outer, ctes))
        if isinstance(query, exp.SetOperation):
            return _union_columns(self.query(query.left, outer, ctes), self.query(query.right, outer, ctes))
        if isinstance(query, exp.Select):
            return self._select(query, outer, ctes)
        return LOST

    def _ctes(self, query: Any, outer: _Frame | None, ctes: dict[str, ColumnSource]) -> dict[str, ColumnSource]:
        clause = query.args.get("with_")
        for cte in clause.expressions if clause else ():
            if clause.args.get("recursive") and isinstance(cte.this, exp.SetOperation):
                ctes[cte.alias.lower()] = self._apply_alias(cte, self.query(cte.this.left, outer, ctes))
                for _ in cte.this.left.selects:  # each round follows a column one step further
                    ctes[cte.alias.lower()] = self._apply_alias(cte, self.query(cte.this, outer, ctes))
            ctes[cte.alias.lower()] = self._apply_alias(cte, self.query(cte.this, outer, ctes))
        return ctes

    def _select(self, query: exp.Select, outer: _Frame | None, ctes: Mapping[str, ColumnSource]) -> ColumnSource:
        frame = _Frame(outer=outer)
        frame.windows = {each.name.lower(): each for each in query.args.get("windows") or ()}
        from_ = query.args.get("from_")
        if from_ is not None:
            self._add_source(from_.this, frame, ctes)
        for join in query.args.get("joins") or ():
            self._add_source(join.this, frame, ctes)
            if join.args.get("kind") in {"SEMI", "ANTI"}:
                frame.hidden.add(frame.sources[-1][0].lower())
            if join.method == "NATURAL":
                return LOST
            for column in join.args.get("using") or ():
                frame.sides[column.name.lower()] = join.args.get("side") or ""
        for lateral in query.args.get("laterals") or ():
            self._add_source(lateral, frame, ctes)
        for name, call in time_windows_of(query):
            frame.time_windows[name] = frame.time_windows.get(name, NOTHING) | self._trace_expression(call, frame, ctes)
        aliases = frozenset(alias.lower() for alias, _ in frame.sources) | (
            frame.piped.aliases if frame.piped is not None else frozenset()
        )
        made = ColumnSource(aliases=aliases)
        for each in query.expressions:
            one = self._projection(each, frame, ctes)
            made = ColumnSource(
                (*made.columns, *one.columns), (*made.rests, *one.rests), (*made.opens, *one.opens),
                made.is_known and one.is_known, aliases,
            )  # fmt: skip
            frame.made |= {column.name.lower(): column.origin for column in one.columns if isinstance(each, exp.Alias)}
        return made

    def _add_source(self, node: Any, frame: _Frame, ctes: Mapping[str, ColumnSource]) -> None:
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):  # brackets around joins
            self._add_source(node.this, frame, ctes)
            return
        alias = node.alias_or_name
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            made = self.read(node.name) or ctes.get(node.name.lower(), LOST)
        elif isinstance(node, exp.Subquery):
            made = self.query(node.this, frame.outer, ctes)
        elif isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            made = self.query(node.this.this, frame, ctes)
        elif isinstance(node, exp.Values):
            made = self._values(node, frame, ctes)
        else:  # explode(...) and its like, with LATERAL VIEW, LATERAL or by themselves
            made, alias = self._generated_columns(node.this, frame, ctes), node.alias
        frame.sources.append((alias, LOST if node.args.get("pivots") else self._apply_alias(node, made)))
        if is_piped(node):
            frame.piped = frame.sources[-1][1]
        elif isinstance(node, exp.Subquery) and not node.alias:
            frame.unnamed = frame.sources[-1][1]
        for join in node.args.get("joins") or ():
            self._add_source(join.this, frame, ctes)
            for column in join.args.get("using") or ():
                frame.sides[column.name.lower()] = join.args.get("side") or ""

    def _values(self, node: exp.Values, frame: _Frame, ctes: Mapping[str, ColumnSource]) -> ColumnSource:
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        places = [list(parts) for parts in zip_longest(*rows)]
        return ColumnSource(
            tuple(
                FlowColumn(f"col{at}", self._trace_expression(parts, frame, ctes)) for at, parts in enumerate(places, 1)
            )
        )

    def _generated_columns(
        self, call: Any, frame: _Frame, ctes: Mapping[str, ColumnSource], names: Iterable[str] = ()
    ) -> ColumnSource:
        """Return the columns of a call such as `explode(a)`. Each derives from all arguments, except those of STACK."""
        aliases = list(names)
        rows = call.this.name if isinstance(call, exp.Stack) and isinstance(call.this, exp.Literal) else ""
        if aliases and _COUNT.fullmatch(rows):
            width = max(1, -(-len(call.expressions) // int(rows)))
            return ColumnSource(
                tuple(
                    FlowColumn(name, self._trace_expression(call.expressions[at::width], frame, ctes))
                    for at, name in enumerate(aliases)
                )
            )
        origin = self._trace_expression(call, frame, ctes)
        if aliases:
            return ColumnSource(tuple(FlowColumn(name, origin) for name in aliases))
        return ColumnSource(rests=(lambda _: origin,))

    def _apply_alias(self, node: Any, made: ColumnSource) -> ColumnSource:
        """Return columns with the names of an alias: `t(a, b)`."""
        alias = node.args.get("alias")
        aliases = [one.name for one in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
        if not aliases:
            return made
        if made.columns and not made.rests and made.is_known:
            return ColumnSource(
                tuple(replace(each, name=name) for name, each in zip(aliases, made.columns, strict=False))
            )
        if len(made.rests) == 1 and not made.opens and not made.columns and made.is_known:
            return ColumnSource(tuple(FlowColumn(name, made.rests[0](name) or UNKNOWN) for name in aliases))
        return ColumnSource(tuple(FlowColumn(name, UNKNOWN) for name in aliases))

    def _projection(self, node: Any, frame: _Frame, ctes: Mapping[str, ColumnSource]) -> ColumnSource:
        if isinstance(node, exp.Aliases):
            made = self._generated_columns(node.this, frame, ctes, (alias.name for alias in node.aliases))
            return replace(made, columns=tuple(replace(column, node=node) for column in made.columns))
        if node.is_star and isinstance(node, exp.Star | exp.Column | exp.Dot):
            return self._expand_star(node, frame, ctes)
        if isinstance(node, exp.Alias):
            return ColumnSource((FlowColumn(node.alias, self._trace_expression(node.this, frame, ctes), node),))
        if makes_rows(node):
            return self._generated_columns(node, frame, ctes)
        name = node.name if isinstance(node, exp.Column | exp.Dot) else node.alias_or_name or node.name
        return ColumnSource(
            (FlowColumn(name, self._trace_expression(node, frame, ctes), node),)
        )  # without a name it still has its position

    def _expand_star(self, node: Any, frame: _Frame, ctes: Mapping[str, ColumnSource]) -> ColumnSource:
        star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else exp.Star()
        excepted = [_name_parts(each) for each in star.args.get("except_") or ()]
        left_out = {names[0] for names in excepted if len(names) == 1}
        if isinstance(node, exp.Star):
            of_one = [names for names in excepted if len(names) > 1]
            chosen = [
                _drop_columns(made, {names[1] for names in of_one if names[0] == alias.lower()})
                for alias, made in frame.sources
                if alias.lower() not in frame.hidden
            ]
        else:
            source = frame.source(node.parts[0].name) if isinstance(node, exp.Column) and len(node.parts) == 2 else None
            chosen = [source if source is not None else self._fields(node, frame, ctes)]
        replaced = {
            each.alias.lower(): FlowColumn(each.alias, self._trace_expression(each.this, frame, ctes), each)
            for each in star.args.get("replace") or ()
        }
        columns: dict[str, FlowColumn] = {}
        for made in chosen:
            for column in made.columns:
                lower = column.name.lower()
                if lower not in left_out:
                    is_merged = lower in frame.sides and lower in columns
                    new = replaced.get(lower)
                    origin = frame.column(lower) if is_merged else new.origin if new else column.origin
                    step = column.node if made is frame.piped or made is frame.unnamed else None
                    columns[lower] = FlowColumn(column.name, origin, new.node if new else step)
        rests = tuple(rest for made in chosen for rest in _drop_columns(made, left_out | replaced.keys()).rests)
        if rests:  # a replaced column exists, though its name was not known
            columns = {**replaced, **columns}
        opens = tuple(name for made in chosen for name in made.opens)
        return ColumnSource(tuple(columns.values()), rests, opens, all(made.is_known for made in chosen))

    def _fields(self, node: Any, frame: _Frame, ctes: Mapping[str, ColumnSource]) -> ColumnSource:
        """Return the columns of `s.*` for a struct `s`: all derive from `s`, and their names are not known."""
        if isinstance(node, exp.Dot):
            origin = self._trace_expression(node.this, frame, ctes)
        else:
            origin = self._trace_qualified([part.name for part in node.parts[:-1]], frame)
        return ColumnSource(rests=(lambda _: origin,))

    def _trace_qualified(self, names: Sequence[str], frame: _Frame) -> ColumnOrigin:
        source = frame.source_or_piped(names[0]) if len(names) > 1 else None
        if source is None:
            return frame.column(names[0])
        found = source.find(names[1])
        beyond = source.find_beyond(names[1]) if found is None else found
        return beyond if beyond is not None else UNKNOWN

    def _trace_expression(self, node: Any, frame: _Frame, ctes: Mapping[str, ColumnSource]) -> ColumnOrigin:
        """Return the origin of an expression's value."""
        if isinstance(node, list):
            return _unite_origins(self._trace_expression(each, frame, ctes) for each in node)
        if isinstance(node, exp.Column):
            return self._trace_column(node, frame)
        if isinstance(node, exp.Query):
            return COMPUTED | self._trace_query(node, frame, ctes)
        if isinstance(node, exp.Star):
            inside_count = isinstance(node.parent, exp.Count)
            return NOTHING if inside_count else _unite_origins(made.whole() for _, made in frame.sources)
        called = _called_name(node)
        if not isinstance(node, exp.Expression) or isinstance(node, exp.DataType) or called in self.calls.ends:
            return COMPUTED
        origin = NOTHING if isinstance(node, exp.Paren | exp.Identifier) else COMPUTED
        origin |= _unite_origins(self._trace_expression(child, frame, ctes) for child in node.iter_expressions())
        if isinstance(node, exp.Window) and (named := frame.windows.get(node.alias.lower())) is not None:
            origin |= self._trace_expression(
                [*(named.args.get("partition_by") or ()), named.args.get("order")], frame, ctes
            )
        return origin | ColumnOrigin(frozenset({("", called)})) if called in self.calls.starts else origin

    def _trace_column(self, node: exp.Column, frame: _Frame) -> ColumnOrigin:
        if isinstance(node.this, exp.Star):
            source = frame.source(node.parts[0].name)
            return source.whole() if source is not None else UNKNOWN
        return self._trace_qualified([part.name for part in node.parts], frame)

    def _trace_query(self, node: exp.Query, frame: _Frame, ctes: Mapping[str, ColumnSource]) -> ColumnOrigin:
        """Return the origin of a subquery in an expression: that of its columns, or of its conditions for EXISTS."""
        if not isinstance(node.parent, exp.Exists):
            return self.query(node, frame, ctes).whole()
        inner = node.this if isinstance(node, exp.Subquery) else node
        if not isinstance(inner, exp.Select):
            return UNKNOWN
        conditions_query = inner.copy()
        conditions_query.set("expressions", [exp.alias_(each, "c") for each in _conditions(inner)])
        return self.query(conditions_query, frame, ctes).whole()


def _called_name(node: Any) -> str:
    """Return the name of a called function in lower case; empty for other nodes."""
    if not isinstance(node, exp.Func):
        return ""
    return (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()


def _name_parts(node: Any) -> list[str]:
    """Return the parts of a column's name in an EXCEPT, in lower case: the name, after its qualifier if it has one."""
    parts = node.parts if isinstance(node, exp.Column | exp.Dot) else [node]
    return [part.name.lower() for part in parts]


def _drop_columns(made: ColumnSource, names: Collection[str]) -> ColumnSource:
    """Return `made` without the columns `names`, which are in lower case, also if one of its `rests` contains them."""
    if not names:
        return made

    def less(rest: Rest) -> Rest:
        return lambda name: None if name.lower() in names else rest(name)

    columns = tuple(column for column in made.columns if column.name.lower() not in names)
    return replace(made, columns=columns, rests=tuple(map(less, made.rests)))


def _conditions(select: exp.Select) -> Iterator[Any]:
    where = select.args.get("where")
    if where is not None:
        yield where.this.copy()
    yield from (join.args["on"].copy() for join in select.args.get("joins") or () if join.args.get("on") is not None)


def _unite_origins(origins: Iterable[ColumnOrigin]) -> ColumnOrigin:
    together = NOTHING
    for origin in origins:
        together |= origin
    return together


def _union_columns(left: ColumnSource, right: ColumnSource) -> ColumnSource:
    """Return the columns of a UNION: the names of the left query, with the origins of both columns at each position."""
    if left.rests or right.rests or not (left.is_known and right.is_known):
        if [each.name.lower() for each in left.columns] == [each.name.lower() for each in right.columns]:
            both = _union_by_position(left, right)
            return ColumnSource(
                both, (*left.rests, *right.rests), (*left.opens, *right.opens), left.is_known and right.is_known
            )
        return LOST
    return ColumnSource(_union_by_position(left, right)) if len(left.columns) == len(right.columns) else LOST


def _union_by_position(left: ColumnSource, right: ColumnSource) -> tuple[FlowColumn, ...]:
    pairs = zip(left.columns, right.columns, strict=True)
    return tuple(replace(one, origin=one.origin | other.origin) for one, other in pairs)
