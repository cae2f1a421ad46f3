"""Collects what a query names (tables, values, variables), and what is wrong with it."""

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
    """Return what stands in a syntax tree for the watermark of a table: an instant."""
    return exp.cast(exp.Literal.string(_OF_MARKS), "timestamp")


def is_mark(node: Any) -> bool:
    """Tell whether a watermark of a table stands at a node."""
    return isinstance(node, exp.Cast) and node.this.name == _OF_MARKS


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table or view named in a query; offsets are the source's. `alias` is what must be added at `alias_at`.

    `is_flat`: FLAT stands around it, with `is_exact` where that says so. `mark`: it is WATERMARK(name) or
    NEXT_WATERMARK(name), a value, which is read of the table that keeps the watermark of `name`.
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
        """How it is read, as it is written."""
        return self.mark or (FLAT if self.is_flat else self.kind.name)


@dataclass(frozen=True, slots=True)
class FoundValue:
    """WINDOW_START(), WINDOW_END() or TIMELABEL() in a query."""

    name: str
    start: int
    end: int


@dataclass(slots=True)
class Found:
    """All that a query names, its syntax tree, and what is wrong with it.

    Where it says UNION ALL BY NAME, `branches` are the queries between with what each names, and there is no one tree.
    """

    tree: Any
    tables: list[FoundTable] = field(default_factory=list)
    values: list[FoundValue] = field(default_factory=list)
    variables: dict[str, Span] = field(default_factory=dict)
    errors: list[WaterclockError] = field(default_factory=list)
    branches: list[tuple[QuerySaid, Found]] = field(default_factory=list)
