"""The files that one commit adds and removes, on the very version that was looked at."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltalake.transaction import AddAction, RemoveAction

from waterclock.errors import WaterclockError
from waterclock.storage.commit.creation import partitioned_otherwise
from waterclock.storage.log.live_files import LiveFile, files_with_deletion_vectors, is_plain, live_files, may_hold
from waterclock.storage.slices.manifest import DataFile, Manifest
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

_DATA_CHANGE = True
# features of a table on which delta-rs's commits of ready files were seen to be right
_KNOWN_FEATURES = frozenset(
    {"appendOnly", "invariants", "timestampNtz", "changeDataFeed", "deletionVectors", "v2Checkpoint"}
)


class NeedsSpark(WaterclockError):
    """Delta-rs must not write this commit: Spark does, under the same claim's id."""

    def __init__(self, reason: str, *, where: str | None = None) -> None:
        super().__init__("E631", f"the commit needs Spark: {reason}", where=where, fix="commit it by Spark")
        self.reason = reason


@dataclass(slots=True)
class Change:
    """What one commit does to the table as it was looked at."""

    adds: list[AddAction] = field(default_factory=list)
    removes: list[RemoveAction] = field(default_factory=list)
    mode: str = "append"
    labels: list[str] = field(default_factory=list)


def change_for(table: DeltaTable, folder: str, manifests: Sequence[Manifest], mode: str) -> Change:
    """Say what puts these slices in place of their labels' older ones, or of all there is (mode 'replace').

    Raises  NeedsSpark where delta-rs must not write
    """
    if not manifests:
        return Change()
    _require_known_layout(table, folder)
    live = live_files(table)
    if mode == "replace":
        return _replacing(table, folder, live, manifests)
    if table.metadata().partition_columns == [TIMELABEL]:
        return _by_partition(table, folder, live, manifests)
    return _by_path(table, folder, live, manifests)


def change_of_state(files: Sequence[DataFile], instead_of: Sequence[LiveFile] | None) -> Change:
    """Return the change that puts these files in place of others of this very snapshot; None stands for all of them."""
    now = int(time.time() * 1000)
    adds = [add_of(file, {}, now) for file in files]
    if instead_of is None:
        return Change(adds=adds, mode="overwrite")
    return Change(adds, [RemoveAction(file.path, _DATA_CHANGE, now, file.size, {}) for file in instead_of])


def may_rewrite(table: DeltaTable, folder: str) -> bool:
    """Tell whether a whole new state may be committed: nobody then learns from a change feed which rows changed."""
    try:
        _require_known_layout(table, folder)
    except NeedsSpark:
        return False
    has_feed = table.metadata().configuration.get("delta.enableChangeDataFeed") == "true"
    return is_plain(table) and not has_feed and not table.metadata().partition_columns


def _replacing(table: DeltaTable, folder: str, live: Sequence[LiveFile], manifests: Sequence[Manifest]) -> Change:
    new = {file.path for manifest in manifests for file in manifest.files}
    old = {file.path for file in live}
    if old == new:
        return Change()  # all of it is live already: adding it again would hide it from Spark (M5)
    if old & new:
        raise NeedsSpark("a part of the slice is live already", where=folder)
    _require_no_deletion_vectors(table, folder, old)
    return Change(adds=[add for manifest in manifests for add in _adds(manifest, partitioned=False)], mode="overwrite")


def _by_partition(table: DeltaTable, folder: str, live: Sequence[LiveFile], manifests: Sequence[Manifest]) -> Change:
    change = Change(mode="overwrite")
    for manifest in manifests:
        label = label_of(manifest.label)
        old = {file.path for file in live if file.label == label}
        new = {file.path for file in manifest.files}
        if old == new and new:
            continue  # M5
        if old & new:
            raise NeedsSpark(f"a part of the slice of {label} is live already", where=folder)
        _require_no_deletion_vectors(table, folder, old)
        change.labels.append(label)
        change.adds += _adds(manifest, partitioned=True)
    return change if change.labels else Change()


def _by_path(table: DeltaTable, folder: str, live: Sequence[LiveFile], manifests: Sequence[Manifest]) -> Change:
    change = Change()
    for manifest in manifests:
        label = label_of(manifest.label)
        own = manifest.slice_path.rsplit("/", 1)[0] + "/"
        old = {file.path: file for file in live if file.path.startswith(own)}
        joined = [file for file in live if file.path not in old and may_hold(file, label)]
        if joined:
            raise NeedsSpark(f"rows of {label} lie in {joined[0].path}, joined with others", where=folder)
        new = {file.path for file in manifest.files}
        gone = [old[path] for path in old if path not in new]
        _require_no_deletion_vectors(table, folder, {file.path for file in gone})
        now = int(time.time() * 1000)
        # of what is live on this very snapshot, with its true size: anything else removes nothing (M6)
        change.removes += [RemoveAction(file.path, _DATA_CHANGE, now, file.size, {}) for file in gone]
        change.adds += [add for add in _adds(manifest, partitioned=False) if add.path not in old]
    return change


def _adds(manifest: Manifest, *, partitioned: bool) -> list[AddAction]:
    values: dict[str, str | None] = {TIMELABEL: label_of(manifest.label)} if partitioned else {}
    at = int(manifest.sealed_at.timestamp() * 1000)
    return [add_of(file, values, at) for file in manifest.files]


def add_of(file: DataFile, values: dict[str, str | None], at: int) -> AddAction:
    """Return the action that adds a file, made at `at` (milliseconds), to a partition or to a table without any."""
    return AddAction(file.path, file.size, values, at, _DATA_CHANGE, file.stats)


def _require_known_layout(table: DeltaTable, folder: str) -> None:
    protocol = table.protocol()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    unknown = sorted(features - _KNOWN_FEATURES)
    configured = sorted(key for key in table.metadata().configuration if key.startswith("delta.constraints."))
    if unknown or configured:
        raise NeedsSpark(f"the table has {', '.join(unknown or configured)}", where=folder)
    columns = table.metadata().partition_columns
    if columns not in ([], [TIMELABEL]):
        raise partitioned_otherwise(folder, columns, [])


def _require_no_deletion_vectors(table: DeltaTable, folder: str, removed: set[str]) -> None:
    if removed and "deletionVectors" in (table.protocol().reader_features or ()):
        marked = removed & files_with_deletion_vectors(table, folder)
        if marked:
            raise NeedsSpark(f"{min(marked)} carries a deletion vector", where=folder)  # M4
