"""Lists what lies in a table's stage: slices, sealed or not, and what a claim left half-written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from waterclock.storage.lake import STAGE
from waterclock.storage.slices.manifest import MANIFEST
from waterclock.timelabel.label import instant_of, label_of_hive_path


@dataclass(frozen=True, slots=True)
class Leaf:
    """A folder of the stage: the slice of a label, or, without a label, what a group writes into first."""

    path: str
    claim: int
    label: datetime | None
    is_sealed: bool


def leaves(folder: str) -> Iterator[Leaf]:
    """Return every leaf of a table's stage. Cost: a listing of each label's folder."""
    stage = Path(folder, STAGE)
    for path in sorted(stage.glob("y=*/m=*/d=*/h=*/n=*/c=*")):
        relative = path.relative_to(folder).as_posix()
        label = instant_of(label_of_hive_path(path.parent.relative_to(stage).as_posix()))
        yield Leaf(relative, _claim(path), label, (path / MANIFEST).is_file())
    for path in sorted(stage.glob("c=*")):
        yield Leaf(path.relative_to(folder).as_posix(), _claim(path), None, is_sealed=False)


def newest_sealed(folder: str) -> Leaf | None:
    """Return the sealed slice of the newest label, committed or not; of several of one label, that of the last claim.

    Cost: a listing of each folder on the way down.
    """
    for path in _newest_first(Path(folder, STAGE), ("y=", "m=", "d=", "h=", "n=")):
        sealed = [each for each in path.glob("c=*") if (each / MANIFEST).is_file()]
        if sealed:
            last = max(sealed, key=_claim)
            label = instant_of(label_of_hive_path(path.relative_to(Path(folder, STAGE)).as_posix()))
            return Leaf(last.relative_to(folder).as_posix(), _claim(last), label, is_sealed=True)
    return None


def _newest_first(folder: Path, levels: tuple[str, ...]) -> Iterator[Path]:
    """Return the folders of labels, newest first."""
    if not levels:
        yield folder
        return
    for path in sorted(folder.glob(f"{levels[0]}*"), key=lambda each: each.name, reverse=True):
        yield from _newest_first(path, levels[1:])


def size_of(folder: str, leaf: Leaf) -> int:
    """Return the bytes that a leaf takes."""
    return bytes_below(Path(folder, leaf.path))


def made_again(history: str, before: datetime) -> list[Path]:
    """List the states below a table's history that were made again before an instant; who asks makes them once more."""
    states = [path for path in Path(history).glob("*/*") if path.is_dir()]
    return [path for path in states if path.stat().st_mtime < before.timestamp()]


def bytes_below(folder: Path) -> int:
    """Return the bytes of the files below a folder; a file that others link to counts as well."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def remove(folder: str, leaf: Leaf) -> None:
    """Remove a leaf: its manifest first, so that nobody takes what is left of it for a slice."""
    path = Path(folder, leaf.path)
    (path / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def _claim(path: Path) -> int:
    return int(path.name.removeprefix("c="))
