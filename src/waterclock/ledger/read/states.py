"""Reads the slices that made the states of tables as of given boundaries, several of them in one statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from waterclock.batches.records import NO_VERSION, Slice
from waterclock.flow.enums import Mode
from waterclock.ledger.read.content import MOST_AT_ONCE
from waterclock.ledger.store.rows import chunks_of, record_of
from waterclock.ledger.store.schema import AnyRow, batches, versions

QueryBuilder = Callable[[str], sa.Select[*tuple[Any, ...]]]
# not all columns of `batches`, since drivers spend time on each
PIECES = tuple(
    batches.c[name]
    for name in ("table_name", "label", "end", "current_claim", "version", "rows", "bytes", "digest", "slice_path",
                 "stands_from", "hash_high", "hash_low")
)  # fmt: skip
# modes of tables whose snapshots may cover windows before their own
_MAY_BE_COVERED = frozenset({Mode.REPLACE, Mode.TEMPORAL})
_IS_HELD = sa.and_(versions.c.table_name == batches.c.table_name, versions.c.label == batches.c.label)


def states_of(
    connection: sa.Connection, wanted: Sequence[tuple[AnyRow, datetime]]
) -> dict[tuple[str, datetime], Slice | None]:
    """Map each (table name, boundary) to the slice that made that state, or to None (see `current.state`).

    `wanted` has rows of the database table `tables`, each with a boundary.
    """
    asked = [(row.name, at) for row, at in wanted]
    modes = {row.name: row.mode for row, _ in wanted}
    found = _read_first_rows(connection, asked, _select_newest)
    gaps = [
        (name, at)
        for name, at in dict.fromkeys(asked)
        if modes[name] in _MAY_BE_COVERED and ((name, at) not in found or found[name, at].end < at)
    ]
    for name, at in gaps:
        if modes[name] == Mode.REPLACE:
            found.pop((name, at), None)
    found |= _read_first_rows(connection, gaps, _select_covering_batch)
    heads = {row.name: row.head_version for row, _ in wanted if row.mode == Mode.APPEND}
    return {
        key: slice_of(found[key], heads.get(key[0], _stored_version(found[key]))) if key in found else None
        for key in asked
    }


def _stored_version(row: AnyRow) -> int:
    return NO_VERSION if row.held_by is None else int(row.held_by)


def _read_first_rows(
    connection: sa.Connection, asked: Iterable[tuple[str, datetime]], of: QueryBuilder
) -> dict[tuple[str, datetime], AnyRow]:
    """Map each table and instant to the first row of the query that `of` builds, if any, several per statement."""
    found: dict[tuple[str, datetime], AnyRow] = {}
    left = list(dict.fromkeys(asked))
    for chunk in chunks_of(left, MOST_AT_ONCE):
        values: dict[str, Any] = {}
        for place, (name, at) in enumerate(chunk):
            values |= {f"of_{place}": name, f"at_{place}": at}
        for row in connection.execute(_select_first_rows(of, len(chunk)), values):
            found[chunk[row.place]] = row
    return found


@cache
def _select_first_rows(of: QueryBuilder, count: int) -> sa.CompoundSelect[*tuple[Any, ...]]:
    rows = [of(str(place)).limit(1).subquery() for place in range(count)]
    return sa.union_all(*(sa.select(sa.literal_column(str(at)).label("place"), row) for at, row in enumerate(rows)))


def _select_current_slices(place: str) -> sa.Select[*tuple[Any, ...]]:
    """Build the query for the current slices of a table, each with the stored version of its state."""
    held_by = sa.select(versions.c.version).where(_IS_HELD, versions.c.dropped_by.is_(None)).limit(1).scalar_subquery()
    return sa.select(*PIECES, held_by.label("held_by")).where(
        batches.c.table_name == sa.bindparam(f"of_{place}"), batches.c.current_claim.is_not(None)
    )


def _select_newest(place: str) -> sa.Select[*tuple[Any, ...]]:
    at: sa.BindParameter[datetime] = sa.bindparam(f"at_{place}")
    return _select_current_slices(place).where(batches.c.label < at).order_by(batches.c.label.desc())


def _select_covering_batch(place: str) -> sa.Select[*tuple[Any, ...]]:
    at: sa.BindParameter[datetime] = sa.bindparam(f"at_{place}")
    return (
        _select_current_slices(place).where(batches.c.label >= at, batches.c.stands_from < at).order_by(batches.c.label)
    )


def slice_of(row: AnyRow, version: int | None = None) -> Slice:
    """Build a slice from a row with the columns `PIECES`. `version` is used instead of the version in the row."""
    return record_of(
        Slice,
        row,
        table=row.table_name,
        claim=row.current_claim,
        version=row.version if version is None else version,
    )
