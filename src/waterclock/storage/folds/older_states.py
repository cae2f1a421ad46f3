"""Returns the rows of an older state: from a Delta version, from slices, or recomputed and cached.

A MERGE state that no version contains any more is folded from the newest stored state before it. A TEMPORAL state is
computed from all its slices. The result is cached below `history/<schema>/<table>/<label>/`, under a name derived from
its inputs. Every process computes the same rows for a name, so no process has to wait for another, and cached states
never change.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, put_if_absent, read_text, remove_folder
from waterclock.flow.enums import Mode
from waterclock.flow.merge_settings import Merge, Temporal
from waterclock.spark_sql import quote_name
from waterclock.storage.folds.fold import (
    FoldBase,
    add_ordering_columns,
    fill_columns,
    fold,
    slices_with_later_deletes,
)
from waterclock.storage.folds.table_columns import empty_schema
from waterclock.storage.folds.versions import temporal_of, versions_of
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import NO_VERSION, ContentLocation, LogStep
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.manifest import Manifest, is_sealed, read_manifest, with_columns_of
from waterclock.storage.slices.read import frame_of_folder, frame_of_slices, table_schema, try_frame_at_version
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.flow.declarations import Table

# VACUUM removes old versions' files: after this many versions in a row without files, earlier ones have none either
_MAX_VERSIONS_TRIED = 20
_COMPLETE_STATE = "_made"  # a file with the name of the folder that contains the complete state


def frame_of_resolved(spark: SparkSession, lake: Lake, table: Table, resolved: ContentLocation) -> DataFrame:
    """Return the rows of the content that `resolve` found, in the table's current columns.

    A content without steps has no rows. Cost: no job, the same as for `frame_at` and `frame_of_slices`. Only a MERGE or
    TEMPORAL state that must be recomputed costs a fold of the slices since the newest stored state before it, once.

    Raises E640 if neither a version nor the slices exist any more, and E705 if the table has no batch yet and declares
    no types.
    """
    folder = lake.folder(table.name)
    if not resolved.steps:
        return spark.createDataFrame([], empty_schema(folder, table))
    schema = table_schema(folder).json()
    if table.is_fold:
        return state_of(spark, lake, table, resolved.steps)
    is_replace = table.mode is Mode.REPLACE
    if not (is_replace and is_sealed(folder, resolved.steps[0].slice_path)):
        bounds = {} if is_replace else {"low": resolved.low, "high": resolved.high}
        rows = try_frame_at_version(spark, folder, resolved.version, is_partitioned=table.is_partitioned, **bounds)
        if rows is not None:
            return fill_columns(rows, schema)
    return frame_of_slices(spark, folder, manifests_of(folder, resolved.steps), schema)


def state_of(spark: SparkSession, lake: Lake, table: Table, steps: Sequence[LogStep]) -> DataFrame:
    """Return the state of a MERGE or TEMPORAL table after `steps`, its current slices from START on.

    It has the table's current columns. Cost: only the read if the state is stored. Otherwise, once, a fold of the
    slices since the newest stored state (MERGE), or of all slices (TEMPORAL). Raises E640 if a slice is gone that is
    needed to recompute the state.
    """
    folder, keyed = lake.folder(table.name), table.merge or temporal_of(table)
    schema, names = table_schema(folder).json(), _state_names(keyed, steps)
    stored = _read_stored_state(spark, lake, table.name, steps[-1], names[-1], schema)
    if stored is not None:
        return stored
    if table.merge is None:
        made = fill_columns(versions_of(spark, folder, manifests_of(folder, steps), table), schema)
    else:
        start = find_newest_state(spark, lake, table.name, steps, table.merge, schema)
        past = start.fold_base(folder, start.manifests, table.merge, schema)
        made = fold(spark, folder, start.manifests, table.merge, schema, past)
    return _read_cached_state(spark, _cache_state(made, _cache_folder(lake, table.name, steps[-1], names[-1])), schema)


def state_from(spark: SparkSession, folder: str, manifests: Sequence[Manifest], table: Table) -> DataFrame:
    """Compute the state of a MERGE or TEMPORAL table from all its slices.

    A TEMPORAL table's state has the columns of its versions. A MERGE table's state has the columns of the table and of
    its slices: slices of a table that was TEMPORAL before also have its time column, which the table has not.
    """
    if table.merge is None:
        return versions_of(spark, folder, manifests, table)
    schema = with_columns_of(table_schema(folder).json(), manifests)
    rows = fold(spark, folder, manifests, table.merge, add_ordering_columns(schema, table))
    return rows.select(*map(quote_name, fields_of(schema)))


def find_cached_state(lake: Lake, table: Table, steps: Sequence[LogStep]) -> Path | None:
    """Return the folder of the cached state after `steps`, or None if it was not recomputed before."""
    names = _state_names(table.merge or temporal_of(table), steps)
    return _find_written_state(_cache_folder(lake, table.name, steps[-1], names[-1]))


@dataclass(frozen=True, slots=True)
class BaseState:
    """The newest stored state at or before a label: its rows, the slices it was made of, and those after it."""

    state: DataFrame | None
    made_of: tuple[str, ...]
    manifests: tuple[Manifest, ...]

    def fold_base(self, folder: str, later: Sequence[Manifest], merge: Merge, schema: str) -> FoldBase:
        """Return the start for applying `later` slices: this state, and its deletes that may remove their rows."""
        return FoldBase(self.state, slices_with_later_deletes(folder, self.made_of, later, merge, schema))


def find_newest_state(
    spark: SparkSession, lake: Lake, table: str, steps: Sequence[LogStep], merge: Merge, schema: str
) -> BaseState:
    """Find the newest stored state among those after each of `steps`. Raises E640 if a slice after it is gone."""
    folder, names = lake.folder(table), _state_names(merge, steps)
    state: DataFrame | None = None
    count, tried = len(steps), 0
    while count and state is None:
        step = steps[count - 1]
        has_version = step.version != NO_VERSION and tried < _MAX_VERSIONS_TRIED
        tried += has_version
        step = step if has_version else replace(step, version=NO_VERSION)
        state = _read_stored_state(spark, lake, table, step, names[count - 1], schema)
        count -= state is None
    made_of = tuple(step.slice_path for step in steps[:count])
    return BaseState(state, made_of, manifests_of(folder, steps[count:]))


def _read_stored_state(
    spark: SparkSession, lake: Lake, table: str, step: LogStep, name: str, schema: str
) -> DataFrame | None:
    """Return the state after a step if a Delta version contains it or it was cached before, else None."""
    if step.version != NO_VERSION:
        state = try_frame_at_version(spark, lake.folder(table), step.version, is_partitioned=False)
        if state is not None:
            return fill_columns(state, schema)
    made = _find_written_state(_cache_folder(lake, table, step, name))
    return None if made is None else _read_cached_state(spark, made, schema)


def manifests_of(folder: str, steps: Iterable[LogStep]) -> tuple[Manifest, ...]:
    """Read the manifests of slices. Raises E640 if one is gone."""
    found = []
    for step in steps:
        if not is_sealed(folder, step.slice_path):
            raise WaterclockError(
                "E640",
                f"this state of {folder} can no longer be computed",
                where=f"{folder}/{step.slice_path}",
                why=(
                    f"the table's versions no longer include it, and the slice of {label_of(step.label)}, which it "
                    "needs, was removed"
                ),
                fix="query as of a newer tick; a longer KEEP VERSIONS keeps more versions",
            )
        found.append(read_manifest(folder, step.slice_path))
    return tuple(found)


def place_in_steps(
    folder: str, manifests: Sequence[Manifest], steps: Sequence[LogStep]
) -> tuple[tuple[LogStep, ...], list[Manifest]]:
    """Return the steps before the first label of `manifests`, and the table's slices from that label on.

    In these slices `manifests` take the place of the current slices of their labels. Raises E640 if a slice is gone.
    """
    labels = {each.label for each in manifests}
    first = min(labels)
    others = manifests_of(folder, [step for step in steps if step.label > first and step.label not in labels])
    before = tuple(step for step in steps if step.label < first)
    return before, sorted((*manifests, *others), key=lambda each: each.label)


def _state_names(keyed: Merge | Temporal, steps: Sequence[LogStep]) -> list[str]:
    """Return a name for the state after each step: a digest of the declaration and of all slices up to the step."""
    made_of = blake2b(json.dumps(astuple(keyed)).encode(), digest_size=12)
    names = []
    for step in steps:
        made_of.update(f"\n{step.slice_path}".encode())
        names.append(made_of.hexdigest())
    return names


def _cache_folder(lake: Lake, table: str, step: LogStep, name: str) -> Path:
    return entry_path(lake.history(table), label_of(step.label), name)


def _cache_state(state: DataFrame, place: Path) -> Path:
    """Write a state below `history/` and return its folder, or that of another process that finished first."""
    own = place / uuid.uuid4().hex
    is_ours = False
    fault("history")
    try:
        state.write.mode("overwrite").parquet(str(own))
        fault("history_written")
        is_ours = put_if_absent(place / _COMPLETE_STATE, own.name)
    finally:
        if not is_ours:
            remove_folder(own)
    return own if is_ours else place / read_text(place / _COMPLETE_STATE)


def _find_written_state(place: Path) -> Path | None:
    """Return the folder of a completely written state, or None."""
    try:
        return place / read_text(place / _COMPLETE_STATE)
    except FileNotFoundError:
        return None


def _read_cached_state(spark: SparkSession, place: Path, schema: str) -> DataFrame:
    return frame_of_folder(spark, str(place.parent), place.name, schema)
