"""Reads the declarations of another project's tables from its ledger, as far as a collect needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Place, Table
from waterclock.flow.enums import Kind, Mode, OnRestate, TableType
from waterclock.ledger.read.linked_projects import Declarations, LinkedDeclaration
from waterclock.planner.dependency_graph import FlowGraph, Node
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import parse_period

_NOWHERE = Place("another project", 1, 1)
# in a statement in either language: ON RESTATE REPORT, on_restate="report"
_ON_RESTATE_REPORT = re.compile(r"\bON[\s_]+RESTATE\b\W*REPORT\b", re.IGNORECASE)
_WORDS = re.compile(r"[\w.]+")


@dataclass(frozen=True, slots=True)
class LinkedTables:
    """The tables of another project, as they are stored in its ledger."""

    declarations: Declarations

    def table(self, name: str, where: str) -> Table:
        """Return a table by its name. Raises E834, which suggests a similar name, if the project has no such table."""
        known = [each.name for each in self.declarations.tables.values() if each.kind != Kind.PUBLISH]
        if name not in known:
            raise WaterclockError(
                "E834",
                f"the other project has no table {name}",
                where=where,
                why=f"its ledger knows {', '.join(known[:5])}{', …' if len(known) > 5 else ''}"
                if known
                else "its ledger knows no table: it has not run yet",
                fix=did_you_mean(
                    name, known, otherwise="use its name in the other project; a table is known once it ran"
                ),
            )
        return _build_table(self.declarations.tables[name])

    def is_dropped(self, name: str) -> bool:
        """Return whether the project no longer declares a table that it once declared."""
        return not self.declarations.tables[name].is_declared

    def flow(self) -> Flow:
        """Return a flow of all tables without their queries. The ledger's records show which tables they read."""
        return Flow(
            project=self.declarations.project or "",
            tables={name: _build_table(it) for name, it in self.declarations.tables.items()},
        )

    def find_upstream_tables(self, name: str) -> set[str]:
        """Return the tables that a table reads, directly or indirectly, by the names in the texts of statements."""
        found: set[str] = set()
        unchecked = [name]
        while unchecked:
            named = set(_WORDS.findall(self.declarations.tables[unchecked.pop()].statement))
            new = (named & self.declarations.tables.keys()) - found - {name}
            found |= new
            unchecked += new
        return found

    def find_collected_tables(self, connections: Iterable[str]) -> Mapping[str, str]:
        """Map each table that collects through one of these connections to the `schema.table` that it collects."""
        found: dict[str, str] = {}
        for connection in connections:
            pattern = re.compile(rf"\bFROM\W+{re.escape(connection)}\.(\w+\.\w+)", re.IGNORECASE)
            found |= {
                name: hit[1] for name, it in self.declarations.tables.items() if (hit := pattern.search(it.statement))
            }
        return found


def graph_of(flow: Flow) -> FlowGraph:
    """Return a graph in which any table may read any other, because the texts of queries are not parsed."""
    together = frozenset(flow.tables)
    return FlowGraph({
        name: Node(
            table, rank, (), together, is_ordered=False, is_single=False, is_newest_only=False, is_made_if_needed=False
        )
        for rank, (name, table) in enumerate(flow.tables.items())
    })  # fmt: skip


def _build_table(declaration: LinkedDeclaration) -> Table:
    return Table(
        name=declaration.name,
        kind=Kind(declaration.kind),
        type=TableType(declaration.type),
        mode=Mode(declaration.mode),
        cadence=Cadence(parse_period(declaration.cadence), zone=declaration.zone),
        place=_NOWHERE,
        on_restate=OnRestate.REPORT if _ON_RESTATE_REPORT.search(declaration.statement) else OnRestate.RECOMPUTE,
    )
