"""Parses each clause with one reader, the same for a DPL header and for an argument in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from waterclock.dpl.syntax.clause_table import BY_WORD, FLAG_CLAUSES, TEXT_CLAUSES, begins_clause, clause_at
from waterclock.dpl.syntax.column_clause import skip_brackets, take_column_entries, take_columns
from waterclock.dpl.syntax.cursor import Cursor, parse_at
from waterclock.dpl.syntax.expect_clause import take_rules
from waterclock.dpl.syntax.expressions import take_expression
from waterclock.dpl.syntax.measure_clause import take_measures
from waterclock.dpl.syntax.mode_clause import take_mode
from waterclock.dpl.syntax.not_yet import not_yet
from waterclock.dpl.syntax.schema_clauses import take_compatible, take_on_schema_change
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import (
    AwaitSaid,
    BatchedSaid,
    ChangedSaid,
    DeadlineSaid,
    EachSaid,
    Expression,
    OptionsSaid,
    QuerySaid,
    UnitSaid,
    WasSaid,
    WatermarkSaid,
)
from waterclock.dpl.syntax.tokens import refuse_touching, statements_of, words_of
from waterclock.errors import WaterclockError
from waterclock.flow.choices import Batching, OnRestate, Sign
from waterclock.flow.declarations import Secret, Value
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.period import Period, parse_period
from waterclock.timelabel.zone import nominal_zone

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|:\w+""", re.DOTALL)


def read_clause(word: str, cursor: Cursor) -> Any:
    """Read a clause after its word; the word of a mode is part of the clause, because it names the mode.

    Raises the clause's own errors, and E208 for a clause of a later release
    """
    clause = BY_WORD.get(word)
    if clause is not None and clause.is_later:
        raise not_yet(word, cursor.here())
    return _READERS[word](cursor)


def parse_clause(word: str, text: str, source: SourceText, *, variables: Mapping[str, Value]) -> Any:
    """Read the text of a single clause, as an argument in Python: the whole text, by the reader that DPL uses.

    `word` is the clause's word (`EVERY`, `BY`, `MODE`, `COLUMNS`, `FROM`, `AS`, ...); `source` gives the text its
    place. Texts of one string (ZONE, START, SCHEDULE, OWNER, COMMENT) need no quotes of their own.
    """
    if word in TEXT_CLAUSES and not _QUOTED.fullmatch(text.strip()):
        return _checked_text(word, text, source.span(0, max(len(text), 1)))
    statements, errors = statements_of(source)
    if errors:
        raise errors[0]
    source = statements[0].source if statements else source
    whole = source.span(0, max(len(text), 1))
    if len(statements) > 1:
        raise statements[1].span.refuse("E204", "a semicolon stands inside of an argument", fix="leave it out")
    if word == "AS":
        if not statements:
            raise whole.refuse("E233", "the query is empty", fix="write one: SELECT ... FROM ...")
        refuse_touching(source, statements[0].tokens)
        return QuerySaid(statements[0].span, statements[0].tokens)
    tokens = statements[0].tokens if statements else []
    cursor = Cursor(source, words_of(source, tokens), tokens, variables)
    if cursor.is_done and word not in FLAG_CLAUSES:
        raise whole.refuse(
            "E204", f"nothing is said for {word}", fix=f"write what {word} takes, or leave the argument out"
        )
    if word == "COLUMNS" and not cursor.at("("):
        value: Any = take_column_entries(cursor)
    else:
        value = read_clause(word, cursor)
    if not cursor.is_done:
        cursor.raise_unexpected(f"nothing more behind {word}", fix=f"leave {cursor.here().text} out")
    return value


def take_unit(cursor: Cursor) -> UnitSaid:
    """Take `connection.path` or `connection QUERY 'text'`."""
    start = cursor.index
    parts, span = cursor.path("a connection and what is in it, as in shop.public.orders")
    if cursor.accept("QUERY"):
        if len(parts) > 1:
            raise span.refuse("E204", "QUERY stands right behind the connection", fix=f"write {parts[0]} QUERY '...'")
        return UnitSaid(parts[0], "", cursor.text("a query"), cursor.since(start))
    if len(parts) == 1:
        raise span.refuse(
            "E204", f"{parts[0]} alone names no unit", fix=f"say what in it: {parts[0]}.name, or {parts[0]} QUERY '...'"
        )
    return UnitSaid(parts[0], ".".join(parts[1:]), None, span)


def take_options(cursor: Cursor) -> OptionsSaid:
    """Take OPTIONS (name value, ...), after the word OPTIONS."""
    values: dict[str, Value | Secret] = {}
    spans: dict[str, Span] = {}
    cursor.need("(", fix="options stand in brackets: OPTIONS (format 'csv')")
    while not cursor.accept(")"):
        parts, span = cursor.path("an option")
        name = ".".join(parts)
        if name in values:
            raise span.refuse("E207", f"option {name} is said twice", fix="say it once")
        cursor.accept("=")  # accepted: a habit that can have only one meaning
        values[name] = Secret(cursor.text("a secret's name")) if cursor.accept("SECRET") else cursor.value()
        spans[name] = span
        if not cursor.accept(",") and not cursor.at(")"):
            cursor.raise_unexpected(
                "a comma or ) behind the option", fix="put a comma before the next, or close it with )"
            )
    return OptionsSaid(values, spans)


def _every(cursor: Cursor) -> Period:
    if cursor.at(":"):
        value, span = cursor.variable()
        return parse_at(span, lambda: parse_period(str(value)))
    start = cursor.index
    if cursor.peek().kind == "string":
        text = cursor.take().text
        raise cursor.since(start).refuse("E204", "a period takes no quotes", fix=f"write EVERY {_plain_period(text)}")
    if cursor.peek().kind == "number":
        cursor.take()
        if cursor.at("::"):  # the tokenizer reads 7D as a number with a type
            cursor.index += 2
        elif cursor.peek().kind == "word" and clause_at(cursor) is None:
            cursor.take()
    else:
        cursor.name("a period, as in 15 MINUTES, HOUR or DAY")
    span = cursor.since(start)
    return parse_at(span, lambda: parse_period(span.text))


def _plain_period(text: str) -> str:
    try:
        return str(parse_period(text))
    except WaterclockError:
        return "15 MINUTES, EVERY HOUR or EVERY DAY"


def _text_of(word: str) -> Callable[[Cursor], str]:
    def read(cursor: Cursor) -> str:
        start = cursor.index
        text = cursor.text(_TEXT_NAMES[word])
        return _checked_text(word, text, cursor.since(start))

    return read


_TEXT_NAMES = {
    "SCHEDULE": "a cron expression",
    "ZONE": "a zone",
    "START": "an instant",
    "OWNER": "an owner",
    "COMMENT": "a comment",
}


def _checked_text(word: str, text: str, span: Span) -> str:
    if word == "ZONE":
        parse_at(span, lambda: nominal_zone(text))
    return text


def _duration(cursor: Cursor) -> Duration:
    return cursor.duration()


def _take_elapsed_time(cursor: Cursor) -> Duration:
    start = cursor.index
    duration = cursor.duration()
    parse_at(cursor.since(start), duration.to_timedelta)
    return duration


def _by(cursor: Cursor) -> BatchedSaid:
    if cursor.accept("BY"):  # the cursor is before BY in a header, after it in Python
        pass
    if cursor.accept("ARRIVAL"):
        cursor.need("TIME")
        return BatchedSaid(Batching.ARRIVAL_TIME)
    if cursor.accept("CHANGES"):
        return BatchedSaid(Batching.CHANGES)
    if not cursor.accept("DATA"):
        cursor.raise_unexpected(
            "DATA TIME, ARRIVAL TIME or CHANGES behind BY", fix="as in BY DATA TIME updated_at, or BY ARRIVAL TIME"
        )
    cursor.need("TIME")
    column = cursor.name("the column that holds the data time", fix="as in BY DATA TIME updated_at").text
    if not cursor.accept("LOOKBACK"):
        return BatchedSaid(Batching.DATA_TIME, column)
    lookback = cursor.duration()
    return BatchedSaid(Batching.DATA_TIME, column, lookback, _take_changed(cursor))


def _take_changed(cursor: Cursor) -> ChangedSaid | None:
    start = cursor.index
    if not cursor.accept("CHANGED"):
        return None
    is_by = cursor.accept("BY")
    what = "the column that holds when a row was changed"
    column = cursor.name(what, fix="as in CHANGED BY updated_at").text if is_by else None
    return ChangedSaid(column, cursor.since(start))


def _for_each(cursor: Cursor) -> EachSaid:
    return EachSaid(*cursor.table())


def _was(cursor: Cursor) -> WasSaid:
    return WasSaid(*cursor.table())


def _await(cursor: Cursor) -> AwaitSaid:
    start = cursor.index
    if cursor.accept("NEXT"):
        sign, text = Sign.NEXT, ""
    elif cursor.accept("QUERY"):
        sign, text = Sign.QUERY, cursor.text("a query that gives TRUE once all is there")
    else:
        sign, text = Sign.MARKER, cursor.text("the name of a marker, NEXT or QUERY")
    span = cursor.since(start)
    return AwaitSaid(sign, text, cursor.duration() if cursor.accept("FOR") else None, span)


def _watermark(cursor: Cursor) -> WatermarkSaid:
    column = cursor.name("the column that holds the rows' own time", fix="as in WATERMARK at 10 MINUTES").text
    start = cursor.index
    lateness = cursor.duration()
    elapsed = parse_at(cursor.since(start), lateness.to_timedelta)
    return WatermarkSaid(column, elapsed, cursor.names("columns") if cursor.accept("PER") else ())


def _deadline(cursor: Cursor) -> DeadlineSaid:
    after = cursor.duration()
    is_by_watermark = cursor.at("BY") and clause_at(cursor) is None  # BY DATA TIME is a clause of its own
    if is_by_watermark:
        cursor.take()
        cursor.need("WATERMARK")
    return DeadlineSaid(after, is_by_watermark)


def _pool(cursor: Cursor) -> str:
    return cursor.plain_name("a pool").text


def _on_restate(cursor: Cursor) -> OnRestate:
    if cursor.at("RESEND"):
        raise not_yet("ON RESTATE RESEND", cursor.here(), fix="no destination of this release needs it")
    choice = next((choice for choice in OnRestate if cursor.accept(choice.name)), None)
    if choice is None:
        cursor.raise_unexpected(
            "RECOMPUTE or REPORT behind ON RESTATE", fix="write ON RESTATE RECOMPUTE or ON RESTATE REPORT"
        )
    return choice


def _flag(cursor: Cursor) -> bool:  # noqa: ARG001  every reader takes the cursor
    return True


def _tags(cursor: Cursor) -> tuple[str, ...]:
    return cursor.names("tags")


def _type(cursor: Cursor) -> str:
    return cursor.plain_name("a connection type").text.lower()


def _when(cursor: Cursor) -> Expression:
    return take_expression(cursor, "a condition", begins_clause, fix="as in WHEN WINDOW_START() < '2024-01-01'")


def _close_when(cursor: Cursor) -> Expression:
    return take_expression(
        cursor, "a condition", begins_clause, fix="as in CLOSE WHEN watermark(at, device) >= WINDOW_END()"
    )


_READERS: dict[str, Callable[[Cursor], Any]] = {
    "EVERY": _every,
    "WHEN": _when,
    "SCHEDULE": _text_of("SCHEDULE"),
    "DELAY": _duration,
    "ZONE": _text_of("ZONE"),
    "START": _text_of("START"),
    "BY": _by,
    "MODE": take_mode,
    "EXPECT": lambda cursor: take_rules(cursor, begins_clause),
    "MEASURE": lambda cursor: take_measures(cursor, begins_clause),
    "RETAIN": _duration,
    "KEEP VERSIONS": _duration,
    "PARTIAL AFTER": _duration,
    "CLOSE WHEN": _close_when,
    "MAX LATENESS": _duration,
    "DEADLINE": _deadline,
    "RUNTIME": _take_elapsed_time,
    "SEQUENTIAL": _flag,
    "SHARED": _flag,
    "POOL": _pool,
    "AWAIT": _await,
    "FOR EACH": _for_each,
    "WAS": _was,
    "WATERMARK": _watermark,
    "ON RESTATE": _on_restate,
    "ON SCHEMA CHANGE": take_on_schema_change,
    "COMPATIBLE": take_compatible,
    "OWNER": _text_of("OWNER"),
    "TAGS": _tags,
    "COMMENT": _text_of("COMMENT"),
    "COLUMNS": take_columns,
    "FROM": take_unit,
    "TO": take_unit,
    "OPTIONS": take_options,
    "TYPE": _type,
}


def skip_clause(cursor: Cursor) -> None:
    """Skip the remainder of a clause, up to the next clause's word outside of brackets."""
    while not cursor.is_done and not begins_clause(cursor, 0):
        if cursor.peek().kind == "symbol" and cursor.peek().text in "([{":
            try:
                skip_brackets(cursor)
            except WaterclockError:
                cursor.index = len(cursor.words)
        else:
            cursor.take()
