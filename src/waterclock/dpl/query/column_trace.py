"""Traces the columns of a query to the columns of its input tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from waterclock.dpl.query.column_flow import ALL_CALLS, ColumnFlow, ColumnOrigin, FlowColumn, FollowedCalls
from waterclock.dpl.query.column_flow import ColumnSource as Columns
from waterclock.dpl.query.splice import splice
from waterclock.dpl.syntax.pipes import PIPED
from waterclock.dpl.syntax.tokens import parse_query_text
from waterclock.flow.declarations import Flat, Query, Read
from waterclock.flow.flats import flat_columns
from waterclock.timelabel.label import TIMELABEL

_DIALECT = "databricks"
_GENERATED_NAME = re.compile(r"_[0-9]+")
_UNKNOWN_TYPE = "unknown"
UNKNOWN_ORIGIN = "not known: the query alone does not show which columns it is made of"


@dataclass(frozen=True, slots=True, order=True)
class ColumnOf:
    """A column of a table. The column `*` represents all columns of the table, if a transform cannot be analyzed."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


@dataclass(frozen=True, slots=True)
class TracedColumn:
    """The direct origin of a column: its SQL `expression`, and the input columns in it.

    `note`: the reason why the trace ends here. `unknown`: those `inputs` that may or may not be origins. `how`: for
    Python code, which has no expression: copied, computed or aggregated. `is_computed`: the expression, or that of a
    subquery or view which it names, is more than the name of an input column.
    """

    expression: str = ""
    inputs: tuple[ColumnOf, ...] = ()
    note: str = ""
    unknown: frozenset[ColumnOf] = frozenset()
    how: str = ""
    is_computed: bool = False


@dataclass(frozen=True, slots=True)
class TracedColumns:
    """The origins of a query's columns (`made`), in order, and the tables whose `*` may add more columns (`stars`).

    For a name that is not in `made`, `through_star(name)` returns the input columns that a `*` may add under this name.
    """

    made: Mapping[str, TracedColumn]
    stars: tuple[str, ...] = ()
    through_star: Callable[[str], frozenset[ColumnOf]] = lambda _: frozenset()


def trace(
    query: Query,
    closed: Callable[[str], Sequence[str]],
    known: Callable[[str], Iterable[str]],
    declared: Mapping[str, str],
    calls: FollowedCalls = ALL_CALLS,
) -> TracedColumns:
    """Return the origins of a query's columns; columns of UNION ALL BY NAME are merged by name.

    `closed(table)` returns the columns of a table if all are known, else none; `known(table)` returns the known ones.
    `declared` maps lower-case names to the spelling in the transform's column list. `calls`: functions whose results
    have other origins than their arguments.
    """
    if not query.branches:
        return _Tracer(query, closed, known, declared, calls).trace()
    throughs: list[Callable[[str], frozenset[ColumnOf]]] = []
    together: dict[str, tuple[str, TracedColumn]] = {}
    stars: dict[str, None] = {}
    for branch in query.branches:
        traced = trace(branch, closed, known, declared, calls)
        throughs.append(traced.through_star)
        for name, made in traced.made.items():
            first, before = together.get(name.lower(), (name, made))
            expressions = ", ".join(dict.fromkeys((before.expression, made.expression)))
            together[name.lower()] = (
                first,
                TracedColumn(
                    expressions,
                    tuple(sorted({*before.inputs, *made.inputs})),
                    made.note,
                    is_computed=before.is_computed or made.is_computed,
                ),
            )
        stars |= dict.fromkeys(traced.stars)
    return TracedColumns(
        dict(together.values()),
        tuple(stars),
        lambda name: frozenset[ColumnOf]().union(*(through(name) for through in throughs)),
    )


def trace_expression(expression: str, calls: FollowedCalls = ALL_CALLS) -> ColumnOrigin:
    """Return the origin of an expression over the columns of one source, which has the name `wc_0` in the origin."""
    source = Columns(rests=(lambda column: ColumnOrigin(frozenset({("wc_0", column)})),))
    try:
        tree = parse_query_text(f"SELECT {expression} AS value FROM wc_0")
        return ColumnFlow(lambda _: source, calls).query(tree).whole()
    except (SqlglotError, ValueError, RecursionError):
        return ColumnOrigin(is_known=False)


class _Tracer:
    def __init__(
        self,
        query: Query,
        closed: Callable[[str], Sequence[str]],
        known: Callable[[str], Iterable[str]],
        declared: Mapping[str, str],
        calls: FollowedCalls,
    ) -> None:
        self.calls = calls
        self.closed = closed
        self.known = known
        self.declared = declared
        names: dict[Read | Flat, str] = {}
        self.text = splice(query, lambda read: names.setdefault(read, f"wc_{len(names)}")).text
        self.reads = {name: read for read, name in names.items()}
        self.flats = {name: self._flat_columns(read) for name, read in self.reads.items() if isinstance(read, Flat)}

    def trace(self) -> TracedColumns:
        try:
            tree = parse_query_text(self.text)
            made = ColumnFlow(self._columns_of_read, self.calls).query(tree)
        except (SqlglotError, ValueError, RecursionError):
            return TracedColumns({"*": TracedColumn(note=UNKNOWN_ORIGIN)})
        found: dict[str, TracedColumn] = {}
        texts = self._find_expressions(tree)
        for column in made.columns:
            if column.name.lower() in {"", TIMELABEL}:  # refused; the engine drops the label's column, and sets its own
                continue
            text = texts.get(column.name.lower()) or (_format_expression(column.node) if column.node else column.name)
            found[self.declared.get(column.name.lower(), column.name)] = self._to_traced_column(text, column.origin)
        if rest := self._trace_unnamed_columns(made):
            found["*"] = rest
        stars = tuple(dict.fromkeys(_table_of(self.reads[name]) for name in made.opens))
        return TracedColumns(found, stars, lambda name: self._through_star(made, name))

    def _through_star(self, made: Columns, name: str) -> frozenset[ColumnOf]:
        origins = [origin for rest in made.rests if (origin := rest(name)) is not None]
        return frozenset(self._table_column(*each) for origin in origins for each in origin.inputs)

    def _to_traced_column(self, text: str, origin: ColumnOrigin) -> TracedColumn:
        inputs = tuple(sorted({self._table_column(name, column) for name, column in origin.inputs}))
        note = "" if origin.is_known else UNKNOWN_ORIGIN
        return TracedColumn(text, inputs, note, is_computed=origin.is_computed)

    def _trace_unnamed_columns(self, made: Columns) -> TracedColumn | None:
        """Return the common origin of columns with unknown names; None if all of them come through a `*` of a table."""
        if not made.is_known:
            return TracedColumn(note=UNKNOWN_ORIGIN)
        if len(made.rests) == len(made.opens):
            return None
        if made.opens or len(made.rests) > 1:
            return TracedColumn(note=UNKNOWN_ORIGIN)
        return self._to_traced_column("", made.rests[0]("*") or ColumnOrigin(is_known=False))

    def _find_expressions(self, tree: Any) -> dict[str, str]:
        """Map the query's columns, in lower case, to their expressions with qualified column names."""
        schema: dict[str, object] = {
            name: {column.lower(): _UNKNOWN_TYPE for column in columns}
            for name, read in self.reads.items()
            if (columns := self._list_all_columns(read))
        }
        try:
            query: Any = qualify(
                tree.copy(), dialect=_DIALECT, schema=schema, validate_qualify_columns=False, identify=False
            )
        except (SqlglotError, ValueError, RecursionError):
            return {}
        selects = query.selects if isinstance(query, exp.Query) else ()
        return {
            each.alias_or_name.lower(): _format_expression(each)
            for each in selects
            if not each.is_star and not _has_generated_qualifier(each.unalias())
        }

    def _columns_of_read(self, name: str) -> Columns | None:
        """Return the columns of the input with this name in the text; a rest represents columns with unknown names."""
        read = self.reads.get(name)
        if read is None:
            return None
        closed = self._list_all_columns(read)
        if closed:
            return Columns(tuple(FlowColumn(each, ColumnOrigin(frozenset({(name, each)}))) for each in closed))
        known = tuple(
            FlowColumn(each, ColumnOrigin(frozenset({(name, each)}))) for each, _ in self.flats.get(name, {}).values()
        )
        return Columns(known, (lambda column: ColumnOrigin(frozenset({(name, column)})),), (name,))

    def _table_column(self, name: str, column: str) -> ColumnOf:
        """Return the table column from which a column of a read comes, in the table's spelling."""
        if not name:  # a function that starts an origin
            return ColumnOf("", column)
        if (found := self.flats.get(name, {}).get(column.lower())) is not None:
            return found[1]
        table = _table_of(self.reads[name])
        return ColumnOf(table, {known.lower(): known for known in self.known(table)}.get(column.lower(), column))

    def _flat_columns(self, flat: Flat) -> dict[str, tuple[str, ColumnOf]]:
        columns = flat_columns(flat, self.known) or ()
        return {each.name.lower(): (each.name, ColumnOf(each.table, each.column)) for each in columns}

    def _list_all_columns(self, read: Read | Flat) -> Sequence[str]:
        if isinstance(read, Read):
            return self.closed(read.table)
        columns = flat_columns(read, lambda table: self.closed(table) or None) or ()
        return (*(each.name for each in columns), *([TIMELABEL] if columns else ()))


def _has_generated_qualifier(node: Any) -> bool:
    """Return whether a column has a qualifier that sqlglot generated, as in `_0.a` or `__tmp1.a`."""
    return isinstance(node, exp.Column) and (
        node.table.startswith(PIPED) or _GENERATED_NAME.fullmatch(node.table) is not None
    )


def _table_of(read: Read | Flat) -> str:
    return read.table if isinstance(read, Read) else read.read.table


def _format_expression(select: Any) -> str:
    inner = select.unalias()
    text: str = inner.sql(dialect=_DIALECT)
    return text.replace("`", "")
