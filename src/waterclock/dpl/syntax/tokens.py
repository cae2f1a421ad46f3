"""Splits a text into statements with sqlglot's tokenizer, and continues after errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.pipes import complete_pipes, find_limits, tokens_for_parser
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.spark_lexer import differences, without_comments
from waterclock.errors import WaterclockError

_STRINGS = frozenset({TokenType.STRING, TokenType.RAW_STRING})
_OTHERS = frozenset({TokenType.HINT, TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.BYTE_STRING})
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
QUERY_STARTS = frozenset(
    {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.L_PAREN, TokenType.TABLE}
)
_FIRST_WORDS = frozenset({"CREATE", "COLLECT", "TRANSFORM", "PUBLISH", "GRANT"})
_CREATED = frozenset({"CONNECTION", "VIEW", "FUNCTION"})
_JOINING = frozenset({TokenType.DOT, TokenType.COLON, TokenType.PARAMETER})
_LEXEME = re.compile(
    r"""(?P<skip>--[^\n]*|(?<!\w)[rR]'[^']*'|(?<!\w)[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`)
      | (?P<comment>/\*) | (?P<open>['"`]) | (?P<end>;)""",
    re.VERBOSE | re.DOTALL,
)
_SEMICOLON_AT_LINE_END = re.compile(r";[ \t]*(?:--[^\n]*)?\n")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_BAD_HEX = re.compile(r"(?<!\w)[xX]'[^']*'")
_OPEN_NAMES = {"'": "quote", '"': "quote", "`": "backtick", "/*": "comment"}


class Word(NamedTuple):
    """A word of a header. `kind` is word, name, string, number, symbol or other; `token` is the index of its token."""

    kind: str
    text: str
    upper: str
    start: int
    end: int
    token: int


@dataclass(frozen=True, slots=True)
class RawStatement:
    """The tokens of one statement; `query_at` is the index of its query's first token, None if it has no query."""

    source: SourceText
    tokens: Sequence[Token]
    query_at: int | None

    @property
    def span(self) -> Span:
        """The span of the whole statement."""
        return Span(self.source, self.tokens[0].start, self.tokens[-1].end + 1)


@cache
def dialect() -> Dialect:
    """Return sqlglot's dialect for queries: Databricks, which accepts more of Spark's syntax than its Spark dialect."""
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it would log refused text unredacted, next to our error
    return Dialect.get_or_raise("databricks")


def statements_of(source: SourceText) -> tuple[list[RawStatement], list[WaterclockError]]:
    """Split a file into statements; return them and all errors. After an error, splitting continues at the next `;`.

    In the text of the statements, comments are replaced by blanks. So each text that Spark may run consists only of
    checked tokens. E279 is reported for text that Spark would still split into other tokens.
    """
    try:
        tokens = dialect().tokenize(source.text)
    except TokenError:
        return statements_despite_errors(source)
    return _split(source.without_comments(without_comments(source.text, tokens)), tokens, 0, len(source.text))


def statements_despite_errors(source: SourceText) -> tuple[list[RawStatement], list[WaterclockError]]:
    """Split a file in which a quote or a comment may be unclosed; return its statements and all errors.

    A quoted text with a semicolon at the end of a line is reported as unclosed. Otherwise the tokenizer would extend it
    to the next quote, which may belong to another statement.
    """
    pieces: list[tuple[int, int, int | None, list[Token] | None]] = []
    for start, end, broken in _find_statements(source.text):
        try:
            tokens = dialect().tokenize(source.text[start:end]) if broken is None else []
        except TokenError:
            pieces.append((start, end, None, None))
        else:
            _shift(tokens, start, source.place(start).line - source.line, start - source.text.rfind("\n", 0, start) - 1)
            pieces.append((start, end, broken, tokens))
    read = source.without_comments(
        without_comments(source.text, [token for *_, tokens in pieces for token in tokens or ()])
    )
    found: list[RawStatement] = []
    errors: list[WaterclockError] = []
    for start, end, broken, piece in pieces:
        if broken is not None:
            opening = "/*" if source.text.startswith("/*", broken) else source.text[broken]
            errors.append(
                source.span(broken, broken + len(opening)).refuse(
                    "E201",
                    f"this {_OPEN_NAMES[opening]} is never closed",
                    fix=f"close it with {'*/' if opening == '/*' else opening}",
                )
            )
        elif piece is None:
            errors.append(_unreadable_error(source, start, end))
        else:
            cut, unended = _split(read, piece, start, end)
            found.extend(cut)
            errors.extend(unended)
    return found, errors


def words_of(source: SourceText, tokens: Sequence[Token], *, first: int = 0) -> list[Word]:
    """Convert tokens of a header to words; ORDER BY becomes two words. Raises E218 for adjacent strings: `'it''s'`."""
    words: list[Word] = []
    for index, token in enumerate(tokens, first):
        word = _to_word(token, index)
        if word.kind == "string" and words and words[-1].kind == "string" and words[-1].end == word.start:
            raise _touching_strings_error(source, words[-1].start, word.end)
        if word.kind == "word" and " " in word.upper:
            words.extend(_split_words(source, token, index))
        else:
            words.append(word)
    return words


def check_adjacent_strings(source: SourceText, tokens: Sequence[Token]) -> None:
    """Raise E218 for adjacent strings, as in 'it''s': Spark joins them, other databases read an escaped quote."""
    before: Token | None = None
    for token in tokens:
        if before is not None and token.token_type in _STRINGS and before.end + 1 == token.start:
            raise _touching_strings_error(source, before.start, token.end + 1)
        before = token if token.token_type in _STRINGS else None


def _touching_strings_error(source: SourceText, start: int, end: int) -> WaterclockError:
    return source.span(start, end).refuse(
        "E218",
        "two strings have no space between them",
        why="some SQL parsers read a doubled quote as one quote, others as the end of a string",
        fix=r"write a quote inside a string as \', as in 'it\'s'",
    )


def _split(
    source: SourceText, tokens: Sequence[Token], begin: int, end: int
) -> tuple[list[RawStatement], list[WaterclockError]]:
    """Split the tokens of `source` from `begin` to `end` at semicolons; in its text, blanks have replaced comments.

    Also split, with an error, before a statement that has no semicolon before it.
    """
    found: list[RawStatement] = []
    errors = [
        source.span(each.start, each.end).refuse(
            "E279",
            "Spark would split this text into other tokens than the checks",
            why=each.reason,
            fix="quote names with unusual characters in backticks, and put spaces between words",
        )
        for each in differences(source.text, tokens, begin, end)
    ]
    start = 0
    for index, token in enumerate(tokens):
        is_end = token.token_type is TokenType.SEMICOLON
        is_unended = index > start and not is_end and _begins_statement(tokens, index)
        if is_unended:
            errors.append(missing_semicolon_error(source.span(token.start, token.end + 1)))
        if is_end or is_unended:
            if index > start:
                found.append(_build_statement(source, tokens[start:index]))
            start = index + is_end
    if start < len(tokens):
        found.append(_build_statement(source, tokens[start:]))
    return found, errors


def missing_semicolon_error(here: Span) -> WaterclockError:
    """Build the error for a statement that begins before the previous one has ended."""
    return here.refuse("E204", f"a semicolon is missing before {here.text}", fix="end each statement with ;")


def _begins_statement(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a statement certainly begins at `index`: its words occur only at the start of statements."""
    first = tokens[index].text.upper()
    if first not in _FIRST_WORDS or tokens[index].token_type in _STRINGS or tokens[index - 1].token_type in _JOINING:
        return False
    following = tokens[index + 1 : index + 4]
    if first == "CREATE":
        return bool(following) and following[0].text.upper() in _CREATED
    if first == "GRANT":
        return bool(following) and following[0].token_type is TokenType.SELECT
    return (
        len(following) == 3
        and following[0].token_type not in _STRINGS
        and following[0].text.isidentifier()
        and following[1].token_type is TokenType.DOT
        and following[2].text.isidentifier()
    )


def _build_statement(source: SourceText, tokens: Sequence[Token]) -> RawStatement:
    depth = 0
    for index in range(len(tokens) - 1):
        kind = tokens[index].token_type
        if kind in _OPENING:
            depth += 1
        elif kind in _CLOSING:
            depth -= 1
        elif kind is TokenType.ALIAS and depth <= 0 and tokens[index + 1].token_type in QUERY_STARTS:
            return RawStatement(source, tokens, index + 1)
    return RawStatement(source, tokens, None)


def _to_word(token: Token, index: int) -> Word:
    kind, text = token.token_type, token.text
    if kind in _STRINGS:
        name = "string"
    elif kind is TokenType.IDENTIFIER:
        name = "name"
    elif kind is TokenType.NUMBER:
        name = "number"
    elif kind in _OTHERS:
        name = "other"
    elif text[:1].isalnum() or text[:1] == "_":
        name = "word"
    else:
        name = "symbol"
    return Word(name, text, text.upper() if name == "word" else text, token.start, token.end + 1, index)


def _split_words(source: SourceText, token: Token, index: int) -> Iterator[Word]:
    for match in re.finditer(r"\w+", source.text[token.start : token.end + 1]):
        text = match.group()
        yield Word("word", text, text.upper(), token.start + match.start(), token.start + match.end(), index)


def _unreadable_error(source: SourceText, start: int, end: int) -> WaterclockError:
    match = next((m for m in _BAD_HEX.finditer(source.text, start, end) if not _is_hex(m.group())), None)
    if match:
        return source.span(match.start(), match.end()).refuse(
            "E201", f"{match.group()} is not a hexadecimal string", fix="write digits and A to F, as in X'0AFF'"
        )
    lead = start + len(source.text[start:end]) - len(source.text[start:end].lstrip())
    return source.span(lead).refuse("E201", "this statement cannot be read", fix="remove a stray quote or character")


def _is_hex(literal: str) -> bool:
    return all(digit in "0123456789abcdefABCDEF" for digit in literal[2:-1])


def _shift(tokens: Sequence[Token], offset: int, lines: int, columns: int) -> None:
    """Move the positions of tokens by an offset, by lines, and in the first line by columns."""
    for token in tokens:
        token.start += offset
        token.end += offset
        token.col += columns if token.line == 1 else 0
        token.line += lines


def _find_statements(text: str) -> Iterator[tuple[int, int, int | None]]:
    """Yield the start and end of each statement in a text, and the offset of its unclosed quote or comment, or None."""
    start = position = 0
    while position < len(text):
        match = _LEXEME.search(text, position)
        if match is None:
            break
        broken: int | None = None
        if match["end"]:
            yield start, match.start(), None
            start = position = match.end()
            continue
        if match["skip"] and not _SEMICOLON_AT_LINE_END.search(match["skip"]):
            position = match.end()
            continue
        if match["comment"]:
            closed = _comment_end(text, match.start())
            if closed is not None:
                position = closed
                continue
        broken = match.start() + (text[match.start()] in "rR")
        behind = text.find(";", broken)
        yield start, broken, broken
        if behind < 0:
            return
        start = position = behind + 1
    if text[start:].strip():
        yield start, len(text), None


def _comment_end(text: str, start: int) -> int | None:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return None


def parse_tokens(source: SourceText, tokens: Sequence[Token]) -> list[Any]:
    """Parse tokens to syntax trees, whose nodes have offsets in `source`. Raises sqlglot's ParseError."""
    trees = dialect().parser().parse(tokens_for_parser(tokens), source.text)
    for limit, selected in find_limits(trees, tokens):
        [tree] = parse_tokens(source, selected)
        limit.set("expression", tree.expressions[0])
    return [complete_pipes(tree, tokens) for tree in trees]


def parse_query_text(text: str) -> Any:
    """Return the syntax tree of a query's text. Raises sqlglot's ParseError and TokenError."""
    tokens = dialect().tokenize(text)
    tree = next(iter(parse_tokens(SourceText("", text), tokens)), None)
    if tree is None:
        raise ParseError("there is no query")
    return tree
