"""Resolves the names `<table>_view`: views of a table and its open windows that show each window once.

A PARTITIONED table without open windows is its own view. As of a tick, so is one with CONTINUOUS.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from waterclock.flow.declarations import Flow
from waterclock.flow.open_windows import has_open_windows, open_windows_table, tables_by_view
from waterclock.ledger.ledger import Ledger
from waterclock.planner.open_windows import ClosingTicks
from waterclock.planner.query_ticks import Ticks


def find_viewed_table(flow: Flow, name: str) -> str | None:
    """Return the table of a `<table>_view` with open windows. None for any other name."""
    table = tables_by_view(flow).get(name) if name not in flow.tables and name not in flow.views else None
    return table if table is not None and has_open_windows(flow, table) else None


def table_of_closed_view(flow: Flow, name: str) -> str:
    """Return the table of a `<table>_view` if the table has no open windows.

    Any other name is returned unchanged.
    """
    table = tables_by_view(flow).get(name) if name not in flow.tables and name not in flow.views else None
    return name if table is None or has_open_windows(flow, table) else table


def add_view_tables(flow: Flow, ledger: Ledger, ticks: Ticks, names: Collection[str]) -> tuple[Ticks, list[str]]:
    """Return `ticks` with the closing ticks of the tables queried by view, and the tables to read for all `names`.

    Cost: for each such table, a row for each window that was ever closed.
    """
    tables: dict[str, None] = {}
    opened: dict[str, ClosingTicks] = {}
    for name in names:
        table = find_viewed_table(flow, name)
        open_table = None if table is None else open_windows_table(flow, table)
        if table is None or open_table is None:
            tables[table_of_closed_view(flow, name) if table is None else table] = None
            continue
        tables |= {table: None, open_table.name: None}
        opened[table] = replace(closing_ticks_of(flow, ledger, ticks.starts, table), is_alone=table not in names)
    return replace(ticks, opened=opened), list(tables)


def closing_ticks_of(flow: Flow, ledger: Ledger, starts: Mapping[str, datetime], table: str) -> ClosingTicks:
    """Return the ticks at which a table's windows were closed. The table must have an open-windows table."""
    open_table = open_windows_table(flow, table)
    if open_table is None:
        raise AssertionError(f"{table} keeps no open windows")
    closed = ledger.reads.closed_ticks(table, starts[table])
    return ClosingTicks(flow.tables[table].cadence, open_table.cadence, starts[table], closed)
