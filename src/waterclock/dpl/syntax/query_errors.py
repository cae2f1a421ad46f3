"""Converts sqlglot's parse errors of queries to errors with a fix, for example for a misspelt keyword."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.expressions import fix_of_syntax, parse_error_span, plain_reason
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.type_names import unknown_cast_types
from waterclock.errors import WaterclockError
from waterclock.similar_names import did_you_mean

if TYPE_CHECKING:
    from sqlglot.errors import ParseError

_VALUES = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.R_PAREN})
_KEYWORDS = ("SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "JOIN", "LEFT", "UNION", "LIMIT", "WITH", "WINDOW")
_BEGINNINGS = ("SELECT", "WITH", "FROM", "VALUES")
_STEPS = ("SELECT", "EXTEND", "SET", "DROP", "AS", "WHERE", "AGGREGATE", "JOIN", "ORDER BY", "LIMIT", "UNION ALL",
          "EXCEPT", "INTERSECT", "PIVOT", "UNPIVOT", "TABLESAMPLE")  # fmt: skip
_FIXES_OF_STEPS = {
    "DISTINCT": "write |> SELECT DISTINCT *",
    "RENAME": "Spark has no such step: write |> SELECT * EXCEPT (a), a AS b",
    "SET": "write |> SET a = expression, without AS, and put a |> before what follows",
    "DROP": "write |> DROP a, b, and put a |> before what follows",
    "GROUP BY": "write |> AGGREGATE sum(a) AS a GROUP BY b",
    "HAVING": "write |> WHERE after the |> AGGREGATE",
    "OFFSET": "write it after LIMIT",
}
_STATEMENTS = frozenset(
    {TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE, TokenType.MERGE, TokenType.CREATE, TokenType.DROP,
     TokenType.ALTER, TokenType.TRUNCATE, TokenType.COPY, TokenType.LOAD}
)  # fmt: skip
_SET_OPERATORS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})
_ONLY_AS_STEPS = frozenset({TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY})
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_NEARLY = 0.74  # FORM is that similar to FROM
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


def query_syntax_error(error: ParseError, source: SourceText, tokens: Sequence[Token], span: Span) -> WaterclockError:
    """Return the error for a query that sqlglot cannot parse: E219 for an unknown type in a CAST, else E210."""
    return next(unknown_cast_types(source, tokens), None) or _syntax_error(error, source, tokens, span)


def _syntax_error(error: ParseError, source: SourceText, tokens: Sequence[Token], span: Span) -> WaterclockError:
    """Return E210 for a parse error of sqlglot, with a fix if the tokens before the error suggest one."""
    at = parse_error_span(error, source, tokens, span)
    detail = (error.errors[0].get("description") if error.errors else None) or "it cannot be read"
    index = next((n for n, token in enumerate(tokens) if token.start == at.start and at.start > span.start), None)
    found = f"the query cannot be read at {at.text}"
    if tokens[0].token_type is TokenType.TABLE:
        fix = f"write SELECT * FROM {source.text[tokens[0].end + 1 : span.end].strip()}"
        return at.refuse("E210", found, why=plain_reason(detail), fix=fix)
    if begun := _misspelt_beginning(tokens, index):
        token, word = begun
        return misspelt_word_error(source.span(token.start, token.end + 1), word)
    opening = _open_bracket(tokens, index) if "xpecting )" in detail else None
    if opening is not None:
        why = f"the bracket at {source.span(opening.start).place} is not closed before it"
        return at.refuse("E210", found, why=why, fix="close it with )")
    misspelt = _misspelt_word(tokens, index)
    if misspelt is not None:
        token, word = misspelt
        return misspelt_word_error(source.span(token.start, token.end + 1), word)
    forgotten = _comma_before(tokens, index)
    if forgotten is not None:
        fix = f"put a comma before {forgotten.text}, if that begins the next one"
        return at.refuse("E210", found, why=plain_reason(detail), fix=fix)
    why, fix = _explain_error(source, tokens, at, plain_reason(detail), is_step=_is_step(tokens, index))
    return at.refuse("E210", found, why=why, fix=fix)


def _is_step(tokens: Sequence[Token], index: int | None) -> bool:
    return bool(index) and tokens[(index or 0) - 1].token_type is TokenType.PIPE_GT


def _explain_error(
    source: SourceText, tokens: Sequence[Token], at: Span, reason: str, *, is_step: bool
) -> tuple[str, str]:
    """Return the `why` and the `fix` for a query that cannot be parsed at the span `at`."""
    first = next((token for token in tokens if token.token_type is not TokenType.L_PAREN), tokens[0])
    if first.token_type in _STATEMENTS and first.start == at.start:
        fix = "write only the query, starting with SELECT: the statement names the table"
        return f"a query begins with {', '.join(_BEGINNINGS[:-1])} or {_BEGINNINGS[-1]}", fix
    if is_step:
        return f"the steps after |> are {', '.join(_STEPS)}", _suggest_step(at.text)
    return reason, fix_of_syntax(source, tokens, at, reason)


def check_steps(source: SourceText, tokens: Sequence[Token]) -> Iterator[WaterclockError]:
    """Yield E210 for each step after |> that sqlglot accepts and Spark refuses.

    These are |> DISTINCT, steps without content, and a WHERE, GROUP BY, HAVING or QUALIFY within another step.
    """
    for pipe, token in enumerate(tokens):
        if token.token_type is not TokenType.PIPE_GT:
            continue
        step = list(_tokens_of_step(tokens, pipe + 1))
        word = step[0].text.upper() if step else ""
        span = source.span(step[0].start, step[0].end + 1) if step else source.span(token.start, token.end + 1)
        if word == "DISTINCT":
            why = f"the steps after |> are {', '.join(_STEPS)}"
            yield span.refuse("E210", f"the query cannot be read at {span.text}", why=why, fix=_suggest_step(word))
        elif not step or (len(step) == 1 and word in {"SELECT", "EXTEND", "AS", "AGGREGATE"}):
            fix = f"write what follows {span.text}, or leave the step out"
            yield span.refuse("E210", f"nothing follows {span.text}", fix=fix)
        for before, inner in pairwise(step):
            is_name = before.token_type in {TokenType.DOT, TokenType.ALIAS}  # t.where, a AS where
            is_of_step = (word, inner.token_type) == ("AGGREGATE", TokenType.GROUP_BY)
            if inner.token_type in _ONLY_AS_STEPS and not is_name and not is_of_step:
                at = source.span(inner.start, inner.end + 1)
                upper = " ".join(at.text.upper().split())
                fix = _FIXES_OF_STEPS.get(upper, f"write |> {upper} as a step of its own")
                yield at.refuse("E210", f"|> {word} takes no {upper}", fix=fix)


def _tokens_of_step(tokens: Sequence[Token], begin: int) -> Iterator[Token]:
    """Yield the tokens of a step outside of brackets, up to and including a UNION, EXCEPT or INTERSECT."""
    depth = 0
    for token in tokens[begin:]:
        depth -= token.token_type in _CLOSING
        if depth < 0 or (depth == 0 and token.token_type in {TokenType.PIPE_GT, TokenType.SEMICOLON}):
            return
        if depth == 0:
            yield token
            if token.token_type in _SET_OPERATORS:
                return
        depth += token.token_type in _OPENING


def _suggest_step(word: str) -> str:
    upper = word.upper()
    known = _FIXES_OF_STEPS.get(upper)
    return known or did_you_mean(upper, _STEPS, otherwise=f"write one of them instead of {word}") or ""


def misspelt_word_error(span: Span, word: str) -> WaterclockError:
    """Build the error for a misspelt keyword of a query; `word` is the correction."""
    return span.refuse("E210", f"{span.text} is not a keyword of a query", fix=f"did you mean {word}?")


def find_similar_beginning(text: str) -> str | None:
    """Return the first word of queries (SELECT, WITH, FROM or VALUES) of which `text` is a misspelling, or None."""
    return _find_similar_word(text, _BEGINNINGS)


def _misspelt_beginning(tokens: Sequence[Token], index: int | None) -> tuple[Token, str] | None:
    """Return the token of a misspelt first word of a query, and its correction; None if there is none."""
    opening = _open_bracket(tokens, index)
    for at in (0, *([] if opening is None else [tokens.index(opening) + 1])):
        if (
            at < len(tokens)
            and tokens[at].token_type is TokenType.VAR
            and (word := find_similar_beginning(tokens[at].text))
        ):
            return tokens[at], word
    return None


def _find_similar_word(text: str, words: Sequence[str]) -> str | None:
    """Return the word of which `text` is a misspelling, or None. Longer texts, as `orders` for ORDER, are names."""
    longer = [word for word in words if len(word) >= len(text)]
    return next(iter(get_close_matches(text.upper(), longer, n=1, cutoff=_NEARLY)), None)


def _misspelt_word(tokens: Sequence[Token], index: int | None) -> tuple[Token, str] | None:
    """Return the token at `index`, or the one before, if it is a misspelt keyword, with the keyword; else None."""
    if index is None:
        return None
    for token in (tokens[index], *tokens[max(index - 1, 0) : index]):
        if token.token_type is TokenType.VAR and (word := _find_similar_word(token.text, _KEYWORDS)):
            return token, word
    return None


def _open_bracket(tokens: Sequence[Token], index: int | None) -> Token | None:
    """Return the innermost bracket that is open before the token at `index`, or at the end if `index` is None."""
    opened: list[Token] = []
    for token in tokens[:index]:
        if token.token_type is TokenType.L_PAREN:
            opened.append(token)
        elif token.token_type is TokenType.R_PAREN and opened:
            opened.pop()
    return opened[-1] if opened else None


def _comma_before(tokens: Sequence[Token], index: int | None) -> Token | None:
    """Return the token before which a comma may be missing; None if two values are not adjacent at `index`.

    In `a b c` it is c, because b is parsed as an alias of a. In `a count(*)` it is count.
    """
    if index is None or index < 2:
        return None
    here, before, further = tokens[index], tokens[index - 1], tokens[index - 2]
    if here.token_type in _VALUES - {TokenType.R_PAREN} and before.token_type in _VALUES:
        return here
    if here.token_type is TokenType.L_PAREN and before.token_type in _NAMES and further.token_type in _VALUES:
        return before
    return None
