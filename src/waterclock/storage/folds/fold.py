"""Computes the state of a MERGE table from slices of changes, starting from an earlier state or from nothing.

Per key the row with the highest (ORDER BY, label) wins; if it is a delete, the state does not have the key. A column
that a slice does not contain keeps the value that it had, if the key was not deleted since.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.flow.column_types import type_of
from waterclock.spark_sql import quote_name
from waterclock.storage.folds.write_state import DELETED
from waterclock.storage.schema_types import fields_of, sql_type, widen_schema
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.order_bounds import (
    clear_foreign_bounds,
    deletes_sql,
    may_delete_later_row,
    order_struct,
    place_sql,
)
from waterclock.storage.slices.read import frame_of_files, frame_of_slices
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from waterclock.flow.declarations import Table
    from waterclock.flow.merge_settings import Merge

_SLICE = "_waterclock_slice"
_ORDER = "_waterclock_order"
_COLUMN_SET = "_waterclock_carries"
_KEY, _ASKED, _LAST = "_waterclock_key", "_waterclock_asked", "_waterclock_last"
_HIGHEST, _LAST_DELETE = "_waterclock_highest", "_waterclock_last_delete"
# precedence at equal order, lowest first: placeholder rows of requested keys, deletes of slices before the state, the
# state, the slices after it
_REQUESTED, _BEFORE, _STATE, _AFTER = "0", "1", "2", "3"
_ALL_COLUMNS = -1

# whether a sealed slice has deletes, and their highest ORDER BY. Slices never change, so this is cached
_delete_highs: dict[tuple[str, str, Merge], tuple[bool, str | None]] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class FoldBase:
    """Defines the start of a fold: a state, and earlier slices with deletes that may remove rows of later slices."""

    state: DataFrame | None = None
    deletes: tuple[Manifest, ...] = ()


def fold(
    spark: SparkSession,
    folder: str,
    manifests: Sequence[Manifest],
    merge: Merge,
    schema: str,
    past: FoldBase | None = None,
) -> DataFrame:
    """Return the state of a MERGE table after some slices, starting from `past`, or from nothing if it is None.

    `schema` is the table's. Cost: one shuffle of the rows, and a second pass by key if some slices do not have all
    columns.
    """
    rows = _select_winners(
        _read_rows(spark, folder, manifests, merge, schema, past or FoldBase()), manifests, merge, schema
    )
    return rows.where(f"NOT {DELETED}").drop(DELETED)


def winners_of(
    spark: SparkSession,
    folder: str,
    keys: DataFrame,
    manifests: Sequence[Manifest],
    merge: Merge,
    schema: str,
    past: FoldBase,
) -> DataFrame:
    """Return, for each of `keys`, the row that wins over all others. The column DELETED marks deletes.

    Cost: a read of all rows, and a shuffle of those with these keys.
    """
    rows = _read_rows(spark, folder, manifests, merge, schema, past)
    same = [F.col(quote_name(key)).eqNullSafe(F.col(f"{_ASKED}{index}")) for index, key in enumerate(merge.keys)]
    asked = keys.select(*(F.col(quote_name(key)).alias(f"{_ASKED}{index}") for index, key in enumerate(merge.keys)))
    known = rows.join(asked, _all_hold(same), "left_semi")
    nothing = _build_lowest_deletes(keys.select(*map(quote_name, merge.keys)), merge, schema, _REQUESTED)
    return _select_winners(known.unionByName(nothing), manifests, merge, schema)


def keys_in(spark: SparkSession, folder: str, manifests: Sequence[Manifest], merge: Merge, schema: str) -> DataFrame:
    """Return the distinct keys of some slices."""
    return frame_of_slices(spark, folder, manifests, schema).select(*map(quote_name, merge.keys)).distinct()


def last_rows(rows: DataFrame, merge: Merge) -> DataFrame:
    """Return the last row of each key by ORDER BY. NULL sorts lowest. Any one of several equal rows is returned."""
    return last_row_by_key(rows, merge.keys, order_struct(merge.order_by) if merge.order_by else None)


def last_row_by_key(rows: DataFrame, keys: Sequence[str], order: Column | None) -> DataFrame:
    """Return the row of each key with the highest `order`. One of several equal rows is chosen arbitrarily.

    If `order` is None, all rows of a key are equal.
    """
    every = F.struct(*(F.col(quote_name(name)) for name in rows.columns))
    last = F.first(every) if order is None else F.max_by(every, order)
    return rows.groupBy(*_key_columns(keys)).agg(last.alias(_LAST)).select(f"{_LAST}.*")


def own_rows(spark: SparkSession, folder: str, manifest: Manifest, merge: Merge, schema: str) -> DataFrame:
    """Return a slice's rows with the slice's own columns, the columns of ORDER BY, and a column that marks deletes.

    The columns have the table's types. ORDER BY and DELETE WHEN may name a column that is newer than the slice, and
    therefore NULL in its rows.
    """
    own = {*fields_of(manifest.schema), *merge.order_by}
    rows = mark_deletes(frame_of_slices(spark, folder, [manifest], schema), merge)
    return rows.select(*(quote_name(name) for name in fields_of(schema) if name in own), DELETED)


def mark_deletes(rows: DataFrame, merge: Merge) -> DataFrame:
    """Add the column DELETED, which is TRUE for rows that meet DELETE WHEN."""
    return rows.withColumn(DELETED, F.expr(deletes_sql(merge)))


def add_ordering_columns(schema: str, table: Table) -> str:
    """Return a schema with the declared columns that ORDER BY and DELETE WHEN name and that no slice has yet.

    These columns are NULL in all rows. The names are searched as text, so a match within another word or a string also
    adds a column. This only makes the read a little slower.
    """
    if table.fold is None:
        return schema
    known = {name.lower() for name in fields_of(schema)}
    ordering, text = {name.lower() for name in table.fold.order_by}, (table.fold.delete_when or "").lower()
    added = [
        {"name": column.name, "type": kind, "nullable": True, "metadata": {}}
        for column in table.columns.named
        if (name := column.name.lower()) not in known and (name in ordering or name in text)
        if isinstance(kind := type_of(column.type or "STRING"), str)
    ]
    return widen_schema(schema, json.dumps({"type": "struct", "fields": added})) or schema


def can_lose_to_deletes(merge: Merge) -> bool:
    """Return whether a delete of an earlier label may remove a row of a later one. This needs an ORDER BY."""
    return bool(merge.delete_when and merge.order_by)


def slices_with_later_deletes(
    folder: str, earlier: Iterable[str], later: Sequence[Manifest], merge: Merge, schema: str
) -> tuple[Manifest, ...]:
    """Return the slices of `earlier` (paths) with a delete that sorts after the first row of a later slice.

    Cost: each manifest is read once per process.
    """
    if not can_lose_to_deletes(merge):
        return ()
    fields = fields_of(schema)
    types = [fields[name]["type"] for name in merge.order_by]
    lows = {clear_foreign_bounds(manifest, merge).order_low for manifest in later}
    found = []
    for path in earlier:
        has_deletes, high = _find_delete_high(folder, path, merge)
        if has_deletes and any(may_delete_later_row(high, low, types) for low in lows):
            found.append(read_manifest(folder, path))
    return tuple(found)


def later_slices_with_deletes(
    manifest: Manifest, after: Sequence[Manifest], merge: Merge, schema: str
) -> tuple[Manifest, ...]:
    """Return later slices with a delete that sorts at or after the first row of this slice."""
    fields = fields_of(schema)
    types = [fields[name]["type"] for name in merge.order_by]
    manifest = clear_foreign_bounds(manifest, merge)
    return tuple(
        later
        for later in (clear_foreign_bounds(each, merge) for each in after)
        if later.has_deletes
        and (not types or may_delete_later_row(later.delete_high, manifest.order_low, types, is_later=True))
    )


def highest_deletes(
    spark: SparkSession, folder: str, manifests: Sequence[Manifest], merge: Merge, schema: str
) -> DataFrame:
    """Return the last delete of each key in the slices: key columns as `_waterclock_key<n>`, order and label."""
    rows = mark_deletes(frame_of_slices(spark, folder, manifests, schema), merge).where(DELETED)
    return rows.groupBy(*_key_columns(merge.keys)).agg(F.max(F.expr(place_sql(merge.order_by))).alias(_ORDER))


def drop_deleted_rows(winners: DataFrame, deletes: DataFrame, merge: Merge) -> DataFrame:
    """Remove the rows of `winners` whose key has a delete with a higher order or label in `deletes`."""
    same = [F.col(quote_name(key)).eqNullSafe(F.col(f"{_KEY}{index}")) for index, key in enumerate(merge.keys)]
    return winners.join(deletes, _all_hold([F.col(_ORDER) > F.expr(place_sql(merge.order_by)), *same]), "left_anti")


def fill_columns(rows: DataFrame, schema: str) -> DataFrame:
    """Return the columns of a schema, with NULL for those that the rows do not have."""
    existing = set(rows.columns)
    texts = [
        quote_name(name) if name in existing else f"CAST(NULL AS {sql_type(field['type'])}) AS {quote_name(name)}"
        for name, field in fields_of(schema).items()
    ]
    return rows.selectExpr(*texts, *([DELETED] if DELETED in existing else []))


def _read_rows(
    spark: SparkSession, folder: str, manifests: Sequence[Manifest], merge: Merge, schema: str, past: FoldBase
) -> DataFrame:
    """Return all rows that take part in the fold, each with its order, its slice and the number of its column set."""
    parts = []
    for number, (_, members) in enumerate(_group_by_columns(manifests).items()):
        files = [file for manifest in members for file in manifest.files]
        rows = mark_deletes(frame_of_files(spark, folder, files, schema), merge)
        parts.append(_add_order(rows, merge, f"concat('{_AFTER}', {TIMELABEL})", number))
    if past.state is not None:
        state = fill_columns(past.state, schema).withColumn(DELETED, F.expr("false"))
        parts.append(_add_order(state, merge, f"'{_STATE}'", _ALL_COLUMNS))
    if past.deletes:
        rows = mark_deletes(frame_of_slices(spark, folder, past.deletes, schema), merge).where(DELETED)
        parts.append(_add_order(rows, merge, f"concat('{_BEFORE}', {TIMELABEL})", _ALL_COLUMNS))
    if not parts:
        parts.append(
            _add_order(mark_deletes(frame_of_files(spark, folder, [], schema), merge), merge, "''", _ALL_COLUMNS)
        )
    union = parts[0]
    for part in parts[1:]:
        union = union.unionByName(part)
    return union


def _add_order(rows: DataFrame, merge: Merge, place: str, carries: int) -> DataFrame:
    order = order_struct(merge.order_by) if merge.order_by else F.lit(0)
    return rows.withColumns({_ORDER: order, _SLICE: F.expr(place), _COLUMN_SET: F.lit(carries)})


def _build_lowest_deletes(keys: DataFrame, merge: Merge, schema: str, place: str) -> DataFrame:
    """Return one artificial delete for each key, so that the result also contains keys without rows.

    It sorts below all other rows, so any row of the key wins over it.
    """
    rows = fill_columns(keys, schema).withColumn(DELETED, F.expr("true"))
    return _add_order(rows, merge, f"'{place}'", _ALL_COLUMNS)


def _group_by_columns(manifests: Sequence[Manifest]) -> Mapping[tuple[str, ...], list[Manifest]]:
    """Group slices by their columns. All slices of a group are read at once, however many there are."""
    groups: dict[tuple[str, ...], list[Manifest]] = {}
    for manifest in manifests:
        if manifest.files:
            groups.setdefault(tuple(sorted(fields_of(manifest.schema))), []).append(manifest)
    return groups


def _select_winners(rows: DataFrame, manifests: Sequence[Manifest], merge: Merge, schema: str) -> DataFrame:
    groups = list(_group_by_columns(manifests))
    sets_without = {name: [n for n, own in enumerate(groups) if name not in own] for name in fields_of(schema)}
    if any(sets_without.values()):
        return _carry_values(rows, sets_without, merge)
    every = F.struct(*(F.col(quote_name(name)) for name in (*fields_of(schema), DELETED)))
    last = F.max_by(every, F.struct(_ORDER, _SLICE))
    return rows.groupBy(*_key_columns(merge.keys)).agg(last.alias(_LAST)).select(f"{_LAST}.*")


def _carry_values(rows: DataFrame, lacking: Mapping[str, Sequence[int]], merge: Merge) -> DataFrame:
    """Return the winning rows if some slices do not have all columns. The last row with a column provides its value."""
    from pyspark.sql import Window

    keys = [F.col(quote_name(key)) for key in merge.keys]
    last_of_slice = F.max_by(F.struct("*"), F.col(_ORDER)).alias(_LAST)
    single = rows.groupBy(*_key_columns(merge.keys), _SLICE).agg(last_of_slice).select(f"{_LAST}.*")
    before = Window.partitionBy(*keys).orderBy(_SLICE).rowsBetween(Window.unboundedPreceding, -1)
    counting = single.withColumn(_HIGHEST, F.max(_ORDER).over(before))
    counting = counting.where(F.isnull(_HIGHEST) | (F.col(_ORDER) >= F.col(_HIGHEST)))
    last_delete = F.max(F.expr(f"if({DELETED}, {_SLICE}, NULL)")).over(Window.partitionBy(*keys))
    marked = counting.withColumn(_LAST_DELETE, last_delete)
    values = [
        F.expr(
            f"max_by(struct({quote_name(name)} AS v), if(({_LAST_DELETE} IS NULL OR {_SLICE} > {_LAST_DELETE}) "
            f"AND NOT {_COLUMN_SET} IN ({', '.join(map(str, [-2, *groups]))}), {_SLICE}, NULL)).v"
        ).alias(name)
        for name, groups in lacking.items()
        if name not in merge.keys
    ]
    grouped = marked.groupBy(*_key_columns(merge.keys)).agg(
        *values, F.expr(f"max_by({DELETED}, {_SLICE})").alias(DELETED)
    )
    names = {key: f"{_KEY}{index}" for index, key in enumerate(merge.keys)}
    return grouped.select(*(F.col(names.get(name, quote_name(name))).alias(name) for name in lacking), F.col(DELETED))


def _key_columns(keys: Sequence[str]) -> list[Column]:
    return [F.col(quote_name(key)).alias(f"{_KEY}{index}") for index, key in enumerate(keys)]


def _all_hold(conditions: Sequence[Column]) -> Column:
    joined = conditions[0]
    for condition in conditions[1:]:
        joined = joined & condition
    return joined


def _find_delete_high(folder: str, path: str, merge: Merge) -> tuple[bool, str | None]:
    known = _delete_highs.get((folder, path, merge))
    if known is None:
        manifest = clear_foreign_bounds(read_manifest(folder, path), merge)
        known = (manifest.has_deletes, manifest.delete_high)
        with _lock:
            _delete_highs[(folder, path, merge)] = known
    return known
