"""Decodes the output of the plugin wal2json, format version 2: a JSON object for each begin, change and commit.

It writes only numbers that JSON has: NaN and Infinity of a float or a numeric become null. So a table with such columns
is decoded by pgoutput, unless the statement declares wal2json.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from datetime import datetime
from typing import Any

from waterclock.connectors.postgres.log_changes import Begin, Event, LogChange, Op, position_of

LOSES = frozenset({"float4", "float8", "numeric"})
"""Types of columns whose NaN and Infinity are written as null."""

LEFT_OUT = "no tuple "
"""The start of its warnings that a change is left out, because the row has no identity."""

_OPS = {"I": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE, "T": Op.TRUNCATE}


def options(schema: str, table: str) -> dict[str, str]:
    """Return the plugin's options: one table, positions and times, no messages."""
    return {
        "format-version": "2",
        "include-lsn": "1",
        "include-timestamp": "1",
        "include-xids": "1",
        "include-column-positions": "1",
        "actions": "insert,update,delete,truncate",
        "add-tables": f"{_escape_name(schema)}.{_escape_name(table)}",
    }


def _escape_name(name: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\,. *'" else sign for sign in name)


def events(lines: Iterable[str], schema: str, table: str) -> Generator[Event]:
    """Yield the begins of all transactions, and the changes of one table, in log order.

    The lines are one or more whole transactions.

    Raises  ValueError for a line that is not such JSON
    """
    begin: Begin | None = None
    number = 0
    for line in lines:
        said = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
        action = said["action"]
        if action == "B":
            begin, number = Begin(int(said["xid"]), position_of(said["lsn"]), _instant(said["timestamp"])), 0
            yield begin
        elif (op := _OPS.get(action)) is not None and (said["schema"], said["table"]) == (schema, table):
            if begin is None:
                raise ValueError("a change outside of a transaction")
            columns, identity = said.get("columns"), said.get("identity")
            yield LogChange(
                op, begin, number, _values(columns), _values(identity), _list_column_numbers(columns, identity)
            )
            number += 1


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}:00" if text[-3] in "+-" else text)


def _values(columns: Iterable[Mapping[str, Any]] | None) -> dict[str, str | None] | None:
    return None if columns is None else {column["name"]: _text(column["value"], column["type"]) for column in columns}


def _list_column_numbers(*rows: Iterable[Mapping[str, Any]] | None) -> tuple[tuple[str, int | None], ...]:
    """Return the names of columns with their numbers, or None as the number: columns of an identity have none."""
    return tuple((each["name"], int(each.get("position", 0)) or None) for row in rows for each in row or ())


def _text(value: Any, kind: str) -> str | None:
    if isinstance(value, bool):
        return "t" if value else "f"
    if value is None:
        return None
    return f"\\x{value}" if kind == "bytea" else str(value)
