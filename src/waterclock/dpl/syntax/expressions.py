"""Finds the end of a SQL expression in a clause, and parses it to a syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.errors import ParseError

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.sql_parsing import parse_sql
from waterclock.dpl.syntax.statements import Expression
from waterclock.dpl.syntax.tokens import Word, dialect
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from sqlglot.tokens import Token

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")
_MISSING = "something is missing here"
_COMPARISONS = frozenset("= == < > <= >= <> != <=>".split())
_FOLLOWING = {
    **dict.fromkeys(("WHERE", "HAVING", "ON", "QUALIFY", "WHEN", "AND", "OR", "NOT"), "a condition"),
    **dict.fromkeys(("SELECT", "GROUP BY", "ORDER BY", "PARTITION BY", "BY"), "columns"),
    **dict.fromkeys(("FROM", "JOIN"), "a table"),
    **dict.fromkeys(("LIMIT", "OFFSET"), "a number"),
}  # after words of a query
_WANTS_MORE = frozenset(
    "AND OR NOT IN LIKE ILIKE RLIKE REGEXP BETWEEN IS FROM DIV ESCAPE INTERVAL DISTINCT ANY ALL SOME WHEN THEN CASE "
    "TIME".split()
)
_WANTS_MORE_SIGNS = frozenset("= == < > <= >= <> != <=> + - * / % || | & ^ ~ ! , ( [ : :: . ->".split())


def parse_expression(
    cursor: Cursor, what: str, *, fix: str, is_end: Callable[[Cursor, int], bool] = Cursor.begins_clause
) -> Expression:
    """Parse an expression, up to a comma, AS, ELSE, OVER, OF, AT MOST or the next clause, outside of brackets.

    The end is searched for first, because sqlglot's expression parser would also consume a following `NOT NULL` or
    `OVER BATCH`. `is_end(cursor, n)` returns whether a clause, or another part that ends an expression, begins n words
    after the cursor. `what` and `fix` are for the error if there is no expression.
    Raises E220 if the text is not an expression, and E204 if there is no text.
    """
    length = _count_words(cursor, is_end)
    if length == 0:
        cursor.raise_unexpected(what, fix=fix)
    words = [cursor.peek(ahead) for ahead in range(length)]
    cursor.index += length
    span = Span(cursor.source, words[0].start, words[-1].end)
    return expression_of(cursor.source, cursor.tokens[words[0].token : words[-1].token + 1], span)


def expression_of(source: SourceText, tokens: Sequence[Token], span: Span) -> Expression:
    """Parse tokens as one expression. Raises E220 if they are not an expression, E267 if it is nested too deeply."""
    try:
        trees = parse_sql(source, [_select(), *tokens])
    except ParseError as error:
        raise _syntax_error(error, source, tokens, span) from None
    tree = trees[0]
    others = [part for part, value in tree.args.items() if value and part != "expressions"] if tree else ["nothing"]
    parts = tree.expressions if isinstance(tree, exp.Select) else []
    if len(parts) != 1 or others or isinstance(parts[0], exp.Alias | exp.Star):
        raise span.refuse(
            "E220", f"{span.text} is not an expression", fix="write one that is TRUE or FALSE, as in a > 0"
        )
    names = tuple(sorted({node.name for node in parts[0].find_all(exp.Placeholder) if node.name}))
    return Expression(span, parts[0], tokens, names)


def parse_error_span(error: ParseError, source: SourceText, tokens: Sequence[Token], span: Span) -> Span:
    """Return the span of the token at which sqlglot's parser stopped; `span` if no token matches."""
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    for token in tokens:
        if token.line == line and token.col == column:
            return source.span(token.start, token.end + 1)
    return span


def _count_words(cursor: Cursor, is_end: Callable[[Cursor, int], bool]) -> int:
    depth = cases = 0
    ahead = 0
    while (word := cursor.peek(ahead)).kind != "end":
        if word.kind == "symbol":
            if word.text in _OPENING:
                depth += 1
            elif word.text in _CLOSING:
                depth -= 1
                if depth < 0:
                    return ahead
            elif word.text in {",", ";"} and not depth:
                return ahead
        elif word.kind == "word" and not depth:
            if word.upper == "CASE":
                cases += 1
            elif word.upper == "END" and cases:
                cases -= 1
            elif not cases and _ends_expression(cursor, ahead, is_end):
                return ahead
        ahead += 1
    if depth > 0:
        raise cursor.here().refuse("E204", "a bracket of this expression is never closed", fix="close it with )")
    return ahead


def _ends_expression(cursor: Cursor, ahead: int, is_end: Callable[[Cursor, int], bool]) -> bool:
    upper = cursor.peek(ahead).upper
    if upper in {"AS", "ELSE"}:
        return True
    if upper == "OVER":
        return cursor.peek(ahead + 1).upper in {"BATCH", "TABLE"}
    if upper == "AT" and cursor.peek(ahead + 1).upper == "MOST":
        return True
    if ahead == 0 or _needs_operand(cursor.peek(ahead - 1)):
        return False
    if upper == "OF" and cursor.peek(ahead + 1).kind in {"word", "name"}:
        return True
    return is_end(cursor, ahead)


def _needs_operand(word: Word) -> bool:
    if word.kind == "symbol":
        return word.text in _WANTS_MORE_SIGNS
    return word.kind == "word" and word.upper in _WANTS_MORE


def _syntax_error(error: ParseError, source: SourceText, tokens: Sequence[Token], span: Span) -> WaterclockError:
    at = parse_error_span(error, source, tokens, span)
    detail = (error.errors[0].get("description") if error.errors else str(error)) or "it cannot be read"
    why = plain_reason(detail)
    fix = fix_of_syntax(source, tokens, at, why)
    return at.refuse("E220", f"this expression cannot be read at {at.text}", why=why, fix=fix)


def fix_of_syntax(source: SourceText, tokens: Sequence[Token], at: Span, reason: str) -> str:
    """Return the fix for a syntax error at the span `at`; `reason` is a result of `plain_reason`."""
    index = next((n for n, token in enumerate(tokens) if token.start == at.start), None)
    word = at.text.upper()
    before = tokens[index - 1].text.upper() if index else ""
    if before == "OVER":
        return "write OVER BATCH or OVER TABLE after a rule, OVER (...) after a window function"
    if word in {"SELECT", "WITH"}:
        return "remove the query: compute its value in a TRANSFORM or a view, and write the name of that column here"
    if reason != _MISSING:
        return f"write an operator or a comma before {at.text}, or leave {at.text} out"
    if index is not None and index == len(tokens) - 1 and word in _COMPARISONS:
        return f"write a value after it, as in {source.text[tokens[0].start : at.end]} 0"
    return f"write {_FOLLOWING.get(word, 'the missing part')} after {at.text}, or leave {at.text} out"


def plain_reason(description: str) -> str:
    """Return the description of a sqlglot error in plain words."""
    reason = description.split(". Line ", maxsplit=1)[0].rstrip(".")
    if reason.startswith("Required keyword"):
        return _MISSING
    if reason.startswith("Invalid expression"):
        return "it is not expected here"
    return reason[:1].lower() + reason[1:]


@cache
def _select() -> Any:
    return dialect().tokenize("SELECT")[0]
