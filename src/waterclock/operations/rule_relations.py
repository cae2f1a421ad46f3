"""The relations that rules of the project can query: the declarations of a flow, and the tables of its ledger.

The rows of a relation are computed when a rule reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from waterclock.dpl.resolve.connections import PROJECT
from waterclock.flow.checks import every_rule, rules_without_expression
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.dpl.query.lineage import ColumnLineage
    from waterclock.ledger.ledger import Ledger

SqlValue = str | int | float | None
LEDGER_RELATIONS = ("batches", "measures", "measured_spans", "inputs", "events")
"""The tables of the ledger, as in `waterclock query`. Their column `table` is called `table_name` in rules."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation: its columns with their descriptions, and the function that yields its rows in their order."""

    description: str
    columns: Mapping[str, str]
    rows: Callable[[ProjectFacts], Iterable[tuple[SqlValue, ...]]]


@dataclass(frozen=True)
class ProjectFacts:
    """A project, from which the rows of relations are computed. `connect`: read a ledger on a server too."""

    project: Project
    connect: bool = False

    @property
    def flow(self) -> Flow:
        """The flow of the project."""
        return self.project.flow

    @cached_property
    def lineage(self) -> ColumnLineage:
        """The lineage of the columns, from the declarations and the stored columns of collects."""
        from waterclock.dpl.query.lineage import ColumnLineage
        from waterclock.operations.project_opening import columns_collected

        return ColumnLineage(self.flow, columns_collected(self.project))


def _list_tables(facts: ProjectFacts) -> Iterator[tuple[SqlValue, ...]]:
    for name, table in facts.flow.tables.items():
        unit = table.destination if table.source is None else table.source.unit
        about = table.about
        yield (
            name, name.partition(".")[0], str(table.kind), str(table.type), str(table.mode), str(table.cadence),
            about.owner, about.comment, None if unit is None else unit.connection, None if unit is None else unit.path,
            None if table.retain is None else str(table.retain), ", ".join(table.keys) or None, str(table.place),
        )  # fmt: skip


def _list_columns(facts: ProjectFacts) -> Iterator[tuple[SqlValue, ...]]:
    for name, table in facts.flow.tables.items():
        declared = {column.name.lower(): column for column in table.columns.named}
        traced = [column for column in facts.lineage.columns(name) if column != "*"]
        for known in dict.fromkeys([*traced, *(each.name for each in declared.values() if each.is_hidden)]):
            column = declared.get(known.lower())
            if column is None:
                yield name, known, None, None, 0, 0, 0, None, str(table.place)
            else:
                yield (
                    name, known, column.type, column.comment, int(column.is_key), int(column.is_not_null),
                    int(column.is_hidden), column.subject, str(column.place),
                )  # fmt: skip


def _list_tags(facts: ProjectFacts) -> Iterator[tuple[SqlValue, ...]]:
    for name, table in facts.flow.tables.items():
        yield from ((name, None, tag.lower(), str(table.place)) for tag in table.about.tags)
        for column in table.columns.named:
            yield from ((name, column.name, tag.lower(), str(column.place)) for tag in column.tags)


def _list_reads(facts: ProjectFacts) -> Iterator[tuple[SqlValue, ...]]:
    for name, table in facts.flow.tables.items():
        yield from ((name, read.table, str(read.kind), str(table.place)) for read in table.reads)


def _list_publishes(facts: ProjectFacts) -> Iterator[tuple[SqlValue, ...]]:
    for name, table in facts.flow.tables.items():
        if table.kind is Kind.PUBLISH and table.destination is not None:
            yield name, table.reads[0].table, table.destination.connection, table.destination.path, str(table.place)


def _list_connections(facts: ProjectFacts) -> Iterator[tuple[SqlValue, ...]]:
    for name, each in facts.flow.connections.items():
        if name != PROJECT:  # declared implicitly
            yield name, each.type, each.about.owner, each.about.comment, str(each.place)


def _list_expectations(facts: ProjectFacts) -> Iterator[tuple[SqlValue, ...]]:
    for name, table in facts.flow.tables.items():
        for rule in (*every_rule(table), *rules_without_expression(table)):
            yield name, rule.name, rule.expression, str(rule.action), rule.of or None, str(rule.place)


def _list_column_lineage(facts: ProjectFacts) -> Iterator[tuple[SqlValue, ...]]:
    for name, table in facts.flow.tables.items():
        for column, made in facts.lineage.trace_table(name).items():
            for origin in made.inputs:
                is_unknown = int(origin in made.unknown)
                yield name, column, origin.table, origin.column, is_unknown, _column_place(table, column)


def _column_place(table: Table, name: str) -> str:
    found = (column.place for column in table.columns.named if column.name.lower() == name.lower())
    return str(next(found, table.place))


_TABLE, _PLACE = "The table.", "The place of its declaration, as file:line:column."
RELATIONS: Mapping[str, Relation] = {
    "tables": Relation(
        "The tables and destinations of the flow.",
        {
            "name": "The name, such as `marts.daily`.", "schema_name": "The part of the name before the point.",
            "kind": "`collect`, `transform` or `publish`.", "type": "`regular` or `partitioned`.",
            "mode": "`append`, `replace`, `merge` or `temporal`.", "cadence": "The cadence, such as `EVERY DAY`.",
            "owner": "OWNER.", "comment": "COMMENT.",
            "connection": "The connection of a collect or publish.", "path": "The source or destination in it.",
            "retain": "RETAIN.", "keys": "The columns of the KEY, separated by `, `.", "place": _PLACE,
        },
        _list_tables,
    ),
    "columns": Relation(
        "The known columns: those of column lists and of queries, and of collects that ran before.",
        {
            "table_name": _TABLE, "name": "The column.", "type": "The declared type.", "comment": "COMMENT.",
            "is_key": "1 if it is a column of the KEY.", "is_not_null": "1 with NOT NULL.",
            "is_hidden": "1 with HIDDEN.", "subject": "SUBJECT.",
            "place": "The place of the column's declaration, or else of the table's.",
        },
        _list_columns,
    ),
    "tags": Relation(
        "The TAGS of tables and columns, in lower case.",
        {"table_name": _TABLE, "column_name": "The column; NULL for a tag of the table.", "tag": "The tag.",
         "place": _PLACE},
        _list_tags,
    ),
    "reads": Relation(
        "The inputs of tables and destinations.",
        {"table_name": "The reader.", "input": "The table that it reads.",
         "kind": "`plain`, `past`, `previous` or another kind of read.", "place": "The place of the reader."},
        _list_reads,
    ),
    "publishes": Relation(
        "The destinations.",
        {"name": "The name of the publish.", "input": "The published table.", "connection": "The connection.",
         "path": "The table, folder or topic in it.", "place": _PLACE},
        _list_publishes,
    ),
    "connections": Relation(
        "The connections.",
        {"name": "The name.", "type": "The type, such as `postgres`.", "owner": "OWNER.", "comment": "COMMENT.",
         "place": _PLACE},
        _list_connections,
    ),
    "expectations": Relation(
        "The rules on rows and batches: EXPECT, and checks of references and of lines that cannot be parsed.",
        {"table_name": _TABLE, "name": "The name of the rule.", "expression": "The condition.",
         "action": "The action, such as `fail`.", "input": "The input whose rows are checked; NULL for own rows.",
         "place": "The place of the rule."},
        _list_expectations,
    ),
    "column_lineage": Relation(
        "The direct origins of columns, from the text of queries. `*` stands for columns that are not known.",
        {"table_name": _TABLE, "column_name": "The column.", "input": "The table that it comes from.",
         "input_column": "The column that it comes from.", "is_unknown": "1 if it only may come from there.",
         "place": "The place of the column's declaration, or else of the table's."},
        _list_column_lineage,
    ),
}  # fmt: skip


def ledger_relation(name: str) -> Relation:
    """Return a relation with the rows of a table of the ledger. Without a ledger that can be read, it is empty."""
    from waterclock.ledger.read.status import STATUS_TABLES  # imports SQLAlchemy

    types = STATUS_TABLES[name]

    def rows(facts: ProjectFacts) -> Iterable[tuple[SqlValue, ...]]:
        from waterclock.engine.ledger_opening import ledger_url
        from waterclock.operations.read_only_ledger import read_ledger

        def read(ledger: Ledger) -> list[tuple[SqlValue, ...]]:
            found = ledger.past.columns(name, list(types), [])
            return [tuple(map(_plain, row)) for row in zip(*found.values(), strict=True)]

        return read_ledger(ledger_url(facts.project), read, connect=facts.connect) or []

    columns = {"table_name" if column == "table" else column: kind for column, kind in types.items()}
    return Relation(f"`waterclock.{name}` of the ledger.", columns, rows)


def _plain(value: object) -> SqlValue:
    """Convert a value of the ledger for SQLite: times become `2026-11-01T00:00:00Z`."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value if value is None or isinstance(value, str | int | float) else str(value)
