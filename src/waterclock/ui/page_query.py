"""Reads the query parameters of pages (tables and labels in the syntax of the command line), and builds addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from waterclock.flow.declarations import Table
from waterclock.operations.project_opening import OpenedProject, select_tables
from waterclock.selection import Labels
from waterclock.ui.query_client import QueryClient

Content = dict[str, Any]
"""The content of a page, in JSON-compatible types."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The parameters of an address, and the client that waits for the answer.

    Links between pages keep `selection` and `labels`.
    """

    selection: str = ""
    labels: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    reader: QueryClient | None = None

    def read_by(self, reader: QueryClient) -> PageQuery:
        """Return a copy with the client that waits for the response."""
        return replace(self, reader=reader)

    @classmethod
    def from_values(cls, values: Mapping[str, str]) -> PageQuery:
        """Build the parameters from those of an address: `t` is the selection, `l` the labels."""
        return cls(values.get("t", "").strip(), values.get("l", "").strip(), values)

    @property
    def query_string(self) -> str:
        """The query string that keeps the selected tables and labels on the next page."""
        kept = {key: value for key, value in (("t", self.selection), ("l", self.labels)) if value}
        return f"?{urlencode(kept)}" if kept else ""

    def tables(self, at: OpenedProject) -> tuple[tuple[Table, ...], Mapping[str, Labels]]:
        """Return the selected tables, upstream first, and the labels by table. Raises E510 to E514 if invalid."""
        found, labels = select_tables(at.flow, [self.selection] if self.selection else None, self.labels or None)
        return tuple(at.flow.tables[name] for name in found.tables), labels


def table_address(name: str, tab: str = "") -> str:
    """Return the address of a table's page."""
    return f"/tables/{quote(name, safe='')}{'/' + tab if tab else ''}"


def batch_address(name: str, labels: str) -> str:
    """Return the address of the page of a table's batches with some labels."""
    return f"/batches/{quote(name, safe='')}/{quote(labels, safe='')}"


def quoted_name(name: str) -> str:
    """Return a table's name for SQL: parts that are no identifiers are quoted."""
    return ".".join(part if part.isidentifier() else f"`{part}`" for part in name.split("."))


def query_address(name: str, label: str) -> str:
    """Return the address of a query for all rows of a table as of the tick of a label."""
    return f"/query?{urlencode({'q': f'SELECT * FROM {quoted_name(name)}', 'as-of': f'{name}@{label}'})}"


def quarantine_address(name: str, rule: str) -> str:
    """Return the address of a query for the quarantined rows of a table that broke a rule, newest first."""
    quoted = quoted_name(f"{name}_quarantine")
    text = rule.replace("\\", "\\\\").replace("'", "\\'")
    query = f"SELECT timelabel, row, broken FROM {quoted} WHERE array_contains(broken, '{text}')"
    return f"/query?{urlencode({'q': f'{query} ORDER BY timelabel DESC'})}"


_LINEAGE_PARAMETERS = ("t", "l", "depth", "open", "to", "column", "view", "all")


def lineage_address(table: str | None, parameters: PageQuery, *, suffix: str = "", **changed: str) -> str:
    """Return the address of a table's lineage, or of the lineage of all tables if `table` is None.

    The current parameters are kept, except those in `changed`.
    """
    values = {key: parameters.values.get(key, "") for key in _LINEAGE_PARAMETERS} | changed
    kept = {key: value for key, value in values.items() if value}
    path = "/lineage" if table is None else f"/lineage/{quote(table, safe='')}"
    return f"{path}{suffix}{f'?{urlencode(kept)}' if kept else ''}"
