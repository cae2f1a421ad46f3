"""Resolves EXPECT rules: their name, scope (row, batch or table) and actions; checks expressions of clauses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.aggregates import check_aggregate_call, grouped_calls
from waterclock.dpl.query.builtins import check_builtin_call
from waterclock.dpl.query.determinism import check_deterministic_call
from waterclock.dpl.query.now_texts import now_texts
from waterclock.dpl.query.references import VALUES
from waterclock.dpl.resolve.comparisons import comparison_of, uses_history
from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.syntax.aggregate_calls import has_aggregate
from waterclock.dpl.syntax.foreign_syntax import check_foreign_syntax
from waterclock.dpl.syntax.statements import Expression, ParsedRule
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Rule
from waterclock.flow.enums import Scope
from waterclock.flow.rule_actions import FAILS, ROW_ACTIONS, UnparsedLines

# expressions whose value is never TRUE or FALSE, whatever their arguments
_NEVER_TRUTHS = (
    exp.Literal, exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.ApproxDistinct, exp.Add, exp.Sub, exp.Mul, exp.Div,
    exp.Mod, exp.Neg, exp.Concat, exp.DPipe, exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Abs,
)  # fmt: skip

_NOT_OF_INPUT = "write the rule without OF, or where the input table is made"


def rule_of(
    rule: ParsedRule, variables: Mapping[str, Any], errors: list[WaterclockError], *, in_column: bool = False
) -> Rule | None:
    """Resolve a rule, whose default name is its text; return None if it is invalid, which is reported.

    `in_column`: it is a rule in the column list, which checks each row.
    """
    problems = [*check_expression(rule.expression), *check_condition(rule.expression)]
    if problems:
        errors.extend(problems)
        return None
    is_of_batch = has_aggregate(rule.expression.tree)
    if is_of_batch and in_column:
        errors.append(
            rule.expression.span.refuse(
                "E220",
                "a column's rule has an aggregate",
                why="a rule of a column is checked for each row",
                fix="write it as a clause: EXPECT count(*) > 0",
            )
        )
        return None
    scope = Scope.TABLE if rule.is_over_table else Scope.BATCH if is_of_batch or rule.is_over_batch else Scope.ROW
    if scope is not Scope.ROW and (problem := _batch_rule_error(rule) or _input_groups_error(rule)):
        errors.append(problem)
        return None
    if scope is Scope.ROW and rule.expression.tree.find(exp.Window) is not None:
        why = "it is checked for each row on its own, while that is written"
        fix = "make it a column of the query, and write the rule for that column"
        errors.append(rule.expression.span.refuse("E220", "a rule uses other rows", why=why, fix=fix))
        return None
    text = with_literals(rule.expression, variables)
    comparison = None
    if uses_history(rule.expression):
        if rule.of:
            errors.append(_input_history_error(rule))
        elif scope is not Scope.BATCH or not is_of_batch:
            errors.append(_history_error(rule))
        else:
            comparison = comparison_of(rule.expression, text, errors)
        if comparison is None:
            return None
    name = rule.name or (f"{rule.expression.text} OF {rule.of}" if rule.of else rule.expression.text)
    actions = rule.otherwise or FAILS
    limited = actions if len(actions) > 1 or actions[0].most is not None else ()
    place, bound = rule.expression.span.place, rule.expression.variables
    return Rule(text, name, scope, actions[0].action, place, bound, limited, comparison, rule.of)


def _input_history_error(rule: ParsedRule) -> WaterclockError:
    what = "last_good(), usual() and trend() in a rule OF an input"
    return unsupported_error(what, rule.expression.span, fix=_NOT_OF_INPUT)


def _input_groups_error(rule: ParsedRule) -> WaterclockError | None:
    if not rule.of or not any(grouped_calls(rule.expression.text)):
        return None
    what = "k_anonymity() and l_diversity() in a rule OF an input"
    return unsupported_error(what, rule.expression.span, fix=_NOT_OF_INPUT)


def _history_error(rule: ParsedRule) -> WaterclockError:
    what = (
        "a rule of the table uses earlier batches" if rule.is_over_table else "a rule of each row uses earlier batches"
    )
    return rule.expression.span.refuse(
        "E294",
        what,
        why="last_good(), usual() and trend() return values of an aggregate in earlier batches",
        fix="compare an aggregate of the batch: EXPECT count(*) > 0.5 * last_good(count(*))",
    )


def _batch_rule_error(rule: ParsedRule) -> WaterclockError | None:
    """Return the error for a batch or table rule with a limit, QUARANTINE or DROP: it does not apply to single rows."""
    rows = next((each.action.name for each in rule.otherwise if each.action in ROW_ACTIONS), None)
    if rows is None and all(each.most is None for each in rule.otherwise):
        return None
    what = "table" if rule.is_over_table else "input" if rule.of else "batch"
    return rule.expression.span.refuse(
        "E272",
        f"a rule of the {what} cannot have {rows}" if rows else f"a rule of the {what} cannot have a limit",
        why=f"the rule applies to the whole {what}, not to single rows: there are none to quarantine or to count",
        fix="write ELSE WARN, ELSE HOLD or ELSE FAIL",
    )


def is_parsed(expression: Expression) -> bool:
    """Return whether a rule is exactly parsed(), the check that a line can be parsed."""
    return [token.text.upper() for token in expression.tokens] == ["PARSED", "(", ")"]


def unread_of(
    declared: Sequence[ParsedRule], capabilities: Capabilities | None, errors: list[WaterclockError]
) -> UnparsedLines:
    """Return the actions for lines that cannot be parsed, from the EXPECT parsed() rules of a collect.

    E280 is appended to `errors` for a second parsed(), one with OVER, and one for a source that is not a text file.
    """
    twice = (one.expression.span for one in declared[1:])
    errors.extend(span.refuse("E280", "parsed() is written twice", fix="remove one") for span in twice)
    first, span = declared[0], declared[0].expression.span
    if first.is_over_batch or first.is_over_table:
        what = "TABLE" if first.is_over_table else "BATCH"
        why = "it is checked for each line on its own"
        errors.append(span.refuse("E280", f"parsed() cannot have OVER {what}", why=why, fix=f"leave OVER {what} out"))
    elif capabilities is not None and not capabilities.returns_unparsed_lines:
        errors.append(
            span.refuse(
                "E280",
                f"parsed() is not supported for connections of type {capabilities.type}",
                why="it returns rows with columns; only text files have lines to parse",
                fix="leave it out; for values of a wrong type add ELSE after the column's type",
            )
        )
    return UnparsedLines(first.name or "parsed()", first.otherwise or FAILS)


def check_expression(expression: Expression, *, allowed: frozenset[str] = frozenset()) -> list[WaterclockError]:
    """Return errors for subqueries, nondeterministic functions and invalid calls in an expression of a clause.

    `allowed` are names, in capitals, of nondeterministic functions that are valid in this clause.
    """
    errors: list[WaterclockError] = []
    if expression.tree.find(exp.Query) is not None:
        errors.append(
            expression.span.refuse(
                "E220",
                "an expression outside of the query has a subquery",
                why="it can use only the rows of its own batch",
                fix="join the other table in the query, and use the joined column here",
            )
        )
    source, tokens = expression.span.source, expression.tokens
    errors.extend(check_foreign_syntax(source, tokens, expression.tree))
    errors.extend(now_texts(expression.tree, source, lambda _: None))
    for index, token in enumerate(tokens):
        upper = token.text.upper()
        error = (
            (None if upper in allowed else check_deterministic_call(source, tokens, index, upper))
            or check_builtin_call(source, tokens, index, upper)
            or check_aggregate_call(source, tokens, index, upper)
        )
        if error is not None:
            errors.append(error)
        if upper == "PARSED" and index + 1 < len(tokens) and tokens[index + 1].text == "(":
            span = source.span(token.start, token.end + 1)
            errors.append(
                span.refuse(
                    "E280",
                    "parsed() is allowed only as a rule of a COLLECT",
                    why="it is TRUE if a line of a collected file can be read in the file's format",
                    fix="write a separate rule in the COLLECT: EXPECT parsed() ELSE QUARANTINE",
                )
            )
        if upper in VALUES and index + 1 < len(tokens) and tokens[index + 1].text == "(":
            errors.append(
                unsupported_error(
                    f"{upper}() outside of the query",
                    source.span(token.start, token.end + 1),
                    fix=f"make it a column of the query: {upper}() AS name",
                )
            )
    return errors


def check_condition(expression: Expression) -> Iterator[WaterclockError]:
    """Yield an error for a condition that is certainly a number or a string."""
    tree: Any = expression.tree
    inner, text = tree.unnest(), expression.span.text
    if isinstance(inner, _NEVER_TRUTHS):
        fix = "write a condition, as in a > 0" if isinstance(inner, exp.Literal) else f"compare it, as in {text} > 0"
        yield expression.span.refuse("E220", f"{text} is not TRUE or FALSE", why="it is a condition", fix=fix)
