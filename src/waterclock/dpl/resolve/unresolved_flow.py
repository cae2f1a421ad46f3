"""The declarations of a flow while it is compiled, for checks that look at several tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from waterclock.dpl.config.model import Config
from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.unresolved import UnresolvedTable
from waterclock.dpl.resolve.views import QueryResolver
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Statement
from waterclock.flow.declarations import Function, Read


@dataclass(frozen=True, slots=True)
class UnresolvedFlow:
    """A flow while it is compiled; `spans` are the spans of reads, by reading table and read."""

    drafts: Mapping[str, UnresolvedTable]
    spans: Mapping[tuple[str, Read], Span]
    statements: Sequence[Statement]
    queries: QueryResolver
    functions: Mapping[str, Function]
    systems: ValidConnections
    config: Config
