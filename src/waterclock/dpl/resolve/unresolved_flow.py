"""The declarations of a flow while it is compiled, for checks that look at several tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from waterclock.dpl.config.model import Config
from waterclock.dpl.resolve.connections import Systems
from waterclock.dpl.resolve.unresolved import UnresolvedTable
from waterclock.dpl.resolve.views import Queries
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Statement
from waterclock.flow.choices import ReadKind
from waterclock.flow.declarations import Function, Read


@dataclass(frozen=True, slots=True)
class UnresolvedFlow:
    """A flow while it is compiled; `spans` are the spans of reads, by reading table and read."""

    drafts: Mapping[str, UnresolvedTable]
    spans: Mapping[tuple[str, Read], Span]
    statements: Sequence[Statement]
    queries: Queries
    functions: Mapping[str, Function]
    systems: Systems
    config: Config


def upstream_first(drafts: Mapping[str, UnresolvedTable]) -> Iterable[UnresolvedTable]:
    """Return the tables upstream first; in the order declared if there are cycles, which are reported elsewhere."""
    names = {
        name: [
            read.table for read in draft.declared.reads if read.kind is not ReadKind.PREVIOUS and read.table in drafts
        ]
        for name, draft in drafts.items()
    }
    try:
        return [drafts[name] for name in TopologicalSorter(names).static_order()]
    except CycleError:
        return list(drafts.values())
