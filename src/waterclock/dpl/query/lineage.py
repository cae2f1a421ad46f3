"""Computes column lineage: the origins of a column up to the sources, and the columns that are derived from it.

Queries are analyzed as text. For Python transforms, the Spark plans of past runs are analyzed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from waterclock.dpl.query.column_flow import ALL_CALLS, FollowedCalls
from waterclock.dpl.query.column_trace import ColumnOf, TracedColumn, trace, trace_expression
from waterclock.errors import WaterclockError
from waterclock.flow.code_lineage import COMPUTED, COPIED, CodeLineage, Origin
from waterclock.flow.declarations import Column, Flow, PythonFunction, Table
from waterclock.flow.enums import Kind
from waterclock.flow.for_each import Each
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.label import TIMELABEL

Schemas = Mapping[str, Mapping[str, str]]
Nearest = Callable[[ColumnOf, TracedColumn], Iterable[tuple[ColumnOf, bool]]]


@dataclass(frozen=True, slots=True)
class Branch:
    """A node of a lineage tree: a column, its direct origin, and its child nodes (`beyond`).

    `is_seen`: the column is in the tree already, so the branch ends here. `is_unknown`: it is uncertain whether one of
    this column and its parent node derives from the other.
    """

    column: ColumnOf
    made: TracedColumn
    beyond: tuple[Branch, ...] = ()
    is_seen: bool = False
    is_unknown: bool = False


@dataclass(slots=True)
class ColumnLineage:
    """The lineage of a flow's columns, computed when it is needed, table by table; each query takes some milliseconds.

    `schemas`: columns and types of tables as the last run recorded them; without them, columns of a `*` are matched by
    name. `of_code`: the lineage of Python transforms from the plans of their current code, by table; a column of a
    transform without an entry may derive from all its inputs. `calls`: functions whose results have other origins than
    their arguments.
    """

    flow: Flow
    schemas: Schemas = field(default_factory=dict)
    of_code: Mapping[str, CodeLineage] = field(default_factory=dict)
    calls: FollowedCalls = ALL_CALLS
    _made: dict[str, dict[str, TracedColumn]] = field(default_factory=dict)
    _stars: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _through_stars: dict[str, Callable[[str], frozenset[ColumnOf]]] = field(default_factory=dict)
    _busy: set[str] = field(default_factory=set)

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the known columns of a table: those of its last run, else those of its column list and its query."""
        if table in self.schemas:
            return tuple(name for name in self.schemas[table] if name != TIMELABEL)
        known = {name.lower(): name for name in self._trace_once(table)}
        known |= {name.lower(): name for name in _list_declared_columns(self.flow.tables[table])}
        return tuple(known.values())

    def trace_column(self, of: ColumnOf) -> TracedColumn:
        """Return the direct origin of a column. Raises E517, which suggests the nearest name, for an unknown column."""
        table = self.flow.tables[of.table]
        found = {name.lower(): made for name, made in self._trace_once(of.table).items()}
        if of.column == "*":
            return TracedColumn(inputs=tuple(ColumnOf(read.table, "*") for read in table.reads))
        if of.column.lower() in found:
            return found[of.column.lower()]
        if "*" in found and (not self._is_fully_known(of.table) or self._has_column(of)):
            return found["*"]
        stars = [name for name in self.stars_in(of.table) if self.is_included_by_star(name, of.column)]
        if stars and not _is_consumed(table, of.column):
            return TracedColumn(of.column, tuple(ColumnOf(name, of.column) for name in stars), "through *")
        known = self.columns(of.table)
        if table.kind is Kind.COLLECT and not self._is_fully_known(of.table):
            return TracedColumn(note=f"collected from {table.source.unit}" if table.source else "")
        raise WaterclockError(
            "E517",
            f"{of.table} has no column {of.column}",
            why=f"it has {', '.join(known)}" if known else "its columns are not known before its first run",
            fix=did_you_mean(
                of.column, known, otherwise="name one of them" if known else f"run {of.table} once, then they are known"
            ),
        )

    def trace_table(self, table: str) -> Mapping[str, TracedColumn]:
        """Return the direct origin of each column of a table; `*` represents columns that are not known."""
        return self._trace_once(table)

    def stars_in(self, table: str) -> tuple[str, ...]:
        """Return the input tables that a table's query reads by `*` and whose columns are not all known."""
        self._trace_once(table)
        return self._stars.get(table, ())

    def through_star(self, table: str, column: str) -> frozenset[ColumnOf]:
        """Return the input columns from which a `*` in a table's query makes `column`; none for a column in EXCEPT."""
        self._trace_once(table)
        through = self._through_stars.get(table)
        if through is not None:
            return through(column)
        left_out = {name.lower() for name in self.flow.tables[table].columns.left_out}
        return frozenset(ColumnOf(read, column) for read in self.stars_in(table) if column.lower() not in left_out)

    def is_included_by_star(self, table: str, column: str) -> bool:
        """Return whether a `*` over a table includes a column, which must not be HIDDEN."""
        return column.lower() not in {name.lower() for name in self.flow.tables[table].hidden_columns}

    def trace_upstream(self, of: ColumnOf, *, depth: int | None = None) -> Branch:
        """Return the tree of all origins of a column, up to the sources or `depth` levels."""
        return self._follow(of, depth, set(), self._list_inputs)

    def trace_downstream(self, of: ColumnOf, *, depth: int | None = None) -> Branch:
        """Return the tree of all columns derived from a column, down to the last readers or `depth` levels."""
        return self._follow(of, depth, set(), lambda of, _: self._find_derived_columns(of))

    def _follow(
        self, of: ColumnOf, depth: int | None, seen: set[ColumnOf], nearest: Nearest, *, is_unknown: bool = False
    ) -> Branch:
        """Return the tree of the columns beyond one. `nearest` yields those next to a column, and if it is unknown."""
        made = self._trace_or_unknown(of)
        if of in seen or depth == 0:
            return Branch(of, made, is_seen=of in seen, is_unknown=is_unknown)
        seen.add(of)
        less = None if depth is None else depth - 1
        beyond = tuple(
            self._follow(each, less, seen, nearest, is_unknown=unknown) for each, unknown in nearest(of, made)
        )
        return Branch(of, made, beyond, is_unknown=is_unknown)

    @staticmethod
    def _list_inputs(_: ColumnOf, made: TracedColumn) -> Iterable[tuple[ColumnOf, bool]]:
        return ((each, each in made.unknown) for each in made.inputs)

    def _find_derived_columns(self, of: ColumnOf) -> Iterator[tuple[ColumnOf, bool]]:
        """Yield the columns of other tables that derive directly from a column, and whether that is uncertain."""
        for name, table in self.flow.tables.items():
            if not any(read.table == of.table for read in table.reads):
                continue
            for column, made in self._trace_once(name).items():
                if found := [each for each in made.inputs if _matches_column(each, of)]:
                    yield ColumnOf(name, column), made.unknown.issuperset(found)
            is_by_star = of.table in self.stars_in(name) and self.is_included_by_star(of.table, of.column)
            if is_by_star and of.column not in self._trace_once(name):
                yield ColumnOf(name, of.column), False

    def _is_fully_known(self, table: str) -> bool:
        """Return whether all columns of a table are known."""
        return table in self.schemas or not self.flow.tables[table].columns.is_open

    def _has_column(self, of: ColumnOf) -> bool:
        return of.column.lower() in {name.lower() for name in self.columns(of.table)}

    def _trace_or_unknown(self, of: ColumnOf) -> TracedColumn:
        try:
            return self.trace_column(of)
        except WaterclockError as error:
            return TracedColumn(note=error.what)

    def _trace_once(self, name: str) -> dict[str, TracedColumn]:
        if name not in self._made and name not in self._busy:
            self._busy.add(name)
            try:
                self._made[name] = self._trace(self.flow.tables[name])
            finally:
                self._busy.discard(name)
        return self._made.get(name, {})

    def _trace(self, table: Table) -> dict[str, TracedColumn]:
        made = self._trace_rows(table)
        if table.temporal is None:
            return made
        by_lower_name = {name.lower(): each for name, each in made.items()}
        windows = "the windows of its snapshots" if table.temporal.is_of_snapshots else "the end of its window"
        since = by_lower_name.get((table.temporal.at or "").lower(), TracedColumn(note=f"when a row came: {windows}"))
        return {name: made.get(name, since) for name in table.temporal.outputs(made)}

    def _trace_rows(self, table: Table) -> dict[str, TracedColumn]:
        if table.kind is Kind.PUBLISH:
            source = table.reads[0].table
            self._stars[table.name] = (source,) if table.columns.is_open else ()
            if table.columns.named:
                return {column.name: self._trace_published_column(source, column) for column in table.columns.named}
            return {
                column: TracedColumn(column, (ColumnOf(source, column),))
                for column in self.columns(source)
                if column not in table.columns.left_out
            }
        if table.function is not None:
            return self._trace_code(table, table.function)
        if table.query is None:
            note = f"collected from {table.source.unit}" if table.source else ""
            names = list(self.schemas.get(table.name, ())) or [column.name for column in table.columns.named]
            made = {column: TracedColumn(note=note) for column in names if column != TIMELABEL}
            return made if table.each is None else {**made, **_trace_request_parameters(table.each, made)}
        declared = {column.name.lower(): column.name for column in table.columns.named}
        traced = trace(table.query, self._list_all_columns, self._list_known_columns, declared, self.calls)
        self._stars[table.name] = traced.stars
        self._through_stars[table.name] = traced.through_star
        until = _trace_until_retired(table, traced.made)
        if table.columns.is_open:
            return {**traced.made, **until}
        found = {name: made for name, made in {**traced.made, **until}.items() if name.lower() in declared}
        if "*" in traced.made:  # declared, but the query alone does not show its origin
            lower_names = {name.lower() for name in found}
            found |= {name: traced.made["*"] for lower, name in declared.items() if lower not in lower_names}
        return found

    def _trace_published_column(self, source: str, column: Column) -> TracedColumn:
        """Return the origin of a PUBLISH's column in the published table."""
        if column.made_as is None:
            return TracedColumn(column.name, (ColumnOf(source, column.name),))
        spelt = {name.lower(): name for name in self._list_known_columns(source)}
        names = column.made_as.columns
        started: tuple[ColumnOf, ...] = ()
        if self.calls is not ALL_CALLS and (origin := trace_expression(column.made_as.expression, self.calls)).is_known:
            names = tuple(sorted({name for read, name in origin.inputs if read}))
            started = tuple(ColumnOf("", name) for read, name in sorted(origin.inputs) if not read)
        inputs = (*(ColumnOf(source, spelt.get(name.lower(), name)) for name in names), *started)
        return TracedColumn(column.made_as.expression, inputs)

    def _trace_code(self, table: Table, function: PythonFunction) -> dict[str, TracedColumn]:
        everything = tuple(dict.fromkeys(ColumnOf(read.table, "*") for read in table.reads))
        shown = self.of_code.get(table.name)
        named = [column.name for column in table.columns.named]
        if shown is None:
            note = f"made by {function.name} in {function.file}, which cannot be looked into"
            known = [*self.schemas.get(table.name, ()), *named, "*"]
            opaque = TracedColumn("", everything, note, frozenset(everything), COMPUTED)
            return {column: opaque for column in known if column != TIMELABEL}
        by = f"by {function.name} in {function.file}"
        found = {name: self._to_traced_column(origin, by) for name, origin in shown.columns.items()}
        found |= _trace_until_retired(table, found)
        lower = {name.lower(): name for name in found}
        other = TracedColumn("", everything, f"{by}, of which no plan shows it", frozenset(everything), COMPUTED)
        declared = {name: found[lower[name.lower()]] if name.lower() in lower else other for name in named}
        return declared if not table.columns.is_open else {**_drop_columns(found, declared), **declared}

    def _to_traced_column(self, origin: Origin, by: str) -> TracedColumn:
        unknown = frozenset(ColumnOf(*each) for each in origin.maybe)
        inputs = tuple(sorted({*(ColumnOf(*each) for each in origin.inputs), *unknown}))
        is_copy = origin.how == COPIED and len(inputs) == 1 and not unknown
        why = f", where {', '.join(sorted(origin.why))} cannot be looked into" if origin.why else ""
        return TracedColumn(str(inputs[0]) if is_copy else "", inputs, by + why, unknown, origin.how)

    def _list_known_columns(self, table: str) -> tuple[str, ...]:
        """Return the known columns of a table; none for a table that is being traced, as in a cycle."""
        return () if table in self._busy else self.columns(table)

    def _list_all_columns(self, table: str) -> tuple[str, ...]:
        """Return all columns of a table, including `timelabel`; empty if not all are known."""
        if table in self.schemas:
            return tuple(self.schemas[table])
        declared = self.flow.tables[table]
        if declared.kind is Kind.COLLECT and not declared.columns.is_open:
            return (*_list_declared_columns(declared), TIMELABEL)
        if table in self._busy:
            return _list_declared_columns(declared)
        traced = self._trace_once(table)
        if declared.query is not None and traced and not self._stars.get(table):
            return (*traced, TIMELABEL)
        return ()


def _trace_request_parameters(each: Each, made: Mapping[str, TracedColumn]) -> dict[str, TracedColumn]:
    """Return the columns that FOR EACH requests take as parameters, each with its origin in the FOR EACH table."""
    spelled = {name.lower(): name for name in made}
    return {
        spelled.get(name.lower(), name): TracedColumn(name, (ColumnOf(each.table, name),), "asked for each row")
        for name in each.parameters
    }


def _trace_until_retired(table: Table, made: Mapping[str, TracedColumn]) -> dict[str, TracedColumn]:
    """Return the origins of columns with AS ... RETIRE, which are computed from other columns until their last day."""
    found: dict[str, TracedColumn] = {}
    for column in table.columns.named:
        text = column.ending and column.ending.made_as
        if text:
            words = {word.lower() for word in re.findall(r"\w+", text)}
            inputs = sorted({each for name, one in made.items() if name.lower() in words for each in one.inputs})
            found[column.name] = TracedColumn(
                text, tuple(inputs), f"until {column.ending.day}" if column.ending else ""
            )
    return found


def _drop_columns(found: Mapping[str, TracedColumn], dropped: Mapping[str, TracedColumn]) -> dict[str, TracedColumn]:
    lower = {name.lower() for name in dropped}
    return {name: made for name, made in found.items() if name.lower() not in lower}


def _list_declared_columns(table: Table) -> tuple[str, ...]:
    """Return the declared columns of a table as its readers see them."""
    names = tuple(column.name for column in table.columns.named)
    return table.temporal.outputs(names) if table.temporal else names


def _is_consumed(table: Table, column: str) -> bool:
    """Return whether a TEMPORAL table uses a column of its query only as time or order, and does not store it."""
    temporal = table.temporal
    return temporal is not None and column.lower() in {each.lower() for each in (temporal.at or "", *temporal.consumed)}


def _matches_column(one: ColumnOf, other: ColumnOf) -> bool:
    if one.table != other.table:
        return False
    return "*" in {one.column, other.column} or one.column.lower() == other.column.lower()
