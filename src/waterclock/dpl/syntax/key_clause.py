"""Parses the options of KEY for rows with the same key: `KEY PAST 7 DAYS ORDER BY at DESC`."""

from __future__ import annotations

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.statements import ParsedKeyOptions
from waterclock.flow.key_options import KeyOptions, KeyOrder
from waterclock.timelabel.duration import Duration


def parse_key_options(cursor: Cursor) -> ParsedKeyOptions | None:
    """Parse PAST and ORDER BY between KEY and ELSE; return None if there is neither. Raises E207 for a repetition."""
    start = cursor.index
    order: tuple[KeyOrder, ...] = ()
    past: Duration | None = None
    while cursor.at("PAST") or cursor.at("ORDER", "BY"):
        words = "PAST" if cursor.at("PAST") else "ORDER BY"
        if (words == "PAST" and past) or (words == "ORDER BY" and order):
            raise cursor.here().refuse("E207", f"one KEY has {words} twice", fix="remove one")
        if cursor.accept("PAST"):
            past = cursor.duration()
        else:
            cursor.accept("ORDER", "BY")
            order = _parse_order(cursor)
    return ParsedKeyOptions(KeyOptions(order, past), cursor.span_since(start)) if order or past else None


def _parse_order(cursor: Cursor) -> tuple[KeyOrder, ...]:
    """Parse one column, or several in brackets: a comma outside of brackets begins the next column of the list."""
    if not cursor.accept("("):
        return (_parse_order_column(cursor),)
    found = [_parse_order_column(cursor)]
    while cursor.accept(","):
        found.append(_parse_order_column(cursor))
    cursor.need(")", fix="separate columns by commas: ORDER BY (at, id DESC)")
    return tuple(found)


def _parse_order_column(cursor: Cursor) -> KeyOrder:
    name = cursor.name("a column to order by").text
    is_descending = cursor.accept("DESC")
    if not is_descending:
        cursor.accept("ASC")
    return KeyOrder(name, is_descending)
