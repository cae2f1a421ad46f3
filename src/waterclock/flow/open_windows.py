"""Names of the companion table `spd_<table>` of open windows, and of the view `<table>_view` over both tables.

The view contains each window once: from the table if it is done there, else from the newest state of `spd_<table>`.
Batches make these states at the boundaries of the inputs (OPTIONS open_windows 'kept'), or ticks every few seconds
(CONTINUOUS).
"""

from __future__ import annotations

from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind

OPEN = "spd_"
"""The prefix of the companion table that contains a table's open windows."""

VIEW = "_view"
"""The suffix of the view over a table and its open windows."""

WINDOW_LABEL = "window_label"
"""The companion table's column with the `timelabel` that a row will have once its window is closed."""

IS_CLOSED = "is_closed"
"""The column of the view that shows whether a row's window is closed."""


def open_table_of(table: str) -> str:
    """Return the name of the companion table with the open windows of `table`, such as `a.spd_sales` for `a.sales`."""
    schema, _, name = table.rpartition(".")
    return f"{schema}.{OPEN}{name}"


def open_windows_table(flow: Flow, table: str) -> Table | None:
    """Return the companion table with the open windows of `table`, or None if there is none."""
    found = flow.tables.get(open_table_of(table))
    return found if found is not None and found.open_of == table else None


def has_open_windows(flow: Flow, table: str) -> bool:
    """Return whether the view of a table shows open windows as well."""
    return flow.tables[table].continuous is not None or open_windows_table(flow, table) is not None


def continuous_tables(flow: Flow) -> list[Table]:
    """Return the tables whose open windows ticks make (CONTINUOUS), inputs first."""
    return [table for name in flow.order if (table := flow.tables[name]).continuous is not None]


def tick_seconds(flow: Flow) -> float:
    """Return the shortest time between two ticks, in seconds; 0 for a flow without CONTINUOUS."""
    return min(
        (each.continuous.to_timedelta().total_seconds() for each in flow.tables.values() if each.continuous),
        default=0.0,
    )


def view_of(table: str) -> str:
    """Return the name of the view that shows a table with its open windows."""
    return f"{table}{VIEW}"


def tables_by_view(flow: Flow) -> dict[str, str]:
    """Map the name of each view `<table>_view` to its table; every PARTITIONED table has such a view."""
    of_lake = (table for table in flow.tables.values() if table.kind is not Kind.PUBLISH)
    return {view_of(table.name): table.name for table in of_lake if table.is_partitioned}
