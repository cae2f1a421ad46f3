"""Represents a table while it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Statement, StatementKind
from waterclock.flow.declarations import TableDeclaration
from waterclock.flow.enums import Kind, ReadKind
from waterclock.timelabel.cadence import Cadence

KINDS = {
    StatementKind.COLLECT: Kind.COLLECT,
    StatementKind.TRANSFORM: Kind.TRANSFORM,
    StatementKind.PUBLISH: Kind.PUBLISH,
}


@dataclass(slots=True)
class UnresolvedTable:
    """A table while it is compiled: its statement, and the declaration with the parts that are resolved so far.

    `declared` is replaced whenever a part is resolved. `is_incomplete`: one of the inputs is unknown; this is reported
    once, and errors that only follow from it are not reported.
    """

    statement: Statement
    declared: TableDeclaration
    cadence: Cadence | None = None
    functions: frozenset[str] = frozenset()
    query_variables: tuple[str, ...] = ()
    is_incomplete: bool = False

    @property
    def name(self) -> str:
        """The table's name; for a publish, the name of its destination."""
        return self.declared.name

    @property
    def kind(self) -> Kind:
        """The kind of the table's statement."""
        return self.declared.kind

    @property
    def span(self) -> Span:
        """The span of the name in the table's statement."""
        return self.statement.span

    def at(self, word: str) -> Span:
        """Return the span of a clause, or of the table's name if the clause is missing."""
        clause = self.statement.clause(word)
        return clause.span if clause else self.span


def list_forward_reads(drafts: Mapping[str, UnresolvedTable]) -> dict[str, list[str]]:
    """Map each table to the tables of the flow that it reads, except those that it reads only by PREVIOUS."""
    return {
        name: [
            read.table for read in draft.declared.reads if read.kind is not ReadKind.PREVIOUS and read.table in drafts
        ]
        for name, draft in drafts.items()
    }
