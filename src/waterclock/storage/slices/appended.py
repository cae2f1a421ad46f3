"""Combines sealed slices without copying their rows: a slice with files of its own and those of an earlier slice.

Only slices of open windows are combined. Their files are then in several folders, each for the rows of one tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from waterclock.storage.slices.digest import add_digests
from waterclock.storage.slices.manifest import DataFile, Manifest

MOST_PARTS = 24
"""The number of folders that the files of a slice may be in, before small ones are merged."""
_LEAST_MERGED = 12


def append_slices(known: Mapping[datetime, Manifest], new: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """Return new slices, with the rows of the `known` slice of their label as well. Both have the same columns.

    Quarantined rows are then left out, as nothing reads those of open windows.
    """
    return tuple(_append(known[each.label], each) if each.label in known else each for each in new)


def _append(known: Manifest, new: Manifest) -> Manifest:
    digests = [each.digest for each in (known, new) if each.digest is not None]
    return replace(
        new,
        files=(*known.files, *new.files),
        rows=known.rows + new.rows,
        bytes=known.bytes + new.bytes,
        digest=add_digests(*digests) if len(digests) == 2 else None,
        aside=(),
    )


def newest_part(manifest: Manifest) -> Manifest:
    """Return a combined slice with only the rows that it has in addition to the earlier slice."""
    files = tuple(file for file in manifest.files if file.path.startswith(f"{manifest.slice_path}/"))
    rows = sum(file.rows for file in files)
    return replace(manifest, files=files, rows=rows, bytes=sum(file.size for file in files), digest=None)


def folder_of(file: DataFile) -> str:
    """Return the folder of the slice in which a file was written."""
    return file.path.rpartition("/")[0]


def find_parts_to_merge(files: Sequence[DataFile]) -> Sequence[DataFile]:
    """Return the last files of a combined slice, if there are so many that they should be merged; else none.

    The parts before them have more rows than all of them together. So a row is merged some log(n) times in n parts.
    """
    parts = [list(group) for _, group in groupby(files, key=folder_of)]
    if len(parts) <= MOST_PARTS:
        return ()
    first, rows = len(parts), 0
    while first > 0:
        own = sum(file.rows for file in parts[first - 1])
        if len(parts) - first >= _LEAST_MERGED and own > rows:
            break
        first, rows = first - 1, rows + own
    return [file for part in parts[first:] for file in part]
