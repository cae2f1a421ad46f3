"""Builds OpenLineage facets of a table's columns: their types, and the input columns from which each is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import sqlglot
from openlineage.client.facet_v2 import column_lineage_dataset, schema_dataset
from sqlglot import exp
from sqlglot.errors import SqlglotError

from waterclock.dpl.project import Project
from waterclock.dpl.query.column_trace import UNKNOWN_ORIGIN, ColumnOf, TracedColumn
from waterclock.dpl.query.column_uses import FILTER, GROUP, JOIN, SORT, VALUE, WINDOW, uses_of
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.errors import WaterclockError
from waterclock.flow.code_lineage import AGGREGATED, COPIED
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger import Ledger
from waterclock.operations.lineage import column_lineage_of
from waterclock.operations.project_opening import columns_stored
from waterclock.timelabel.label import TIMELABEL

_SUBTYPES = {FILTER: "FILTER", JOIN: "JOIN", GROUP: "GROUP_BY", SORT: "SORT", WINDOW: "WINDOW"}
_DIRECT, _INDIRECT = "DIRECT", "INDIRECT"


@dataclass(slots=True)
class ColumnFacets:
    """Builds the column facets of a project's tables, each only once, as they depend only on the code.

    Cost: for each table, the first event parses its query and reads its Delta log, which takes some milliseconds.
    """

    project: Project
    namespace: str
    ledger: Ledger | None = None
    _lineage: ColumnLineage | None = None
    _lineages: dict[str, column_lineage_dataset.ColumnLineageDatasetFacet | None] = field(default_factory=dict)
    _schemas: dict[str, schema_dataset.SchemaDatasetFacet | None] = field(default_factory=dict)

    def lineage_of(self, table: Table) -> column_lineage_dataset.ColumnLineageDatasetFacet | None:
        """Return the input columns of each column, and those that select rows; None for a collect.

        If a Python transform or a query cannot be analyzed, each column depends on all inputs, with a reason. The
        lineage may contain too many inputs, but never too few.
        """
        if table.name not in self._lineages:
            self._lineages[table.name] = None if table.kind is Kind.COLLECT else self._facet(table)
        return self._lineages[table.name]

    def schema_of(self, table: Table) -> schema_dataset.SchemaDatasetFacet | None:
        """Return the columns of a table with their types after the last run, or None if they are unknown."""
        if table.name not in self._schemas:
            known = columns_stored(self.project, [table.name]).get(table.name, {})
            fields = [schema_dataset.SchemaDatasetFacetFields(name, kind) for name, kind in known.items()]
            self._schemas[table.name] = schema_dataset.SchemaDatasetFacet(fields) if fields else None
        return self._schemas[table.name]

    @property
    def lineage(self) -> ColumnLineage:
        """The lineage of all columns of the project."""
        if self._lineage is None:
            self._lineage = column_lineage_of(self.project, self.ledger)
        return self._lineage

    def _facet(self, table: Table) -> column_lineage_dataset.ColumnLineageDatasetFacet | None:
        stored = columns_stored(self.project, [table.name]).get(table.name, {})
        names = {name.lower(): name for name in (*stored, *self.lineage.columns(table.name))}
        fields = {
            name: column_lineage_dataset.Fields(list(self._inputs(table, name)))
            for name in names.values()
            if name not in {"*", TIMELABEL}
        }
        if not fields:
            return None
        return column_lineage_dataset.ColumnLineageDatasetFacet(fields, dataset=list(self._list_indirect_inputs(table)))

    def _inputs(self, table: Table, name: str) -> Iterator[column_lineage_dataset.InputField]:
        try:
            made = self.lineage.trace_column(ColumnOf(table.name, name))
        except WaterclockError:  # a former column that the query no longer has
            return
        everything = tuple(ColumnOf(read.table, "*") for read in table.reads) if made.note == UNKNOWN_ORIGIN else ()
        sure = [each for each in made.inputs if each not in made.unknown]
        columns = dict.fromkeys(
            column for each in (*sure, *made.inputs, *everything) for column in self._columns_of(each)
        )
        for each in columns:
            subtype = "TRANSFORMATION" if everything else _subtype(made, each, name)
            description = made.note or made.expression or None
            description = f"maybe, {description}" if description and each not in sure and made.unknown else description
            how = column_lineage_dataset.Transformation(_DIRECT, subtype, description)
            yield column_lineage_dataset.InputField(self.namespace, each.table, each.column, [how])

    def _columns_of(self, of: ColumnOf) -> tuple[ColumnOf, ...]:
        if of.column != "*":
            return (of,)
        stored = columns_stored(self.project, [of.table]).get(of.table, {})
        known = {name.lower(): name for name in (*stored, *self.lineage.columns(of.table))}
        return tuple(ColumnOf(of.table, name) for name in known.values() if name not in {"*", TIMELABEL})

    def _list_indirect_inputs(self, table: Table) -> Iterator[column_lineage_dataset.InputField]:
        """Yield the input columns that filter, join, group, sort or number the rows of a table."""
        shown = self.lineage.of_code.get(table.name)
        for use, of in sorted(shown.uses.items()) if shown is not None else ():
            for each in dict.fromkeys(one for column in sorted(of) for one in self._columns_of(ColumnOf(*column))):
                how = column_lineage_dataset.Transformation(_INDIRECT, _SUBTYPES.get(use, "CONDITIONAL"))
                yield column_lineage_dataset.InputField(self.namespace, each.table, each.column, [how])
        query = table.query
        for read in dict.fromkeys(read.table for read in table.reads) if query is not None else ():
            uses = {} if query is None else uses_of(query, read)
            for column in self.lineage.columns(read):
                for use in sorted(uses.get(column.lower(), set()) - {VALUE}):
                    how = column_lineage_dataset.Transformation(_INDIRECT, _SUBTYPES[use])
                    yield column_lineage_dataset.InputField(self.namespace, read, column, [how])


def _subtype(made: TracedColumn, of: ColumnOf, name: str) -> str:
    if made.how:
        return {COPIED: "IDENTITY", AGGREGATED: "AGGREGATION"}.get(made.how, "TRANSFORMATION")
    plain = made.expression.rpartition(".")[2].strip().lower()
    if len(made.inputs) == 1 and plain and plain == of.column.lower():
        return "IDENTITY"
    try:
        parsed = sqlglot.parse_one(made.expression or name, dialect="databricks")
    except (SqlglotError, ValueError, RecursionError):
        return "TRANSFORMATION"
    return "AGGREGATION" if parsed.find(exp.AggFunc) is not None else "TRANSFORMATION"
