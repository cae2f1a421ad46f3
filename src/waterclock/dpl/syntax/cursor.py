"""A cursor over the words of a statement, with methods that parse names, strings, numbers and durations."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.tokens import Word
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Value
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.duration import Duration, parse_duration

T = TypeVar("T")
_PLAIN = frozenset({"word", "symbol"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_NAME = 100  # file and folder names have at most 255 bytes, and some consist of two names and an ending
_MOST_DIGITS = 18
_CLOSING = frozenset({")", "]", ">"})
_CLAUSES_OF_OTHER_TOOLS = frozenset({"CONSTRAINT", "TARGET_LAG", "LOCATION", "TBLPROPERTIES", "USING"})
NOTHING = Word("end", "", "", 0, 0, -1)
# maps the first word of clauses to all words with which each begins, and to the word of its definition
FirstWords = Mapping[str, Sequence[tuple[tuple[str, ...], str]]]


class Cursor:
    """A position in a list of words; its methods consume words from left to right, and raise errors with positions.

    `variables` maps each `:name` to its value in the project file. `first_words` are the words with which clauses
    begin; empty for a text that contains no clauses.
    """

    def __init__(
        self,
        source: SourceText,
        words: Sequence[Word],
        tokens: Sequence[Any],
        variables: Mapping[str, Value],
        *,
        first_words: FirstWords,
    ) -> None:
        self.first_words = first_words
        self.source = source
        self.words = words
        self.tokens = tokens
        self.variables = variables
        self.index = 0

    @property
    def is_done(self) -> bool:
        """True after the last word."""
        return self.index >= len(self.words)

    def peek(self, ahead: int = 0) -> Word:
        """Return the word `ahead` words from here, without consuming it; `NOTHING` outside of the words."""
        position = self.index + ahead
        return self.words[position] if 0 <= position < len(self.words) else NOTHING

    def take(self) -> Word:
        """Consume the next word and return it."""
        word = self.peek()
        self.index += 1
        return word

    def at(self, *uppers: str) -> bool:
        """Return whether the next words equal `uppers`, which are in capitals. Quoted words never match."""
        position = self.index
        if position + len(uppers) > len(self.words):
            return False
        for word, upper in zip(self.words[position : position + len(uppers)], uppers, strict=True):
            if word.upper != upper or word.kind not in _PLAIN:
                return False
        return True

    def accept(self, *uppers: str) -> bool:
        """Consume the next words if they equal `uppers`; return whether they do."""
        if self.at(*uppers):
            self.index += len(uppers)
            return True
        return False

    def clause_at(self, ahead: int = 0) -> tuple[str, int] | None:
        """Return the clause that begins `ahead` words from here, by its word, and the number of words that begin it."""
        word = self.peek(ahead)
        if word.kind != "word":
            return None
        for start, clause in self.first_words.get(word.upper, ()):
            if all(self.peek(ahead + at).upper == upper for at, upper in enumerate(start)):
                return clause, len(start)
        return None

    def begins_clause(self, ahead: int = 0) -> bool:
        """Return whether a clause begins `ahead` words from here. Known clauses of other tools count too."""
        if self.clause_at(ahead) is not None:
            return True
        upper = self.peek(ahead).upper
        if upper == "ON":
            return self.peek(ahead + 1).upper == "VIOLATION"
        return self.peek(ahead).kind == "word" and upper in _CLAUSES_OF_OTHER_TOOLS

    def need(self, upper: str, *, fix: str | None = None) -> Word:
        """Consume the next word, which must be `upper`. Raises E204 for any other word."""
        if not self.at(upper):
            self.raise_unexpected(upper, fix=fix or self._missing_word_fix(upper))
        return self.take()

    def raise_unexpected(self, wanted: str, *, fix: str) -> NoReturn:
        """Raise E204 at the next word; `wanted` describes the expected words."""
        found = "the end of the statement" if self.is_done else self.here().text
        raise self.here().refuse("E204", f"expected {wanted}, found {found}", fix=fix)

    def here(self) -> Span:
        """Return the span of the next word; at the end, the span of the last word."""
        word = self.peek()
        if word is NOTHING and self.words:
            word = self.words[-1]
        return self.span(word)

    def span(self, word: Word) -> Span:
        """Return the span of a word."""
        return Span(self.source, word.start, max(word.end, word.start + 1))

    def span_since(self, index: int) -> Span:
        """Return the span of the words from `index` to before the next word."""
        last = max(index, self.index - 1)
        first = self.words[min(index, len(self.words) - 1)]
        return Span(self.source, first.start, self.words[min(last, len(self.words) - 1)].end)

    def name(self, what: str, *, fix: str | None = None) -> Word:
        """Parse a name: a word, or anything in backticks; `what` describes it in the error E204."""
        word = self.peek()
        if word.kind not in {"word", "name"}:
            self.raise_unexpected(what, fix=self._suggest_unquoted() or fix or f"write {what}")
        return self.take()

    def plain_name(self, what: str) -> Word:
        """Parse a name of up to 100 letters, digits and `_`. Raises E211 for any other."""
        word = self.name(what)
        if not _NAME.fullmatch(word.text):
            raise self.span(word).refuse(
                "E211",
                f"{word.text!r} cannot be {what}",
                why="names become folders, columns and tables in other systems: letters, digits and _",
                fix=f"write {_to_plain_name(word.text)}",
            )
        if len(word.text) > _LONGEST_NAME:
            raise self.span(word).refuse(
                "E211",
                f"{_shorten(word.text)} is too long for {what}",
                why=f"it has {len(word.text)} characters; names become folders, which limit their length",
                fix=f"choose a name with at most {_LONGEST_NAME} characters",
            )
        return word

    def path(self, what: str) -> tuple[tuple[str, ...], Span]:
        """Parse names joined by dots; return them with their span. After a dot, any word is a name."""
        start = self.index
        parts = [self.name(what).text]
        while self.accept("."):
            word = self.peek()
            if word.kind not in {"word", "name", "number"}:
                self.raise_unexpected(
                    f"a name after the dot of {'.'.join(parts)}.",
                    fix=f"add the name, as in {'.'.join(parts)}.name, or remove the dot",
                )
            parts.append(self.take().text)
        return tuple(parts), self.span_since(start)

    def table(self) -> tuple[str, Span]:
        """Parse a table's name, `schema.table`; return it with its span."""
        start = self.index
        if self.peek().kind not in {"word", "name"}:
            self.raise_unexpected(
                "a table, schema.name", fix=self._suggest_unquoted() or "write a schema and a name, as in raw.orders"
            )
        parts, span = self.path("a table")
        if len(parts) != 2:
            raise span.refuse(
                "E211",
                f"{'.'.join(parts)} is not a table name",
                why="a table is schema.name: two names",
                fix=f"write {parts[-2]}.{parts[-1]}" if len(parts) > 2 else f"give it a schema, as in raw.{parts[0]}",
            )
        end, self.index = self.index, start
        for _ in range(2):
            self.plain_name("a table's name")
            self.accept(".")
        self.index = end
        return ".".join(parts), span

    def names(self, what: str) -> tuple[str, ...]:
        """Parse a list of names in brackets."""
        self.need("(", fix=f"write {what} in brackets, as in (a, b)")
        found = [self.name("a name").text]
        while self.accept(","):
            found.append(self.name("a name").text)
        self.need(")")
        return tuple(found)

    def text(self, what: str) -> str:
        """Parse a string, or a `:name` whose value is one; `what` describes it in errors."""
        if self.at(":"):
            value, span = self.variable()
            if not isinstance(value, str):
                raise span.refuse(
                    "E217", f"{span.text} is {value!r}, and {what} must be a string", fix="quote it in [vars]"
                )
            return value
        if self.peek().kind != "string":
            here = self.here()
            quoted = None if self.is_done else f"quote it: '{here.text}'"
            raise here.refuse("E204", f"expected {what} in quotes, found {self._describe_next()}", fix=quoted)
        return self.take().text

    def number(self, what: str) -> int:
        """Parse a whole number, or a `:name` whose value is one; `what` describes it in errors."""
        if self.at(":"):
            value, span = self.variable()
            if not isinstance(value, int) or isinstance(value, bool):
                raise span.refuse(
                    "E217",
                    f"{span.text} is {value!r}, and {what} must be a whole number",
                    fix="set it to a whole number",
                )
            return value
        if self.peek().kind != "number" or not self.peek().text.isdigit():
            self.raise_unexpected(what, fix="write a whole number in digits, as in 10")
        if len(self.peek().text) > _MOST_DIGITS:
            self.raise_unexpected(f"{what} of at most {_MOST_DIGITS} digits", fix="write a smaller number")
        return int(self.take().text)

    def value(self) -> Value:
        """Parse a value: a string, a number, TRUE, FALSE, or a `:name`."""
        if self.at(":"):
            return self.variable()[0]
        word = self.peek()
        if word.kind == "string":
            return self.take().text
        is_negative = self.accept("-")
        if self.peek().kind == "number":
            span, digits = self.here(), self.take().text
            try:
                number = float(digits) if re.search(r"[.eE]", digits) else int(digits)
                is_finite = math.isfinite(number)
            except (ValueError, OverflowError):  # as 1e, or more digits than Python reads, or than a float has
                is_finite = False
            if not is_finite:
                raise span.refuse(
                    "E204", f"{_shorten(digits)} is not a number", fix="write it in digits, as in 10 or 0.5"
                )
            return -number if is_negative else number
        if word.upper in {"TRUE", "FALSE"}:
            return self.take().upper == "TRUE"
        text = self.here().text
        is_text = not self.is_done and word.kind in {"word", "name"}
        return self.raise_unexpected(
            "a value: 'text', a number, TRUE or FALSE",
            fix=f"quote it: '{text.strip('`')}'" if is_text else "write one, as in 'csv', 10 or TRUE",
        )

    def variable(self) -> tuple[Value, Span]:
        """Parse a `:name`; return its value and its span. Raises E217 for an unknown name."""
        start = self.index
        self.need(":")
        name = self.name("a variable after the colon").text
        span = self.span_since(start)
        if name not in self.variables:
            raise unknown_variable(name, span, self.variables)
        return self.variables[name], span

    def duration(self, *, fix: str | None = None) -> Duration:
        """Parse a duration, such as `7 DAYS`, or a `:name` whose value is one."""
        if self.at(":"):
            value, span = self.variable()
            return parse_at(span, lambda: parse_duration(str(value)))
        start = self.index
        word = self.peek()
        if word.kind == "string":
            raise self.here().refuse(
                "E204", f"a duration takes no quotes here: {self.here().text}", fix=f"write {word.text.upper()}"
            )
        if word.kind == "word" and word.text[:1].isdigit():  # the tokenizer reads 15m as one word
            self.take()
        elif word.kind != "number":
            self.raise_unexpected(
                "a duration, a number and a unit", fix=fix or "write one such as 7 DAYS or 15 MINUTES"
            )
        else:
            self.take()
            self._take_unit()
        span = self.span_since(start)
        return parse_at(span, lambda: parse_duration(span.text))

    def _take_unit(self) -> None:
        if self.at("::"):  # the tokenizer reads 7D as a number with a type
            self.index += 2
        elif self.peek().kind == "word":
            self.take()

    def _missing_word_fix(self, upper: str) -> str:
        """Return the fix for a word or bracket that is missing before the next word."""
        if upper in _CLOSING:
            return f"close it with {upper}"
        before = self.peek(-1)
        return did_you_mean(self.peek().upper, [upper]) or (
            f"write {upper}" if before is NOTHING else f"write {upper} after {self.span(before).text}"
        )

    def _suggest_unquoted(self) -> str | None:
        """Return the fix if the next word is a string and a name is expected; None for any other word."""
        word = self.peek()
        if word.kind != "string" or not word.text:
            return None
        is_plain = all(_NAME.fullmatch(part) for part in word.text.split("."))
        return f"write it without quotes: {word.text}" if is_plain else f"write it in backticks: `{word.text}`"

    def _describe_next(self) -> str:
        return "the end of the statement" if self.is_done else self.here().text


def unknown_variable(name: str, span: Span, known: Mapping[str, Value]) -> WaterclockError:
    """Build the error for a `:name` without a value in the project file."""
    return span.refuse(
        "E217",
        f"unknown variable :{name}",
        why=f"[vars] has {', '.join(sorted(known))}" if known else "the project file has no [vars]",
        fix=did_you_mean(name, known, otherwise=f"add {name} = ... below [vars] in waterclock.toml"),
    )


def parse_at(span: Span, read: Callable[[], T]) -> T:
    """Return the result of `read`. If it raises an error without a position, add the position of `span`."""
    try:
        return read()
    except WaterclockError as error:
        raise ensure_place(error, span) from None


def ensure_place(error: WaterclockError, span: Span) -> WaterclockError:
    """Return an error with the position and excerpt of `span`, unless it has a position already."""
    if error.where is None:
        error.where = str(span.place)
        error.excerpt = span.source.excerpt(span.start, span.end)
    return error


def _to_plain_name(text: str) -> str:
    plain = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "name"
    return f"_{plain}" if plain[0].isdigit() else plain


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"
