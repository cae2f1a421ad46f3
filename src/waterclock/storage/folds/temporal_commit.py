"""Commits the versions of a TEMPORAL table's keys for slices of new, late or restated labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.spark_sql import quote_name
from waterclock.storage.commit.pointers import commit_nothing, prepare_merge
from waterclock.storage.commit.rebuild import commit_whole_state
from waterclock.storage.folds.commit_merged import commit_winners
from waterclock.storage.folds.fold import fill_columns
from waterclock.storage.folds.key_replacement import Make, swap_rows
from waterclock.storage.folds.older_states import manifests_of
from waterclock.storage.folds.versions import EFFECTIVE, raw_schema, table_manifest, temporal_of, versions_of
from waterclock.storage.folds.write_state import DELETED, MOST_ROWS_BROADCAST, Winners
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import LogStep
from waterclock.storage.log.delta_log import head
from waterclock.storage.log.identity import Identity
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.digest import HIGH, LOW, ROWS, digest_texts, row_hash
from waterclock.storage.slices.manifest import Manifest, with_columns_of
from waterclock.storage.slices.read import frame_of_slices, frame_of_version, table_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.flow.declarations import Table
    from waterclock.storage.commit.pointers import MergeStart

# from this share of all raw rows in the new slices on, the whole table is recomputed from the slices
_WHOLE_FROM = 0.25
_MAX_ATTEMPTS = 5
_HASH, _NEW, _OLD = "_waterclock_hash", "_waterclock_new", "_waterclock_old"


@dataclass(frozen=True, slots=True)
class _NewSlices:
    """New slices, and `slices`: all slices of the table in label order, including the new ones.

    `predecessors`: the slices that the new ones replace, or for a new snapshot the snapshot before it. `most`: an upper
    bound for the number of keys to recompute, which is the number of rows in the slices that are searched for them.
    """

    new: tuple[Manifest, ...]
    slices: tuple[Manifest, ...]
    predecessors: tuple[Manifest, ...]
    most: int


def place_slices(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    manifests: Sequence[Manifest],
    identity: Identity,
    steps: Sequence[LogStep],
    *,
    is_whole: bool = False,
) -> int:
    """Commit sealed slices of new, late or restated labels to a TEMPORAL table, in one commit. Return its version.

    `steps` are the current slices of all labels, including replaced ones. All versions of the keys in the old and the
    new slices are recomputed from the raw rows of these keys, and replaced (`swap_rows`). If files of the table may
    not be replaced, Spark merges the differences.

    Cost: a scan of the slices, a shuffle and sort of these keys' rows, and the cost of `swap_rows`. The whole table is
    recomputed in these cases:

    - The new slices are at least a quarter of all raw rows.
    - A snapshot has other columns than the one that it replaces or follows.
    - A new snapshot comes before others: keys that only these have may then begin later.
    - `is_whole` is set: a replaced slice is damaged and not among `steps`.

    Raises ClaimKilledError if the claim was killed first, E616 or E617 if a slice does not fit the table, and E640 if
    a slice that is needed is gone.
    """
    folder = lake.folder(table.name)
    shown = [table_manifest(manifest, temporal_of(table)) for manifest in manifests]
    merge_start = prepare_merge(folder, identity, shown)
    if merge_start.done is not None:
        return merge_start.done
    new_slices = _find_new_slices(folder, table, manifests, steps, is_whole=is_whole)
    if new_slices is None:
        return commit_nothing(folder, identity)
    slices, schema = new_slices.slices, merge_start.schema

    def make(keys: DataFrame | None) -> DataFrame:
        return fill_columns(versions_of(spark, folder, slices, table, keys), schema)

    is_whole = is_whole or (
        table.is_snapshot and (_is_before_other_snapshot(new_slices) or _has_other_columns(new_slices))
    )
    if is_whole or not merge_start.live or new_slices.most >= _WHOLE_FROM * sum(each.rows for each in slices):
        return commit_whole_state(folder, identity, make(None))
    with _find_keys(spark, folder, table, new_slices) as keys:
        if keys is None:
            return commit_nothing(folder, identity)
        return _replace_keys(spark, folder, make, keys, shown, identity, merge_start)


def resulting_versions(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    manifests: Sequence[Manifest],
    steps: Sequence[LogStep],
    *,
    is_whole: bool = False,
) -> DataFrame:
    """Return the versions that a table will have once `place_slices` commits sealed slices.

    Cost: no job here. The frame scans the newest state and the slices. It shuffles and sorts the rows of the keys to
    recompute, or all rows if `place_slices` recomputes the whole table. Raises E640 if a slice that is needed is gone.
    """
    folder, shown = lake.folder(table.name), [table_manifest(manifest, temporal_of(table)) for manifest in manifests]
    schema = with_columns_of(table_schema(folder).json(), shown)
    newest = fill_columns(frame_of_version(spark, folder, head(folder)), schema)
    new_slices = _find_new_slices(folder, table, manifests, steps, is_whole=is_whole)
    if new_slices is None:
        return newest

    def make(keys: DataFrame | None) -> DataFrame:
        return fill_columns(versions_of(spark, folder, new_slices.slices, table, keys), schema)

    is_whole = is_whole or (
        table.is_snapshot
        and (not new_slices.predecessors or _is_before_other_snapshot(new_slices) or _has_other_columns(new_slices))
    )
    if is_whole or new_slices.most >= _WHOLE_FROM * sum(each.rows for each in new_slices.slices):
        return make(None)
    keys = (
        _find_changed_keys(spark, folder, table, new_slices)
        if table.is_snapshot
        else _read_keys(spark, folder, table, new_slices)
    )
    return newest.join(keys, keys.columns, "left_anti").unionByName(make(keys))


def _find_new_slices(
    folder: str, table: Table, manifests: Sequence[Manifest], steps: Sequence[LogStep], *, is_whole: bool
) -> _NewSlices | None:
    """Find the new slices that differ from the current ones, and those they replace. Return None if nothing changes."""
    new = {each.label: each for each in manifests}
    known = manifests_of(folder, [step for step in steps if step.label in new])
    for each in known:
        is_same = each.digest is not None and each.digest == new[each.label].digest
        if is_same and each.code == new[each.label].code:
            del new[each.label]
    if not new:
        return None
    placed = tuple(new.values())
    old = [each for each in known if each.label in new]
    others = manifests_of(folder, [step for step in steps if step.label not in new])
    predecessors = tuple(old) or (_previous_snapshot(others, placed[0]) if table.is_snapshot else ())
    # snapshots are compared with each other, so the earlier one's rows add nothing to the bound
    most = sum(each.rows for each in (placed if table.is_snapshot else (*placed, *predecessors)))
    is_first_of_several = table.is_snapshot and bool(others)
    if not most and not predecessors and not is_whole and not is_first_of_several:
        return None
    return _NewSlices(placed, tuple(sorted((*others, *placed), key=lambda each: each.label)), predecessors, most)


def _has_other_columns(new_slices: _NewSlices) -> bool:
    """Return whether a new snapshot and its predecessors have other columns: a missing one would look like NULL."""
    columns = fields_of(new_slices.new[0].schema).keys()
    return any(fields_of(predecessor.schema).keys() != columns for predecessor in new_slices.predecessors)


def _is_before_other_snapshot(new_slices: _NewSlices) -> bool:
    """Return whether a new snapshot replaces none and comes before another, whose new keys may then begin later."""
    label = new_slices.new[-1].label
    return label < new_slices.slices[-1].label and all(
        predecessor.label != label for predecessor in new_slices.predecessors
    )


def _previous_snapshot(others: Sequence[Manifest], manifest: Manifest) -> tuple[Manifest, ...]:
    """Return the snapshot before `manifest`, as a tuple of one, or an empty tuple."""
    earlier = sorted((each for each in others if each.label < manifest.label), key=lambda each: each.label)
    return tuple(earlier[-1:])


@contextmanager
def _find_keys(spark: SparkSession, folder: str, table: Table, new_slices: _NewSlices) -> Iterator[DataFrame | None]:
    """Yield the keys whose versions must be recomputed for new slices, or None if there are none.

    For a slice of changes these are its own keys and those of the slice that it replaces; some may occur twice. A
    snapshot contains every key, so for a snapshot they are the keys whose rows differ from the snapshot that it
    replaces or follows. They are computed once and cached within the block.
    """
    if not table.is_snapshot:
        yield _read_keys(spark, folder, table, new_slices)
        return
    keys = _find_changed_keys(spark, folder, table, new_slices).persist()
    try:
        count = keys.count()
        yield _broadcast_if_small(keys, count) if count else None
    finally:
        keys.unpersist()


def _read_keys(spark: SparkSession, folder: str, table: Table, new_slices: _NewSlices) -> DataFrame:
    """Return the keys of the new slices and of the slices that they replace.

    A key may occur twice, because removing duplicates would cost a shuffle.
    """
    slices = [*new_slices.new, *new_slices.predecessors]
    rows = frame_of_slices(spark, folder, slices, raw_schema(slices))
    return _broadcast_if_small(rows.select(*map(quote_name, temporal_of(table).keys)), new_slices.most)


def _broadcast_if_small(keys: DataFrame, most: int) -> DataFrame:
    return keys.hint("broadcast") if most <= MOST_ROWS_BROADCAST else keys


def _find_changed_keys(spark: SparkSession, folder: str, table: Table, new_slices: _NewSlices) -> DataFrame:
    """Return the keys whose rows differ between two snapshots of equal columns, or exist in only one of them.

    The rows of a key are compared by their digest, since a key of TEMPORAL ON may have more than one row.
    """
    names, schema = (
        list(map(quote_name, temporal_of(table).keys)),
        raw_schema([*new_slices.predecessors, *new_slices.new]),
    )
    rows = [frame_of_slices(spark, folder, members, schema) for members in (new_slices.new, new_slices.predecessors)]
    sides = [
        each.select(*names, row_hash(each.schema).alias(_HASH), F.lit(is_new).alias(_NEW))
        for each, is_new in zip(rows, (True, False), strict=True)
    ]
    by_key = sides[0].unionByName(sides[1]).groupBy(*names)
    new, old = (digest_texts(f"if({_NEW} = {side}, {_HASH}, NULL)", suffix=f"_{side}") for side in ("true", "false"))
    both = by_key.agg(*map(F.expr, (*new, *old)))
    same = (f"{name}_true <=> {name}_false" for name in (ROWS, HIGH, LOW))
    return both.where(f"NOT ({' AND '.join(same)})").select(*names)


def _replace_keys(
    spark: SparkSession,
    folder: str,
    make: Make,
    keys: DataFrame,
    manifests: Sequence[Manifest],
    identity: Identity,
    merge_start: MergeStart,
) -> int:
    key_names = keys.columns
    for _ in range(_MAX_ATTEMPTS):
        if not merge_start.may_rewrite:
            break
        version = swap_rows(spark, folder, make, keys, identity, merge_start)
        if version is not None:
            return version
        merge_start = prepare_merge(folder, identity, manifests)
        if merge_start.done is not None:
            return merge_start.done
    differences = _find_differences(
        make(keys), frame_of_version(spark, folder, merge_start.base).join(keys, key_names, "left_semi"), key_names
    )
    winners = Winners(differences, (*key_names, EFFECTIVE), "true", is_expensive=True)
    return commit_winners(spark, folder, winners, manifests, identity, merge_start)


def _find_differences(new: DataFrame, old: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the versions that are new or changed, and those that no longer exist, marked as deleted."""
    on = [*keys, EFFECTIVE]
    other_names = [name for name in new.columns if name not in on]
    new_versions = new.selectExpr(*map(quote_name, on), f"struct({', '.join(map(quote_name, other_names))}) AS {_NEW}")
    old_versions = old.selectExpr(*map(quote_name, on), f"struct({', '.join(map(quote_name, other_names))}) AS {_OLD}")
    changed = new_versions.join(old_versions, on, "full_outer").where(f"NOT ({_NEW} <=> {_OLD})")
    return changed.selectExpr(
        *map(quote_name, on),
        *(f"{_NEW}.{quote_name(name)} AS {quote_name(name)}" for name in other_names),
        f"{_NEW} IS NULL AS {DELETED}",
    ).select(*map(quote_name, new.columns), DELETED)
