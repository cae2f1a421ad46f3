"""Finds the tables that read a column: by its name anywhere in a query, by a *, or by code that cannot be analyzed.

The result may contain too many readers, never too few. A `*` counts even if an outer query drops the column, and a name
counts even if it may be another table's column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from waterclock.dpl.query.splice import splice
from waterclock.dpl.syntax.tokens import parse_query_text
from waterclock.flow.declarations import Flow, Query, Table, TableReference
from waterclock.flow.enums import Kind
from waterclock.flow.flats import flats_of

_DIALECT = "databricks"


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """A table or publish that reads a column. `how` describes the way in words, such as "by its name" or "by *"."""

    table: Table
    how: str

    def __str__(self) -> str:
        word = "the publish " if self.table.kind is Kind.PUBLISH else ""
        return f"{word}{self.table.name} ({self.how})"


def readers_of(flow: Flow, table: str, column: str) -> tuple[ColumnReader, ...]:
    """Return all direct readers of a table's column. Parses each query that reads the table."""
    found = []
    for reader in flow.tables.values():
        if any(read.table == table for read in reader.reads):
            how = describe_read(reader, column, table) or (
                "by a rule" if is_used_by_rule(reader, table, column) else ""
            )
            found += [ColumnReader(reader, how)] if how else []
    found += [
        ColumnReader(each, "REFERENCES it")
        for each in flow.tables.values()
        for referring in each.columns.named
        if referring.references is not None
        and referring.references.table == table
        and column.lower() in {name.lower() for name in referring.references.columns}
    ]
    return tuple(found)


def is_used_by_rule(reader: Table, table: str, column: str) -> bool:
    """Return whether a rule of `reader` on its input `table` uses the column."""
    rules = [rule for rule in reader.input_rules if rule.of == table]
    trees: list[Any] = [exp.maybe_parse(rule.expression, dialect=_DIALECT) for rule in rules]
    named = (part for tree in trees for node in tree.find_all(exp.Column) for part in node.parts)
    return any(part.name.lower() == column.lower() for part in named)


def describe_read(reader: Table, column: str, table: str) -> str:
    """Describe in words how `reader` reads a column of `table`: "by its name", "by *"; empty if it does not read it."""
    column = column.lower()
    if reader.kind is Kind.PUBLISH:
        sent = ((each.made_as.columns if each.made_as else (each.name,)) for each in reader.columns.named)
        named = {name.lower() for names in sent for name in names}
        is_sent = reader.columns.is_open and column not in {name.lower() for name in reader.columns.left_out}
        return "by its name" if column in named else "by *" if is_sent else ""
    if reader.function is not None:
        return f"{reader.function.name}() cannot be looked into"
    queries = [reader.query] if reader.query is not None else []
    return next(
        (
            how
            for query in queries
            for part in query.branches or (query,)
            if (how := _describe_read_in_query(part, column, table))
        ),
        "",
    )


def _describe_read_in_query(query: Query, column: str, table: str) -> str:
    if any(read.table == table for flat in flats_of(query) for read in flat.included_reads):
        return "by FLAT"
    left_out = [column in map(str.lower, each.left_out) for each in _references(query, table)]
    if left_out and all(left_out):
        return ""
    text = splice(query, lambda _: "wc_read").text
    try:
        tree = parse_query_text(text)
    except (SqlglotError, ValueError, RecursionError):
        return "its query cannot be looked into"
    nodes = list(tree.walk())
    names = [node for node in nodes if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)]
    names = [node for node in names if not isinstance(node.parent, exp.Star)]  # EXCEPT leaves it out
    if any(part.name.lower() == column for node in names for part in node.parts):
        return "by its name"
    if any(isinstance(node, exp.Join) and column in _list_using_columns(node) for node in nodes):
        return "by its name"
    return "by *" if any(_has_column(star, column) for star in nodes if isinstance(star, exp.Star)) else ""


def _references(query: Query, table: str) -> Iterator[TableReference]:
    """Yield each reference of a query to a table, including those inside its views."""
    for reference in query.tables:
        if reference.read is not None and reference.read.table == table:
            yield reference
        if reference.view is not None:
            yield from _references(reference.view, table)


def _list_using_columns(join: exp.Join) -> Iterator[str]:
    return (name.name.lower() for name in join.args.get("using") or ())


def _has_column(star: exp.Star, column: str) -> bool:
    """Return whether a `*` includes a column, if the table has it; `count(*)` does not."""
    if isinstance(star.parent, exp.Count):
        return False
    left_out = star.args.get("except_") or star.args.get("except") or ()
    return column not in {each.name.lower() for each in left_out}
