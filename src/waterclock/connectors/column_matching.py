"""Matches the columns of a source with the column list of a table, and resolves their names and types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns
from waterclock.flow.schema_changes import OnSchemaChange
from waterclock.similar_names import did_you_mean
from waterclock.spark_sql import INTERNAL_PREFIX, column_name, is_internal
from waterclock.timelabel.label import TIMELABEL

MOST_COLUMNS = 10_000
"""The maximum number of columns that a column list with `*` collects. The number in a source is not limited."""
_MOST_LISTED = 50


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a source. `type` is a Spark type; None if the source declares none."""

    name: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class CollectedColumn:
    """A column to collect: its name in the source, and its name and type in the table.

    `is_typed`: the type is declared.
    """

    source: str
    name: str
    type: str
    is_typed: bool


@dataclass(frozen=True, slots=True)
class ColumnMatch:
    """The columns to collect, named ones first, and the source's columns that a list without `*` does not collect."""

    taken: tuple[CollectedColumn, ...]
    left_out: tuple[str, ...]


def match(columns: Columns, found: Sequence[SourceColumn], *, where: str) -> ColumnMatch:
    """Match a table's column list with the columns of a source. `where` names the source in errors.

    A declared name matches exactly, or else in any case. In a name that a Delta table does not allow, blanks and
    `,;{}()=` are replaced by `_`. A column `timelabel` is never collected: the engine adds its own. Untyped columns are
    STRING, and with ON SCHEMA CHANGE TEXT all columns without a declared type are. With ADD, IGNORE or TEXT, a nullable
    column may be missing in the source.
    Raises E614 for a reserved name that a list with `*` would collect, E805 for all declared columns that the source
    does not have, E808 for two columns of one name, and E890 for a list with `*` if the source has too many columns.
    """
    if columns.is_open and len(found) > MOST_COLUMNS:
        raise too_many_columns_error(len(found), where)
    clean = _resolve_names([column for column in found if column.name.lower() != TIMELABEL], where)
    by_lower = {name.lower(): (name, column) for name, column in clean.items()}
    taken: list[CollectedColumn] = []
    missing: list[str] = []
    for column in (column for column in columns.named if column.metadata_field is None):
        _, source = by_lower.pop(column.name.lower(), (None, None))
        if source is not None:
            taken.append(_collected_column(source, column.name, column.type, columns))
        elif not is_optional(column, columns):
            missing.append(column.name)
    if missing:
        raise _missing_columns_error(missing, clean, where)
    rest = [(name, column) for name, column in clean.items() if name.lower() in by_lower]
    if columns.is_open:
        if reserved := [name for name, _ in rest if is_internal(name)]:
            fix = "rename it at the source, or list the columns to collect, without *"
            raise reserved_name_error(reserved[0], where, fix=fix)
        taken.extend(_collected_column(column, name, None, columns) for name, column in rest)
        return ColumnMatch(tuple(taken), ())
    return ColumnMatch(tuple(taken), tuple(column.name for _, column in rest))


def reserved_name_error(name: str, where: str, *, fix: str) -> WaterclockError:
    """Build the error for a column of a source or a query whose name no table can have."""
    return WaterclockError(
        "E614",
        f"{name} is a reserved name",
        where=f"{where}.{name}",
        why=f"names that begin with {INTERNAL_PREFIX} are those of columns that computations add to rows",
        fix=fix,
    )


def too_many_columns_error(count: int, where: str) -> WaterclockError:
    """Build the error for a column list with * that matches too many columns of its source."""
    return WaterclockError(
        "E890",
        f"{where} would have {count:,} columns",
        where=where,
        why=f"a table with * takes at most {MOST_COLUMNS:,} columns: it keeps each of them, and Spark takes minutes for"
        " thousands",
        fix="list the columns to collect, without *; then `waterclock retry`",
    )


def type_mismatch_error(taken: CollectedColumn, value: str, where: str) -> WaterclockError:
    """Build the error for a value that does not fit its column's type."""
    shown = value if len(value) <= 80 else f"{value[:77]}…"
    return WaterclockError(
        "E812",
        f"{taken.source} holds {shown!r}, which is not {taken.type}",
        where=where,
        why="a value must fit its column's type; none is rounded, cut or dropped silently",
        fix=f"fix the value at the source, convert it in a QUERY, quarantine such rows: {taken.name} "
        f"{taken.type} ELSE QUARANTINE, or collect the column as {taken.name} STRING",
    )


def map_column_types(found: Iterable[SourceColumn]) -> dict[str, str]:
    """Map the columns of a source to their types, in the source's order. A column without a type is STRING."""
    return {column.name: column.type or "STRING" for column in found}


def is_optional(column: Column, columns: Columns) -> bool:
    """Return whether a declared column may be missing in the source.

    It may if it is nullable and ON SCHEMA CHANGE allows it, or if an end is declared for the column.
    """
    if column.ending is not None:
        return True  # the batch checks that it is not missing before its day
    is_needed = column.is_key or column.is_not_null
    return columns.on_change not in {None, OnSchemaChange.FAIL} and not is_needed


def _collected_column(source: SourceColumn, name: str, declared: str | None, columns: Columns) -> CollectedColumn:
    is_text = columns.on_change is OnSchemaChange.TEXT and (source.type or "").upper() != "BINARY"
    fixed_type = declared or ("STRING" if is_text else None)
    return CollectedColumn(source.name, name, fixed_type or source.type or "STRING", is_typed=fixed_type is not None)


def missing_time_column_error(time_column: str, known: Sequence[str], *, where: str) -> WaterclockError:
    """Build the error for a source without the column that BY DATA TIME names."""
    return WaterclockError(
        "E805",
        f"{where} has no column {time_column}",
        where=where,
        why=f"BY DATA TIME {time_column} decides the window of each row; it has {_list_names(known)}",
        fix=did_you_mean(time_column, known[:MOST_COLUMNS], otherwise="name the column that holds the data time"),
    )


def _resolve_names(found: Iterable[SourceColumn], where: str) -> dict[str, SourceColumn]:
    clean: dict[str, SourceColumn] = {}
    lower: dict[str, str] = {}
    for place, column in enumerate(found, 1):
        name = column_name(column.name) or f"column_{place}"
        other = lower.setdefault(name.lower(), column.name)
        if name in clean or other != column.name:
            raise WaterclockError(
                "E808",
                f"two columns are called {name}" if other == column.name else f"{other} and {column.name} clash",
                where=where,
                why="column names must differ by more than case, blanks and ,;{}()=",
                fix="rename one of them at the source, or read it through a query",
            )
        clean[name] = column
    return clean


def _missing_columns_error(missing: Sequence[str], clean: Iterable[str], where: str) -> WaterclockError:
    known = list(clean)
    plural = "s" if len(missing) > 1 else ""
    return WaterclockError(
        "E805",
        f"{where} has no column{plural} {', '.join(missing)}",
        where=where,
        why=f"it has {_list_names(known)}" if known else "it has no columns at all",
        fix=did_you_mean(
            missing[0], known[:MOST_COLUMNS], otherwise="restore the column at the source, or remove it from the list"
        ),
    )


def _list_names(known: Sequence[str]) -> str:
    more = len(known) - _MOST_LISTED
    return ", ".join(known[:_MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")
