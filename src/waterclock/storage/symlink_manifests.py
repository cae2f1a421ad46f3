"""Maintains a symlink manifest next to a table: the list of its files, for engines that cannot read Delta.

Its layout is Delta's own: `_symlink_format_manifest/timelabel=<label>/manifest` for a partitioned table and
`_symlink_format_manifest/manifest` for any other, one absolute path per line. A label without rows has no manifest.

Each file is replaced as a whole. Between a commit and its manifest, a reader sees the label as it was before, since its
old files still exist.

A separate file records the last processed version, so that the cost of an update is proportional to the changes. After
writing, a writer checks whether the table has changed meanwhile, so the later of two writers leaves the correct state.
`find_stale_symlink_manifests` compares everything, and also finds files that a crash left outdated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import (
    entry_path,
    files_below,
    is_folder,
    make_folder,
    read_text,
    remove_folder,
    replace_text,
)
from waterclock.files.object_stores import is_remote
from waterclock.storage.log.delta_log import iterate_commits
from waterclock.storage.log.open_tables import OpenTable, open_table
from waterclock.timelabel.label import TIMELABEL

FOLDER = "_symlink_format_manifest"
_NAME = "manifest"
_VERSION_FILE = "_version"
_NO_LABEL = ""  # represents the label of a table without partitions
_MAX_ATTEMPTS = 20


def write_newest_manifests(folder: str) -> int:
    """Update the manifest to the table's newest version. Return how many of its files were written or removed.

    Cost: a small file for each label that changed since the last update; all of them the first time. Raises E434 if a
    list of files cannot describe the table's content.
    """
    previous_version, written = _read_followed_version(folder), 0
    for _ in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            version = table.version
            if version == previous_version:
                break
            changed = (
                None
                if previous_version is None or previous_version > version
                else _find_changed_labels(table, previous_version)
            )
            wanted = _build_manifests(table, changed)
        if changed is None:  # files listed before that are gone, perhaps of another layout
            wanted = dict.fromkeys(_read_manifests(folder), "") | wanted
        _write_manifests(folder, wanted)
        replace_text(entry_path(folder, FOLDER, _VERSION_FILE), f"{version}\n")
        written += len(wanted)
        previous_version = version
    return written


def find_stale_symlink_manifests(folder: str) -> list[str]:
    """Return the labels whose manifest differs from the table's files. Cost: a small file per label.

    An unpartitioned table has one manifest, returned as "".
    """
    with open_table(folder) as table:
        wanted = _build_manifests(table, None)
    there = _read_manifests(folder)
    return sorted(label for label in {*wanted, *there} if wanted.get(label, "") != there.get(label, ""))


def restore_links(folder: str) -> int:
    """Rewrite the stale files of the manifest, and return their number."""
    stale_labels = find_stale_symlink_manifests(folder)
    if stale_labels:
        with open_table(folder) as table:
            wanted = _build_manifests(table, stale_labels)
        _write_manifests(folder, wanted)
    write_newest_manifests(folder)
    return len(stale_labels)


def is_kept(folder: str) -> bool:
    """Return whether the table has a symlink manifest, complete or not."""
    return is_folder(entry_path(folder, FOLDER))


def remove(folder: str) -> None:
    """Remove the symlink manifest: if it is not updated any more, it would list files that were replaced."""
    remove_folder(entry_path(folder, FOLDER))


def require_plain(table: OpenTable) -> None:
    """Raise E434 if a table's rows differ from its files, because of deletion vectors or column mapping."""
    if table.is_plain and not table.marked_paths:
        return
    raise indescribable_rows_error(table.folder)


def indescribable_rows_error(folder: str) -> WaterclockError:
    """Build the error for a table whose rows differ from its files."""
    return WaterclockError(
        "E434",
        "a list of files cannot describe the rows of the table",
        where=folder,
        why="it has deletion vectors or mapped columns, turned on by another writer, so its files contain other rows",
        fix="rewrite it without them (REORG TABLE … APPLY (PURGE), then `waterclock rebuild`), or read it as Delta",
    )


def absolute(folder: str, path: str) -> str:
    """Return the absolute path of a table's file, for engines on this machine or with access to the bucket."""
    return str(entry_path(folder, path)) if not is_remote(folder) else f"{folder.rstrip('/')}/{path}"


def _read_followed_version(folder: str) -> int | None:
    try:
        return int(read_text(entry_path(folder, FOLDER, _VERSION_FILE)))
    except (FileNotFoundError, ValueError):
        return None


def _find_changed_labels(table: OpenTable, seen: int) -> set[str] | None:
    """Return the labels whose files changed after the version `seen`, or None if the log does not show all changes."""
    found: set[str] = set()
    newest = seen
    for version, actions in iterate_commits(table.folder, seen):
        if version > table.version:
            break
        newest = version
        for action in actions:
            of_file = action.get("add") or action.get("remove")
            if of_file is None:
                continue
            partition = of_file.get("partitionValues")
            if table.partition_columns and not partition:
                return None
            found.add((partition or {}).get(TIMELABEL) or _NO_LABEL)
    return found if newest == table.version else None


def _build_manifests(table: OpenTable, labels: Collection[str] | None) -> dict[str, str]:
    """Return the text of each manifest by label. The text is empty for requested labels without files."""
    require_plain(table)
    found: dict[str, list[str]] = {label: [] for label in labels or ()}
    if labels is None or not table.partition_columns:
        files: Iterable[tuple[str, str]] = ((file.label or _NO_LABEL, file.path) for file in table.files.values())
    else:
        files = ((label, file.path) for label in labels for file in table.files_at(label))
    for label, path in files:
        if labels is None or label in found:
            found.setdefault(label, []).append(_hive_uri(table.folder, path))
    if not table.partition_columns and (labels is None or labels):
        found.setdefault(_NO_LABEL, [])
    return {label: "".join(f"{path}\n" for path in sorted(paths)) for label, paths in found.items()}


def _hive_uri(folder: str, path: str) -> str:
    """Return a path in the form that Hive accepts: not percent-encoded, with the scheme of its file system."""
    found = absolute(folder, path)
    return found if is_remote(folder) else f"file://{found}"


def _write_manifests(folder: str, texts: Mapping[str, str]) -> None:
    for label, text in texts.items():
        place = entry_path(folder, FOLDER, *([f"{TIMELABEL}={label}"] if label else []))
        if not text and label:
            remove_folder(place)
            continue
        make_folder(place)
        replace_text(place / _NAME, text)
    make_folder(entry_path(folder, FOLDER))


def _read_manifests(folder: str) -> dict[str, str]:
    found: dict[str, str] = {}
    root = entry_path(folder, FOLDER)
    if not is_folder(root):
        return found
    for file in files_below(root):
        place, _, name = file.path.rpartition("/")
        if name == _NAME:
            with suppress(FileNotFoundError):
                found[place.rpartition("=")[2]] = read_text(entry_path(folder, FOLDER, file.path))
    return found
