"""Finds SQL text that Spark's lexer would split into other tokens than sqlglot's.

Waterclock checks sqlglot's tokens, but Spark runs the text. If the lexers differ, Spark could run something other than
the checked text. So comments are removed from texts, and a text with `differences` is refused.
The rules follow `SqlBaseLexer.g4` of Spark 4.2.0; tests compare them with that lexer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlglot.tokens import Token, TokenType

# Longest match first, as Spark's lexer prefers it: R'...' is a raw string, br'...' a word and a string.
_LEXEME = re.compile(
    r"""(?P<raw>[rR]'[^']*' | [rR]"[^"]*")
      | (?P<address>[^\W\d_]+://)
      | (?P<word>\w+)
      | (?P<quoted>'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*`)
      | (?P<open>['"`]) | (?P<dollars>\$\w*\$)
      | (?P<comment>--|/\*(?!\+))
      | (?P<space>\s+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_IN_A_GAP = re.compile(r"[^\n]")
_IN_A_HINT = re.compile(r"/\*\+(?:[\w\s(),.=]|`[^`\n]*`)*\*/")
_SPLIT_WORD = "Spark reads this as one word"
_OTHER_LETTER = "Spark reads a letter of this as another letter"
_REASONS = {
    "open": "Spark finds no end of this quotation",
    "comment": "Spark starts a comment here",
    "dollars": "Spark starts a quotation here",
    "address": "Spark reads this as an address",
}
_PREFIXED = frozenset({TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.BYTE_STRING})


class TokenDifference(NamedTuple):
    """The offsets of a text that Spark splits into other tokens than sqlglot, and the reason in words."""

    start: int
    end: int
    reason: str


def without_comments(text: str, tokens: Sequence[Token]) -> str:
    """Return a text with everything between its tokens replaced by blanks; line breaks and offsets do not change."""
    pieces, copied = [], 0
    for token in tokens:
        if token.start > copied:
            pieces.append(_IN_A_GAP.sub(" ", text[copied : token.start]))
        pieces.append(text[max(token.start, copied) : token.end + 1])
        copied = max(copied, token.end + 1)
    return "".join([*pieces, _IN_A_GAP.sub(" ", text[copied:])])


def differences(
    text: str, tokens: Sequence[Token], begin: int = 0, end: int | None = None
) -> Iterator[TokenDifference]:
    """Yield the parts of a text, from `begin` to `end`, that Spark splits into other tokens than sqlglot.

    Comments must have been removed. Strings and quoted names must end at the same place for both, and no token may
    start or end within a word. A hint may contain only names, numbers, brackets and commas. Adjacent strings are
    reported elsewhere (E218).
    """
    starts = {token.start: token for token in tokens}
    edges = {edge for token in tokens for edge in (token.start, token.end + 1)}
    at, end = begin, len(text) if end is None else end
    while at < end:
        token = starts.get(at)
        if token is not None and token.token_type is TokenType.HINT:
            if not _IN_A_HINT.fullmatch(text, at, token.end + 1):
                yield TokenDifference(at, token.end + 1, "a hint may contain only names, numbers, brackets and commas")
            at = token.end + 1
            continue
        found = _LEXEME.match(text, at, end)
        if found is None:
            return
        reason = _difference(found, starts, edges)
        if reason:
            yield TokenDifference(at, found.end(), reason)
        at = found.end()


def _difference(found: re.Match[str], starts: dict[int, Token], edges: set[int]) -> str | None:
    start, end = found.span()
    kind = found.lastgroup or ""
    if kind in {"raw", "quoted"}:
        is_same = _ends_at(end, start, starts) or _is_prefixed(start, end, starts)
        return None if is_same else "Spark ends this quotation elsewhere"
    if kind == "word":
        is_split = any(edge in edges for edge in range(start + 1, end)) and not _is_prefixed(start, end, starts)
        is_ascii_to_spark = any(not sign.isascii() and sign.upper().isascii() for sign in found[0])
        return _SPLIT_WORD if is_split else _OTHER_LETTER if is_ascii_to_spark else None
    return _REASONS.get(kind)


def _ends_at(end: int, start: int, starts: dict[int, Token]) -> bool:
    """Return whether one token, or several adjacent strings, cover exactly the offsets from `start` to `end`."""
    token = starts.get(start)
    while token is not None and token.end + 1 < end and token.token_type is TokenType.STRING:
        token = starts.get(token.end + 1)
    return token is not None and token.end + 1 == end


def _is_prefixed(start: int, end: int, starts: dict[int, Token]) -> bool:
    """Return whether the range is part of a literal such as X'0AFF': one token of sqlglot, but two lexemes here."""
    for at in (start, start - 1):
        token = starts.get(at)
        if token is not None and token.token_type in _PREFIXED:
            return token.end + 1 == end or (at == start and end == start + 1)
    return False
