"""The functions that parse the values of clauses; each moves a cursor past the value and returns it."""

from __future__ import annotations

from collections.abc import Callable

from waterclock.dpl.syntax.cursor import Cursor, parse_at
from waterclock.dpl.syntax.expressions import parse_expression
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import (
    Expression,
    ParsedApart,
    ParsedAwait,
    ParsedBatching,
    ParsedChanged,
    ParsedDeadline,
    ParsedForEach,
    ParsedName,
    ParsedOptions,
    ParsedRestate,
    ParsedUnit,
    ParsedWas,
    ParsedWatermark,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Secret, Value
from waterclock.flow.enums import Batching, OnRestate, WindowSignal
from waterclock.flow.row_order import Buckets
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.period import Period, parse_period
from waterclock.timelabel.zone import nominal_zone


def parse_unit(cursor: Cursor) -> ParsedUnit:
    """Parse a unit, which is a source or destination: `connection.path` or `connection QUERY 'text'`."""
    start = cursor.index
    parts, span = cursor.path("a connection and a unit in it, as in shop.public.orders")
    if cursor.accept("QUERY"):
        if len(parts) > 1:
            raise span.refuse("E204", "QUERY must come right after the connection", fix=f"write {parts[0]} QUERY '...'")
        return ParsedUnit(parts[0], "", cursor.text("a query"), cursor.span_since(start))
    if len(parts) == 1:
        raise span.refuse(
            "E204", f"{parts[0]} is only a connection", fix=f"add a unit: {parts[0]}.name, or {parts[0]} QUERY '...'"
        )
    return ParsedUnit(parts[0], ".".join(parts[1:]), None, span)


def parse_options(cursor: Cursor) -> ParsedOptions:
    """Parse the list of OPTIONS: `(name value, ...)`."""
    values: dict[str, Value | Secret] = {}
    spans: dict[str, Span] = {}
    cursor.need("(", fix="write options in brackets: OPTIONS (format 'csv')")
    while not cursor.accept(")"):
        parts, span = cursor.path("an option")
        name = ".".join(parts)
        if name in values:
            raise span.refuse("E207", f"option {name} is written twice", fix="remove one")
        cursor.accept("=")  # accepted, because it is common elsewhere and has only one meaning
        values[name] = Secret(cursor.text("a secret's name")) if cursor.accept("SECRET") else cursor.value()
        spans[name] = span
        if not cursor.accept(",") and not cursor.at(")"):
            cursor.raise_unexpected(
                "a comma or ) after the option", fix="put a comma before the next option, or close the list with )"
            )
    return ParsedOptions(values, spans)


def parse_every(cursor: Cursor) -> Period:
    """Parse the period of EVERY, such as `15 MINUTES` or `:name`."""
    if cursor.at(":"):
        value, span = cursor.variable()
        return parse_at(span, lambda: parse_period(str(value)))
    start = cursor.index
    if cursor.peek().kind == "string":
        text = cursor.take().text
        raise cursor.span_since(start).refuse(
            "E204", "a period takes no quotes", fix=f"write EVERY {_suggest_period(text)}"
        )
    if cursor.peek().kind == "number":
        cursor.take()
        if cursor.at("::"):  # the tokenizer reads 7D as a number with a type
            cursor.index += 2
        elif cursor.peek().kind == "word" and cursor.clause_at() is None:
            cursor.take()
    else:
        cursor.name("a period, as in 15 MINUTES, HOUR or DAY")
    span = cursor.span_since(start)
    return parse_at(span, lambda: parse_period(span.text))


def _suggest_period(text: str) -> str:
    try:
        return str(parse_period(text))
    except WaterclockError:
        return "15 MINUTES, EVERY HOUR or EVERY DAY"


def text_parser(what: str) -> Callable[[Cursor], str]:
    """Return a function that parses a string; `what` names the string in errors."""

    def read(cursor: Cursor) -> str:
        return cursor.text(what)

    return read


def parse_zone(cursor: Cursor) -> str:
    """Parse the name of a time zone, a string. Raises E105 for an unknown zone."""
    start = cursor.index
    text = cursor.text("a zone")
    check_zone(text, cursor.span_since(start))
    return text


def check_zone(text: str, span: Span) -> None:
    """Raise E105 at `span` for a text that is not the name of a time zone."""
    parse_at(span, lambda: nominal_zone(text))


def parse_duration_clause(cursor: Cursor) -> Duration:
    """Parse a duration, such as `7 DAYS`."""
    return cursor.duration()


def parse_elapsed_time(cursor: Cursor) -> Duration:
    """Parse a duration with a fixed length. Raises E107 for months and longer units."""
    start = cursor.index
    duration = cursor.duration()
    parse_at(cursor.span_since(start), duration.to_timedelta)
    return duration


def parse_by(cursor: Cursor) -> ParsedBatching:
    """Parse a BY clause: `DATA TIME t LOOKBACK d CHANGED`, `ARRIVAL TIME` or `CHANGES`. The word BY is optional."""
    if cursor.accept("BY"):  # the cursor is before BY in a header, after it in Python
        pass
    if cursor.accept("ARRIVAL"):
        cursor.need("TIME")
        return ParsedBatching(Batching.ARRIVAL_TIME)
    if cursor.accept("CHANGES"):
        return ParsedBatching(Batching.CHANGES)
    if not cursor.accept("DATA"):
        cursor.raise_unexpected(
            "DATA TIME, ARRIVAL TIME or CHANGES after BY", fix="write BY DATA TIME updated_at, or BY ARRIVAL TIME"
        )
    cursor.need("TIME")
    column = cursor.name("the column with the data time", fix="write it as in BY DATA TIME updated_at").text
    if not cursor.accept("LOOKBACK"):
        return ParsedBatching(Batching.DATA_TIME, column)
    lookback = cursor.duration()
    return ParsedBatching(Batching.DATA_TIME, column, lookback, _parse_changed(cursor))


def _parse_changed(cursor: Cursor) -> ParsedChanged | None:
    start = cursor.index
    if not cursor.accept("CHANGED"):
        return None
    is_by = cursor.accept("BY")
    what = "the column with the time of a row's last change"
    column = cursor.name(what, fix="write it as in CHANGED BY updated_at").text if is_by else None
    return ParsedChanged(column, cursor.span_since(start))


def parse_for_each(cursor: Cursor) -> ParsedForEach:
    """Parse the table of FOR EACH."""
    return ParsedForEach(*cursor.table())


def parse_was(cursor: Cursor) -> ParsedWas:
    """Parse the former name of a table, after WAS."""
    return ParsedWas(*cursor.table())


def parse_await(cursor: Cursor) -> ParsedAwait:
    """Parse the value of AWAIT: `NEXT`, `QUERY 'text'` or the name of a marker file, and an optional `FOR duration`."""
    start = cursor.index
    if cursor.accept("NEXT"):
        sign, text = WindowSignal.NEXT, ""
    elif cursor.accept("QUERY"):
        sign, text = WindowSignal.QUERY, cursor.text("a query that returns TRUE once the data is complete")
    else:
        sign, text = WindowSignal.MARKER, cursor.text("the name of a marker, NEXT or QUERY")
    span = cursor.span_since(start)
    return ParsedAwait(sign, text, cursor.duration() if cursor.accept("FOR") else None, span)


def parse_watermark(cursor: Cursor) -> ParsedWatermark:
    """Parse the value of WATERMARK: a time column, the lateness, and an optional `PER (columns)`."""
    column = cursor.name("the time column of the rows", fix="write it as in WATERMARK at 10 MINUTES").text
    start = cursor.index
    lateness = cursor.duration()
    elapsed = parse_at(cursor.span_since(start), lateness.to_timedelta)
    return ParsedWatermark(column, elapsed, cursor.names("columns") if cursor.accept("PER") else ())


def parse_deadline(cursor: Cursor) -> ParsedDeadline:
    """Parse the value of DEADLINE: a duration, and an optional BY WATERMARK."""
    after = cursor.duration()
    is_by_watermark = cursor.at("BY") and cursor.clause_at() is None  # BY DATA TIME is a clause of its own
    if is_by_watermark:
        cursor.take()
        cursor.need("WATERMARK")
    return ParsedDeadline(after, is_by_watermark)


def parse_pool(cursor: Cursor) -> str:
    """Parse the name of a pool."""
    return cursor.plain_name("a pool").text


def parse_on_restate(cursor: Cursor) -> ParsedRestate:
    """Parse the value of ON RESTATE: RECOMPUTE, RECOMPUTE AT MOST n LABELS ELSE HOLD, or REPORT."""
    choice = next((choice for choice in OnRestate if cursor.accept(choice.name)), None)
    if choice is None:
        cursor.raise_unexpected(
            "RECOMPUTE or REPORT after ON RESTATE", fix="write ON RESTATE RECOMPUTE or ON RESTATE REPORT"
        )
    if not cursor.at("AT"):
        return ParsedRestate(choice)
    if choice is OnRestate.REPORT:
        raise cursor.here().refuse(
            "E388",
            "ON RESTATE REPORT cannot have a limit",
            why="it makes no label again, so there is nothing to limit",
            fix="leave the limit out, or write ON RESTATE RECOMPUTE AT MOST 100 LABELS ELSE HOLD",
        )
    return ParsedRestate(choice, _parse_label_limit(cursor))


def _parse_label_limit(cursor: Cursor) -> int:
    """Parse AT MOST n LABELS ELSE HOLD."""
    fix = "write it as in ON RESTATE RECOMPUTE AT MOST 100 LABELS ELSE HOLD"
    cursor.need("AT", fix=fix)
    cursor.need("MOST", fix=fix)
    limit = cursor.number("a number of labels")
    if not cursor.accept("LABEL"):
        cursor.need("LABELS", fix=fix)
    cursor.need("ELSE", fix=fix)
    cursor.need("HOLD", fix=fix)
    return limit


def parse_flag(cursor: Cursor) -> bool:  # noqa: ARG001  every reader takes the cursor
    """Return True: a flag has no value."""
    return True


def parse_continuous_transform(cursor: Cursor) -> bool:
    """Return True for CONTINUOUS of a transform, which has no time of its own. Raises E204 if one is written."""
    if not cursor.is_done and (cursor.peek().kind == "number" or cursor.peek().text[:1].isdigit() or cursor.at(":")):
        start = cursor.index
        cursor.duration()
        raise cursor.span_since(start).refuse(
            "E204",
            "CONTINUOUS of a transform takes no time",
            why="it is computed whenever the tables that it reads are",
            fix="write CONTINUOUS alone, and the time in the COLLECT",
        )
    return True


def parse_tags(cursor: Cursor) -> tuple[str, ...]:
    """Parse a list of tags in brackets."""
    return cursor.names("tags")


def parse_shuffle(cursor: Cursor) -> bool:
    """Parse the value of SHUFFLE, which can only be NONE. Return True. Raise E376 for SALT, once it is parsed."""
    if cursor.at("SALT"):
        start = cursor.index
        cursor.take()
        columns = _parse_undirected_columns(cursor, "SHUFFLE SALT")
        cursor.need("INTO", fix="leave SHUFFLE SALT out: it is refused in every form")
        cursor.number("a number of parts")
        raise cursor.span_since(start).refuse(
            "E376",
            f"SHUFFLE SALT ({', '.join(columns)}) would make batches slower",
            why="Spark combines sum(), count() and other aggregates in each task before it shuffles, and moves one row "
            "of each task for a key; with a salt, it would shuffle these rows twice",
            fix="leave it out; if `audit` shows skew, follow docs/howto/find-a-skewed-key.md",
        )
    if not cursor.accept("NONE"):
        cursor.raise_unexpected("NONE after SHUFFLE", fix="write SHUFFLE NONE")
    return True


def parse_sort_columns(cursor: Cursor) -> tuple[str, ...]:
    """Parse the columns of SORT BY in brackets. They take no direction: Spark skips rows in either order."""
    return _parse_undirected_columns(cursor, "SORT BY")


def parse_cluster_columns(cursor: Cursor) -> tuple[str, ...]:
    """Parse the columns of CLUSTER BY in brackets."""
    return _parse_undirected_columns(cursor, "CLUSTER BY")


def parse_partition_column(cursor: Cursor) -> tuple[str, ...]:
    """Parse the column of PARTITION BY in brackets."""
    return _parse_undirected_columns(cursor, "PARTITION BY")


def parse_buckets(cursor: Cursor) -> Buckets:
    """Parse the columns of BUCKET BY in brackets, and the number of buckets."""
    columns = _parse_undirected_columns(cursor, "BUCKET BY")
    cursor.need("INTO", fix="write the number of buckets, as in BUCKET BY (user_id) INTO 64")
    return Buckets(columns, cursor.number("a number of buckets"))


def _parse_undirected_columns(cursor: Cursor, word: str) -> tuple[str, ...]:
    cursor.need("(", fix=f"write columns in brackets, as in {word} (a, b)")
    found = [cursor.name("a column").text]
    while not cursor.accept(")"):
        if cursor.at("DESC") or cursor.at("ASC"):
            raise cursor.here().refuse(
                "E204",
                f"{word} takes columns without ASC and DESC",
                why="rows are sorted so that readers skip parts of a file, which works in either order",
                fix=f"leave {cursor.here().text} out",
            )
        cursor.need(",", fix="put a comma before the next column, or close the list with )")
        found.append(cursor.name("a column").text)
    return tuple(found)


def parse_connection_type(cursor: Cursor) -> str:
    """Parse the type of a connection; return it in lower case."""
    return cursor.plain_name("a connection type").text.lower()


def parse_when(cursor: Cursor) -> Expression:
    """Parse the condition of WHEN."""
    return parse_expression(cursor, "a condition", fix="write it as in WHEN WINDOW_START() < '2024-01-01'")


def parse_close_when(cursor: Cursor) -> Expression:
    """Parse the condition of CLOSE WHEN."""
    return parse_expression(
        cursor, "a condition", fix="write it as in CLOSE WHEN watermark(at, device) >= WINDOW_END()"
    )


def parse_apart(cursor: Cursor) -> ParsedApart:
    """Parse the value of APART: columns in brackets, and optional `KEYS connection` and `FOR duration`."""
    cursor.need("(", fix="write columns in brackets, as in APART (email, name)")
    found = [_parse_name(cursor, "a column")]
    while cursor.accept(","):
        found.append(_parse_name(cursor, "a column"))
    cursor.need(")", fix="put a comma before the next column, or close the list with )")
    keys = _parse_name(cursor, "a connection of type keys") if cursor.accept("KEYS") else None
    return ParsedApart(tuple(found), keys, cursor.duration() if cursor.accept("FOR") else None)


def _parse_name(cursor: Cursor, what: str) -> ParsedName:
    word = cursor.name(what)
    return ParsedName(word.text, cursor.span(word))
