"""Represents a table while it is compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Statement, StatementKind
from waterclock.flow.about import About
from waterclock.flow.choices import Kind, Mode, OnRestate, TableType
from waterclock.flow.closings import Closes
from waterclock.flow.conditions import Condition
from waterclock.flow.declarations import Choice, Columns, PythonFunction, Query, Read, Rule, Source, Unit
from waterclock.flow.folds import Keyed, Merge, Order, Temporal
from waterclock.flow.measures import Measure, Offline
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration

KINDS = {
    StatementKind.COLLECT: Kind.COLLECT,
    StatementKind.TRANSFORM: Kind.TRANSFORM,
    StatementKind.PUBLISH: Kind.PUBLISH,
}


@dataclass(slots=True)
class Draft(Keyed):
    """A table whose parts are resolved one after the other; an error in one is reported, and the others are resolved.

    `is_incomplete`: one of its inputs is unknown. That is reported, but its consequences are not.
    """

    statement: Statement
    name: str
    kind: Kind
    type: TableType
    mode: Mode = Mode.REPLACE
    columns: Columns = field(default_factory=Columns)
    rules: tuple[Rule, ...] = ()
    input_rules: tuple[Rule, ...] = ()
    measures: tuple[Measure, ...] = ()
    is_profiled: bool = False
    offline: Offline | None = None
    fold: Merge | Temporal | None = None
    source: Source | None = None
    destination: Unit | None = None
    where: Condition | None = None
    order: Order | None = None
    query: Query | None = None
    choices: tuple[Choice, ...] = ()
    function: PythonFunction | None = None
    reads: tuple[Read, ...] = ()
    cadence: Cadence | None = None
    start: datetime | None = None
    retain: Duration | None = None
    keep_versions: Duration | None = None
    deadline: Duration | None = None
    manifest: str | None = None
    pool: str = "default"
    on_restate: OnRestate = OnRestate.RECOMPUTE
    closes: Closes | None = None
    about: About = field(default_factory=About)
    functions: frozenset[str] = frozenset()
    query_variables: tuple[str, ...] = ()
    is_incomplete: bool = False

    @property
    def span(self) -> Span:
        """Where the table is named."""
        return self.statement.span

    def at(self, word: str) -> Span:
        """Return the span of a clause, or of the table's name if the clause is missing."""
        clause = self.statement.clause(word)
        return clause.span if clause else self.span
