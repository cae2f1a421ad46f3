"""Finds everything that depends on a column: the columns derived from it, and the tables whose rows it affects.

The result may contain too much, never too little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from waterclock.dpl.query.column_readers import describe_read, is_used_by_rule
from waterclock.dpl.query.column_trace import UNKNOWN_ORIGIN, ColumnOf, TracedColumn
from waterclock.dpl.query.column_uses import FILTER, VALUE, uses_in
from waterclock.dpl.query.deciding_columns import ALL, closing_columns, deciding_columns
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.flow.code_lineage import CodeLineage
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Batching, Kind
from waterclock.flow.for_each import Each

COPIED, COMPUTED, MAY = "copied", "computed", "may read"
ROWS = "rows"  # which rows the table has depends on the column
_RANK = (COPIED, COMPUTED, MAY)


@dataclass(slots=True)
class Impact:
    """The effect of a column on one table.

    - `columns`: maps the table's columns that derive from it to `copied`, `computed` or `may read`.
    - `uses`: `filter`, `join`, `group`, `sort`, `window`, `value` (in the query, but for no known column), `reference`,
      `rows` (it decides which rows the table has), or `may read` (the use cannot be determined).
    - `through`: the input tables through which the effect reaches the table.
    - `why`: the reasons for `may read`, in words.
    """

    table: str
    columns: dict[str, str] = field(default_factory=dict)
    uses: set[str] = field(default_factory=set)
    through: set[str] = field(default_factory=set)
    why: set[str] = field(default_factory=set)

    @property
    def is_sure(self) -> bool:
        """True if the table certainly depends on the column, False if it may."""
        return bool(self.uses - {MAY}) or any(how != MAY for how in self.columns.values())

    def put(self, column: str, how: str) -> None:
        """Add a column that derives from the traced one; if it is known already, keep the less direct `how`."""
        before = self.columns.get(column, COPIED)
        self.columns[column] = max(before, how, key=_RANK.index)

    def size(self) -> tuple[object, ...]:
        """Return a value that changes whenever a column, use, input table or reason is added."""
        return (tuple(self.columns.items()), len(self.uses), len(self.through), len(self.why))


def impact_of(lineage: ColumnLineage, of: ColumnOf) -> tuple[Impact, ...]:
    """Return the effects of a column on all tables and publishes that depend on it, in the order of the flow.

    A column that a publish delivers also affects the collects of the project that read the delivered data.
    Parses each query downstream, some milliseconds each, once more for each cycle of reads.
    """
    flow = lineage.flow
    found = {of.table: Impact(of.table, {of.column: COPIED})}
    delivered = find_delivering_publishes(flow)
    names = [*flow.order, *(name for name in flow.tables if name not in flow.order)]
    deciding = {name: deciding_columns(table) for name, table in flow.tables.items()}
    size: object = None
    while size != (size := [each.size() for each in found.values()]):
        for name in names:
            table = flow.tables[name]
            for read in dict.fromkeys((*(each.table for each in table.reads), *delivered.get(name, ()))):
                if read in found:
                    _ImpactReader(lineage, table, found).propagate(found[read])
            for column in table.columns.named:
                reference = column.references
                if reference is not None and reference.table in found:
                    known = {each.lower() for each in found[reference.table].columns}
                    if known & {each.lower() for each in reference.columns}:
                        _impact_on(found, name, reference.table).uses.add("reference")
            if name in found and _decides_rows(found[name], deciding[name]):
                found[name].uses.add(ROWS)
    root = found.pop(of.table)
    if of.table in root.through:  # it reads itself
        root.columns.pop(of.column, None)
        found = {of.table: root, **found}
    return tuple(each for each in found.values() if each.columns or each.uses)


def _decides_rows(at: Impact, deciding: frozenset[str]) -> bool:
    """Return whether a column that is certainly affected is one of `deciding`, which decide the table's rows."""
    sure = {column.lower() for column, how in at.columns.items() if how != MAY}
    return bool(sure & deciding) or (bool(sure) and ALL in deciding)


def _impact_on(found: dict[str, Impact], name: str, through: str) -> Impact:
    at = found.setdefault(name, Impact(name))
    at.through.add(through)
    return at


def find_delivering_publishes(flow: Flow) -> Mapping[str, tuple[str, ...]]:
    """Map each collect to the publishes of the project that write to its source."""
    by: dict[str, tuple[str, ...]] = {}
    for name, table in flow.tables.items():
        unit = table.source.unit if table.source else None
        if unit is None:
            continue
        by[name] = tuple(
            other.name
            for other in flow.tables.values()
            if (to := other.destination) is not None
            and to.connection == unit.connection
            and (to.path == unit.path or (to.path and to.path.lower() in (unit.query or "").lower()))
        )
    return by


def is_collected(collect: Table, column: str) -> bool:
    """Return whether a collect reads a column that a publish delivers to its source.

    A publish to a form inserts keys. Its other columns are hints for people, and not part of the rows.
    """
    is_form = collect.source is not None and collect.source.batching is Batching.AS_OF
    names = {each.name.lower() for each in collect.columns.named if each.is_key or not is_form}
    return column.lower() in names or collect.columns.is_open


@dataclass(slots=True)
class _ImpactReader:
    """Propagates the effects of a column from a table to one of its readers, `table`."""

    lineage: ColumnLineage
    table: Table
    found: dict[str, Impact]

    def propagate(self, read: Impact) -> None:
        for column, how in list(read.columns.items()):
            self._propagate_column(read.table, column, how)
        if read.uses or MAY in read.columns.values():
            at = _impact_on(self.found, self.table.name, read.table)
            at.uses.add(ROWS if read.is_sure else MAY)
            if not read.is_sure:
                at.why.add(f"{read.table} may read it")

    def _propagate_column(self, read: str, column: str, how: str) -> None:
        if self.table.each is not None:
            self._propagate_request_parameter(read, column, how, self.table.each)
            return
        if self.table.kind is Kind.COLLECT:
            self._propagate_to_collect(read, column, how)
            return
        if is_used_by_rule(self.table, read, column):
            _impact_on(self.found, self.table.name, read).uses.add(FILTER)
        if (read, column.lower()) in closing_columns(self.table):
            _impact_on(self.found, self.table.name, read).uses.add(ROWS)
        known = describe_read(self.table, column, read)
        made = list(self._find_derived_columns(read, column))
        shown = self.lineage.of_code.get(self.table.name)
        if self.table.function is not None and shown is not None:
            self._propagate_through_code(read, column, how, made, shown)
            return
        if self.table.function is not None or (known and known.endswith("cannot be looked into")):
            self._add_uncertain_use(read, known or "its function cannot be looked into")
            return
        for name, one in made:
            if name == "*":
                self._add_uncertain_use(read, one.note or "by *")
            else:
                self._add_column(read, name, max(how, _derivation(one, column), key=_RANK.index))
        for name, one in self.lineage.trace_table(self.table.name).items() if known else ():
            if one.note == UNKNOWN_ORIGIN and name != "*":
                self._add_column(read, name, MAY)
        if self.table.query is not None:
            self._add_uses(read, column, known, is_made=bool(made))

    def _propagate_through_code(
        self, read: str, column: str, how: str, made: Sequence[tuple[str, TracedColumn]], shown: CodeLineage
    ) -> None:
        for name, one in made:
            sure = [each for each in one.inputs if each not in one.unknown and _is_column(each, read, column)]
            self._add_column(read, name, max(how, (_derivation(one, column) if sure else MAY), key=_RANK.index))
        for use, of in shown.uses.items():
            if any(table == read and name.lower() in {column.lower(), "*"} for table, name in of):
                if use == MAY:
                    why = sorted({why for origin in shown.columns.values() for why in origin.why})
                    self._add_uncertain_use(read, f"{', '.join(why) or 'its code'} cannot be looked into")
                else:
                    _impact_on(self.found, self.table.name, read).uses.add(use)

    def _add_uses(self, read: str, column: str, known: str, *, is_made: bool) -> None:
        query = self.table.query
        uses = uses_in(query, read, column) if query is not None else frozenset()
        if other_uses := uses - {VALUE}:
            _impact_on(self.found, self.table.name, read).uses |= other_uses
        elif uses and not is_made:
            _impact_on(self.found, self.table.name, read).uses.add(VALUE)
        elif known and known != "by its name" and not is_made:
            self._add_uncertain_use(read, f"{known}, and the query alone does not show its further use")
        if is_made or known or not self._has_unknown_origins():
            return
        self._add_uncertain_use(read, "the query alone does not show which columns it is made of")

    def _propagate_request_parameter(self, read: str, column: str, how: str, each: Each) -> None:
        """Propagate a column of the FOR EACH table. If it is a request parameter, the collected rows contain it."""
        if column.lower() in {name.lower() for name in each.parameters}:
            named = {it.name.lower(): it.name for it in self.table.columns.named}
            self._add_column(read, named.get(column.lower(), column), how)
            _impact_on(self.found, self.table.name, read).uses.add(ROWS)

    def _propagate_to_collect(self, read: str, column: str, how: str) -> None:
        named = {each.name.lower(): each.name for each in self.table.columns.named}
        if is_collected(self.table, column):
            self._add_column(read, named.get(column.lower(), column), how)

    def _find_derived_columns(self, read: str, column: str) -> Iterator[tuple[str, TracedColumn]]:
        of = ColumnOf(read, column)
        made = self.lineage.trace_table(self.table.name)
        for name, one in made.items():
            if any(each.table == read and each.column.lower() in {column.lower(), "*"} for each in one.inputs):
                yield name, one
        is_by_star = read in self.lineage.stars_in(self.table.name) and self.lineage.is_included_by_star(read, column)
        if is_by_star and column.lower() not in {name.lower() for name in made}:
            yield column, TracedColumn(column, (of,))

    def _has_unknown_origins(self) -> bool:
        """Return whether the table has columns of unknown origin, which may derive from any column that it reads."""
        return any(one.note == UNKNOWN_ORIGIN for one in self.lineage.trace_table(self.table.name).values())

    def _add_column(self, read: str, column: str, how: str) -> None:
        _impact_on(self.found, self.table.name, read).put(column, how)

    def _add_uncertain_use(self, read: str, why: str) -> None:
        at = _impact_on(self.found, self.table.name, read)
        at.uses.add(MAY)
        at.why.add(why)


def _is_column(one: ColumnOf, table: str, column: str) -> bool:
    return one.table == table and one.column.lower() == column.lower()


def _derivation(made: TracedColumn, column: str) -> str:
    if made.how:
        return COPIED if made.how == COPIED else COMPUTED
    if made.note and not made.expression:
        return MAY
    is_plain = len(made.inputs) == 1 and made.expression.rpartition(".")[2].strip().lower() == column.lower()
    return COPIED if is_plain else COMPUTED
