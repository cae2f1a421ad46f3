"""Maintains a table's files outside the stage: joins small files, and removes files that no version needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltalake.exceptions import CommitFailedError
from deltalake.transaction import CommitProperties

from waterclock.files.filesystem import FileInfo, entry_path, map_each, stat_file
from waterclock.files.object_stores import is_remote
from waterclock.spark_sql import quote_name
from waterclock.storage.commit.file_joining import join_files_in_order, order_of_joined_files
from waterclock.storage.commit.write_commit import Change, build_remove_actions, try_commit
from waterclock.storage.lake import STAGE
from waterclock.storage.log.commit_history import read_new_commits
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.live_files import LiveFile
from waterclock.storage.log.open_tables import OpenTable, is_readable, open_table
from waterclock.storage.slices.buckets import bucket_of
from waterclock.storage.spark_settings import require_log_store
from waterclock.timelabel.label import TIMELABEL, label_of_hive_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Joining is worthwhile where a reader opens many small files: of one partition, or of an unpartitioned table
_SMALL = 32 * 1024 * 1024
_MANY_IN_PARTITION = 8
_MANY_IN_TABLE = 50
_MAX_ATTEMPTS = 20
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_RETENTION_PROPERTIES = ("delta.logRetentionDuration", "delta.setTransactionRetentionDuration")


@dataclass(frozen=True, slots=True)
class JoinableFiles:
    """Small files that would be joined: their number and bytes by label. Those of an unpartitioned table have no label.

    Labels are in order. `labels` is empty for an unpartitioned table.
    """

    by_label: tuple[tuple[str, int, int], ...] = ()

    @property
    def files(self) -> int:
        """The number of files."""
        return sum(files for _, files, _ in self.by_label)

    @property
    def bytes(self) -> int:
        """The total size of the files."""
        return sum(size for _, _, size in self.by_label)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels whose files are joined; empty for an unpartitioned table."""
        return tuple(label for label, _, _ in self.by_label if label)

    def up_to(self, most: int) -> JoinableFiles:
        """Return the files of the oldest labels whose total size is at most `most` bytes."""
        totals = accumulate(size for _, _, size in self.by_label)
        return JoinableFiles(tuple(each for each, total in zip(self.by_label, totals, strict=True) if total <= most))


def find_joinable_files(folder: str) -> JoinableFiles:
    """Find the small live files of a table, if there are enough of them that joining is worthwhile."""
    with open_table(folder) as table:
        is_partitioned = bool(table.partition_columns)
        groups = _small_files(table)
    fewest = _MANY_IN_PARTITION if is_partitioned else _MANY_IN_TABLE
    return JoinableFiles(
        tuple(
            (label, len(files), sum(file.size for file in files))
            for label, files in sorted(groups.items())
            if len(files) >= fewest
        )
    )


def _small_files(table: OpenTable) -> Mapping[str, list[LiveFile]]:
    """Return the small live files of a table by label; those of an unpartitioned table by an empty text."""
    by_label: defaultdict[str, list[LiveFile]] = defaultdict(list)
    for file in table.files.values():
        # joined files would be in no buckets, and Spark would shuffle them again
        if file.size < _SMALL and bucket_of(file.path) is None and (file.label or not table.partition_columns):
            by_label[file.label or ""].append(file)
    return by_label


def optimize(spark: SparkSession, folder: str, labels: Sequence[str], identity: Identity) -> int | None:
    """Join small files, of some partitions or of all. Return the version that was committed, or None.

    Rows stay as they are, and so does the sealed stage. Files of a table with an order of rows (SORT BY, CLUSTER BY)
    are joined in this order. Others are joined by Delta's OPTIMIZE, which fails if a batch removes the same files
    meanwhile. If other commits come first, the version also contains their rows.
    """
    with open_table(folder) as table:
        order = order_of_joined_files(table)
        groups = [files for label, files in sorted(_small_files(table).items()) if not labels or label in labels]
    if order:
        several = [files for files in groups if len(files) > 1]
        return join_files_in_order(spark, folder, several, order, identity) if several else None
    require_log_store(spark, folder)
    before = _version(folder)
    where = f" WHERE {TIMELABEL} IN ({', '.join(repr(label) for label in labels)})" if labels else ""
    with _set_commit_identity(spark, identity):
        spark.sql(f"OPTIMIZE delta.{quote_name(folder)}{where}").collect()
    made = [commit.version for commit in read_new_commits(folder, before).found if commit.is_rewrite]
    return made[-1] if made else None


def unneeded_files(folder: str, hours: int) -> list[FileInfo]:
    """List the data files outside the stage that no version of the last `hours` hours needs."""
    with open_table(folder) as table:
        if not table.is_plain:
            return []  # deletion vectors are in files of their own, which delta-rs does not fully support
        paths = table.delta().vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
    return [
        file
        for file in map_each(paths, lambda name: _read_file_info(entry_path(folder, unquote(name))), at=folder)
        if file
    ]


def _read_file_info(path: Path) -> FileInfo | None:
    """Return the metadata of a file, or None for a folder or a missing file."""
    try:
        return stat_file(path) if is_remote(path) or path.is_file() else None
    except FileNotFoundError:
        return None


def vacuum(folder: str, hours: int, identity: Identity, *, keeping: Collection[int] = ()) -> None:
    """Remove files that no version of the last `hours` hours needs, except those of the versions in `keeping`.

    delta-rs executes it, since Spark's VACUUM takes a minute for a tiny table, and prints to the terminal. It must be a
    full VACUUM, since VACUUM LITE would remove the sealed slices.
    """
    with open_table(folder) as table:
        if table.is_plain:
            # the table's own retention is so long that a VACUUM LITE by a user never removes slices: pass our own
            properties = CommitProperties(custom_metadata={"userMetadata": identity.to_json()})
            readable = [version for version in sorted(keeping) if is_readable(folder, version)]
            table.delta().vacuum(
                hours,
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
                commit_properties=properties,
                keep_versions=readable or None,
            )


def oldest_readable(folder: str, before: datetime) -> int:
    """Return the oldest version that stays complete after a VACUUM of files older than an instant."""
    versions = [(commit.version, commit.at) for commit in read_new_commits(folder, -1).found]
    older = [version for version, at in versions if at <= before]
    return older[-1] if older else min((version for version, _ in versions), default=0)


def droppable(folder: str, before: str) -> tuple[int, int]:
    """Return the number of live files that contain only windows before a label, and their size in bytes."""
    with open_table(folder) as table:
        gone = _find_older_files(table, before)
    return len(gone), sum(file.size for file in gone)


def drop_windows(folder: str, before: str, identity: Identity) -> int | None:
    """Remove the windows before a label from a table by one commit. Return its version, or None if nothing was removed.

    Files that also contain newer windows (OPTIMIZE joined them) are kept. The sealed slices are kept too.
    """
    for _ in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            gone = _find_older_files(table, before)
            if not gone:
                return None
            version = try_commit(table, Change(removes=build_remove_actions(gone)), identity)
        if version is not None:
            return version
    return None


def _find_older_files(table: OpenTable, before: str) -> list[LiveFile]:
    marked = table.marked_paths
    return [file for file in table.files.values() if _newest_label(file) < before and file.path not in marked]


def keep_versions(folder: str, days: int, identity: Identity) -> bool:
    """Set how many days the Delta log keeps commits and transaction identifiers. Return whether that changed."""
    wanted = dict.fromkeys(_RETENTION_PROPERTIES, f"interval {days} days")
    with open_table(folder) as table:
        known = table.configuration
        if all(known.get(key) == value for key, value in wanted.items()):
            return False
        try:
            table.delta().alter.set_table_properties(
                wanted,
                commit_properties=CommitProperties(
                    custom_metadata={"userMetadata": identity.to_json()}, max_commit_retries=0
                ),
            )
        except CommitFailedError:
            return False
        return True


def _newest_label(file: LiveFile) -> str:
    """Return the newest label that a file may contain, or a text above all labels if it is unknown."""
    if file.label:
        return file.label
    if file.path.startswith(f"{STAGE}/"):
        return label_of_hive_path(file.path)
    return file.high or "~"


def _version(folder: str) -> int:
    with open_table(folder) as table:
        return table.version


@contextmanager
def _set_commit_identity(spark: SparkSession, identity: Identity) -> Iterator[None]:
    """Record `identity` in the commits that a session makes within the block."""
    spark.conf.set(_METADATA, identity.to_json())
    try:
        yield
    finally:
        spark.conf.unset(_METADATA)
