"""Finds the rows by which a late or restated label changes the newest state (the head), without reading older states.

The head has, for each key, the last of all rows by (ORDER BY, label). So a new row wins exactly if it sorts after the
head's row and after the key's deletes, which are only in slices. No other rows are needed. A replaced slice matters
only for keys that the new slice does not have, or has with a lower order. For these alone the fold recomputes the
winners.

This requires that a winner has a value for every column of its key. A late slice without some columns can be compared
with the head as well if none of its rows sorts after a row of a newer slice. Then its rows win only over rows of older
labels, which have the same values as the state before it. All other cases need the fold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.spark_sql import quote_name, sql_text
from waterclock.storage.folds.fold import (
    drop_deleted_rows,
    highest_deletes,
    last_rows,
    later_slices_with_deletes,
    own_rows,
    slices_with_later_deletes,
    winners_of,
)
from waterclock.storage.folds.older_states import find_newest_state
from waterclock.storage.folds.write_state import MOST_BYTES_REWRITTEN, MOST_ROWS_BROADCAST, Winners, is_newer
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import LogStep
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.key_checks import duplicate_keys, may_be_null, same_key_sql
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.order_bounds import clear_foreign_bounds, may_delete_later_row, place_sql
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.flow.merge_settings import Merge


@dataclass(frozen=True, slots=True)
class Restatement:
    """A label's new slice, the slice it replaces (`old`; None if that had no rows), and the slices of other labels.

    `before` and `after` are the slices of older and newer labels, `schema` is the table's.
    """

    lake: Lake
    merge: Merge
    schema: str
    new: Manifest
    old: Manifest | None
    before: tuple[LogStep, ...]
    after: tuple[Manifest, ...]

    @property
    def folder(self) -> str:
        """The table's folder."""
        return self.lake.folder(self.new.table)

    @property
    def may_be_null(self) -> bool:
        """Whether a key of the label's slices may be NULL."""
        return may_be_null([self.new, *([self.old] if self.old else [])], self.merge.keys)


def is_decided_by_head(restatement: Restatement) -> bool:
    """Return whether the head's rows, and the deletes in slices, are enough to find the winning rows.

    They are enough if the slices at the label and after it have all columns. If some do not, a late slice (one that
    replaces none) must meet three conditions: Each newer slice has all columns of this one. No newer row sorts below
    one of its rows. It has no deletes, unless all newer slices have all columns of the table.
    """
    names, own = fields_of(restatement.schema).keys(), fields_of(restatement.new.schema).keys()
    after = [each for each in restatement.after if each.rows]
    carried = [fields_of(each.schema).keys() for each in after]
    is_whole = all(names <= columns for columns in carried)
    if is_whole and names <= own:
        return True
    if restatement.old is not None or not all(own <= columns for columns in carried):
        return False
    has_deletes = clear_foreign_bounds(restatement.new, restatement.merge).has_deletes
    return (is_whole or not has_deletes) and not any(_may_sort_after(restatement, each) for each in after)


def _may_sort_after(restatement: Restatement, later: Manifest) -> bool:
    """Return whether a row of the new slice may sort after one of a newer slice."""
    order_by, high = restatement.merge.order_by, clear_foreign_bounds(restatement.new, restatement.merge).order_high
    low = clear_foreign_bounds(later, restatement.merge).order_low
    if not order_by or not restatement.new.rows:
        return False
    types = [fields_of(restatement.schema)[name]["type"] for name in order_by]
    return high is None or low is None or may_delete_later_row(high, low, types)


def winners_at_head(spark: SparkSession, restatement: Restatement, *, is_unique: bool) -> Winners:
    """Return the rows that may replace those of the newest state. `is_unique`: the new slice has one row per key.

    Cost: a read of both slices of the label, and of the slices with deletes that may sort after its rows. If the new
    slice does not have all rows of the old one, also a fold of their keys. Raises E640 if a slice that is needed is
    gone.
    """
    merge, folder = restatement.merge, restatement.folder
    rows = _read_last_rows(spark, restatement, restatement.new, is_unique=is_unique)
    winning_rows, lost_keys = rows, None
    if restatement.old is not None:
        is_old_unique = not duplicate_keys(spark, folder, restatement.old, merge.keys, most=1)
        old_rows = _read_last_rows(spark, restatement, restatement.old, is_unique=is_old_unique)
        winning_rows, lost_keys = (
            _drop_unchanged(rows, old_rows, restatement, restatement.old),
            _find_lost_keys(rows, old_rows, restatement),
        )
    paths = [step.slice_path for step in restatement.before]
    with_later_deletes = (
        *slices_with_later_deletes(folder, paths, [restatement.new], merge, restatement.schema),
        *later_slices_with_deletes(restatement.new, restatement.after, merge, restatement.schema),
    )
    if with_later_deletes:
        winning_rows = drop_deleted_rows(
            winning_rows, highest_deletes(spark, folder, with_later_deletes, merge, restatement.schema), merge
        )
    if lost_keys is not None and not lost_keys.isEmpty():
        winning_rows = winning_rows.unionByName(_recompute_winners(spark, restatement, lost_keys))
    return Winners(
        winning_rows, merge.keys, _winner_condition(restatement), is_expensive=True, may_be_null=restatement.may_be_null
    )


def _read_last_rows(spark: SparkSession, restatement: Restatement, manifest: Manifest, *, is_unique: bool) -> DataFrame:
    rows = own_rows(spark, restatement.folder, manifest, restatement.merge, restatement.schema)
    return rows if is_unique else last_rows(rows, restatement.merge)


def _drop_unchanged(rows: DataFrame, was: DataFrame, restatement: Restatement, old: Manifest) -> DataFrame:
    """Remove the rows that the older slice has unchanged (so the head has them), and those of `_find_lost_keys`."""
    fields = fields_of(restatement.schema)
    passed = f"NOT {is_newer(restatement.merge.order_by)}"
    # Spark cannot compare maps
    if fields.keys() <= set(was.columns) and not any('"map"' in json.dumps(field["type"]) for field in fields.values()):
        new_row, old_row = (", ".join(f"{side}.{quote_name(name)}" for name in rows.columns) for side in "st")
        passed += f" OR struct({new_row}) <=> struct({old_row})"
    on = F.expr(f"{_same_key_condition(restatement)} AND ({passed})")
    return rows.alias("s").join(_broadcast_if_small(was, old).alias("t"), on, "left_anti")


def _find_lost_keys(rows: DataFrame, was: DataFrame, restatement: Restatement) -> DataFrame:
    """Return the keys of the older slice that the new one does not have, or has with a lower order."""
    kept = f"{_same_key_condition(restatement)} AND {is_newer(restatement.merge.order_by)}"
    joined = was.alias("t").join(_broadcast_if_small(rows, restatement.new).alias("s"), F.expr(kept), "left_anti")
    return joined.select(*(F.col(f"t.{quote_name(key)}") for key in restatement.merge.keys))


def _recompute_winners(spark: SparkSession, restatement: Restatement, keys: DataFrame) -> DataFrame:
    merge, schema = restatement.merge, restatement.schema
    start = find_newest_state(spark, restatement.lake, restatement.new.table, restatement.before, merge, schema)
    later = [*start.manifests, restatement.new, *restatement.after]
    past = start.fold_base(restatement.folder, later, merge, schema)
    return winners_of(spark, restatement.folder, keys, later, merge, schema, past)


def _winner_condition(restatement: Restatement) -> str:
    """Return the condition under which a winner `s` replaces the head's row `t`.

    A row of the replaced slice is always replaced. A recomputed winner with the label of the head's row is that same
    row, so it replaces nothing.
    """
    own = f"t.{TIMELABEL} = {sql_text(label_of(restatement.new.label))}"
    after = f"{place_sql(restatement.merge.order_by, 's.')} >= {place_sql(restatement.merge.order_by, 't.')}"
    return f"({own} OR (NOT (s.{TIMELABEL} <=> t.{TIMELABEL}) AND {after}))"


def _same_key_condition(restatement: Restatement) -> str:
    return same_key_sql(restatement.merge.keys, may_be_null=restatement.may_be_null)


def _broadcast_if_small(rows: DataFrame, manifest: Manifest) -> DataFrame:
    is_small = manifest.rows <= MOST_ROWS_BROADCAST and manifest.bytes <= MOST_BYTES_REWRITTEN
    return rows.hint("broadcast") if is_small else rows
