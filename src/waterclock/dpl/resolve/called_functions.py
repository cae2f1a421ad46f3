"""Finds calls of unknown functions, and casts to unknown types, in queries and expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.aggregates import EXAMPLES, GROUP_AGGREGATES, NAMES
from waterclock.dpl.query.builtins import FUNCTIONS
from waterclock.dpl.query.references import READS, VALUES
from waterclock.dpl.query.spark_functions import AGGREGATES, GENERATORS, SCALARS, WINDOWED
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import (
    Expression,
    ParsedColumnList,
    ParsedFunction,
    ParsedQuery,
    Statement,
    StatementKind,
)
from waterclock.dpl.syntax.type_names import unknown_cast_types
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Function
from waterclock.flow.enums import Kind
from waterclock.similar_names import did_you_mean

# functions that are valid only in rules, and values of the batch; other checks refuse them elsewhere
OF_RULES = frozenset(
    {
        "last_good",
        "usual",
        "trend",
        "parsed",
        "watermark",
        "next_watermark",
        *NAMES,
        *GROUP_AGGREGATES,
        *map(str.lower, VALUES),
    }
)
# the last three are part of Spark's grammar, and not in its list of functions
OF_SPARK = SCALARS | AGGREGATES | GENERATORS | WINDOWED | {"timestampadd", "timestampdiff", "try_cast"}
# read functions; other checks refuse them where a value is expected
_OF_READS = frozenset({"flat", "identifier", "table", *map(str.lower, READS)})


def check_called_functions(
    drafts: Iterable[UnresolvedTable], functions: Mapping[str, Function]
) -> Iterator[WaterclockError]:
    """Yield errors for calls of unknown functions in the rules and computed columns of tables.

    Known are the functions of Spark and of Waterclock, and `functions`, those of the project.
    """
    calls = _CallChecker(functions)
    for draft in drafts:
        for expression in _list_expressions(draft):
            yield from calls.check(expression, expression.tree)


def check_calls_in_queries(
    queries: Iterable[tuple[ParsedQuery, Any]], functions: Mapping[str, Function]
) -> Iterator[WaterclockError]:
    """Yield errors for calls of unknown functions in queries, which are pairs of tokens and syntax tree.

    Functions in FROM are checked in `query/references`.
    """
    calls = _CallChecker(functions)
    for query, tree in queries:
        yield from calls.check(query, tree)
        yield from _check_aggregates_of_rules(query, tree)


def check_calls_in_expressions(
    expressions: Iterable[Expression], functions: Mapping[str, Function]
) -> Iterator[WaterclockError]:
    """Yield errors for calls of unknown functions in expressions."""
    calls = _CallChecker(functions)
    for expression in expressions:
        yield from calls.check(expression, expression.tree)


def check_cast_types(queries: Iterable[ParsedQuery]) -> Iterator[WaterclockError]:
    """Yield errors for casts to unknown types in queries."""
    for query in queries:
        yield from unknown_cast_types(query.span.source, query.tokens)


def check_calls_in_functions(
    statements: Iterable[Statement], functions: Mapping[str, Function]
) -> Iterator[WaterclockError]:
    """Yield errors for calls of unknown functions in the bodies of the project's SQL functions."""
    calls = _CallChecker(functions)
    for statement in statements:
        declared = statement.value("RETURN", ParsedFunction) if statement.kind is StatementKind.FUNCTION else None
        if declared is not None and declared.body is not None:
            yield from calls.check(declared.body, declared.body.tree)


class _CallChecker:
    """Checks that called functions are known, and that the project's functions get the right number of arguments."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.own = {name.lower(): function for name, function in functions.items()}
        self.known = OF_SPARK | OF_RULES | _OF_READS | {name.lower() for name in (*FUNCTIONS, *functions)}

    def check(self, expression: Expression | ParsedQuery, tree: Any) -> Iterator[WaterclockError]:
        """Yield an error for each invalid call in a syntax tree."""
        for node in tree.find_all(exp.Anonymous):
            name = node.name.lower()
            if isinstance(node.parent, exp.Dot | exp.Table | exp.Hint):
                continue
            if name not in self.known:
                yield _unknown_function_error(node, expression, self.known)
            elif name in self.own and (error := _check_argument_count(node, expression, self.own[name])) is not None:
                yield error


def _check_aggregates_of_rules(query: ParsedQuery, tree: Any) -> Iterator[WaterclockError]:
    for node in tree.find_all(exp.Anonymous):
        name = node.name.lower()
        if name in NAMES | {*GROUP_AGGREGATES} and not isinstance(node.parent, exp.Dot | exp.Table | exp.Hint):
            yield _span_of(node, query).refuse(
                "E286",
                f"{name} is only for rules",
                why="it is computed on the rows that the query returns",
                fix=f"write a rule: EXPECT {EXAMPLES.get(name, f'{name}(column) < 5')}",
            )


def _check_argument_count(
    node: Any, expression: Expression | ParsedQuery, function: Function
) -> WaterclockError | None:
    """Return the error for a call whose number of arguments is wrong; a `*` may stand for any number of arguments."""
    given, names = len(node.expressions), [name for name, _ in function.parameters]
    if given == len(names) or any(each.is_star for each in node.expressions):
        return None
    count = f"{given} argument{'s' if given > 1 else ''}" if given else "no arguments"
    form = f"{function.name}({', '.join(names)})"
    return _span_of(node, expression).refuse(
        "E238", f"{node.name} is called with {count}", why=f"its form is {form}", fix=f"write {form}"
    )


def _unknown_function_error(node: Any, expression: Expression | ParsedQuery, known: frozenset[str]) -> WaterclockError:
    return _span_of(node, expression).refuse(
        "E286",
        f"unknown function {node.name}",
        why="neither Spark nor Waterclock has it, and no CREATE FUNCTION declares it",
        fix=did_you_mean(
            node.name.lower(),
            known - OF_RULES - _OF_READS,
            otherwise=f"declare it: CREATE FUNCTION {node.name}(...) RETURNS type RETURN expression",
        ),
    )


def _list_expressions(draft: UnresolvedTable) -> Iterator[Expression]:
    """Yield the expressions of a table outside of its query: rules, and the columns that a PUBLISH computes."""
    for clause in draft.statement.clauses:
        if clause.word == "EXPECT":
            # a rule with OVER may call any aggregate of the Spark session, and these are not known here
            yield from (it.expression for it in clause.value if not it.is_over_batch and not it.is_over_table)
    column_list = draft.statement.value("COLUMNS", ParsedColumnList)
    resolved = {column.name for column in draft.declared.columns.named if column.made_as is not None}
    for column in column_list.columns if column_list else ():
        yield from (rule.expression for rule in column.rules)
        if draft.kind is Kind.PUBLISH and column.made_as is not None and column.name in resolved:
            yield column.made_as


def _span_of(node: Any, expression: Expression | ParsedQuery) -> Span:
    """Return the span of a call's name, found in the tokens because sqlglot's node has no offsets."""
    for token, following in pairwise(expression.tokens):
        if following.text == "(" and token.text.lower() == node.name.lower():
            return expression.span.source.span(token.start, token.end + 1)
    return expression.span
