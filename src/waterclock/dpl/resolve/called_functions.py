"""Finds calls of unknown functions, in rules and in the expressions of a PUBLISH."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from waterclock.dpl.query.aggregates import NAMES
from waterclock.dpl.query.builtins import FUNCTIONS
from waterclock.dpl.query.references import VALUES
from waterclock.dpl.query.spark_functions import AGGREGATES, GENERATORS, SCALARS, WINDOWED
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ColumnsSaid, Expression
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.choices import Kind
from waterclock.flow.declarations import Function

if TYPE_CHECKING:
    from waterclock.dpl.resolve.drafts import Draft

# functions for rules only, and a batch's own values, which are refused there with their own errors
_OF_RULES = frozenset(
    {"last_good", "usual", "trend", "parsed", "watermark", "next_watermark", *NAMES, *map(str.lower, VALUES)}
)


def unknown_functions(drafts: Iterable[Draft], functions: Mapping[str, Function]) -> Iterator[WaterclockError]:
    """Report calls of functions that are defined neither by Spark nor by Waterclock nor by the project."""
    known = {*SCALARS, *AGGREGATES, *GENERATORS, *WINDOWED, *(name.lower() for name in (*FUNCTIONS, *functions))}
    for draft in drafts:
        for said in _asked(draft):
            for node in said.tree.find_all(exp.Anonymous):
                if node.name.lower() not in known | _OF_RULES and not isinstance(node.parent, exp.Dot):
                    yield _span_of(node, said).refuse(
                        "E286",
                        f"unknown function {node.name}",
                        why="neither Spark has it nor Waterclock, and no CREATE FUNCTION makes it",
                        fix=did_you_mean(
                            node.name.lower(),
                            known,
                            otherwise=f"declare it: CREATE FUNCTION {node.name}(...) RETURNS type RETURN expression",
                        ),
                    )


def _asked(draft: Draft) -> Iterator[Expression]:
    """Yield the standalone expressions of a table: its rules, and the columns that a PUBLISH computes."""
    for clause in draft.statement.clauses:
        if clause.word == "EXPECT":
            # a rule with OVER may use any aggregate that the session knows, which is not known here
            yield from (it.expression for it in clause.value if not it.is_over_batch and not it.is_over_table)
    said = draft.statement.value("COLUMNS", ColumnsSaid)
    settled = {column.name for column in draft.columns.named if column.made_as is not None}
    for column in said.columns if said else ():
        yield from (rule.expression for rule in column.rules)
        if draft.kind is Kind.PUBLISH and column.made_as is not None and column.name in settled:
            yield column.made_as


def _span_of(node: Any, expression: Expression) -> Span:
    """Return the span of a call: an Anonymous node has no offsets, but its name is among the tokens."""
    source = expression.span.source
    for token in expression.tokens:
        if token.text.lower() == node.name.lower():
            return source.span(token.start, token.end + 1)
    return expression.span
