"""Builds the lists of files that one commit adds to a table and removes from it, for the version that was read."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.storage.commit.creation import partition_error
from waterclock.storage.commit.write_commit import Action, Change, build_add_action, build_remove_actions
from waterclock.storage.log.live_files import LiveFile, may_hold
from waterclock.storage.slices.manifest import DataFile, Manifest
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from waterclock.storage.log.open_tables import OpenTable

# Delta features under which commits of existing files are known to be correct
_KNOWN_FEATURES = frozenset(
    {"appendOnly", "invariants", "timestampNtz", "changeDataFeed", "deletionVectors", "v2Checkpoint"}
)


# table properties that require more of a writer than references to existing files
_PREVENTING_PROPERTIES = frozenset({"delta.appendOnly", "delta.enableInCommitTimestamps", "delta.enableRowTracking"})


class NeedsSpark(WaterclockError):
    """Raised if a commit cannot just refer to the files of sealed slices: Spark must write the rows instead."""

    def __init__(self, reason: str, *, where: str | None = None) -> None:
        super().__init__("E631", f"the commit needs Spark: {reason}", where=where, fix="commit it by Spark")
        self.reason = reason


def build_slice_change(table: OpenTable, manifests: Sequence[Manifest], mode: str) -> Change:
    """Return the file changes by which slices replace their labels' older slices, or all files (mode 'replace').

    Cost: proportional to the number of files added and removed.

    Raises NeedsSpark if the commit cannot just refer to the slices' files.
    """
    if not manifests:
        return Change()
    require_known_layout(table)
    if mode == "replace":
        return _build_replacement(table, manifests)
    return (_build_partition_change if table.partition_columns else _build_path_change)(table, manifests)


def build_state_change(table: OpenTable, files: Sequence[DataFile], instead_of: Sequence[LiveFile] | None) -> Change:
    """Return the change that adds `files` and removes the live files `instead_of`, or all if that is None."""
    now = int(time.time() * 1000)
    removed = list(table.files.values()) if instead_of is None else instead_of
    return Change(
        [build_add_action(file, None, now) for file in files],
        build_remove_actions(removed),
        is_overwrite=instead_of is None,
    )


def may_rewrite(table: OpenTable) -> bool:
    """Return whether a commit may replace all files of a table by others, without a write of rows by Spark.

    It may not if the table has a change data feed, which would list every row.
    """
    try:
        require_known_layout(table)
    except NeedsSpark:
        return False
    has_feed = table.configuration.get("delta.enableChangeDataFeed") == "true"
    return table.is_plain and not has_feed and not table.partition_columns


def _build_replacement(table: OpenTable, manifests: Sequence[Manifest]) -> Change:
    new = {file.path for manifest in manifests for file in manifest.files}
    old = table.files
    if old.keys() == new:
        return Change()  # all of it is live already: adding it again would hide it from Spark (M5)
    if old.keys() & new:
        raise NeedsSpark("a part of the slice is live already", where=table.folder)
    _require_no_deletion_vectors(table, old)
    adds = [add for manifest in manifests for add in _build_add_actions(manifest, partitioned=False)]
    return Change(adds, build_remove_actions(list(old.values())), is_overwrite=True)


def _build_partition_change(table: OpenTable, manifests: Sequence[Manifest]) -> Change:
    change = Change(is_overwrite=True)
    for manifest in manifests:
        label = label_of(manifest.label)
        old = {file.path: file for file in table.files_at(label)}
        _replace_files(table, change, old, manifest, partitioned=True)
    return change


def _build_path_change(table: OpenTable, manifests: Sequence[Manifest]) -> Change:
    change = Change()
    for manifest in manifests:
        label = label_of(manifest.label)
        old = {file.path: file for file in table.files_at(manifest.slice_path.rpartition("/")[0])}
        joined = [file for file in table.files_outside_stage() if may_hold(file, label)]
        if joined:
            raise NeedsSpark(
                f"rows of {label} are in {joined[0].path}, together with rows of other labels", where=table.folder
            )
        _replace_files(table, change, old, manifest, partitioned=False)
    return change


def _replace_files(
    table: OpenTable, change: Change, old: Mapping[str, LiveFile], manifest: Manifest, *, partitioned: bool
) -> None:
    """Add the change from the files `old` to those of a slice. Files that both have stay.

    Adding a live file again would hide it from Spark.
    """
    new = {file.path for file in manifest.files}
    removed = [file for path, file in old.items() if path not in new]
    _require_no_deletion_vectors(table, {file.path for file in removed})
    change.removes += build_remove_actions(removed)
    adds = zip(manifest.files, _build_add_actions(manifest, partitioned=partitioned), strict=True)
    change.adds += [add for file, add in adds if file.path not in old]


def _build_add_actions(manifest: Manifest, *, partitioned: bool) -> list[Action]:
    label = label_of(manifest.label) if partitioned else None
    at = int(manifest.sealed_at.timestamp() * 1000)
    return [build_add_action(file, label, at) for file in manifest.files]


def require_known_layout(table: OpenTable) -> None:
    """Raise NeedsSpark if features or properties of a table forbid commits that only refer to existing files."""
    unknown = sorted(table.features - _KNOWN_FEATURES)
    configured = sorted(key for key, value in table.configuration.items() if _prevents_pointers(key, value))
    if unknown or configured:
        raise NeedsSpark(f"the table has {', '.join(unknown or configured)}", where=table.folder)
    if table.partition_columns not in ([], [TIMELABEL]):
        raise partition_error(table.folder, table.partition_columns, [])


def _prevents_pointers(key: str, value: str) -> bool:
    """Return whether a table property requires more of each commit than references to existing files."""
    if key == "delta.columnMapping.mode":
        return value != "none"
    return key.startswith("delta.constraints.") or (key in _PREVENTING_PROPERTIES and value == "true")


def _require_no_deletion_vectors(table: OpenTable, removed: Collection[str]) -> None:
    marked = sorted(path for path in removed if path in table.marked_paths)
    if marked:
        raise NeedsSpark(f"{marked[0]} carries a deletion vector", where=table.folder)  # M4
