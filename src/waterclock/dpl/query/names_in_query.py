"""Classes for the tables, values and variables that a query names; `references` finds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedQuery
from waterclock.errors import WaterclockError
from waterclock.flow.enums import ReadKind
from waterclock.timelabel.duration import Duration

FLAT = "FLAT"
_MARK_TIMESTAMP = "0001-01-01"


def mark_in_tree() -> Any:
    """Return a constant timestamp, the node that replaces a call of WATERMARK in a syntax tree."""
    return exp.cast(exp.Literal.string(_MARK_TIMESTAMP), "timestamp")


def is_mark(node: Any) -> bool:
    """Return whether a node is the replacement of a call of WATERMARK, from `mark_in_tree`."""
    return isinstance(node, exp.Cast) and node.this.name == _MARK_TIMESTAMP


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table or view named in a query, with offsets in the source text.

    - `alias`: the alias to insert at the offset `alias_at`; None if the query gives one.
    - `mark`: WATERMARK or NEXT_WATERMARK for a call of this function, which reads the watermark of `name`; else empty.
    - `is_flat`: it is in FLAT(name). `is_exact`: it is in FLAT(name, 'exact').
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
        """The function around the table's name, such as PAST, FLAT or WATERMARK; PLAIN without a function."""
        return self.mark or (FLAT if self.is_flat else self.kind.name)


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A call of WINDOW_START(), WINDOW_END(), TIMELABEL() or IS_PARTIAL() in a query."""

    name: str
    start: int
    end: int


@dataclass(slots=True)
class QueryNames:
    """The tables, values and variables that a query names, its errors, and its syntax tree (None if it has none).

    A query with UNION ALL BY NAME has no tree, but `branches`: the combined queries, each with its names.
    """

    tree: Any
    tables: list[NamedTable] = field(default_factory=list)
    values: list[NamedValue] = field(default_factory=list)
    variables: dict[str, Span] = field(default_factory=dict)
    errors: list[WaterclockError] = field(default_factory=list)
    branches: list[tuple[ParsedQuery, QueryNames]] = field(default_factory=list)
