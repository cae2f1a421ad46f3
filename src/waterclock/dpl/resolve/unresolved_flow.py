"""The flow while it is compiled, for checks that involve several tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from waterclock.dpl.config.model import Config
from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable, list_forward_reads
from waterclock.dpl.resolve.views import QueryResolver
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Statement
from waterclock.flow.declarations import Function, Read


@dataclass(frozen=True, slots=True)
class UnresolvedFlow:
    """A flow while it is compiled; `spans` maps (name of the table, read) to the position of the read."""

    drafts: Mapping[str, UnresolvedTable]
    spans: Mapping[tuple[str, Read], Span]
    statements: Sequence[Statement]
    queries: QueryResolver
    functions: Mapping[str, Function]
    systems: ValidConnections
    config: Config


def upstream_first(drafts: Mapping[str, UnresolvedTable]) -> Iterable[UnresolvedTable]:
    """Return the tables, inputs first; or as declared if there are cycles, which `cycles` reports."""
    try:
        return [drafts[name] for name in TopologicalSorter(list_forward_reads(drafts)).static_order()]
    except CycleError:
        return list(drafts.values())
