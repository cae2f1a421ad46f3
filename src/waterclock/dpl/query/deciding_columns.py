"""Finds the columns that decide which rows a table keeps, by its rules, keys and mode. Its query is not considered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from waterclock.flow.declarations import Column, Table
from waterclock.flow.enums import ReadKind
from waterclock.flow.rule_actions import find_row_action

ALL = "*"
_DIALECT = "databricks"


def deciding_columns(table: Table) -> frozenset[str]:
    """Return the columns of a table, in lower case, that decide which rows it keeps; `*` represents all columns.

    These are the columns in rules that drop or quarantine rows, and in the key, ORDER BY and DELETE WHEN of MERGE or
    TEMPORAL.
    """
    found = [*_deciding_columns_of_fold(table)]
    for column in table.columns.named:
        found += _deciding_columns_of_column(table, column)
    for rule in table.rules:
        if find_row_action(rule.actions):
            found += _columns_in(rule.expression)
    return frozenset(name.lower() for name in found)


def closing_columns(table: Table) -> frozenset[tuple[str, str]]:
    """Return the (table, lower-case column) pairs in a CLOSE WHEN, which decide which late rows a batch reads."""
    closes = table.closes
    if closes is None:
        return frozenset()
    found = {(mark.table, name) for mark in closes.marks for name in (mark.column, *mark.parts)}
    until = [read.table for read in table.reads if read.kind is ReadKind.UNTIL]
    found |= {(name, column) for name in until for column in _columns_in(closes.expression)}
    return frozenset((name, column.lower()) for name, column in found)


def _deciding_columns_of_fold(table: Table) -> Iterator[str]:
    fold = table.fold
    if fold is None:
        return
    yield from (*fold.keys, *fold.order_by)
    yield from _columns_in(fold.delete_when or "")
    if table.temporal is not None:  # a change of an attribute makes a version
        yield from (table.temporal.at or "", *(table.temporal.track or (ALL,)))


def _deciding_columns_of_column(table: Table, column: Column) -> Iterator[str]:
    reference = column.references.otherwise if column.references is not None else ()
    if any(map(find_row_action, (column.else_of_type, column.else_of_null, reference))):
        yield column.name
    if find_row_action(column.else_of_key):
        yield from table.columns.keys
    if column.key_options is not None:
        yield from (order.column for order in column.key_options.order)
    for rule in column.rules:
        if find_row_action(rule.actions):
            yield from _columns_in(rule.expression)


def _columns_in(expression: str) -> Iterator[str]:
    tree: Any = exp.maybe_parse(expression, dialect=_DIALECT) if expression else None
    yield from (node.parts[0].name for node in tree.find_all(exp.Column)) if tree is not None else ()
