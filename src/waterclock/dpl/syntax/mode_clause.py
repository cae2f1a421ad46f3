"""Parses the mode of a table, APPEND, REPLACE, MERGE or TEMPORAL, with its sub-clauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.expressions import parse_expression
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Expression, ParsedMode, ParsedTemporal
from waterclock.flow.enums import Mode
from waterclock.similar_names import did_you_mean

_LAST_WINS = {
    Mode.APPEND: "the first row in this order is sent first",
    Mode.MERGE: "the last row per key wins",
    Mode.TEMPORAL: "the last row per key and time wins",
}


_DELETE_FIX = "write it as in DELETE WHEN is_deleted"
_ARTICLES = {Mode.APPEND: "an", Mode.MERGE: "a", Mode.TEMPORAL: "a"}


def parse_mode(cursor: Cursor) -> ParsedMode:
    """Parse APPEND, REPLACE, MERGE or TEMPORAL with its options."""
    start = cursor.index
    word = cursor.take()
    if word.upper == "APPEND":
        order = _parse_order(cursor, Mode.APPEND) if cursor.accept("ORDER", "BY") else ()
        return ParsedMode(
            Mode.APPEND, order_by=order, per=cursor.names("columns") if order and cursor.accept("PER") else ()
        )
    if word.upper == "REPLACE":
        where = None
        if cursor.accept("WHERE"):
            where = parse_expression(cursor, "a condition", fix="write it as in REPLACE WHERE country = 'EU'")
        return ParsedMode(Mode.REPLACE, where=where)
    if word.upper == "TEMPORAL":
        return _parse_temporal(cursor)
    if word.upper != "MERGE":
        cursor.index = start
        near = did_you_mean(word.upper, ("APPEND", "REPLACE", "MERGE", "TEMPORAL"))
        cursor.raise_unexpected("APPEND, REPLACE, MERGE or TEMPORAL", fix=near or "write one of them")
    return _parse_merge(cursor)


def _parse_merge(cursor: Cursor) -> ParsedMode:
    if cursor.at("INTO"):
        raise cursor.here().refuse(
            "E209", "MERGE INTO is not supported", fix="write only MERGE ON (id) ORDER BY changed_at"
        )
    keys: tuple[str, ...] = ()
    if cursor.at("ON") and not (cursor.at("ON", "RESTATE") or cursor.at("ON", "SCHEMA", "CHANGE")):
        cursor.take()
        keys = cursor.names("keys")
    order = _parse_order(cursor, Mode.MERGE) if cursor.accept("ORDER", "BY") else ()
    delete_when = None
    if cursor.accept("DELETE"):
        cursor.need("WHEN")
        delete_when = parse_expression(cursor, "an expression", fix=_DELETE_FIX)
    return ParsedMode(Mode.MERGE, keys, order, delete_when)


def _parse_temporal(cursor: Cursor) -> ParsedMode:
    """Parse the sub-clauses of TEMPORAL, in any order."""
    parts: dict[str, Any] = {}
    spans: dict[str, Span] = {}
    while (words := _find_subclause(cursor, 0)) is not None:
        start = cursor.index
        before = next((part for part in parts if part.split()[0] == words.split()[0]), None)
        if before is not None:
            what = f"{words} is written twice" if before == words else f"{words} cannot be used with {before}"
            fix = "remove one" if before == words else "remove one of them"
            raise cursor.here().refuse("E207", what, why=f"first at {spans[before].place}", fix=fix)
        for upper in words.split():
            cursor.need(upper, fix=f"say {words}")
        parts[words] = _SUBCLAUSE_PARSERS[words](cursor)
        spans[words] = cursor.span_since(start)
    nulls = parts.get("NULLS VALUE")
    temporal = ParsedTemporal(
        at=parts.get("AT"),
        track=parts.get("TRACK", ()),
        values=nulls or (),
        are_all_values=nulls == (),
        are_all_missing="NULLS MISSING" in parts,
        fills_back="FILL FORWARD" not in parts,
        spans=spans,
    )
    return ParsedMode(Mode.TEMPORAL, parts.get("ON", ()), parts.get("ORDER BY", ()), parts.get("DELETE WHEN"), temporal)


def _find_subclause(cursor: Cursor, ahead: int) -> str | None:
    """Return the words of the sub-clause of TEMPORAL that begins `ahead` words after the cursor; None if none does."""
    word, following = cursor.peek(ahead), cursor.peek(ahead + 1).upper
    if word.kind != "word" or (word.upper == "ON" and following in {"RESTATE", "SCHEMA", "VIOLATION"}):
        return None
    found = _BY_FIRST_WORD.get(word.upper)
    return "NULLS MISSING" if found == "NULLS VALUE" and following == "MISSING" else found


def _parse_delete_when(cursor: Cursor) -> Expression:
    return parse_expression(cursor, "an expression", fix=_DELETE_FIX, is_end=_begins_subclause)


def _parse_nulls_missing(cursor: Cursor) -> bool:
    if cursor.at("("):
        raise cursor.here().refuse(
            "E204",
            "NULLS MISSING takes no names",
            why="NULLS VALUE (...) names the attributes whose NULL is a value; in all others NULL means missing",
            fix="write NULLS VALUE with the other names",
        )
    return True


def _begins_subclause(cursor: Cursor, ahead: int) -> bool:
    return cursor.begins_clause(ahead) or _find_subclause(cursor, ahead) is not None


_SUBCLAUSE_PARSERS: dict[str, Callable[[Cursor], Any]] = {
    "ON": lambda cursor: cursor.names("keys"),
    "AT": lambda cursor: cursor.name("the time column").text,
    "ORDER BY": lambda cursor: _parse_order(cursor, Mode.TEMPORAL),
    "DELETE WHEN": _parse_delete_when,
    "TRACK": lambda cursor: cursor.names("attributes"),
    "NULLS MISSING": _parse_nulls_missing,
    "NULLS VALUE": lambda cursor: cursor.names("attributes") if cursor.at("(") else (),
    "FILL FORWARD": lambda _: True,
}
_BY_FIRST_WORD = {words.split()[0]: words for words in _SUBCLAUSE_PARSERS}


def _parse_order(cursor: Cursor, mode: Mode) -> tuple[str, ...]:
    found = [_parse_order_column(cursor, mode)]
    while cursor.accept(","):
        found.append(_parse_order_column(cursor, mode))
    return tuple(found)


def _parse_order_column(cursor: Cursor, mode: Mode) -> str:
    name = cursor.name("a column to order by").text
    if cursor.at("ASC") or cursor.at("DESC"):
        raise cursor.here().refuse(
            "E204",
            f"the order of {_ARTICLES[mode]} {mode.name} has no direction",
            why=_LAST_WINS[mode],
            fix=f"write ORDER BY {name}",
        )
    return name
