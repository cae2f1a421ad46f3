"""Lists the complete files of a landing folder and its archive.

The archive mirrors the landing folder; `file_name_matching` defines how files are named.

Several tables may collect from one folder. So a file may be moved to the archive by one table while another table
checks it. Files move only in that direction: the landing folder is listed before the archive, so a file that has
disappeared from the landing folder is found in the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from heapq import merge
from itertools import compress, groupby, repeat
from pathlib import Path

from waterclock.connectors.files.completeness import DAMAGED, problem_of
from waterclock.connectors.files.erased_sizes import SizesReader, earlier_sizes, sizes_reader
from waterclock.connectors.files.file_name_matching import Candidate, FileNaming, find, find_named, format_of, has_stamp
from waterclock.connectors.files.files_by_stamp import ByStamp, stamp_of
from waterclock.connectors.interface import Item, Listing, Report
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import is_same_content, map_each
from waterclock.files.object_stores import is_remote

_MOST_NAMED = 10
_NO_SIZES: SizesReader = dict
_MOVED = Report("", "gone", "it has moved to the archive since the folder was listed")


@dataclass(frozen=True, slots=True)
class Landing:
    """A landing folder with its archive and the zone of the stamps in file names.

    A file is skipped until it has been unchanged for `settle_seconds`.
    """

    folder: Path
    archive: Path
    stamp_zone: str = "UTC"
    settle_seconds: float = 0.0


def list_items(
    landing: Landing,
    names: FileNaming,
    *,
    now: datetime,
    taken: Collection[str] = (),
    sizes: SizesReader = _NO_SIZES,
) -> Listing:
    """List the complete files in the landing folder and in the archive, oldest first, and report skipped ones.

    Archived files named in `taken` are left out. `sizes` are those before erasures, for `Item.earlier_sizes`. `now` is
    the real clock, for `settle_seconds`. If a new file has the name of an archived one but other content, it is
    reported, and the archived content is used.
    Raises E804 if the landing folder does not exist.
    Cost: one walk of both folders. Of archived files named in `taken` only the names are read. Each process reads a new
    file once to check that it is complete (see `completeness`).
    """
    fresh = find(require_folder(landing.folder), names, landing.stamp_zone)
    archived = find(landing.archive, names, landing.stamp_zone, without=taken).candidates
    found = _build_listing(landing, names, (fresh.candidates, archived), now=now, taken=taken, sizes=sizes)
    reports = (*fresh.reports, *found.reports)
    if not (found.items or reports or taken):
        reports = tuple(_missing_folder(landing.folder, names))
    return Listing(found.items, tuple(sorted(reports, key=lambda report: report.path)))


def list_between(
    landing: Landing, names: FileNaming, span: tuple[datetime, datetime], *, now: datetime
) -> tuple[Item, ...]:
    """List the complete files stamped in `[low, high)` of `span`, and those of the first later stamp, oldest first.

    A file with a later stamp proves that the window is over. A last modification does not: a file without a stamp in
    its name may contain rows of any time before it, so all such files after the span are listed too.
    Raises E804 if the landing folder does not exist.
    Cost: a listing of both folders, and a check of each file stamped within two days of the listed ones; for a glob, of
    every file.
    """
    sizes = sizes_reader(landing.archive)
    if not names.supplier:
        items = list_items(landing, names, now=now, sizes=sizes).items
        after = [item for item in items if item.stamp >= span[1]]
        within = [item for item in items if span[0] <= item.stamp < span[1]]
        stamped = [has_stamp(names, item.name) for item in after]
        first = next(compress(after, stamped), None)
        all_after = (
            item
            for item, is_stamped in zip(after, stamped, strict=True)
            if not is_stamped or (first is not None and item.stamp == first.stamp)
        )
        return (*within, *all_after)
    streams = [folder.oldest_first(span[0]) for folder in _list_by_stamp(landing, names)]
    items = ()
    # the files of the span are one group, each later stamp is another
    for stamp, found in _group_files(streams, lambda stamp: stamp if stamp >= span[1] else span[0]):
        added = _build_listing(landing, names, found, now=now, sizes=sizes).items
        items += added
        if added and stamp >= span[1]:
            break
    return items


def newest_first(
    landing: Landing, names: FileNaming, *, now: datetime, until: datetime | None = None
) -> Iterator[tuple[Item, ...]]:
    """Yield the complete files of each stamp at or before `until`, in descending order of stamps.

    Raises E804 if the landing folder does not exist.
    Cost: a listing of both folders, and for each stamp that is consumed a check of the files stamped within two days of
    it; for a glob, of every file.
    """
    if not names.supplier:
        items = list_items(landing, names, now=now).items
        there = [item for item in reversed(items) if until is None or item.stamp <= until]
        yield from (tuple(reversed(list(group))) for _, group in groupby(there, key=stamp_of))
        return
    streams = [folder.newest_first(until) for folder in _list_by_stamp(landing, names)]
    for _, found in _group_files(streams, lambda stamp: stamp, reverse=True):
        if items := _build_listing(landing, names, found, now=now).items:
            yield items


def _list_by_stamp(landing: Landing, names: FileNaming) -> tuple[ByStamp, ByStamp]:
    return (
        ByStamp(require_folder(landing.folder), names, landing.stamp_zone),
        ByStamp(landing.archive, names, landing.stamp_zone),
    )


def _group_files(
    streams: Sequence[Iterator[Candidate]], key: Callable[[datetime], datetime], *, reverse: bool = False
) -> Iterator[tuple[datetime, tuple[list[Candidate], list[Candidate]]]]:
    """Yield the new and the archived files of each group of stamps with the same key, in the order of the streams."""
    tagged = merge(
        *(zip(files, repeat(at), strict=False) for at, files in enumerate(streams)),
        key=_stamp_of_tagged,
        reverse=reverse,
    )
    for group, files in groupby(tagged, key=lambda one: key(_stamp_of_tagged(one))):
        found: tuple[list[Candidate], list[Candidate]] = ([], [])
        for one, at in files:
            found[at].append(one)
        yield group, found


def _stamp_of_tagged(one: tuple[Candidate, int]) -> datetime:
    return one[0].stamp


def _build_listing(
    landing: Landing,
    names: FileNaming,
    found: tuple[Sequence[Candidate], Sequence[Candidate]],
    *,
    now: datetime,
    taken: Collection[str] = (),
    sizes: SizesReader = _NO_SIZES,
) -> Listing:
    """Return the archived files and those new files that are complete, oldest first, with reports about the others."""
    fresh, archive = found
    archived = {one.name: one for one in sorted(archive, key=lambda one: one.relative)}
    reports: list[Report] = []
    items = {name: _build_item(one, is_archived=True, sizes=sizes) for name, one in archived.items()}
    gone = {one.name for one in fresh if one.name in taken}
    known = archived | {one.name: one for one in find_named(landing.archive, names, landing.stamp_zone, gone)}
    moved: set[str] = set()
    ordered = sorted(fresh, key=lambda one: one.relative)
    problems = map_each(ordered, lambda one: _check_candidate(one, names, landing, now), at=landing.folder)
    for one, check_report in zip(ordered, problems, strict=True):
        try:
            report = check_report or _find_name_clash(one, known.get(one.name))
            item = _build_item(one, is_archived=False)
        except FileNotFoundError:
            report = _MOVED
        if report is _MOVED:
            moved.add(one.name)
            continue
        if report:
            reports.append(report)
            continue
        known.setdefault(one.name, one)
        items[one.name] = item
    unseen = moved - items.keys() - set(taken)
    items |= {item.name: item for item in _find_archived(landing, names, unseen)}
    return Listing(tuple(sorted(items.values(), key=lambda item: (item.stamp, item.name))), tuple(reports))


def find_items(landing: Landing, names: FileNaming, wanted: Collection[str]) -> tuple[Item, ...]:
    """Find files by their item names; an archived file takes precedence. Cost: a walk of both folders."""
    fresh = find_named(landing.folder, names, landing.stamp_zone, set(wanted))
    found = {item.name: item for item in _find_archived(landing, names, set(wanted))}
    for one in fresh:
        if one.name not in found:
            try:
                found[one.name] = _build_item(one, is_archived=False)
            except FileNotFoundError:
                found |= {item.name: item for item in _find_archived(landing, names, {one.name})}
    return tuple(found.values())


def newest_stamp(landing: Landing, names: FileNaming, *, now: datetime) -> datetime | None:
    """Return the stamp of the newest complete file, archived or not; None if there is no file."""
    newest = next(newest_first(landing, names, now=now), None)
    return newest[0].stamp if newest else None


def require_folder(folder: Path) -> Path:
    """Return the folder. Raises E804 if it does not exist.

    In an object store a missing folder counts as an empty one.
    """
    if not is_remote(folder) and not folder.is_dir():
        raise WaterclockError(
            "E804",
            f"{folder} is not a folder" if folder.exists() else f"the folder {folder} does not exist",
            where=str(folder),
            why="the sender of the files creates a landing folder",
            fix="create it, or correct the connection's path",
        )
    return folder


def _missing_folder(root: Path, names: FileNaming) -> Iterator[Report]:
    """Yield a report if the unit's folder does not exist; it lists the folders that exist."""
    folder = root / names.supplier / names.source
    if not names.supplier or is_remote(root) or folder.is_dir():
        return
    there = root / names.supplier if (root / names.supplier).is_dir() else root
    found = sorted(each.name for each in there.iterdir() if each.is_dir() and each.name[0] not in "._")
    listed = ", ".join(found[:_MOST_NAMED]) + (", …" if len(found) > _MOST_NAMED else "")
    yield Report(str(folder), "no such folder", f"{there} has the folders {listed}" if found else f"{there} has none")


def _find_archived(landing: Landing, names: FileNaming, wanted: Collection[str]) -> list[Item]:
    found = find_named(landing.archive, names, landing.stamp_zone, wanted)
    sizes = sizes_reader(landing.archive)
    return [_build_item(one, is_archived=True, sizes=sizes) for one in found]


def _build_item(one: Candidate, *, is_archived: bool, sizes: SizesReader = _NO_SIZES) -> Item:
    found = one.stat()
    earlier = partial(earlier_sizes, sizes, one.relative, found.size)
    return Item(
        one.name, one.stamp, found.size, one.path, is_archived,
        changed=found.changed, etag=found.etag, read_earlier_sizes=earlier,
    )  # fmt: skip


def _check_candidate(one: Candidate, names: FileNaming, landing: Landing, now: datetime) -> Report | None:
    try:
        return _find_problem(one, names, landing, now)
    except FileNotFoundError:
        return _MOVED


def _find_problem(one: Candidate, names: FileNaming, landing: Landing, now: datetime) -> Report | None:
    found = one.stat()
    if (now - found.changed).total_seconds() < landing.settle_seconds:
        return Report(one.path, "half-written", f"changed less than {landing.settle_seconds:g} seconds ago")
    try:
        problem = problem_of(one.path, found.size, found.changed, format_of(one.name) or ("", ""))
    except PermissionError:
        return Report(one.path, "unreadable", "its permissions do not allow reading it")
    except WaterclockError as error:
        if error.transient:
            raise
        return Report(one.path, "unreadable", error.why or error.what)
    if problem is None or (names.takes_all and problem[0] == DAMAGED):
        return None  # a raw file is not parsed, so it may have any content; an incomplete one is skipped
    return Report(one.path, *problem)


def _find_name_clash(one: Candidate, known: Candidate | None) -> Report | None:
    if known is None or is_same_content(one.path, known.path):
        return None
    return Report(one.path, "same name, other content", f"{known.path} has that name, and keeps its content")
