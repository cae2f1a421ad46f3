"""Checks a table's new columns against its stored schema versions: COMPATIBLE promises and announced retirements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime

from waterclock.batches.schemas import SchemaVersion, Side
from waterclock.errors import WaterclockError
from waterclock.flow.column_types import type_of
from waterclock.flow.compatibility import CompatibilityViolation, SchemaColumn, TableSchema, find_violations
from waterclock.flow.declarations import Column, Table
from waterclock.timelabel.label import label_of

KEY, NOT_NULL, RETIRE = " KEY", " NOT NULL", " RETIRE "


def table_schema(columns: Mapping[str, str]) -> TableSchema:
    """Build a schema from the columns of a stored version, whose types may be followed by KEY or NOT NULL."""
    keys = tuple(name for name, entry in columns.items() if entry.endswith(KEY))
    found = tuple(
        SchemaColumn(name, type_of(kind) or kind.lower(), is_nullable=_is_nullable(entry))
        for name, entry in columns.items()
        for kind in [type_of_version(entry)]
    )
    return TableSchema(found, keys)


def broken_promises(
    table: Table, columns: Mapping[str, str], versions: Sequence[SchemaVersion], code: str
) -> list[tuple[CompatibilityViolation, WaterclockError]]:
    """Return each change of a table's columns that COMPATIBLE forbids, with an error of the given `code`."""
    if table.compatible is None:
        return []
    kept = sorted((each for each in versions if each.side is Side.TABLE), key=lambda each: -each.number)
    broken = find_violations(table.compatible, table_schema(columns), [table_schema(each.columns) for each in kept])
    newest = {(each.misfit, each.reads_old): each for each in reversed(broken)}  # report the newest of several
    return [(each, _violation_error(table, each, kept[each.back], code)) for each in reversed(newest.values())]


def _violation_error(
    table: Table, broken: CompatibilityViolation, version: SchemaVersion, code: str
) -> WaterclockError:
    since = f"version {version.number} (since {label_of(version.label)})"
    who = (
        f"rows of {since} are read with the current columns"
        if broken.reads_old
        else f"readers that use {since} read the new rows"
    )
    before = version.columns.get(broken.misfit.path)
    return WaterclockError(
        code,
        f"{table.name} breaks COMPATIBLE {table.compatible}: {broken.misfit}",
        where=str(table.place),
        why=who,
        fix=f"declare {broken.misfit.path} as {before.upper()} again" if before else _FIX,
    )


_FIX = "keep the former declaration, allow NULL, or declare another table with the new columns"


def retirement_of(columns: Mapping[str, str], column: str) -> date | None:
    """Return the day on which a column retires according to a schema version. None if the version has no such day."""
    entry = next((entry for name, entry in columns.items() if name.lower() == column.lower()), "")
    _, _, day = entry.partition(RETIRE)
    return date.fromisoformat(day) if day else None


def past_retirement_error(
    table: Table, column: Column, versions: Iterable[SchemaVersion], now: datetime
) -> WaterclockError | None:
    """Return an error if a column's RETIRE day has come at `now` and no batch has announced it. Otherwise return None.

    A table without batches has no readers to inform. `check` and each batch of the table use this one rule.
    """
    ends = column.ending
    if ends is None or ends.at(table.cadence.zone) > now:
        return None
    retirements = [retirement_of(each.columns, column.name) for each in versions if each.side is Side.TABLE]
    if not retirements or ends.day in retirements:
        return None
    return WaterclockError(
        "E452",
        f"{table.name}.{column.name} cannot retire on {ends.day}, in the past",
        where=f"{table.name}.{column.name}",
        why="no batch before that day has announced it, so readers had no time to change",
        fix=f"choose a future day: {column.name} … RETIRE 'YYYY-MM-DD'",
    )


def type_of_version(entry: str) -> str:
    """Return the type from a column's entry in a schema version, without KEY, NOT NULL and RETIRE."""
    return entry.partition(RETIRE)[0].removesuffix(KEY).removesuffix(NOT_NULL)


def _is_nullable(entry: str) -> bool:
    return not entry.partition(RETIRE)[0].endswith((KEY, NOT_NULL))
