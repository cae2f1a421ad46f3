"""How do the versions of the keys that a slice touches come into a TEMPORAL table? In one commit, old labels or new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.storage.commit import commit_nothing, prepare_merge
from waterclock.storage.folding import with_all_columns
from waterclock.storage.history import manifests_of
from waterclock.storage.identity import Identity
from waterclock.storage.lake import Lake
from waterclock.storage.manifest import Manifest
from waterclock.storage.read import frame_of_files, frame_of_slices, frame_of_version
from waterclock.storage.remaking import commit_whole_state, try_whole_state
from waterclock.storage.resolving import Step
from waterclock.storage.sql import quoted
from waterclock.storage.state import DELETED, Winners
from waterclock.storage.timelines import EFFECTIVE, as_shown, raw_schema, temporal_of, versions_of
from waterclock.storage.types import TIMELABEL, fields_of
from waterclock.storage.winning import commit_winners

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.flow import Table
    from waterclock.storage.commit import MergeLook

# from this share of all raw rows on, the whole table is made again: most of its versions would be written anyway
_WHOLE_FROM = 0.25
# from so many rows to each file of the table on, there is hardly a file without a touched key: all are written anew
_SPREAD_FROM = 3
_NEW = "_waterclock_new"


def place_slice(
    spark: SparkSession, lake: Lake, table: Table, manifest: Manifest, identity: Identity, steps: Sequence[Step]
) -> int:
    """Put a label's sealed slice in its place, newest, late or restated, in one commit; gives its version.

    `steps` are the current slices of all labels, that of the same label (which it replaces) among them. The keys that
    the old and the new slice touch are made again from all their raw rows, and put in place of those keys' versions:
    by one write of the table where they lie in most of its files, else what differs as `commit_winners` does.
    Cost: a scan of the slices and of the table; a shuffle and sort of the touched keys' rows; and the writing. Where
    the slice is a quarter of all raw rows, the whole table is made again.

    Raises  Killed where the claim was killed first
            E616, E617 where the slice does not fit the table
            E640 where slices that are needed are gone
    """
    folder, temporal = lake.folder(table.name), temporal_of(table)
    look = prepare_merge(folder, identity, as_shown(manifest, temporal))
    if look.done is not None:
        return look.done
    old = manifests_of(folder, [step for step in steps if step.label == manifest.label])
    if any(each.digest is not None and each.digest == manifest.digest and each.code == manifest.code for each in old):
        return commit_nothing(folder, identity)
    others = manifests_of(folder, [step for step in steps if step.label != manifest.label])
    slices = sorted((*others, manifest), key=lambda each: each.label)
    rivals = old or (_one_before(others, manifest) if table.is_snapshot else ())
    touching = sum(each.rows for each in (manifest, *(() if table.is_snapshot else rivals)))
    if not touching and not rivals:
        return commit_nothing(folder, identity)
    if not look.live or touching >= _WHOLE_FROM * sum(each.rows for each in slices):
        whole = with_all_columns(versions_of(spark, folder, slices, table), look.schema)
        return commit_whole_state(folder, identity, whole)
    keys = _keys_touched(spark, folder, table, manifest, rivals)
    new = with_all_columns(versions_of(spark, folder, slices, table, keys), look.schema)
    there, on = _there(spark, folder, look), list(temporal.keys)
    if look.may_rewrite and touching >= _SPREAD_FROM * len(look.live):
        untouched = there.join(keys, on, "left_anti").select(*map(quoted, new.columns))
        version = try_whole_state(folder, identity, untouched.unionByName(new), base=look.base)
        if version is not None:
            return version
        look = prepare_merge(folder, identity, as_shown(manifest, temporal))
    differs = _difference(new, there.join(keys, on, "left_semi"), on)
    winners = Winners(differs, (*on, EFFECTIVE), "true", is_work=True)
    return commit_winners(spark, folder, winners, manifest, identity, look)


def _one_before(others: Sequence[Manifest], manifest: Manifest) -> tuple[Manifest, ...]:
    """Give the snapshot that a new one follows."""
    earlier = sorted((each for each in others if each.label < manifest.label), key=lambda each: each.label)
    return tuple(earlier[-1:])


def _keys_touched(
    spark: SparkSession, folder: str, table: Table, manifest: Manifest, rivals: Sequence[Manifest]
) -> DataFrame:
    """Give each key of which a slice says something else than was said before, by `rivals`.

    A slice of changes touches what it holds, and what the one held that it replaces. A snapshot holds every key: it
    touches those of which it says something else than the one that it replaces or follows.
    """
    names = list(map(quoted, temporal_of(table).keys))
    schema = raw_schema([*rivals, manifest])
    if not table.is_snapshot:
        return frame_of_slices(spark, folder, [*rivals, manifest], schema).select(*names).distinct()
    told = ", ".join(quoted(name) for name in fields_of(schema) if name != TIMELABEL)
    sides = [
        frame_of_slices(spark, folder, members, schema).selectExpr(
            *names, f"xxhash64(to_json(struct({told}))) AS told", f"{is_new} AS is_new"
        )
        for members, is_new in (([manifest], "true"), (list(rivals), "false"))
    ]
    said = sides[0].unionByName(sides[1]).groupBy(*names)
    both = said.agg(F.expr("max(if(is_new, told, NULL)) AS new"), F.expr("max(if(is_new, NULL, told)) AS old"))
    return both.where("NOT (new <=> old)").select(*names)


def _there(spark: SparkSession, folder: str, look: MergeLook) -> DataFrame:
    if look.may_rewrite:
        return frame_of_files(spark, folder, [file.path for file in look.live], look.schema)
    return frame_of_version(spark, folder, look.base)


def _difference(new: DataFrame, old: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Give the versions that are new or changed, and those that are gone, marked as deleted."""
    on = [*keys, EFFECTIVE]
    rest = [name for name in new.columns if name not in on]
    ours = new.selectExpr(*map(quoted, on), f"struct({', '.join(map(quoted, rest))}) AS {_NEW}")
    theirs = old.selectExpr(*map(quoted, on), f"struct({', '.join(map(quoted, rest))}) AS _old")
    met = ours.join(theirs, on, "full_outer").where(f"NOT ({_NEW} <=> _old)")
    return met.selectExpr(
        *map(quoted, on), *(f"{_NEW}.{quoted(name)} AS {quoted(name)}" for name in rest), f"{_NEW} IS NULL AS {DELETED}"
    ).select(*map(quoted, new.columns), DELETED)
