"""Detects changes of the columns of a collect's source, and applies ON SCHEMA CHANGE to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.batches.schemas import SCHEMA, SchemaVersion, Side, change_at, find_matching_version
from waterclock.connectors.column_matching import MOST_COLUMNS, too_many_columns_error
from waterclock.connectors.interface import Collected
from waterclock.dpl.query.absent_columns import without_absent_columns
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns, Table
from waterclock.flow.schema_changes import OnSchemaChange, SchemaChange
from waterclock.spark_sql import column_name, quote_name
from waterclock.storage.schema_types import sql_type
from waterclock.storage.slices.row_filter import is_hidden
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_FILLS = frozenset({OnSchemaChange.ADD, OnSchemaChange.IGNORE, OnSchemaChange.TEXT, OnSchemaChange.HOLD})


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Collected rows after ON SCHEMA CHANGE was applied, with the declared columns that they have.

    `left_out` are the new columns that were removed.
    """

    frame: DataFrame
    columns: Columns
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """Changes of a source's columns: `new` maps changed labels to columns, `holds` maps held labels to reasons."""

    new: Mapping[datetime, Mapping[str, Any]]
    holds: Mapping[datetime, str]


def find_source_changes(
    work: RunContext, table: Table, collected: Collected, labels: Sequence[datetime]
) -> SourceChanges:
    """Find columns of the source that are in no recorded schema version, and report the changes.

    `labels` are those of the group, without the past windows that LOOKBACK reads again. Unless the source reports the
    columns of each label, a change is recorded for the first label. Raises E770 with the first changed label if ON
    SCHEMA CHANGE is FAIL.
    """
    seen = {label: columns for label, columns in _list_seen_columns(collected, labels).items() if columns}
    if not seen:
        return SourceChanges({}, {})
    versions = list(work.schemas_of(table.name))
    if all(_is_known(versions, label, columns) for label, columns in seen.items()):
        return SourceChanges({}, {})
    work.forget_schemas(table.name)  # a batch may have recorded these columns since
    versions = list(work.schemas_of(table.name))
    typed = [column.name for column in table.columns.named if column.type]
    new: dict[datetime, dict[str, Any]] = {}
    holds: dict[datetime, str] = {}
    for label, columns in sorted(seen.items()):
        if _is_known(versions, label, columns):
            continue
        change = change_at(versions, Side.SOURCE, label, columns)
        if change is not None:
            refused = _report_change(work, table, label, change, typed)
            if refused and table.columns.on_change is OnSchemaChange.HOLD:
                holds[label] = f"the columns of its source changed: {'; '.join(refused.words())}"
        number = 1 + sum(each.side is Side.SOURCE for each in versions)
        versions.append(SchemaVersion(Side.SOURCE, number, label, 0, columns, label))
        new[label] = {str(Side.SOURCE): dict(columns)}
    return SourceChanges(new, holds)


def _is_known(versions: Sequence[SchemaVersion], label: datetime, columns: Mapping[str, str]) -> bool:
    return find_matching_version(versions, Side.SOURCE, label, columns) is not None


def add_columns_to_notes(
    source: Mapping[datetime, Mapping[str, Any]], new: Mapping[datetime, Mapping[str, Any]]
) -> dict[datetime, Mapping[str, Any]]:
    """Return the source notes of each label, extended by its new columns."""
    noted: dict[datetime, Mapping[str, Any]] = dict(source)
    for label, sides in new.items():
        noted[label] = {**noted.get(label, {}), SCHEMA: {**noted.get(label, {}).get(SCHEMA, {}), **sides}}
    return noted


def fit_columns(table: Table, collected: Collected, known: StructType | None) -> FittedRows:
    """Remove new columns and fill missing ones with NULL, as ON SCHEMA CHANGE declares. `known` is the table's schema.

    Columns that are optional in the source are filled in any case. Columns missing from rows of MERGE and TEMPORAL
    tables stay missing: the older value is kept. Raises E771 for a missing column that the table requires, E890 if an
    open list would add too many columns to the table.
    """
    columns, frame = table.columns, collected.frame
    if columns.is_open and columns.on_change is not OnSchemaChange.IGNORE:
        _require_column_limit(table, frame, known)
    if columns.on_change not in _FILLS and not collected.may_miss_columns:
        return FittedRows(frame, columns)
    stored = {field.name.lower(): field for field in (known.fields if known else ()) if field.name != TIMELABEL}
    there, declared = {name.lower() for name in frame.columns}, {column.name.lower() for column in columns.named}
    gone = {
        column.name: column.type for column in columns.named if not column.ending and column.name.lower() not in there
    }
    if columns.is_open:
        gone |= {field.name: None for name, field in stored.items() if name not in there | declared}
    _require_columns(table, gone.keys())
    before = stored.keys() or _initial_columns(collected)
    left_out = _find_ignored_columns(frame, columns, before | declared) if before else ()
    if left_out:
        frame = frame.drop(*left_out)
    if table.is_fold:
        named = tuple(column for column in columns.named if column.name not in gone)
        return FittedRows(frame, replace(columns, named=named), left_out)
    if gone:
        types = {
            name: sql_type(stored[name.lower()].dataType.jsonValue()) if name.lower() in stored else kind or "STRING"
            for name, kind in gone.items()
        }
        filled = (f"CAST(NULL AS {kind}) AS {quote_name(name)}" for name, kind in types.items())
        frame = frame.selectExpr(*map(quote_name, frame.columns), *filled)
    return FittedRows(frame, columns, left_out)


def _require_column_limit(table: Table, frame: DataFrame, known: StructType | None) -> None:
    """Raise E890 if the table would have too many columns, counting those of earlier batches."""
    stored = {field.name.lower() for field in known.fields} if known else set()
    names = stored | {name.lower() for name in frame.columns}
    if len(names) > MOST_COLUMNS and not names <= stored:
        raise too_many_columns_error(len(names), table.name)


def _find_ignored_columns(frame: DataFrame, columns: Columns, known: AbstractSet[str]) -> tuple[str, ...]:
    """Return the new columns to remove under IGNORE, which an open list would otherwise add to the table."""
    if columns.on_change is not OnSchemaChange.IGNORE or not columns.is_open:
        return ()
    return tuple(
        name for name in frame.columns if name.lower() not in known and name != TIMELABEL and not is_hidden(name)
    )


def _initial_columns(collected: Collected) -> frozenset[str]:
    """Return the columns of the oldest label in a table's first batches: they become the table's columns."""
    by_label = collected.source_columns_by_label
    return frozenset(
        column_name(name).lower() for name in (by_label[min(by_label)] if by_label else collected.source_columns)
    )


def _require_columns(table: Table, gone: AbstractSet[str]) -> None:
    fold = table.fold
    needed = {name.lower() for name in (*fold.keys, *fold.order_by)} if fold is not None else set()
    deletes = (fold.delete_when if fold is not None else None) or ""
    needed |= {name for name in map(str.lower, gone) if without_absent_columns(deletes, {name: "STRING"}) != deletes}
    if table.temporal is not None and table.temporal.at:
        needed.add(table.temporal.at.lower())
    lost = [name for name in gone if name.lower() in needed]
    if lost:
        raise WaterclockError(
            "E771",
            f"{table.name} needs {', '.join(lost)}, which its source no longer has",
            where=f"{table.name}.{lost[0]}",
            why=f"a {table.mode.name} table matches, orders or deletes its rows by it",
            fix="restore the column at the source, then `waterclock retry`",
        )


def _list_seen_columns(collected: Collected, labels: Sequence[datetime]) -> Mapping[datetime, Mapping[str, str]]:
    if collected.source_columns_by_label:
        return collected.source_columns_by_label
    return {min(labels): collected.source_columns} if collected.source_columns and not collected.is_empty else {}


def _report_change(
    work: RunContext, table: Table, label: datetime, change: SchemaChange, typed: Sequence[str]
) -> SchemaChange:
    """Report a change, or raise E770. Return it without columns of a declared type, since their values are cast."""
    cast = {name.lower() for name in typed}
    refused = replace(
        change,
        new={name: kind for name, kind in change.new.items() if name.lower() not in cast},
        changed={name: kinds for name, kinds in change.changed.items() if name.lower() not in cast},
    )
    if table.columns.on_change is OnSchemaChange.FAIL and refused:
        raise WaterclockError(
            "E770",
            f"the columns of {table.name}'s source changed",
            where=f"{table.name}@{label_of(label)}",
            why="; ".join(refused.words()) + "; the table declares ON SCHEMA CHANGE FAIL",
            fix=(
                "to accept the columns, declare ADD or IGNORE, `waterclock retry`, and declare FAIL again; or fix "
                "the source"
            ),
        )
    work.report_once(f"{table.name}@{label_of(label)}: the columns of its source changed: {'; '.join(change.words())}")
    return refused
