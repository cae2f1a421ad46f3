"""Lists the folders of a table's stage: sealed and unsealed slices, and incomplete files of claims."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from waterclock.files.filesystem import (
    FileInfo,
    entry_path,
    file_exists,
    files_below,
    folders_in,
    names_below,
    remove_file,
    remove_folder,
)
from waterclock.files.object_stores import is_remote
from waterclock.storage.lake import STAGE
from waterclock.storage.slices.manifest import MANIFEST
from waterclock.storage.slices.row_filter import QUARANTINED_INPUTS
from waterclock.timelabel.label import instant_of, label_of_hive_path

_SLICE_FOLDER = re.compile(rf"((?:y=\d+/m=\d+/d=\d+/h=\d+/n=\d+/|{QUARANTINED_INPUTS}/)?c=\d+)(?:$|(/.*))")


@dataclass(frozen=True, slots=True)
class SliceFolder:
    """A folder of the stage: the slice of a label, or, without a label, the scratch folder of a claim."""

    path: str
    claim: int
    label: datetime | None
    is_sealed: bool


def list_slice_folders(folder: str) -> Iterator[SliceFolder]:
    """Yield every leaf folder of a table's stage, those of labels first, in order. Cost: a listing of the stage."""
    files: defaultdict[str, bool] = defaultdict(bool)
    for name in names_below(entry_path(folder, STAGE)):
        found = _SLICE_FOLDER.match(name)
        if found and (found[2] or not is_remote(folder)):  # object stores have at most folder markers, none of ours
            files[found[1]] |= found[2] == f"/{MANIFEST}"
    for leaf in sorted(files, key=lambda leaf: (not leaf.startswith("y="), leaf)):
        yield _build_slice_folder(leaf, is_sealed=files[leaf])


def find_newest_sealed_slice(folder: str) -> SliceFolder | None:
    """Return the sealed slice of the newest label, or None. It may not be committed.

    If several claims sealed a slice of that label, return the slice of the last claim. Cost: a listing per folder.
    """
    return next(sealed_newest_first(folder), None)


def sealed_newest_first(folder: str) -> Iterator[SliceFolder]:
    """Yield the sealed slice of each label, newest labels first.

    If several claims sealed one, yield the slice of the last claim. Cost: a listing per folder.
    """
    for path in _label_folders_newest_first(entry_path(folder, STAGE), ("y=", "m=", "d=", "h=", "n=")):
        sealed = [each for each in folders_in(path) if each.startswith("c=") and file_exists(path / each / MANIFEST)]
        if sealed:
            last = max(sealed, key=_claim_of_folder)
            yield _build_slice_folder(
                f"{path.relative_to(entry_path(folder, STAGE)).as_posix()}/{last}", is_sealed=True
            )


def _build_slice_folder(path: str, *, is_sealed: bool) -> SliceFolder:
    label, _, name = path.rpartition("/")
    instant = instant_of(label_of_hive_path(label)) if label.startswith("y=") else None
    return SliceFolder(f"{STAGE}/{path}", _claim_of_folder(name), instant, is_sealed)


def _label_folders_newest_first(folder: Path, levels: tuple[str, ...]) -> Iterator[Path]:
    """Yield the folders of labels, newest first."""
    if not levels:
        yield folder
        return
    for name in sorted((name for name in folders_in(folder) if name.startswith(levels[0])), reverse=True):
        yield from _label_folders_newest_first(folder / name, levels[1:])


def size_of(folder: str, leaf: SliceFolder) -> int:
    """Return the size of a leaf folder in bytes. Files that other folders link to are included."""
    return sum(file.size for file in files_below(entry_path(folder, leaf.path)))


@dataclass(frozen=True, slots=True)
class OldState:
    """A recomputed and cached older state: its folder, and its size in bytes."""

    folder: Path
    bytes: int


def list_old_states(history: str, before: datetime) -> list[OldState]:
    """List a table's cached older states that were written before an instant. They are recomputed when needed again."""
    files: defaultdict[str, list[FileInfo]] = defaultdict(list)
    for file in files_below(entry_path(history)):
        files["/".join(file.path.split("/")[:2])].append(file)
    return [
        OldState(entry_path(history, state), sum(file.size for file in those))
        for state, those in sorted(files.items())
        if all(file.changed < before for file in those)
    ]


def remove(folder: str, leaf: SliceFolder) -> None:
    """Remove a leaf folder: its manifest first, so that the remaining files are never taken for a slice."""
    path = entry_path(folder, leaf.path)
    remove_file(path / MANIFEST)
    remove_folder(path)


def _claim_of_folder(name: str) -> int:
    return int(name.removeprefix("c="))
