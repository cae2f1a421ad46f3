"""Iterates over the files of a source in the order of their stamps, without checking all files.

The names of a supplier's files contain stamps, which sort as local times do. Only the names near the requested time are
parsed. A local clock can be set back, so neighbours within two days are sorted by their instants.
"""

from __future__ import annotations

import heapq
import os
import stat
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from heapq import merge
from operator import attrgetter
from pathlib import Path

from waterclock.connectors.files.file_name_matching import (
    Candidate,
    FileNaming,
    is_date_folder,
    list_folder,
    mode_of,
    parse_file_name,
)
from waterclock.connectors.interface import Report
from waterclock.files.filesystem import FileInfo, entry_path, files_below, path_as_text
from waterclock.files.object_stores import is_remote
from waterclock.timelabel.zone import nominal_zone

_DISORDER = timedelta(days=2)  # longer than any zone's clock was ever set back
stamp_of = attrgetter("stamp")


class ByStamp:
    """The files of a `supplier.source` below one folder, in the order of stamps. Misnamed files are left out.

    A file that has been moved since the listing is still returned, so the caller must check whether it exists.
    Cost: a listing of the folder and a sort of its names, and a check of each file stamped within two days of the
    requested time.
    """

    def __init__(self, root: Path, names: FileNaming, zone: str) -> None:
        self._root, self._names, self._zone = path_as_text(root), names, zone
        self._slash = "/" if is_remote(root) else os.sep
        self._prefix = f"{names.supplier}_{names.source}_"
        self._folders: list[tuple[str, list[str]]] = []
        self._stored: dict[str, FileInfo] = {}
        if is_remote(root):
            self._list_stored(f"{self._root}/{names.supplier}/{names.source}")
        else:
            supplier = f"{root}{os.sep}{names.supplier}"
            if not stat.S_ISLNK(mode_of(supplier)):
                self._list_local(f"{supplier}{os.sep}{names.source}")

    def oldest_first(self, low: datetime) -> Iterator[Candidate]:
        """Yield the files stamped at `low` or later, oldest first."""
        begin = self._name_prefix(low, -_DISORDER)
        found = [
            _sort_by_stamp(self._read_candidates(folder, names, range(bisect_left(names, begin), len(names))), sign=1)
            for folder, names in self._folders
        ]
        return (one for one in merge(*found, key=stamp_of) if one.stamp >= low)

    def newest_first(self, until: datetime | None = None) -> Iterator[Candidate]:
        """Yield the files stamped at `until` or before, newest first. Without `until`, yield all files."""
        end = None if until is None else self._name_prefix(until, _DISORDER)
        found = []
        for folder, names in self._folders:
            last = len(names) if end is None else bisect_left(names, end)
            found.append(_sort_by_stamp(self._read_candidates(folder, names, range(last - 1, -1, -1)), sign=-1))
        return (one for one in merge(*found, key=stamp_of, reverse=True) if until is None or one.stamp <= until)

    def _list_local(self, folder: str) -> None:
        if stat.S_ISLNK(mode_of(folder)):
            return
        there = list_folder(folder)
        self._folders.append((folder, sorted(name for name in there if name.startswith(self._prefix))))
        for name in there:
            if not name.startswith(self._prefix) and is_date_folder(name):
                self._list_local(f"{folder}{os.sep}{name}")

    def _list_stored(self, source: str) -> None:
        by_folder: dict[str, list[str]] = {}
        for found in files_below(entry_path(source)):
            *inner, name = found.path.split("/")
            if name.startswith(self._prefix) and all(map(is_date_folder, inner)):
                folder = "/".join((source, *inner))
                by_folder.setdefault(folder, []).append(name)
                self._stored[f"{folder}/{name}"] = found
        self._folders.extend((folder, sorted(names)) for folder, names in by_folder.items())

    def _read_candidates(self, folder: str, names: Sequence[str], places: Iterable[int]) -> Iterator[Candidate]:
        for place in places:
            path = f"{folder}{self._slash}{names[place]}"
            found = self._stored.get(path)
            one = parse_file_name(path, names[place], self._root, self._names, self._zone, found)
            if not isinstance(one, Report) and (found or stat.S_IFMT(mode_of(path)) in (0, stat.S_IFREG)):
                yield one

    def _name_prefix(self, instant: datetime, margin: timedelta) -> str:
        """Return the prefix of the names of files that are stamped at an instant plus `margin`."""
        try:
            local = instant.astimezone(nominal_zone(self._zone)) + margin
        except OverflowError:
            return self._prefix if margin < timedelta(0) else f"{self._prefix}~"
        parts = (local.month, local.day, local.hour, local.minute, local.second)
        return f"{self._prefix}{local.year:04d}_{'_'.join(f'{part:02d}' for part in parts)}"


def _sort_by_stamp(candidates: Iterator[Candidate], *, sign: int) -> Iterator[Candidate]:
    """Sort files by stamp, ascending (`sign` 1) or descending (-1), in a stream.

    The input must be sorted already, except for files stamped within `_DISORDER` of each other.
    """
    waiting: list[tuple[float, int, Candidate]] = []
    for place, one in enumerate(candidates):
        heapq.heappush(waiting, (sign * one.stamp.timestamp(), place, one))
        while waiting and sign * (one.stamp - waiting[0][2].stamp) > _DISORDER:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]
