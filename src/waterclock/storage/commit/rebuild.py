"""Rebuilds a Delta table from its sealed slices in one commit.

If the partitioning stays the same, the commit only refers to the existing files. Otherwise Spark writes the rows again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, is_folder, move_folder
from waterclock.spark_sql import quote_name
from waterclock.storage.commit.change import NeedsSpark, may_rewrite, require_known_layout
from waterclock.storage.commit.creation import BARE, create_table, refuse_other_project
from waterclock.storage.commit.pointers import add_new_columns, commit_slices, commit_state, find_claim_version
from waterclock.storage.commit.row_order import record_row_order, recorded_sort_columns
from waterclock.storage.commit.spark_commit import version_of
from waterclock.storage.commit.write_commit import (
    Change,
    build_add_action,
    build_remove_actions,
    metadata_of,
    try_commit,
)
from waterclock.storage.log.delta_log import is_older_than, is_unfinished, table_exists
from waterclock.storage.log.identity import RECREATED, Identity, app_id
from waterclock.storage.log.open_tables import forget_open_table, open_table
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_of_slices, table_schema
from waterclock.storage.slices.row_order import sort_rows
from waterclock.storage.spark_settings import require_log_store
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAX_ATTEMPTS = 20


def has_exact_files(folder: str, manifests: Sequence[Manifest], *, is_partitioned: bool) -> bool:
    """Return whether a table's live files are exactly those of these slices, with this partitioning."""
    with open_table(folder) as table:
        columns = table.partition_columns
        live = set(table.files)
    return live == _file_paths(manifests) and columns == ([TIMELABEL] if is_partitioned else [])


def rebuild_table_content(
    spark: SparkSession, folder: str, identity: Identity, manifests: Sequence[Manifest], *, is_partitioned: bool
) -> int:
    """Make these slices a table's only content. Return the new version, or the newest one if nothing has to change.

    A table that was TEMPORAL gets the columns that only its slices have. Cost: milliseconds if the layout stays the
    same; else all rows are written once. Raises ClaimKilledError if the claim was killed first.
    """
    add_new_columns(folder, identity, manifests)
    if has_exact_files(folder, manifests, is_partitioned=is_partitioned):
        return _version_of_unchanged(folder, identity)
    commit = _commit_partitions if is_partitioned else _commit_files
    version = commit(folder, identity, manifests)
    if version is not None:
        return version
    rows = (
        frame_of_slices(spark, folder, manifests, table_schema(folder))
        if manifests
        else spark.createDataFrame([], table_schema(folder))
    )
    return overwrite(rows, folder, identity, is_partitioned=is_partitioned)


def commit_whole_state(
    folder: str, identity: Identity, state: DataFrame, *, sort_by: Sequence[str] | None = None
) -> int:
    """Replace all rows of a table by those of `state`, in one commit under the claim's id. Return its version.

    The rows of each file are in the order that the log records. `sort_by` is recorded first, if it is given. Cost: one
    write of the rows, and one more for each commit that came between. Raises ClaimKilledError if the claim was killed
    first.
    """
    if sort_by is not None:
        record_row_order(folder, sort_by, project=identity.project)
    for _ in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            base, has_layout, names = table.version, may_rewrite(table), list(fields_of(table.schema))
            sort_by = recorded_sort_columns(table)
        if not has_layout or set(names) != set(state.columns):
            break
        rows = state.select(*map(quote_name, names))
        version = try_whole_state(folder, identity, rows, base=base, sort_by=sort_by)
        if version is not None:
            return version
    return overwrite(state, folder, identity, is_partitioned=False)


def try_whole_state(
    folder: str, identity: Identity, state: DataFrame, *, base: int, sort_by: Sequence[str]
) -> int | None:
    """Replace the rows of a table at version `base` by those of `state`, whose columns are in the table's order.

    The rows of each file are in the order of `sort_by`.

    Return the version, or None if another commit came after `base`. Cost: one write of the rows. Raises
    ClaimKilledError if the claim was killed first.
    """
    path = f"state/c={identity.claim}/v={base}"
    fault("merge")
    sort_rows(state, sort_by).write.mode("overwrite").parquet(str(entry_path(folder, path)))
    return commit_state(folder, identity, path, base=base)


def recreate(folder: str, schema: str, *, is_partitioned: bool, project: str, above: int) -> None:
    """Recreate a table whose log was lost. Its versions continue after `above`, the last known one.

    Otherwise a record of an older version could refer to a new version with the same number. Cost: 10 ms per recorded
    version.
    """
    forget_open_table(folder)
    create_table(folder, schema, is_partitioned=is_partitioned, project=project)
    raise_versions(folder, project=project, above=above)


def raise_versions(folder: str, *, project: str, above: int) -> None:
    """Commit empty versions until the table's version is `above`, the last known one. Cost: 10 ms each."""
    nothing = Identity(project, "", RECREATED, (), "", 0, "")
    with open_table(folder) as table:
        while table.version < above:
            try_commit(table, Change(), nothing)
            table.follow()


def start_over(folder: str, identity: Identity, *, above: int, stamp: str) -> int:
    """Remove all files and columns of a table in one commit and return its version. The next batch defines the columns.

    The log continues, so that killed claims stay killed. A log is moved to `_delta_log.reset-<stamp>` next to it if it
    is damaged, ends before version `above`, or requires that Spark writes each commit. A new log then continues after
    `above`. Cost: an action for each file of the table; for a new log 10 ms for each version there was.

    Raises E601 if the table belongs to another project, and ClaimKilledError if another reset took this one over.
    """
    if not is_older_than(folder, above) and (version := _empty_table(folder, identity)) is not None:
        return version
    if is_folder(
        entry_path(folder, "_delta_log")
    ):  # in an object store perhaps only a part, if an earlier reset was killed
        move_log(folder, f"reset-{stamp}")
    recreate(folder, BARE, is_partitioned=False, project=identity.project, above=above)
    if (version := _empty_table(folder, identity)) is None:
        raise AssertionError(f"{folder}: a log that was just made cannot be continued")
    return version


def _empty_table(folder: str, identity: Identity) -> int | None:
    """Empty a table and return its version, or None if its log is damaged or requires that Spark writes the commit."""
    try:
        while table_exists(folder):
            with open_table(folder) as table:
                refuse_other_project(table, identity.project)
                if (committed := find_claim_version(table, identity.claim)) is not None:
                    return committed
                require_known_layout(table)
                if table.marked_paths:
                    return None
                gone = build_remove_actions(list(table.files.values()))
                change = Change(removes=gone, is_overwrite=True, metadata=[metadata_of(table, BARE, [])])
                version = try_commit(table, change, identity)
            if version is not None:
                return version
    except WaterclockError as error:
        if error.code not in {"E643", "E624", "E631"}:
            raise
    return None


def move_log(folder: str, name: str) -> str:
    """Move a table's log to `_delta_log.<name>` next to it and return that path. The folder is then no Delta table."""
    forget_open_table(folder)
    moved = entry_path(folder, f"_delta_log.{name}")
    move_folder(entry_path(folder, "_delta_log"), moved)
    return str(moved)


def _commit_partitions(folder: str, identity: Identity, manifests: Sequence[Manifest]) -> int | None:
    """Make the slices a partitioned table's only content by references to their files. Return the version.

    Return None if that is impossible: the layout differs, or the table has labels without a manifest.
    """
    with open_table(folder) as table:
        live = {(file.label, file.path) for file in table.files.values()}
        is_partitioned = table.partition_columns == [TIMELABEL]
    wanted = {(label_of(manifest.label), file.path) for manifest in manifests for file in manifest.files}
    labels = {label for label, _ in live ^ wanted}
    if not is_partitioned or not labels <= {label_of(manifest.label) for manifest in manifests}:
        return None
    try:
        return commit_slices(
            folder, identity, [each for each in manifests if label_of(each.label) in labels], mode="append"
        )
    except NeedsSpark:
        return None


def _commit_files(folder: str, identity: Identity, manifests: Sequence[Manifest]) -> int | None:
    """Make the slices an unpartitioned table's only content by references to their files. Return the version.

    Return None if the table does not permit this, or if other commits came first at every attempt.
    """
    wanted = {file.path: (file, manifest) for manifest in manifests for file in manifest.files}
    for _ in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            if (committed := find_claim_version(table, identity.claim)) is not None:
                return committed
            if not may_rewrite(table):
                return None
            # live files stay: added again they would be hidden from Spark (M5)
            removed = [file for path, file in table.files.items() if path not in wanted]
            new = [
                build_add_action(file, None, int(manifest.sealed_at.timestamp() * 1000))
                for path, (file, manifest) in wanted.items()
                if path not in table.files
            ]
            version = try_commit(table, Change(new, build_remove_actions(removed)), identity)
        if version is not None:
            return version
    return None


def overwrite(rows: DataFrame, folder: str, identity: Identity, *, is_partitioned: bool) -> int:
    """Replace all rows and the layout of a table by those of `rows`, in one commit by Spark. Return its version."""
    require_log_store(rows.sparkSession, folder)
    with open_table(folder) as table:
        sort_by = recorded_sort_columns(table)
    writer = (
        sort_rows(rows, sort_by, folders=[TIMELABEL] if is_partitioned else [])
        .write.format("delta")
        .mode("overwrite")
        .option("overwriteSchema", "true")
        .option("txnAppId", app_id(identity.claim))
        .option("txnVersion", 1)
        .option("userMetadata", identity.to_json())
    )
    (writer.partitionBy(TIMELABEL) if is_partitioned else writer).save(folder)
    return version_of(folder, identity.claim)


def _file_paths(manifests: Sequence[Manifest]) -> set[str]:
    return {file.path for manifest in manifests for file in manifest.files}


def _version_of_unchanged(folder: str, identity: Identity) -> int:
    """Return the newest version of a table that already has the slices' files. A new log first gets an empty commit."""
    with open_table(folder) as table:
        if is_unfinished(folder, table.version):
            try_commit(table, Change(), identity)
        return table.version
