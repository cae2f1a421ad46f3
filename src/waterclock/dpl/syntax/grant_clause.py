"""Parses the parts of a GRANT: rights, columns with masks, tables, roles or users, and the condition on rows."""

from __future__ import annotations

from waterclock.dpl.syntax.column_clause import parse_bracketed
from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.expressions import parse_expression
from waterclock.dpl.syntax.statements import (
    Expression,
    ParsedGrantColumn,
    ParsedGrantColumns,
    ParsedGrantTarget,
    ParsedName,
)
from waterclock.similar_names import did_you_mean

RIGHTS = ("SELECT", "EDIT", "APPROVE")


def parse_rights(cursor: Cursor) -> str:
    """Parse the right of a GRANT."""
    word = cursor.peek()
    if word.upper not in RIGHTS:
        cursor.raise_unexpected("SELECT", fix=did_you_mean(word.upper, RIGHTS) or "write GRANT SELECT, EDIT or APPROVE")
    cursor.take()
    if cursor.at(","):
        cursor.raise_unexpected("ON", fix="write a GRANT for each right")
    return word.upper


def parse_grant_columns(cursor: Cursor) -> ParsedGrantColumns:
    """Parse the columns of a GRANT, with or without brackets: `id, email AS (mask_text(email)), * EXCEPT (phone)`."""
    has_brackets = cursor.accept("(")
    columns: list[ParsedGrantColumn] = []
    excepted: list[ParsedName] = []
    is_open = False
    while True:
        if cursor.accept("*"):
            is_open = True
            if cursor.accept("EXCEPT"):
                excepted = _parse_names(cursor, "the columns after EXCEPT", "a column")
            if cursor.at(","):
                raise cursor.here().refuse("E204", "a column comes after *", fix="move * to the end")
            break
        columns.append(_parse_column(cursor))
        if not cursor.accept(","):
            break
    if has_brackets:
        cursor.need(")", fix="separate columns by commas: (id, email AS (mask_text(email)))")
    return ParsedGrantColumns(tuple(columns), is_open, tuple(excepted))


def parse_grant_target(cursor: Cursor) -> ParsedGrantTarget:
    """Parse the tables of a GRANT: `schema.name`, `schema.*` or `*`."""
    start = cursor.index
    if cursor.accept("*"):
        return ParsedGrantTarget("*", cursor.span_since(start))
    schema = cursor.name("a table", fix="write schema.name, schema.* or *").text
    if not cursor.at("."):
        raise cursor.span_since(start).refuse(
            "E211", f"{schema} is not a table name", why="a table is schema.name: two names",
            fix=f"write {schema}.name, or {schema}.* for all tables of a schema",
        )  # fmt: skip
    cursor.take()
    table = "*" if cursor.accept("*") else cursor.name("a table after the dot", fix="write the name, or *").text
    return ParsedGrantTarget(f"{schema}.{table}", cursor.span_since(start))


def parse_grantees(cursor: Cursor) -> tuple[ParsedName, ...]:
    """Parse the roles or users of a GRANT: one name, or several in brackets."""
    if cursor.at("("):
        return tuple(_parse_names(cursor, "roles or users", "a role or user"))
    word = cursor.name("a role or user", fix="write roles or users in brackets, as in (analyst)")
    return (ParsedName(word.text, cursor.span(word)),)


def parse_row_condition(cursor: Cursor) -> Expression:
    """Parse the WHERE of a GRANT, up to the end of the statement."""
    return parse_expression(
        cursor, "a condition after WHERE", fix="write it, as in WHERE land = USER('land')", is_end=lambda *_: False
    )


def _parse_column(cursor: Cursor) -> ParsedGrantColumn:
    word = cursor.name("a column")
    mask = None
    if cursor.accept("AS"):
        if not cursor.at("("):
            cursor.raise_unexpected("( after AS", fix=f"write the mask in brackets: {word.text} AS (mask_text(...))")
        mask = parse_bracketed(cursor)
    return ParsedGrantColumn(ParsedName(word.text, cursor.span(word)), mask)


def _parse_names(cursor: Cursor, what: str, each: str) -> list[ParsedName]:
    cursor.need("(", fix=f"write {what} in brackets, as in (a, b)")
    found: list[ParsedName] = []
    while True:
        word = cursor.name(each)
        found.append(ParsedName(word.text, cursor.span(word)))
        if not cursor.accept(","):
            break
    cursor.need(")")
    return found
