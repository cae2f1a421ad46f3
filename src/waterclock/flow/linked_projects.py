"""Finds the tables of a flow that collect a table of another Waterclock project."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import LINKED


def upstream_of(table: Table) -> str | None:
    """Return the table of another project that `table` collects, as `connection.schema.table`, or None."""
    is_linked = table.source is not None and table.source.batching in LINKED
    return str(table.source.unit) if table.source is not None and is_linked else None


def linked_tables(flow: Flow) -> Mapping[str, Table]:
    """Return the tables that collect from other projects, by name."""
    return {name: table for name, table in flow.tables.items() if upstream_of(table) is not None}
