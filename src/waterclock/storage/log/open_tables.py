"""Caches open tables. Opening one costs more the more files it has; an update costs more only with new commits."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError, TableNotFoundError

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import arrow_source, entry_path
from waterclock.files.object_stores import is_remote
from waterclock.storage.lake import STAGE
from waterclock.storage.log.delta_log import (
    commit_identity,
    damaged_log,
    find_checkpoint_version,
    iterate_commits,
    require_commits,
    table_exists,
)
from waterclock.storage.log.identity import app_id
from waterclock.storage.log.live_files import (
    LiveFile,
    files_with_deletion_vectors,
    is_plain,
    live_files,
    open_delta,
    open_kept_version,
)
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MAX_TABLES = 512
_MAX_FILES = 1_000_000  # of all tables together, some 400 bytes each
# actions of a commit that can be applied from its file; any other action reopens the table
_APPLICABLE_ACTIONS = frozenset({"commitInfo", "txn", "add", "remove", "cdc"})
_kept: OrderedDict[tuple[object, ...], _CacheEntry] = OrderedDict()
_lock = threading.Lock()


@dataclass(slots=True)
class _CacheEntry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    table: OpenTable | None = None


class OpenTable:
    """A table at one version, as its log describes it: columns, properties, features, claims and live files.

    `schema` is Delta's schema JSON. `identity` is the table's id, which a table that replaces it does not have. Files
    of a regular table are grouped by their label's folder in the stage, files of a partitioned one by their label.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._delta = open_delta(folder)
        self._load_metadata()

    def _load_metadata(self) -> None:
        """Load the metadata of the version that delta-rs shows."""
        metadata, protocol = self._delta.metadata(), self._delta.protocol()
        self.version = int(self._delta.version())
        require_commits(self.folder, self.version)
        self._head = commit_identity(self.folder, self.version)
        self.schema = self._delta.schema().to_json()
        self.identity = str(metadata.id)
        self.partition_columns = list(metadata.partition_columns)
        self.configuration: Mapping[str, str] = dict(metadata.configuration)
        self.features = frozenset({*(protocol.writer_features or ()), *(protocol.reader_features or ())})
        self.is_plain = is_plain(self._delta)
        self._claims: set[str] | None = None
        self._files: dict[str, LiveFile] = {}
        self._has_files = False
        self._paths_by_place: defaultdict[str, set[str]] = defaultdict(set)
        self._paths_outside_stage: set[str] = set()
        self._marked_paths: set[str] = set()

    @property
    def file_count(self) -> int:
        """The number of live files loaded; 0 until they are first needed."""
        return len(self._files)

    @property
    def files(self) -> Mapping[str, LiveFile]:
        """The live files by path. Cost: proportional to their number, the first time."""
        if not self._has_files:
            at_version = self._delta
            if at_version.version() != self.version:
                at_version = open_delta(self.folder, self.version)
            self._has_files = True
            for file in live_files(at_version):
                self._add(file)
            if "deletionVectors" in self.features:
                self._marked_paths = files_with_deletion_vectors(at_version, self.folder)
        return self._files

    @property
    def marked_paths(self) -> Collection[str]:
        """The paths of live files that carry a deletion vector."""
        return self._marked_paths if self.files else ()

    def files_at(self, place: str) -> list[LiveFile]:
        """Return the live files of a label. `place` is the label of a partition, or the label's folder in the stage."""
        files = self.files
        return [files[path] for path in sorted(self._paths_by_place.get(place, ()))]

    def files_outside_stage(self) -> list[LiveFile]:
        """Return the live files that belong to no slice: those of OPTIMIZE, and those of MERGE and TEMPORAL states."""
        files = self.files
        return [files[path] for path in sorted(self._paths_outside_stage)]

    def has_claim(self, claim: int) -> bool:
        """Return whether a commit carries the claim's id.

        Cost of the first call: proportional to the claims in the log.
        """
        if self._claims is None:
            self._claims = _transactions_in(self.folder, self.version)
        if self._claims is None:
            return self.delta().transaction_version(app_id(claim)) is not None
        return app_id(claim) in self._claims

    def delta(self) -> DeltaTable:
        """Return the table object of delta-rs at the newest version. Cost: proportional to the number of files."""
        self._delta.update_incremental()
        return self._delta

    def follow(self) -> None:
        """Load the commits since the last call, so that this object shows the newest version.

        Cost: proportional to their number.
        """
        head = commit_identity(self.folder, self.version)
        is_cleaned = head is None and find_checkpoint_version(self.folder) >= self.version
        if head != self._head and not is_cleaned:
            self._reopen()  # a copy of the table was restored, or its log was recreated
        previous_version = self.version
        for version, actions in iterate_commits(self.folder, self.version):
            if not all(_APPLICABLE_ACTIONS.issuperset(action) for action in actions):
                self._reopen()
                return
            self._apply(actions)
            self.version = version
        if self.version > previous_version:
            self._head = commit_identity(self.folder, self.version)
        if find_checkpoint_version(self.folder) > self.version:
            self._reopen()  # the commits in between were cleaned up

    def apply_commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
        """Apply a commit that this process has just written after the version that this object shows.

        Cost: one look-up instead of those of `follow`. Later commits of others are not seen before its next call.
        """
        if not all(_APPLICABLE_ACTIONS.issuperset(action) for action in actions):
            self.follow()
            return
        self._apply(actions)
        self.version = version
        self._head = commit_identity(self.folder, version)

    def _reopen(self) -> None:
        self._delta = open_delta(self.folder)
        self._load_metadata()

    def _apply(self, actions: Iterable[Mapping[str, Any]]) -> None:
        if self._claims is not None:
            self._claims.update(str(action["txn"]["appId"]) for action in actions if "txn" in action)
        if not self._has_files:
            return
        for action in actions:
            if "remove" in action:
                self._remove(unquote(action["remove"]["path"]))
        for action in actions:
            if "add" in action:
                file = _file_of(action["add"])
                self._add(file)
                if action["add"].get("deletionVector"):
                    self._marked_paths.add(file.path)

    def _add(self, file: LiveFile) -> None:
        self._files[file.path] = file
        self._paths_by_place[_place_of(file)].add(file.path)
        if not file.path.startswith(f"{STAGE}/"):
            self._paths_outside_stage.add(file.path)

    def _remove(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is None:
            return
        place = self._paths_by_place[_place_of(file)]
        place.discard(path)
        if not place:
            del self._paths_by_place[_place_of(file)]
        self._paths_outside_stage.discard(path)
        self._marked_paths.discard(path)


def is_bare(table: OpenTable) -> bool:
    """Return whether a table has no columns since it was reset. Its next batch defines them."""
    return [field["name"] for field in json.loads(table.schema)["fields"]] == [TIMELABEL]


def find_schema(folder: str) -> str | None:
    """Return the schema JSON of a folder's table, or None without a table or before its first batch since a reset."""
    if not _is_open(folder) and not table_exists(folder):
        return None
    try:
        with open_table(folder) as table:
            return None if is_bare(table) else table.schema
    except WaterclockError as error:
        if error.code == "E623":  # it was removed while it was in the cache
            return None
        raise


def has_columns(folder: str) -> bool:
    """Return whether a folder contains a table with known columns: it had a batch since it was created or reset."""
    return find_schema(folder) is not None


def _transactions_in(folder: str, version: int) -> set[str] | None:
    """Return the ids of all transactions in a log up to a version, or None if its files do not contain them all.

    Cost: a column of the newest checkpoint and the commits since, some milliseconds for 26,000 ids.
    """
    checkpoint = read = find_checkpoint_version(folder)
    found: set[str] = set()
    if checkpoint >= 0:
        path = entry_path(folder, "_delta_log", f"{checkpoint:020d}.checkpoint.parquet")
        try:
            column = pq.ParquetFile(arrow_source(path)).read(columns=["txn"])["txn"]
        except (OSError, KeyError, pa.ArrowException):
            return None  # a checkpoint in parts, or with its actions in other files
        found.update(pc.struct_field(column.drop_null(), "appId").to_pylist())
    for commit, actions in iterate_commits(folder, checkpoint):
        read = commit
        found.update(str(action["txn"]["appId"]) for action in actions if "txn" in action)
    # a missed claim would be committed twice: commits are cleaned up, and a checkpoint may be named late
    return found if read >= version else None


def _place_of(file: LiveFile) -> str:
    return file.label or file.path.rpartition("/")[0].rpartition("/")[0]


def _file_of(add: Mapping[str, Any]) -> LiveFile:
    label = add["partitionValues"].get(TIMELABEL)
    stats = json.loads(add["stats"]) if add.get("stats") and not label else {}
    low, high = ((stats.get(kind) or {}).get(TIMELABEL) for kind in ("minValues", "maxValues"))
    return LiveFile(unquote(add["path"]), add["size"], label, low, high)


@contextmanager
def open_table(folder: str) -> Iterator[OpenTable]:
    """Open a folder's table at its newest version, for one thread at a time.

    Raises E623 if the folder has no table, and E643 if its log is damaged.
    """
    kept = _cache_entry(folder)
    with kept.lock:
        try:
            if kept.table is None:
                kept.table = OpenTable(folder)
            kept.table.follow()
        except TableNotFoundError as error:
            kept.table = None
            raise _no_table(folder, str(error)) from error
        except (AttributeError, DeltaError, KeyError, RecursionError, TypeError, ValueError) as error:
            kept.table = None
            raise damaged_log(folder, f"{folder}/_delta_log", str(error).partition("\n")[0][:300]) from error
        except WaterclockError:
            kept.table = None
            raise
        try:
            yield kept.table
        except BaseException:
            # it may be at a version that its log does not contain
            kept.table = None
            raise
    _evict()


def live_bytes(folder: str) -> int:
    """Return the size of a table as it is now. Cost: proportional to the number of files."""
    with open_table(folder) as table:
        return sum(file.size for file in table.files.values())


def is_live(folder: str, path: str) -> bool:
    """Return whether a file, given relative to the table's folder, is live."""
    with open_table(folder) as table:
        return path in table.files


def is_readable(folder: str, version: int) -> bool:
    """Return whether a version's rows can still be read. The newest version's rows always can."""
    with open_table(folder) as table:
        if table.version == version:
            return True
    return open_kept_version(folder, version) is not None


def forget_open_table(folder: str) -> None:
    """Remove a folder's table from the cache: its log was lost, and a new one may take its place."""
    with _lock:
        for key in [key for key in _kept if key[0] == folder]:
            del _kept[key]


def _is_open(folder: str) -> bool:
    """Return whether a folder's table is in the cache."""
    try:
        key = (folder, *_identity_of_log(folder))
    except WaterclockError:
        return False
    with _lock:
        kept = _kept.get(key)
    return kept is not None and kept.table is not None


def _cache_entry(folder: str) -> _CacheEntry:
    key = (folder, *_identity_of_log(folder))
    with _lock:
        kept = _kept.setdefault(key, _CacheEntry())
        _kept.move_to_end(key)
        return kept


def _identity_of_log(folder: str) -> tuple[int, ...]:
    """Return the device and inode of a table's log folder, which change if it is replaced; empty for object stores."""
    if is_remote(folder):
        return ()
    try:
        log = os.stat(f"{folder}/_delta_log")  # noqa: PTH116 - called very often: a Path would double its cost
    except OSError as error:
        raise _no_table(folder, str(error)) from error
    return log.st_dev, log.st_ino


def _evict() -> None:
    """Remove the tables that were used longest ago from the cache while it exceeds its limits on tables and files."""
    with _lock:
        files = sum(kept.table.file_count for kept in _kept.values() if kept.table is not None)
        while len(_kept) > 1 and (len(_kept) > _MAX_TABLES or files > _MAX_FILES):
            _, gone = _kept.popitem(last=False)
            files -= gone.table.file_count if gone.table is not None else 0


def _no_table(folder: str, why: str) -> WaterclockError:
    return WaterclockError(
        "E623",
        "the folder has no Delta table",
        where=folder,
        why=why,
        fix="create the table first; if its folder was removed, restore it, because it contains the stage",
    )
