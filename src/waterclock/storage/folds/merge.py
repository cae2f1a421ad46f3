"""Folds sealed slices of changes into a MERGE table's state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from waterclock.spark_sql import quoted
from waterclock.storage.commit.pointers import commit_nothing, commit_slices, prepare_merge
from waterclock.storage.commit.rebuild import commit_whole_state
from waterclock.storage.folds.commit_merged import commit_winners
from waterclock.storage.folds.fold import (
    beating,
    highest_deletes,
    keys_in,
    last_rows,
    own_rows,
    unbeaten,
    winners_of,
)
from waterclock.storage.folds.older_states import beginning, manifests_of, with_slices_placed
from waterclock.storage.folds.state_after import merged_state
from waterclock.storage.folds.winners_at_head import Restatement, is_decided_by_head, winners_at_head
from waterclock.storage.folds.write_state import DELETED, Winners, is_newer
from waterclock.storage.lake import Lake
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.resolving import Step
from waterclock.storage.slices.damage import require_whole
from waterclock.storage.slices.key_checks import duplicate_keys, may_be_null, require_one_row_per_order
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.types import fields_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.flow.folds import Merge


def merge_slice(
    spark: SparkSession,
    folder: str,
    manifest: Manifest,
    merge: Merge,
    identity: Identity,
    earlier: Sequence[str] = (),
) -> int:
    """Merge a new label's sealed slice into its table, in one commit under the claim's id; gives its version.

    `manifest` is newer than every label of the table. `earlier` are the paths of the slices before it, whose deletes
    beat late rows. Cost: 10 ms into an empty table where keys are unique, else as `commit_winners`.

    Raises  Killed where the claim was killed first
            E620 for two different rows of one key and order
            E616, E617 where the slice does not fit the table
    """
    look = prepare_merge(folder, identity, [manifest])
    if look.done is not None:
        return look.done
    if not manifest.rows:
        return commit_nothing(folder, identity)
    is_unique = _is_unique(spark, folder, manifest, merge)
    rivals = beating(folder, [path for path in earlier if path != manifest.slice_path], [manifest], merge, look.schema)
    if not look.live and is_unique and not manifest.has_deletes and not rivals:
        return commit_slices(folder, identity, [manifest], mode="append")
    rows = own_rows(spark, folder, manifest, merge, look.schema)
    won = rows if is_unique else last_rows(rows, merge)
    if rivals:
        won = unbeaten(won, highest_deletes(spark, folder, rivals, merge, look.schema), merge)
    winners = Winners(won, merge.keys, is_newer(merge.order_by), may_be_null=may_be_null([manifest], merge.keys))
    return commit_winners(spark, folder, winners, [manifest], identity, look)


def restate_slices(
    spark: SparkSession,
    lake: Lake,
    manifests: Sequence[Manifest],
    merge: Merge,
    identity: Identity,
    steps: Sequence[Step],
    *,
    is_whole: bool = False,
) -> int:
    """Put sealed slices of late, restated or new labels in their places, in one commit on the head; gives its version.

    `steps` are the current slices of all labels, those that are replaced among them, with the versions that hold their
    states. Where the head's rows decide of one slice (`is_decided_by_head`), nothing else is read but the label's
    slices and those whose deletes may beat it. Else the winners of the keys that the old and the new slices touch are
    made again, from the newest stored state before their labels and the slices after it, never from START where a
    state is stored. The head never goes back in labels. Cost: a read of those, and as `commit_winners`.

    `is_whole`: a slice that is replaced is damaged and not among `steps`, so which keys it touched is not known. The
    whole table is made again then, from that stored state and those slices: a fold of them, one write of all rows.

    Raises  as `merge_slice`
            E605 where a slice that is replaced holds the same rows, is shown, and is damaged
            E640 where slices that are needed are gone
    """
    folder = lake.folder(manifests[0].table)
    look = prepare_merge(folder, identity, manifests)
    if look.done is not None:
        return look.done
    are_unique = [_is_unique(spark, folder, manifest, merge) for manifest in manifests]
    if is_whole:
        return commit_whole_state(folder, identity, merged_state(spark, lake, manifests, merge, look.schema, steps))
    new = {each.label: each for each in manifests}
    old = manifests_of(folder, [step for step in steps if step.label in new])
    shown = {file.path for file in look.live}
    for each in old:
        if _is_same(each, new[each.label]):
            del new[each.label]
            if any(file.path in shown for file in each.files):
                require_whole(folder, each)  # its rows are the table's: to leave them there would leave the damage
    replaced = [each for each in old if each.label in new and each.rows]
    if not replaced and not any(each.rows for each in new.values()):
        return commit_nothing(folder, identity)
    changed = tuple(new.values())
    before, placed = with_slices_placed(folder, changed, steps)
    if len(changed) == 1:
        asked = Restatement(
            lake, merge, look.schema, changed[0], next(iter(replaced), None), before,
            tuple(each for each in placed if each.label > changed[0].label),
        )  # fmt: skip
        if is_decided_by_head(asked):
            is_unique = are_unique[list(manifests).index(changed[0])]
            winners = winners_at_head(spark, asked, is_unique=is_unique)
            return commit_winners(spark, folder, winners, manifests, identity, look)
    start = beginning(spark, lake, changed[0].table, before, merge, look.schema)
    later = [*start.manifests, *placed]
    keys = keys_in(spark, folder, [each for each in (*replaced, *changed) if each.rows], merge, look.schema)
    past = start.past(folder, later, merge, look.schema)
    won = winners_of(spark, folder, keys, later, merge, look.schema, past)
    winners = Winners(won, merge.keys, _differs(look.schema), is_work=True)
    return commit_winners(spark, folder, winners, manifests, identity, look)


def _is_unique(spark: SparkSession, folder: str, manifest: Manifest, merge: Merge) -> bool:
    """Tell whether no key has two rows; two that contradict each other are refused (E620)."""
    if not duplicate_keys(spark, folder, manifest, merge.keys, most=1):
        return True
    require_one_row_per_order(spark, folder, manifest, merge)
    return False


def _is_same(old: Manifest, new: Manifest) -> bool:
    """Tell whether a restatement changes nothing: the same rows, under the same code."""
    return old.digest is not None and old.digest == new.digest and old.code == new.code


def _differs(schema: str) -> str:
    """Write the condition that `s` is another row than `t`: what stays as it is need not be written."""
    fields = fields_of(schema)
    if any('"map"' in json.dumps(field["type"]) for field in fields.values()):
        return "true"  # maps are not compared
    new, old = (", ".join(f"{side}.{quoted(name)}" for name in fields) for side in "st")
    return f"(s.{DELETED} OR NOT (struct({new}) <=> struct({old})))"
