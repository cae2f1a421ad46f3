"""Decodes the output of PostgreSQL's plugin wal2json, format version 2: a JSON object per begin, change and commit.

JSON has no NaN and Infinity, so wal2json writes these values of a float or numeric column as null. A table with such
columns is therefore decoded by pgoutput, unless the statement declares wal2json.
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
"""The start of wal2json's warning that it omits a change, because the row has no replica identity."""

_OPS = {"I": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE, "T": Op.TRUNCATE}
_IGNORED = frozenset({"C", "M"})  # commits and messages


def options(schema: str | None, table: str) -> dict[str, str]:
    """Return the plugin options of wal2json for reading one table, with positions and times.

    Without a schema, these are the tables of that name in all schemas.
    """
    return {
        "format-version": "2",
        "include-lsn": "1",
        "include-timestamp": "1",
        "include-xids": "1",
        "include-column-positions": "1",
        "actions": "insert,update,delete,truncate",
        "add-tables": f"{'*' if schema is None else _escape_name(schema)}.{_escape_name(table)}",
    }


def _escape_name(name: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\,. *'" else sign for sign in name)


def events(lines: Iterable[str], schema: str, table: str, namesakes: frozenset[str] = frozenset()) -> Generator[Event]:
    """Yield the starts of all transactions, and the changes of one table, in log order.

    `lines` are complete transactions. Changes of tables with the same name in other schemas have an `other_schema`,
    and are left out in the schemas `namesakes`.

    Raises ValueError for a line that wal2json does not write.
    """
    begin: Begin | None = None
    number = 0
    for line in lines:
        try:
            event = _parse_event(line, begin, number, (schema, table))
        except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"a line that is not of wal2json: {type(error).__name__}: {error}") from error
        if isinstance(event, Begin):
            begin, number = event, 0
        elif event is None or event.other_schema in namesakes:
            continue
        else:
            number += 1
        yield event


def _parse_event(line: str, begin: Begin | None, number: int, table: tuple[str, str]) -> Event | None:
    """Parse a line. Return None for a commit, a message, and a change of another table."""
    entry = json.loads(line, parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=_unique_members)
    action = entry["action"]
    if action == "B":
        return Begin(int(entry["xid"]), position_of(entry["lsn"]), _parse_instant(entry["timestamp"]))
    if action in _IGNORED:
        return None
    if (op := _OPS.get(action)) is None:
        raise ValueError(f"an unknown action {action!r}")
    if entry["table"] != table[1]:
        return None
    other_schema = None if entry["schema"] == table[0] else str(entry["schema"])
    if begin is None:
        raise ValueError("a change outside of a transaction")
    columns, identity = entry.get("columns"), entry.get("identity")
    if columns is None and op in {Op.INSERT, Op.UPDATE}:
        raise ValueError(f"an {op} without columns")
    values, old_values = _parse_values(columns), _parse_values(identity)
    numbers = _list_column_numbers(columns, identity)
    return LogChange(op, begin, number, values, old_values, numbers, other_schema)


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return _unique_dict(pairs, "key")


def _unique_dict(pairs: Iterable[tuple[str, Any]], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if not isinstance(name, str):
            raise ValueError(f"a {kind} whose name is not a text")  # noqa: TRY004 - of the line, as its other errors
        if name in found:
            raise ValueError(f"the {kind} {name!r} twice")
        found[name] = value
    return found


def _parse_instant(text: str) -> datetime:
    instant = datetime.fromisoformat(f"{text}:00" if text[-3] in "+-" else text)
    if instant.tzinfo is None:
        raise ValueError(f"the timestamp {text!r} without a zone")
    return instant


def _parse_values(columns: Iterable[Mapping[str, Any]] | None) -> dict[str, str | None] | None:
    if columns is None:
        return None
    return _unique_dict(
        ((column["name"], _to_server_text(column["value"], column["type"])) for column in columns), "column"
    )


def _list_column_numbers(*rows: Iterable[Mapping[str, Any]] | None) -> tuple[tuple[str, int | None], ...]:
    """Return the names of columns with their numbers, which are None for the columns of a replica identity."""
    return tuple((each["name"], int(each.get("position", 0)) or None) for row in rows for each in row or ())


def _to_server_text(value: Any, kind: str) -> str | None:
    if isinstance(value, bool):
        return "t" if value else "f"
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("a value that is an object or a list")  # noqa: TRY004 - of the line, as its other errors
    return f"\\x{value}" if kind == "bytea" else value
