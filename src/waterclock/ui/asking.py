"""What the address of a page asks for: tables and labels in the grammar of the command line, and a page's own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from waterclock.flow.declarations import Table
from waterclock.operations.opening import Reading, selected
from waterclock.selection import Labels
from waterclock.ui.readers import Reader

Told = dict[str, Any]
"""All that a page tells, of types that JSON has."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What an address asks for, and who reads the answer. `selection` and `labels` travel from page to page."""

    selection: str = ""
    labels: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    reader: Reader | None = None

    def read_by(self, reader: Reader) -> Asked:
        """Return the same, as one reader asks for it."""
        return replace(self, reader=reader)

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Asked:
        """Read an address' query."""
        return cls(values.get("t", "").strip(), values.get("l", "").strip(), values)

    @property
    def travelling(self) -> str:
        """The part of an address that keeps tables and labels on the next page."""
        kept = {key: value for key, value in (("t", self.selection), ("l", self.labels)) if value}
        return f"?{urlencode(kept)}" if kept else ""

    def tables(self, at: Reading) -> tuple[tuple[Table, ...], Mapping[str, Labels]]:
        """Return the tables that are meant, upstream first, and the labels by table.

        Raises  E510, E511, E512 and E514 as `selection.select`
        """
        found, labels = selected(at.flow, [self.selection] if self.selection else None, self.labels or None)
        return tuple(at.flow.tables[name] for name in found.tables), labels


def table_address(name: str, tab: str = "") -> str:
    """Return the address of a table's page."""
    return f"/tables/{quote(name, safe='')}{'/' + tab if tab else ''}"


def batch_address(name: str, labels: str) -> str:
    """Return the address of the page of a table's batches of some labels."""
    return f"/batches/{quote(name, safe='')}/{quote(labels, safe='')}"


def query_address(name: str, label: str) -> str:
    """Return the address of the query for all that a table held once a label was made."""
    quoted = ".".join(part if part.isidentifier() else f"`{part}`" for part in name.split("."))
    return f"/query?{urlencode({'q': f'SELECT * FROM {quoted}', 'as-of': f'{name}@{label}'})}"


def quarantine_address(name: str, rule: str) -> str:
    """Return the address of the query for the rows of a table that are set aside and broke a rule, newest first."""
    quoted = ".".join(part if part.isidentifier() else f"`{part}`" for part in f"{name}_quarantine".split("."))
    text = rule.replace("\\", "\\\\").replace("'", "\\'")
    asks = f"SELECT timelabel, row, broken FROM {quoted} WHERE array_contains(broken, '{text}')"
    return f"/query?{urlencode({'q': f'{asks} ORDER BY timelabel DESC'})}"


_KEPT_BY_LINEAGE = ("t", "l", "depth", "open", "to", "column", "view", "all")


def lineage_address(table: str | None, asked: Asked, *, suffix: str = "", **changed: str) -> str:
    """Return the address of the lineage around a table, or of all, as it is asked for but for what is changed."""
    values = {key: asked.values.get(key, "") for key in _KEPT_BY_LINEAGE} | changed
    kept = {key: value for key, value in values.items() if value}
    path = "/lineage" if table is None else f"/lineage/{quote(table, safe='')}"
    return f"{path}{suffix}{f'?{urlencode(kept)}' if kept else ''}"
