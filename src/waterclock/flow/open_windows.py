"""The table of open windows beside one that closes its books, and the view that shows both: how they are named.

`<table>_view` shows each window once: of the table where it is done there, else of the newest state of what is open.
"""

from __future__ import annotations

from waterclock.flow.choices import Kind
from waterclock.flow.declarations import Flow, Table

OPEN = "spd_"
"""What is put before a table's own name for the table that holds its open windows."""

VIEW = "_view"
"""What is put behind a table's name for the view that queries ask."""

WINDOW_LABEL = "window_label"
"""The column that says of a row which window it is of: the `timelabel` that it will have once the window is closed."""

IS_CLOSED = "is_closed"
"""The column of the view that says whether a row's window is closed."""


def open_table_of(table: str) -> str:
    """Name the table that holds the open windows of `table`."""
    schema, _, name = table.rpartition(".")
    return f"{schema}.{OPEN}{name}"


def open_beside(flow: Flow, table: str) -> Table | None:
    """Return the table that holds the open windows of `table`; None where these are not kept."""
    found = flow.tables.get(open_table_of(table))
    return found if found is not None and found.open_of == table else None


def view_of(table: str) -> str:
    """Name the view that shows a table with what is open of it."""
    return f"{table}{VIEW}"


def tables_by_view(flow: Flow) -> dict[str, str]:
    """Return by the name of each view of the lake the table that it shows: every PARTITIONED one has a view."""
    of_lake = (table for table in flow.tables.values() if table.kind is not Kind.PUBLISH)
    return {view_of(table.name): table.name for table in of_lake if table.is_partitioned}
