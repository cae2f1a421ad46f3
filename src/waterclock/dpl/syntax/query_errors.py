"""Says why a query cannot be read, and names a misspelt keyword, or a comma or bracket forgotten before the place."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.expressions import parse_error_span, plain_reason
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from sqlglot.errors import ParseError

_VALUES = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.R_PAREN})
_KEYWORDS = ("SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "JOIN", "LEFT", "UNION", "LIMIT", "WITH", "WINDOW")
_NEARLY = 0.74  # FORM is as near to FROM
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


def unreadable_query(error: ParseError, source: SourceText, tokens: Sequence[Token], span: Span) -> WaterclockError:
    """Turn what sqlglot says of a query into E210, with the mend where the tokens before the place show one."""
    at = parse_error_span(error, source, tokens, span)
    detail = (error.errors[0].get("description") if error.errors else None) or "it cannot be read"
    index = next((n for n, token in enumerate(tokens) if token.start == at.start and at.start > span.start), None)
    found = f"the query cannot be read at {at.text}"
    if tokens[0].token_type is TokenType.TABLE:
        fix = f"write SELECT * FROM {source.text[tokens[0].end + 1 : span.end].strip()}"
        return at.refuse("E210", found, why=plain_reason(detail), fix=fix)
    opening = _open_bracket(tokens, index) if "xpecting )" in detail else None
    if opening is not None:
        why = f"the bracket at {source.span(opening.start).place} is not closed before it"
        return at.refuse("E210", found, why=why, fix="close it with )")
    misspelt = _misspelt_word(tokens, index)
    if misspelt is not None:
        token, word = misspelt
        here = source.span(token.start, token.end + 1)
        return here.refuse("E210", f"{token.text} is no word of a query", fix=f"did you mean {word}?")
    forgotten = _comma_before(tokens, index)
    if forgotten is not None:
        fix = f"put a comma before {forgotten.text}, if that begins the next one"
        return at.refuse("E210", found, why=plain_reason(detail), fix=fix)
    return at.refuse("E210", found, why=plain_reason(detail))


def _misspelt_word(tokens: Sequence[Token], index: int | None) -> tuple[Token, str] | None:
    """Return the name at the place, or the one before it (read as another's other name), that is nearly a keyword.

    Nearly: letters are left out or swapped; a longer one, such as orders for ORDER, is a name.
    """
    if index is None:
        return None
    for token in (tokens[index], *tokens[max(index - 1, 0) : index]):
        if token.token_type is TokenType.VAR:
            words = [word for word in _KEYWORDS if len(word) >= len(token.text)]
            near = get_close_matches(token.text.upper(), words, n=1, cutoff=_NEARLY)
            if near:
                return token, near[0]
    return None


def _open_bracket(tokens: Sequence[Token], index: int | None) -> Token | None:
    """Return the innermost bracket that is open before a token, or at the end of all."""
    opened: list[Token] = []
    for token in tokens[:index]:
        if token.token_type is TokenType.L_PAREN:
            opened.append(token)
        elif token.token_type is TokenType.R_PAREN and opened:
            opened.pop()
    return opened[-1] if opened else None


def _comma_before(tokens: Sequence[Token], index: int | None) -> Token | None:
    """Return the token that a comma may be missing before: two values that touch, the second of them a name or a call.

    Of `a b c` it is c, for b is read as a's other name; of `a count(*)` it is count.
    """
    if index is None or index < 2:
        return None
    here, before, further = tokens[index], tokens[index - 1], tokens[index - 2]
    if here.token_type in _VALUES - {TokenType.R_PAREN} and before.token_type in _VALUES:
        return here
    if here.token_type is TokenType.L_PAREN and before.token_type in _NAMES and further.token_type in _VALUES:
        return before
    return None
