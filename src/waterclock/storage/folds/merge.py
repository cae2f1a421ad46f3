"""Merges sealed slices of changes into a MERGE table's state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from waterclock.spark_sql import quote_name
from waterclock.storage.commit.pointers import commit_nothing, commit_slices, prepare_merge
from waterclock.storage.commit.rebuild import commit_whole_state
from waterclock.storage.folds.commit_merged import commit_winners
from waterclock.storage.folds.fold import (
    drop_deleted_rows,
    highest_deletes,
    keys_in,
    last_rows,
    own_rows,
    slices_with_later_deletes,
    winners_of,
)
from waterclock.storage.folds.older_states import find_newest_state, manifests_of, place_in_steps
from waterclock.storage.folds.state_after import merged_state
from waterclock.storage.folds.winners_at_head import Restatement, is_decided_by_head, winners_at_head
from waterclock.storage.folds.write_state import DELETED, Winners, is_newer
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import LogStep
from waterclock.storage.log.identity import Identity
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.damage import require_whole
from waterclock.storage.slices.key_checks import duplicate_keys, may_be_null, require_one_row_per_order
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.order_bounds import clear_foreign_bounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.flow.merge_settings import Merge


def merge_slice(
    spark: SparkSession,
    folder: str,
    manifest: Manifest,
    merge: Merge,
    identity: Identity,
    earlier: Sequence[str] = (),
) -> int:
    """Merge a new label's sealed slice into its table, in one commit under the claim's id. Return its version.

    The label of `manifest` must be newer than every label of the table. `earlier` are the paths of the slices before
    it, whose deletes may sort after late rows. Cost: 10 ms into an empty table if keys are unique, else the same as
    for `commit_winners`.

    Raises ClaimKilledError if the claim was killed first, E620 for two different rows with the same key and order, and
    E616 or E617 if the slice does not fit the table.
    """
    manifest = clear_foreign_bounds(manifest, merge)
    merge_start = prepare_merge(folder, identity, [manifest])
    if merge_start.done is not None:
        return merge_start.done
    if not manifest.rows:
        return commit_nothing(folder, identity)
    is_unique = _is_unique(spark, folder, manifest, merge)
    with_later_deletes = slices_with_later_deletes(
        folder, [path for path in earlier if path != manifest.slice_path], [manifest], merge, merge_start.schema
    )
    if not merge_start.live and is_unique and not manifest.has_deletes and not with_later_deletes:
        return commit_slices(folder, identity, [manifest], mode="append")
    rows = own_rows(spark, folder, manifest, merge, merge_start.schema)
    winning_rows = rows if is_unique else last_rows(rows, merge)
    if with_later_deletes:
        winning_rows = drop_deleted_rows(
            winning_rows, highest_deletes(spark, folder, with_later_deletes, merge, merge_start.schema), merge
        )
    winners = Winners(
        winning_rows, merge.keys, is_newer(merge.order_by), may_be_null=may_be_null([manifest], merge.keys)
    )
    return commit_winners(spark, folder, winners, [manifest], identity, merge_start)


def restate_slices(
    spark: SparkSession,
    lake: Lake,
    manifests: Sequence[Manifest],
    merge: Merge,
    identity: Identity,
    steps: Sequence[LogStep],
    *,
    is_whole: bool = False,
) -> int:
    """Commit sealed slices of late, restated or new labels in one commit on the newest state. Return its version.

    `steps` are the current slices of all labels, including replaced ones, with the versions that hold their states. If
    the newest state's rows decide about the only slice (`is_decided_by_head`), only the label's slices and those with
    deletes that may sort after its rows are read. Otherwise the winners are recomputed for all keys of the old and the
    new slices. They are computed from the newest stored state before these labels and the slices after it, or from
    START if no state is stored. The table never goes back to an older label. Cost: a read of those slices, and the
    cost of `commit_winners`.

    `is_whole`: a replaced slice is damaged and not among `steps`, so its keys are unknown. The whole table is then
    recomputed from that stored state and those slices, and all rows are written.

    Raises the same errors as `merge_slice`. Also raises E605 if a replaced slice has the same rows, is live, and is
    damaged, and E640 if a slice that is needed is gone.
    """
    folder = lake.folder(manifests[0].table)
    merge_start = prepare_merge(folder, identity, manifests)
    if merge_start.done is not None:
        return merge_start.done
    are_unique = [_is_unique(spark, folder, manifest, merge) for manifest in manifests]
    if is_whole:
        return commit_whole_state(
            folder, identity, merged_state(spark, lake, manifests, merge, merge_start.schema, steps)
        )
    new = {each.label: each for each in manifests}
    old = manifests_of(folder, [step for step in steps if step.label in new])
    live_paths = {file.path for file in merge_start.live}
    for each in old:
        if _is_unchanged(each, new[each.label]):
            del new[each.label]
            if any(file.path in live_paths for file in each.files):
                require_whole(folder, each)  # the table uses its files, so the damage would stay
    replaced = [each for each in old if each.label in new and each.rows]
    if not replaced and not any(each.rows for each in new.values()):
        return commit_nothing(folder, identity)
    changed = tuple(new.values())
    before, placed = place_in_steps(folder, changed, steps)
    if len(changed) == 1:
        restatement = Restatement(
            lake, merge, merge_start.schema, changed[0], next(iter(replaced), None), before,
            tuple(each for each in placed if each.label > changed[0].label),
        )  # fmt: skip
        if is_decided_by_head(restatement):
            is_unique = are_unique[list(manifests).index(changed[0])]
            winners = winners_at_head(spark, restatement, is_unique=is_unique)
            return commit_winners(spark, folder, winners, manifests, identity, merge_start)
    start = find_newest_state(spark, lake, changed[0].table, before, merge, merge_start.schema)
    later = [*start.manifests, *placed]
    keys = keys_in(spark, folder, [each for each in (*replaced, *changed) if each.rows], merge, merge_start.schema)
    past = start.fold_base(folder, later, merge, merge_start.schema)
    winning_rows = winners_of(spark, folder, keys, later, merge, merge_start.schema, past)
    winners = Winners(winning_rows, merge.keys, _row_differs_sql(merge_start.schema), is_expensive=True)
    return commit_winners(spark, folder, winners, manifests, identity, merge_start)


def _is_unique(spark: SparkSession, folder: str, manifest: Manifest, merge: Merge) -> bool:
    """Return whether no key has two rows. Raise E620 for two different rows with the same key and order."""
    if not duplicate_keys(spark, folder, manifest, merge.keys, most=1):
        return True
    require_one_row_per_order(spark, folder, manifest, merge)
    return False


def _is_unchanged(old: Manifest, new: Manifest) -> bool:
    """Return whether a restatement changes nothing: the slices have the same rows, made by the same code."""
    return old.digest is not None and old.digest == new.digest and old.code == new.code


def _row_differs_sql(schema: str) -> str:
    """Return SQL that is TRUE if the row `s` differs from the row `t`, so that unchanged rows are not written."""
    fields = fields_of(schema)
    if any('"map"' in json.dumps(field["type"]) for field in fields.values()):
        return "true"  # maps are not compared
    new, old = (", ".join(f"{side}.{quote_name(name)}" for name in fields) for side in "st")
    return f"(s.{DELETED} OR NOT (struct({new}) <=> struct({old})))"
