"""Records the sizes that archived files had before persons were erased from them.

Labels list their files with the sizes at their collection. A file that was rewritten since has another size, and is no
damaged file. Each rewriting is an empty file `<archive>/_erased/<digest of the path>-<old size>-<new size>`, which is
created before the file is replaced. It contains no value of a person.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

from waterclock.files.filesystem import entry_path, make_folder, names_in, put_if_absent

_FOLDER = "_erased"
_NAME = re.compile(r"([0-9a-f]{32})-([0-9]+)-([0-9]+)")

SizesByFile = Mapping[str, Mapping[int, frozenset[int]]]
"""Maps the digest of a path to the old sizes of each new size."""
SizesReader = Callable[[], SizesByFile]


def record_size(archive: Path, relative: str, before: int, now: int) -> None:
    """Record that an archived file of `before` bytes is about to be replaced by one of `now` bytes. Idempotent."""
    folder = entry_path(archive, _FOLDER)
    make_folder(folder)
    put_if_absent(folder / f"{_digest_of(relative)}-{before}-{now}", "", is_flushed=True)


def read_sizes(archive: Path) -> SizesByFile:
    """Return all recorded sizes. Cost: a listing of one folder, which only exists after an erasure."""
    sizes: dict[str, dict[int, frozenset[int]]] = {}
    for name in names_in(entry_path(archive, _FOLDER), ""):
        if (found := _NAME.fullmatch(name)) is not None:
            of_file = sizes.setdefault(found[1], {})
            of_file[int(found[3])] = of_file.get(int(found[3]), frozenset()) | {int(found[2])}
    return sizes


def sizes_reader(archive: Path) -> SizesReader:
    """Return a function that reads the recorded sizes at its first call only."""
    return cache(partial(read_sizes, archive))


def earlier_sizes(sizes: SizesReader, relative: str, now: int) -> frozenset[int]:
    """Return the sizes that an archived file of `now` bytes had before erasures."""
    of_file = sizes().get(_digest_of(relative), {})
    found: set[int] = set()
    waiting = [now]
    while waiting:
        new = of_file.get(waiting.pop(), frozenset()) - found
        found |= new
        waiting += new
    return frozenset(found - {now})


def _digest_of(relative: str) -> str:
    return hashlib.sha256(relative.encode("utf-8", "surrogateescape")).hexdigest()[:32]
