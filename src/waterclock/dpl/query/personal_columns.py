"""Finds all columns that inherit the tag `pii` (personal data) from the columns that they are derived from.

The result may contain too many columns, never too few: if a query or a Python function cannot be analyzed, all its
columns inherit the tag. Use of a column in conditions, joins and GROUP BY does not pass the tag on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from waterclock.dpl.query.column_flow import FollowedCalls
from waterclock.dpl.query.column_trace import UNKNOWN_ORIGIN, ColumnOf, TracedColumn, trace_expression
from waterclock.dpl.query.impact import find_delivering_publishes, is_collected
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.flow.declarations import Flow, Function, Table
from waterclock.flow.enums import Kind
from waterclock.flow.personal_data import COUNTING, HIDING, NO_PII, PII, REVEALING, declared_tag


@dataclass(frozen=True, slots=True)
class PersonalColumn:
    """A column with personal data. `inputs`: the columns from which it inherits the tag; empty if it is tagged itself.

    `is_sure`: it certainly derives from the inputs; False if its origin cannot be analyzed. The column `*` represents
    columns whose names are not known. `is_tagged`: it declares the tag, and may have inputs as well.
    """

    column: ColumnOf
    inputs: tuple[ColumnOf, ...] = ()
    is_sure: bool = True
    is_tagged: bool = False


def find_followed_calls(functions: Mapping[str, Function]) -> FollowedCalls:
    """Return the functions that remove or add the tag: built-in ones, and SQL functions with the same effect."""
    ends, starts = set(HIDING | COUNTING), set(REVEALING)
    before = -1
    while before != (before := len(ends) + len(starts)):
        calls = FollowedCalls(frozenset(ends), frozenset(starts))
        for name, function in functions.items():
            if not function.body or name.lower() in ends | starts:
                continue
            origin = trace_expression(function.body, calls)
            if any(not read for read, _ in origin.inputs):
                starts.add(name.lower())
            elif origin.is_known and not origin.inputs:
                ends.add(name.lower())
    return FollowedCalls(frozenset(ends), frozenset(starts))


def list_tagged_columns(flow: Flow) -> list[ColumnOf]:
    """Return the columns that declare the tag `pii`."""
    return [
        ColumnOf(table.name, column.name)
        for table in flow.tables.values()
        for column in table.columns.named
        if declared_tag(column) == PII
    ]


def find_personal_columns(lineage: ColumnLineage, first: Collection[ColumnOf]) -> list[PersonalColumn]:
    """Return the columns `first` and all columns that inherit their tag.

    A function that hides values, or the tag `no_pii` of a column, stops the inheritance. Results of `decrypt` have the
    tag as well. `lineage` must have the `calls` of `find_followed_calls`. Parses the queries of the flow, some
    milliseconds each, but none if `first` is empty and no text calls `decrypt`.
    """
    flow = lineage.flow
    if not first and not may_reveal(flow):
        return []
    spread = _TagPropagation(lineage)
    for column in first:
        spread.found[_key(column)] = PersonalColumn(column, is_tagged=True)
    spread.run()
    return list(spread.found.values())


def find_first_columns(personal: Collection[PersonalColumn], of: PersonalColumn) -> list[ColumnOf]:
    """Return the columns from which the tag of a column originates; a function such as `decrypt` has an empty table.

    In a cycle of columns, these are the ones that declare the tag.
    """
    by_key = {_key(each.column): each for each in personal}
    found: dict[ColumnOf, None] = {}
    seen = {_key(of.column)}
    waiting = list(of.inputs)
    while waiting:
        one = waiting.pop(0)
        if _key(one) in seen:
            continue
        seen.add(_key(one))
        inputs = by_key[_key(one)].inputs if _key(one) in by_key else ()
        waiting.extend(inputs)
        if not inputs:
            found[one] = None
    return list(found) or sorted(by_key[one].column for one in seen if one in by_key and by_key[one].is_tagged)


def may_reveal(flow: Flow) -> bool:
    """Return whether the text of a query, expression or SQL function contains the name of a REVEALING function."""
    texts = [text for table in flow.tables.values() for text in table.expressions]
    texts += [table.query.text for table in flow.tables.values() if table.query is not None]
    texts += [branch.text for table in flow.tables.values() if table.query for branch in table.query.branches]
    texts += [view.query.text for view in flow.views.values()]
    texts += [function.body for function in flow.functions.values() if function.body]
    lower = "\n".join(texts).lower()
    return any(name in lower for name in REVEALING)


@dataclass(slots=True)
class _TagPropagation:
    lineage: ColumnLineage
    found: dict[tuple[str, str], PersonalColumn] = field(default_factory=dict)

    def run(self) -> None:
        flow = self.lineage.flow
        delivering = find_delivering_publishes(flow)
        names = [*flow.order, *(name for name in flow.tables if name not in flow.order)]
        before = -1
        while before != (before := len(self.found)):  # a cycle of reads needs several rounds
            for name in names:
                table = flow.tables[name]
                if table.kind is Kind.COLLECT:
                    self._visit_collect(table, delivering.get(name, ()))
                if table.kind is not Kind.COLLECT or table.each is not None:
                    self._visit(table)

    def _visit_collect(self, table: Table, publishes: Iterable[str]) -> None:
        """Add the columns of a collect whose source is a destination of the project."""
        for each in self._of_tables(publishes):
            if is_collected(table, each.column.column):
                self._add(table, each.column.column, [each.column], is_sure=each.is_sure)

    def _visit(self, table: Table) -> None:
        made = self.lineage.trace_table(table.name)
        for name, traced in made.items():
            if name != "*" or table.columns.is_open:
                self._add_traced(table, name, traced)
        known = {name.lower() for name in made}
        candidates = self._names_of_stars(table)
        for name in candidates:
            if name == "*" or name.lower() not in known:
                inputs = [one for one in self.lineage.through_star(table.name, name) if self._is_personal(one)]
                if inputs:
                    self._add(table, name, inputs, is_sure=name != "*")

    def _names_of_stars(self, table: Table) -> list[str]:
        """Return the names of columns that may be personal and come through a `*` of the table's query."""
        names = [each.column.column for each in self._of_tables(self.lineage.stars_in(table.name))]
        if table.columns.is_open:
            return list(dict.fromkeys(names))
        return [column.name for column in table.columns.named]

    def _add_traced(self, table: Table, name: str, traced: TracedColumn) -> None:
        if traced.note == UNKNOWN_ORIGIN:
            inputs = [each.column for each in self._of_tables({read.table for read in table.reads})]
            if any(not each.table for each in traced.inputs) or inputs:
                self._add(table, name, inputs, is_sure=False)
            return
        inputs = [one for one in traced.inputs if not one.table or self._is_personal(one)]
        if inputs:
            is_sure = any(one not in traced.unknown and one.column != "*" for one in inputs)
            self._add(table, name, inputs, is_sure=is_sure)

    def _add(self, table: Table, name: str, inputs: Iterable[ColumnOf], *, is_sure: bool) -> None:
        tags = {column.name.lower(): declared_tag(column) for column in table.columns.named}
        column = ColumnOf(table.name, name)
        known = self.found.get(_key(column))
        if tags.get(name.lower()) == NO_PII or (known is not None and (known.inputs or not known.is_sure)):
            return
        others = {one: sure for each in inputs for one, sure in self._expand(each) if _key(one) != _key(column)}
        if others or known is None:
            is_sure = known is not None or (is_sure and any(others.values()))
            is_tagged = known is not None and known.is_tagged
            self.found[_key(column)] = PersonalColumn(
                column, tuple(sorted(others)), is_sure=is_sure, is_tagged=is_tagged
            )

    def _expand(self, one: ColumnOf) -> list[tuple[ColumnOf, bool]]:
        """Return the personal columns that an input represents, and for each whether it certainly is personal."""
        if not one.table:
            return [(one, True)]
        if (exact := self.found.get(_key(one))) is not None:
            return [(exact.column, exact.is_sure)]
        return [
            (each.column, False) for each in self._of_tables((one.table,)) if "*" in (one.column, each.column.column)
        ]

    def _is_personal(self, one: ColumnOf) -> bool:
        if not one.table or _key(one) in self.found:
            return True
        if one.column == "*":
            return any(True for _ in self._of_tables((one.table,)))
        if (one.table, "*") not in self.found:
            return False
        table = self.lineage.flow.tables[one.table]
        known = {name.lower() for name in self.lineage.trace_table(one.table)}
        known |= {column.name.lower() for column in table.columns.named}
        return one.column.lower() not in known

    def _of_tables(self, names: Iterable[str]) -> Iterator[PersonalColumn]:
        wanted = set(names)
        yield from [each for each in self.found.values() if each.column.table in wanted]


def _key(column: ColumnOf) -> tuple[str, str]:
    return column.table, column.column.lower()
