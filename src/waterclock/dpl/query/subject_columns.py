"""Finds the columns whose values identify persons of a subject: declared ones, and copies of these by lineage."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from waterclock.dpl.query.column_trace import ColumnOf, TracedColumn
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.errors import WaterclockError
from waterclock.flow.apart import LINK, Apart, apart_of
from waterclock.flow.code_lineage import COPIED
from waterclock.flow.declarations import Flow

_NAME = re.compile(r"[\w`]+(\.[\w`]+)*")
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SubjectColumns:
    """The columns of each table that contain the values of a subject.

    `unsearchable` maps tables that are made from rows of persons to the reason why these are not found in them.
    `pseudonyms` maps tables with APART, which have no value of the persons, to the column that replaces it.
    """

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unsearchable: Mapping[str, str] = field(default_factory=dict)
    pseudonyms: Mapping[str, str] = field(default_factory=dict)


def list_subjects(flow: Flow) -> dict[str, list[ColumnOf]]:
    """Map each declared subject to the columns that declare it."""
    found: dict[str, list[ColumnOf]] = {}
    for table in flow.tables.values():
        for column in table.columns.named:
            if column.subject is not None:
                found.setdefault(column.subject, []).append(ColumnOf(table.name, column.name))
    return found


def find_subject_columns(lineage: ColumnLineage, declared: Collection[ColumnOf]) -> SubjectColumns:
    """Find all columns of a subject: those that declare it, and copies of them in either direction of the lineage.

    A column is a copy if its expression is the name of one input column; of a union, if this is so in each part and all
    these columns are of the subject. Parses the queries of the flow, some milliseconds each.
    """
    search = _Search(lineage)
    for column in declared:
        search.add(column)
    search.spread()
    columns: dict[str, list[str]] = {}
    for column in search.found.values():
        columns.setdefault(column.table, []).append(column.column)
    for table, name in search.list_moved_columns():
        columns.setdefault(table, []).append(name)
    unsearchable = search.find_unsearchable()
    return SubjectColumns(
        {table: tuple(names) for table, names in columns.items()}, unsearchable, search.find_pseudonyms(unsearchable)
    )


@dataclass(slots=True)
class _Search:
    lineage: ColumnLineage
    found: dict[_Key, ColumnOf] = field(default_factory=dict)

    def add(self, column: ColumnOf) -> None:
        self.found.setdefault((column.table, column.column.lower()), column)

    def spread(self) -> None:
        """Add copies until there are no more."""
        before = -1
        while before != (before := len(self.found)):
            for table in self.lineage.flow.tables:
                self._add_late_rows(table)
                for name, made in self._trace(table):
                    key = (table, name.lower())
                    copied = copied_columns(made)
                    if key in self.found and len(copied) == 1:
                        self.add(copied[0])
                    elif key not in self.found and copied and all(self._is_found(each) for each in copied):
                        self.add(ColumnOf(table, name))

    def _add_late_rows(self, table: str) -> None:
        """Add the columns of a table of late rows, which has those of the table that closed its windows."""
        late = self.lineage.flow.tables[table].late_rows
        if late is not None:
            for column in [each for each in self.found.values() if each.table == late.of]:
                self.add(ColumnOf(table, column.column))

    def find_unsearchable(self) -> dict[str, str]:
        """Return the tables that read rows of persons, and have no column by which these are found."""
        flow, tables = self.lineage.flow, {table for table, _ in self.found}
        reasons = self._find_origins(tables)
        touched = tables | set(reasons)
        before = -1
        while before != (before := len(touched)):
            for name, table in flow.tables.items():
                sources = sorted({read.table for read in table.reads if read.table in touched and read.table != name})
                if not sources or name in tables or name in reasons:
                    continue
                computed = [column for column, made in self._trace(name) if any(map(self._is_found, made.inputs))]
                if (apart := self._find_apart(name)) is not None:
                    computed = [column for column in computed if column not in {apart.pseudonym, LINK}]
                    if not computed:
                        continue  # its rows cannot be assigned to a person
                touched.add(name)
                why = f"{', '.join(computed)} is computed" if computed else "no column identifies the person"
                reasons[name] = f"made from {', '.join(sources)}; {why}"
        return reasons

    def _find_origins(self, tables: set[str]) -> dict[str, str]:
        """Return the tables from which a column of the subject is computed, and those that these are made from."""
        flow, reasons = self.lineage.flow, dict[str, str]()
        for name in tables:
            for column, made in self._trace(name):
                if (name, column.lower()) not in self.found or copied_columns(made):
                    continue
                for origin in made.inputs:
                    if origin.table and origin.table not in tables:
                        reasons.setdefault(origin.table, f"{name}.{column} is computed from its column {origin.column}")
        waiting = list(reasons)
        while waiting:
            name = waiting.pop()
            for read in flow.tables[name].reads if name in flow.tables else ():
                if read.table not in tables and read.table not in reasons:
                    reasons[read.table] = f"{name} is made from it, and {reasons[name]}"
                    waiting.append(read.table)
        return reasons

    def find_pseudonyms(self, unsearchable: Mapping[str, str]) -> dict[str, str]:
        """Return the tables with a pseudonym of the persons and no other value of them, each with that column."""
        tables = {table for table, _ in self.found} | set(unsearchable)
        kept = {name: self._find_apart(name) for name in self.lineage.flow.tables if name not in tables}
        return {name: apart.pseudonym for name, apart in kept.items() if apart is not None}

    def list_moved_columns(self) -> Iterator[_Key]:
        """Yield the tables with APART and the column that they keep apart: slices from before APART still have it."""
        for name in self.lineage.flow.tables:
            apart = self._find_apart(name)
            if apart is not None:
                yield name, apart.subject_column

    def _find_apart(self, table: str) -> Apart | None:
        """Return the APART of a table if it keeps a searched column apart; else None."""
        apart = self.lineage.flow.tables[table].apart
        is_of_subject = apart is not None and self._is_found(ColumnOf(apart_of(table), apart.subject_column))
        return apart if is_of_subject else None

    def _is_found(self, column: ColumnOf) -> bool:
        return (column.table, column.column.lower()) in self.found

    def _trace(self, table: str) -> Iterator[tuple[str, TracedColumn]]:
        """Yield the columns of a table with their direct origins, also those that come through a `*`."""
        names = {name.lower(): name for name in (*self.lineage.columns(table), *self.lineage.trace_table(table))}
        for star in self.lineage.stars_in(table):
            names |= {column.column.lower(): column.column for column in self.found.values() if column.table == star}
        for name in names.values():
            if name == "*":
                continue
            try:
                yield name, self.lineage.trace_column(ColumnOf(table, name))
            except WaterclockError:
                continue  # a column that a `*` does not include


def copied_columns(made: TracedColumn) -> tuple[ColumnOf, ...]:
    """Return the columns of which a column is a copy; none if it is computed, or if that is not known."""
    if made.unknown or not made.inputs or any(each.column == "*" or not each.table for each in made.inputs):
        return ()
    if made.how:
        return made.inputs if made.how == COPIED and len(made.inputs) == 1 else ()
    if made.is_computed:
        return ()
    parts = made.expression.split(", ")
    return made.inputs if all(_NAME.fullmatch(part) for part in parts) else ()
