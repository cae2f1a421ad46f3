"""Reads the states of batches and of all attempts to make them: the grid, the audit of a batch, the status tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from waterclock.batches.audit_records import Attempt, Audit, BatchState, Event, Revision, StoredStates
from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, BatchStatus
from waterclock.batches.records import warnings_of
from waterclock.flow.measures import OFFLINE
from waterclock.ledger import ledger_errors
from waterclock.ledger.read.inputs import read_inputs
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.instants import from_micros
from waterclock.ledger.store.rows import record_of
from waterclock.ledger.store.schema import (
    HAS_WARNINGS,
    NAME,
    AnyRow,
    batches,
    claim_labels,
    claims,
    events,
    made_by_claim,
    offline_measures,
    revisions,
    tables,
)

_SELECTED = (
    batches.c.table_name.in_(sa.bindparam("names", expanding=True)),
    batches.c.label >= sa.bindparam("low"),
    batches.c.label < sa.bindparam("high"),
)
_GRID = sa.select(batches).where(*_SELECTED).order_by(batches.c.table_name, batches.c.label)
_MEASURES = (
    sa.select(revisions.c.table_name, revisions.c.label, revisions.c.measures)
    .join(batches, made_by_claim(revisions, batches, batches.c.current_claim))
    .where(*_SELECTED)
)
_WARNED = _MEASURES.where(HAS_WARNINGS)
_IS_DONE = batches.c.status == BatchStatus.DONE.value
_IS_OTHER = batches.c.status.is_distinct_from(BatchStatus.DONE.value)  # mere requests have no status
_LABEL_TEXT = sa.cast(sa.type_coerce(batches.c.label, sa.BigInteger), sa.Text)
_DONE = (  # one row per table, since drivers spend time on each row
    sa.select(
        batches.c.table_name,
        sa.func.aggregate_strings(sa.case((_IS_DONE, _LABEL_TEXT)), ",").label("done"),
        sa.func.coalesce(sa.func.max(sa.case((_IS_OTHER, 1))), 0).label("has_others"),
    )
    .where(*_SELECTED)
    .group_by(batches.c.table_name)
)
_NEWEST = _GRID.order_by(None).order_by(batches.c.table_name.desc(), batches.c.label.desc()).limit(sa.bindparam("most"))
_OLDEST = sa.select(sa.func.min(batches.c.label)).where(batches.c.table_name == sa.bindparam("of"))
_NOT_DONE = _GRID.where(_IS_OTHER)
_AMOUNT = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(batches.c.rows), 0)).where(
    batches.c.table_name == sa.bindparam("of"), batches.c.current_claim.is_not(None)
)
_MADE = (
    sa.select(batches.c.label, batches.c.code)
    .where(
        batches.c.table_name == sa.bindparam("of"),
        batches.c.label >= sa.bindparam("low"),
        batches.c.label < sa.bindparam("high"),
        batches.c.current_claim.is_not(None),
    )
    .order_by(batches.c.label)
    .limit(sa.bindparam("most"))
)
_MADE_AFTER = _MADE.where(batches.c.recorded_at > sa.bindparam("after"))
_ANY = (1 << 63) - 1
_NAMES = sa.select(tables.c.name)
_BATCH = sa.select(batches).where(batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at"))
_ATTEMPTS = (
    sa.select(claims)
    .join(claim_labels, claim_labels.c.claim == claims.c.number)
    .where(claim_labels.c.table_name == sa.bindparam("of"), claim_labels.c.label == sa.bindparam("at"))
    .order_by(claims.c.number)
)
_REVISIONS = (
    sa.select(revisions, offline_measures.c.found)
    .outerjoin(offline_measures, made_by_claim(offline_measures, revisions, revisions.c.claim))
    .where(revisions.c.table_name == sa.bindparam("of"), revisions.c.label == sa.bindparam("at"))
)
_EVENTS = (
    sa.select(events)
    .where(events.c.table_name == sa.bindparam("of"), events.c.label == sa.bindparam("at"))
    .order_by(events.c.id)
)

# The public columns of the status tables and their Spark types; the views in the database have the same, as text.
# In `batches`, the columns `rows` to `version` and `timings` to `source` (as JSON) describe the current revision;
# `status`, `claim`, `error` and `who` describe the newest claim.
STATUS_TABLES: Mapping[str, Mapping[str, str]] = {
    "batches": {
        "table": "STRING", "timelabel": "STRING", "window_end": "TIMESTAMP", "status": "STRING", "claim": "BIGINT",
        "current_claim": "BIGINT", "attempts": "BIGINT", "rows": "BIGINT", "bytes": "BIGINT", "digest": "STRING",
        "version": "BIGINT", "code": "STRING", "stands_from": "TIMESTAMP", "is_suspect": "BOOLEAN",
        "requested": "STRING", "error": "STRING", "due_again": "TIMESTAMP", "claimed_at": "TIMESTAMP",
        "recorded_at": "TIMESTAMP", "who": "STRING", "runner": "STRING", "run": "STRING",
        "timings": "STRING", "measures": "STRING", "source": "STRING",
    },
    "measures": {
        "table": "STRING", "timelabel": "STRING", "name": "STRING", "value": "STRING", "type": "STRING",
        "claim": "BIGINT",
    },
    "measured_spans": {
        "table": "STRING", "first": "STRING", "until": "STRING", "labels": "BIGINT", "name": "STRING",
        "value": "STRING", "type": "STRING",
    },
    "inputs": {
        "table": "STRING", "timelabel": "STRING", "claim": "BIGINT", "position": "BIGINT", "input": "STRING",
        "read": "STRING", "kind": "STRING", "low": "TIMESTAMP", "high": "TIMESTAMP", "location": "STRING",
        "version": "BIGINT", "content": "STRING", "is_current": "BOOLEAN",
    },
    "events": {
        "id": "BIGINT", "at": "TIMESTAMP", "kind": "STRING", "who": "STRING", "table": "STRING",
        "timelabel": "STRING", "claim": "BIGINT", "run": "STRING", "data": "STRING",
    },
}  # fmt: skip
_ORDER = {
    "batches": '"table", timelabel',
    "measures": '"table", timelabel, name',
    "measured_spans": '"table", first, name',
    "inputs": '"table", timelabel, claim, position',
    "events": "id",
}
_PAGE = 1000
# A column, one of =, <, <=, >, >=, and values: = matches any of the values, the others compare with a single one.
Condition = tuple[str, str, Sequence[str | int]]
_NAME_COLUMNS = frozenset({"table", "input", "code"})  # columns whose values may be stored under former names
_CONVERTED_TYPES = frozenset({"TIMESTAMP", "BOOLEAN"})  # types that the views return as text or number


def grid(
    database: LedgerDatabase, names: Collection[str], low: datetime = BEGINNING, high: datetime = FOREVER
) -> list[BatchState]:
    """Return the stored batches of the tables with a label in `[low, high)`, by table and label."""
    with database.read() as connection:
        values = {"names": sorted(names), "low": low, "high": high}
        return [_build_cell(row) for row in connection.execute(_GRID, values)]


def newest(
    database: LedgerDatabase, name: str, most: int, low: datetime = BEGINNING, high: datetime = FOREVER
) -> list[BatchState]:
    """Return the newest stored batches of a table with a label in `[low, high)`, oldest first."""
    with database.read() as connection:
        values = {"names": [name], "low": low, "high": high, "most": most}
        return [_build_cell(row) for row in reversed(connection.execute(_NEWEST, values).all())]


def list_made_labels(
    database: LedgerDatabase,
    name: str,
    low: datetime,
    high: datetime,
    *,
    most: int | None = None,
    after: datetime | None = None,
) -> list[tuple[datetime, str | None]]:
    """Return the labels in `[low, high)` that readers see, with the code that made each, oldest first.

    With `most`, the result has at most `most` + 1 labels: the additional one shows that there are more. With `after`,
    labels whose current revision was recorded until then are left out.
    """
    values = {"of": name, "low": low, "high": high, "most": _ANY if most is None else most + 1}
    statement = _MADE if after is None else _MADE_AFTER
    with database.read() as connection:
        rows = connection.execute(statement, values if after is None else values | {"after": after})
        return [(row.label, row.code) for row in rows]


def oldest_label(database: LedgerDatabase, name: str) -> datetime | None:
    """Return the oldest label with any stored data; None if there is none."""
    with database.read() as connection:
        return connection.execute(_OLDEST, {"of": name}).scalar()


def amount(database: LedgerDatabase, name: str) -> tuple[int, int]:
    """Return the numbers of a table's visible labels and of their rows. Cost: a scan of its batches, in SQL."""
    with database.read() as connection:
        labels, rows = connection.execute(_AMOUNT, {"of": name}).one()
        return int(labels), int(rows)


def read_settled_labels(
    database: LedgerDatabase, names: Collection[str], low: datetime = BEGINNING, high: datetime = FOREVER
) -> StoredStates:
    """Return the done labels in `[low, high)`, and all batches in other states. Cost: a scan of the batches."""
    values = {"names": sorted(names), "low": low, "high": high}
    done: dict[str, Sequence[datetime]] = dict.fromkeys(names, ())
    labels_of = lru_cache(maxsize=1)(_parse_labels)  # consecutive tables mostly have the same done labels
    with_others = []
    with database.read() as connection:
        for name, listed, has_others in connection.execute(_DONE, values):
            done[name] = labels_of(listed) if listed else ()
            if has_others:
                with_others.append(name)
        rows = connection.execute(_NOT_DONE, values | {"names": with_others})
        return StoredStates(done, tuple(map(_build_cell, rows)))


def _parse_labels(listed: str) -> tuple[datetime, ...]:
    return tuple(map(from_micros, sorted(map(int, listed.split(",")))))


def read_row_warnings(
    database: LedgerDatabase, names: Collection[str], low: datetime = BEGINNING, high: datetime = FOREVER
) -> dict[tuple[str, datetime], tuple[str, ...]]:
    """Map each (table, label) in `[low, high)` with warnings about its visible rows to these warnings."""
    with database.read() as connection:
        values = {"names": sorted(names), "low": low, "high": high}
        rows = connection.execute(_WARNED, values)
        found = {(row.table_name, row.label): warnings_of(row.measures) for row in rows}
        return {batch: warnings for batch, warnings in found.items() if warnings}


def audit(database: LedgerDatabase, table: str, label: datetime) -> Audit:
    """Return everything that is stored about one batch. Raises E412 for an unknown table or label."""
    which = {"of": table, "at": label}
    with database.read() as connection:
        row = connection.execute(_BATCH, which).first()
        if row is None:
            names = set(connection.execute(_NAMES).scalars())
            raise (
                ledger_errors.unknown_batch(table, label)
                if table in names
                else ledger_errors.unknown_table(table, names)
            )
        made = {found.claim: _build_revision(found) for found in connection.execute(_REVISIONS, which)}
        claimed = connection.execute(_ATTEMPTS, which).all()
        attempts = tuple(_build_attempt(connection, found, label, made.get(found.number)) for found in claimed)
        return Audit(
            _build_cell(row), attempts, tuple(_build_event(found) for found in connection.execute(_EVENTS, which))
        )


def status_columns(
    database: LedgerDatabase, name: str, columns: Sequence[str], conditions: Iterable[Condition] = ()
) -> dict[str, list[Any]]:
    """Map the given columns of a status table to their values in the rows that meet all conditions.

    Rows are in the order of `status_rows`; times are aware UTC. Without columns, the list under "" has one entry per
    row. While a rename of tables is pending, conditions on names other than `=` are ignored, so the result may have
    rows that do not meet them.
    """
    types = STATUS_TABLES[name]
    bound: dict[str, str | int] = {}
    # stored names sort in another order than displayed ones
    applied = (it for it in conditions if it[1] == "=" or it[0] not in _NAME_COLUMNS or not database.current_names)
    rendered = [_render_condition(bound, *condition) for condition in applied]
    where = f" WHERE {' AND '.join(rendered)}" if rendered else ""
    listed = ", ".join(f'"{column}"' for column in columns) or "1"
    text = sa.text(f"SELECT {listed} FROM waterclock_{name}{where} ORDER BY {_ORDER[name]}")
    query = _type_name_columns(
        text.bindparams(*(sa.bindparam(it, type_=NAME) for it in bound if it.startswith("n"))), columns
    )
    found: list[list[Any]] = [[] for _ in columns or ("",)]
    with database.read() as connection:
        for rows in connection.execution_options(yield_per=_PAGE).execute(query, bound).partitions():
            for values, column in zip(found, zip(*rows, strict=True), strict=True):
                values.extend(column)
    if not columns:
        return {"": found[0]}
    return {
        column: values
        if types[column] not in _CONVERTED_TYPES
        else [_convert_value(value, types[column]) for value in values]
        for column, values in zip(columns, found, strict=True)
    }


def _render_condition(bound: dict[str, str | int], column: str, operator: str, values: Sequence[str | int]) -> str:
    kind = "n" if column in _NAME_COLUMNS else "v"
    names = [f"{kind}{len(bound) + at}" for at in range(len(values))]
    bound.update(zip(names, values, strict=True))
    if operator == "=":
        return f'"{column}" IN ({", ".join(f":{name}" for name in names)})'
    return f'"{column}" {operator} :{names[0]}'


def _type_name_columns(query: sa.TextClause, columns: Iterable[str]) -> sa.TextualSelect:
    """Give columns with names of tables or code the type `Name`, which translates renamed ones."""
    return query.columns(**{column: NAME for column in columns if column in _NAME_COLUMNS})


def status_rows(database: LedgerDatabase, name: str) -> Iterator[dict[str, Any]]:
    """Return the rows of a status table (such as `batches`) by its public columns; times are aware UTC.

    Cost: reads page by page within one transaction, which stays open until the last row is read.
    """
    types = STATUS_TABLES[name]
    with database.read() as connection:
        query = _type_name_columns(sa.text(f"SELECT * FROM waterclock_{name} ORDER BY {_ORDER[name]}"), types)
        with connection.execution_options(yield_per=_PAGE).execute(query) as rows:
            for row in rows.mappings():
                yield {column: _convert_value(row[column], kind) for column, kind in types.items()}


def _convert_value(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "TIMESTAMP":
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return bool(value) if kind == "BOOLEAN" else value


def _build_cell(row: AnyRow) -> BatchState:
    return record_of(BatchState, row, table=row.table_name)


def _build_attempt(connection: sa.Connection, row: AnyRow, label: datetime, made: Revision | None) -> Attempt:
    return record_of(
        Attempt,
        row,
        claim=row.number,
        inputs=read_inputs(connection, row.number).get(label, ()),
        revision=made,
    )


def _build_revision(row: AnyRow) -> Revision:
    return record_of(Revision, row, measures={**row.measures, OFFLINE: row.found} if row.found else row.measures)


def _build_event(row: AnyRow) -> Event:
    return record_of(Event, row, table=row.table_name)
