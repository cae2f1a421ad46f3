"""Collects the names in a query (tables, values, variables), and the errors in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import QuerySaid
from waterclock.errors import WaterclockError
from waterclock.flow.choices import ReadKind
from waterclock.timelabel.duration import Duration

FLAT = "FLAT"
_OF_MARKS = "0001-01-01"


def mark_in_tree() -> Any:
    """Return the placeholder for a table's watermark in a syntax tree: an instant."""
    return exp.cast(exp.Literal.string(_OF_MARKS), "timestamp")


def is_mark(node: Any) -> bool:
    """Return whether a node is the placeholder for a table's watermark."""
    return isinstance(node, exp.Cast) and node.this.name == _OF_MARKS


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table or view named in a query, with offsets in the source. `alias` is the text to add at `alias_at`.

    `is_flat`: FLAT is around it, with `is_exact` if that is written. `mark`: it is WATERMARK(name) or
    NEXT_WATERMARK(name), a value that is read from the table with the watermark of `name`.
    """

    name: str
    span: Span
    kind: ReadKind
    duration: Duration | None
    start: int
    end: int
    alias: str | None
    alias_at: int
    mark: str = ""
    is_flat: bool = False
    is_exact: bool = False

    @property
    def words(self) -> str:
        """The word of the read function, such as PAST, FLAT or WATERMARK; PLAIN for a plain name."""
        return self.mark or (FLAT if self.is_flat else self.kind.name)


@dataclass(frozen=True, slots=True)
class FoundValue:
    """WINDOW_START(), WINDOW_END() or TIMELABEL() in a query."""

    name: str
    start: int
    end: int


@dataclass(slots=True)
class QueryNames:
    """All names in a query, its errors, and its tree; of UNION ALL BY NAME, the `branches` with their names instead."""

    tree: Any
    tables: list[FoundTable] = field(default_factory=list)
    values: list[FoundValue] = field(default_factory=list)
    variables: dict[str, Span] = field(default_factory=dict)
    errors: list[WaterclockError] = field(default_factory=list)
    branches: list[tuple[QuerySaid, QueryNames]] = field(default_factory=list)
