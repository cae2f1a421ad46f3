"""Finds the files of a unit by name, parses the stamps in their names, and reports misnamed files.

A unit is the name after FROM. Its files are below the connection's `path` (the landing folder), in one of two forms:

`supplier.source`   `<supplier>/<source>/<supplier>_<source>_<YYYY_MM_DD_HH_MM_SS>.<ext>`, optionally in date subfolders
                    (`2017/08`, `year=2017/month=08`). An item's name is the file's, in whichever subfolder it is. Every
                    other file there is misnamed.
a glob              `web/click/*.json.gz`, `**` matches across folders. An item's name is its path below the landing
                    folder. Its stamp is the one that the option `stamp` declares, one in the name
                    (`2017_08_18_05_33_44`, `20170818053344`, `20170818T053344`), or else its last modification.

Names that begin with `.` or `_` are ignored. Every run lists the whole archive and skips most of its files by their
names, so paths are plain texts here, which cost less than Path objects. `bucket_listing` does the same in a bucket.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from glob import glob
from pathlib import Path, PurePosixPath

from waterclock.connectors.files.name_stamps import CHANGED, STAMP, exact_stamp, stamp_in
from waterclock.connectors.interface import Item, Report
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import FileInfo, stat_file
from waterclock.files.object_stores import is_remote

FORMATS = {
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "parquet": "parquet",
    "xml": "xml",
    "avro": "avro",
    **dict.fromkeys(("xlsx", "xlsm", "xlsb", "xls", "ods"), "excel"),
    **dict.fromkeys(("txt", "dat", "fwf"), "fixed"),
    "zip": "zip",
}
COMPRESSIONS = ("gz", "bz2", "zst")
_COMPRESSED = frozenset(("csv", "json", "parquet", "xml", "fixed"))

_UNFINISHED = (".part", ".partial", ".tmp", ".temp", ".crdownload", ".filepart", "._copying_", "~")
WILDCARD = re.compile(r"[*?\[]")
_SUPPLIER_SOURCE = re.compile(r"[^./*?\[\]]+\.[^./*?\[\]]+")
_NOT_UTF8 = re.compile("[\ud800-\udfff]")  # Python's representation of bytes in a name that are not UTF-8
_DATE_FOLDER = re.compile(r"(?:[a-z]+=)?[0-9]{1,4}(?:[-_][0-9]{2}){0,2}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileNaming:
    """The names of a unit's files: with `supplier` and `source`, or by the glob `path`, for which both are empty.

    `has_positions`: the unit declares the fields of fixed-width lines, so it may have such files. `takes_all`: the
    files are not parsed, so they may have any extension. `stamp`: the option of that name.
    """

    path: str
    supplier: str = ""
    source: str = ""
    has_positions: bool = False
    takes_all: bool = False
    stamp: str = ""

    def can_read(self, name: str) -> bool:
        """Return whether files with this name can be read: their extension is a known format, or any is allowed.

        Fixed-width files need declared positions.
        """
        kind = format_of(name)
        if self.takes_all:
            return True
        return kind is not None and (FORMATS[kind[0]] != "fixed" or self.has_positions)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file whose name matches. `stamp` is its arrival: the time in its name, or else its last modification.

    `relative` is the path below the folder, `name` identifies the file also after it was moved to the archive. `found`
    is its entry in the listing of an object store; None for a local file.
    """

    path: str
    relative: str
    name: str
    stamp: datetime
    found: FileInfo | None = None

    def stat(self) -> FileInfo:
        """Return the file's size and last modification. Raises FileNotFoundError if it no longer exists."""
        return self.found or stat_file(self.path)


@dataclass(slots=True)
class MatchedFiles:
    """The files found below a folder: correctly named ones, and reports about the others."""

    candidates: list[Candidate] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    def add(self, one: Candidate | Report) -> None:
        """Add a correctly named file, or a report about another one."""
        if isinstance(one, Report):
            self.reports.append(one)
        else:
            self.candidates.append(one)


def parse_unit_path(path: str, *, has_positions: bool = False, takes_all: bool = False, stamp: str = "") -> FileNaming:
    """Parse the path after FROM: `supplier.source`, or a glob, which has a slash, a wildcard or a known extension.

    Raises E803 for a path that leads out of the landing folder or has neither form.
    """
    last = path.rsplit(".", 1)[-1].lower()
    if _SUPPLIER_SOURCE.fullmatch(path) and last not in FORMATS and last not in COMPRESSIONS:
        supplier, source = path.split(".")
        return FileNaming(path, supplier, source, has_positions, takes_all)
    if not path or path.startswith("/") or ".." in path.split("/") or not re.search(r"[./*?\[]", path):
        raise WaterclockError(
            "E803",
            f"{path!r} does not name files",
            why="a unit of files is supplier.source, or a glob below the connection's path",
            fix="write a name such as landing.faa.flights or landing.`web/click/*.json.gz`",
        )
    return FileNaming(path, has_positions=has_positions, takes_all=takes_all, stamp=stamp)


def has_file_ending(names: FileNaming) -> bool:
    """Return whether a path has the form supplier.source but names one file, such as web.json."""
    return not names.supplier and _SUPPLIER_SOURCE.fullmatch(names.path) is not None


def format_of(name: str) -> tuple[str, str] | None:
    """Return a file's format and compression by its extension, such as ('csv', 'gz'); None for an unknown one."""
    parts = name.lower().split(".")
    compression = parts.pop() if len(parts) > 2 and parts[-1] in COMPRESSIONS else ""
    ending = parts[-1] if len(parts) > 1 else ""
    kind = FORMATS.get(ending)
    return (ending, compression) if kind and (not compression or kind in _COMPRESSED) else None


def find(
    root: Path, names: FileNaming, zone: str, *, without: Collection[str] = (), only: Collection[str] | None = None
) -> MatchedFiles:
    """Find files below a folder by `names`, except the item names in `without`; with `only`, just those item names."""
    if is_remote(root):
        from waterclock.connectors.files.bucket_listing import find_in_bucket

        return find_in_bucket(root, names, zone, without=without, only=only)
    finds = MatchedFiles()
    for path, name in _find_paths(root, names, finds, without, only):
        with suppress(FileNotFoundError):  # it was moved to the archive since the folder was listed
            finds.add(parse_file_name(path, name, root, names, zone))
    return finds


def _find_paths(
    root: Path, names: FileNaming, finds: MatchedFiles, without: Collection[str], only: Collection[str] | None
) -> Iterator[tuple[str, str]]:
    """Yield the path and the item name of each file whose name may match. Report other entries in `finds`."""
    if names.supplier:
        folder = root / names.supplier / names.source
        links = [each for each in (folder.parent, folder) if each.is_symlink()]
        finds.reports += [_link_report(str(each)) for each in links]
        if not links:
            yield from _walk_dated_folders(folder, finds, without, only)
        return
    known_folders: dict[str, bool] = {"": True}
    for relative in _glob_paths(root, names.path):
        if relative in without or (only is not None and relative not in only):
            continue
        path = f"{root}{os.sep}{relative}"
        if any(part.startswith((".", "_")) for part in relative.split("/")):
            continue
        mode = mode_of(path)
        if stat.S_ISLNK(mode) or not _is_without_links(root, relative.rpartition("/")[0], known_folders):
            finds.reports.append(_link_report(path))
        elif stat.S_ISREG(mode):
            yield path, relative


def _glob_paths(root: Path, pattern: str) -> list[str]:
    """Return the relative paths below a folder that match a glob, sorted, with slashes."""
    if "**" in pattern or PurePosixPath(pattern).as_posix() != pattern:
        found = root.glob(pattern) if root.is_dir() else ()
        return [each.relative_to(root).as_posix() for each in sorted(found)]
    return sorted(each.replace(os.sep, "/") for each in glob(pattern, root_dir=root))  # noqa: PTH207 - a tenth of the CPU


def _walk_dated_folders(
    folder: Path | str, finds: MatchedFiles, without: Collection[str], only: Collection[str] | None
) -> Iterator[tuple[str, str]]:
    for name in list_folder(folder):
        if name in without or name[0] in "._":
            continue
        is_dated = is_date_folder(name)
        if only is not None and name not in only and not is_dated:
            continue
        path = f"{folder}{os.sep}{name}"
        mode = mode_of(path)
        if stat.S_ISLNK(mode):
            finds.reports.append(_link_report(path))
        elif mode and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            finds.reports.append(Report(path, "no file", "it is a pipe, a socket or a device"))
        elif not stat.S_ISDIR(mode):
            if only is None or name in only:
                yield path, name
        elif is_dated:
            yield from _walk_dated_folders(path, finds, without, only)
        else:
            finds.reports.append(Report(path, "misnamed", "a subfolder here is part of a date, such as 2017/08"))


def mode_of(path: str) -> int:
    """Return the mode of a file or folder, or of a link itself; 0 if it does not exist."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _is_without_links(root: Path, folder: str, known: dict[str, bool]) -> bool:
    """Return whether no part of a folder's path below `root` is a link; `known` caches results."""
    if folder not in known:
        is_link = stat.S_ISLNK(mode_of(f"{root}{os.sep}{folder}"))
        known[folder] = not is_link and _is_without_links(root, folder.rpartition("/")[0], known)
    return known[folder]


def _link_report(path: str) -> Report:
    return Report(path, "a link", "links are not followed: its creator may not be allowed to read the target")


def list_folder(folder: Path | str) -> list[str]:
    """Return the names in a folder; empty if it does not exist. Raises E804 without permission to list it."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - tens of thousands of Paths
    except PermissionError as error:
        raise WaterclockError(
            "E804",
            f"the folder {folder} cannot be listed",
            where=str(folder),
            why="its permissions do not allow reading it",
            fix="allow the user who runs Waterclock to read the folder",
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return []
        raise


def is_date_folder(name: str) -> bool:
    """Return whether a name can be that of a subfolder for a year, a month or a day."""
    return _DATE_FOLDER.fullmatch(name) is not None


@lru_cache
def _supplier_pattern(names: FileNaming) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(names.supplier)}_{re.escape(names.source)}_({STAMP})\.[^.].*")


def parse_file_name(
    path: str, name: str, root: str | Path, names: FileNaming, zone: str, found: FileInfo | None = None
) -> Candidate | Report:
    """Parse the name of a file, or return a report about a misnamed or unfinished one.

    Raises FileNotFoundError if the file's last modification is needed and the file no longer exists.
    """
    if _NOT_UTF8.search(name):  # neither Spark nor the ledger can represent such a name
        return Report(path, "misnamed", "its name is not UTF-8 text")
    return (
        _parse_supplier_name(path, name, root, names, zone, found)
        if names.supplier
        else _parse_matching_name(path, name, names, zone, found)
    )


def _parse_supplier_name(
    path: str, name: str, root: str | Path, names: FileNaming, zone: str, found: FileInfo | None
) -> Candidate | Report:
    match = _supplier_pattern(names).fullmatch(name)
    if name.lower().endswith(_UNFINISHED):
        return Report(path, "half-written", "its extension shows that it is still being written")
    if match is None:
        wanted = f"{names.supplier}_{names.source}_<YYYY_MM_DD_HH_MM_SS>.<ext>"
        return Report(path, "misnamed", f"expected {wanted}")
    if (stamp := exact_stamp(match[1], zone)) is None:
        return Report(path, "misnamed", f"{match[1]} is not a date and time")
    if not names.can_read(name):
        return Report(path, "misnamed", _describe_endings())
    return Candidate(path, path[len(str(root)) + 1 :].replace(os.sep, "/"), name, stamp, found)


def _parse_matching_name(
    path: str, relative: str, names: FileNaming, zone: str, found: FileInfo | None
) -> Candidate | Report:
    name = relative.rpartition("/")[2]
    if name.lower().endswith(_UNFINISHED):
        return Report(path, "half-written", "its extension shows that it is still being written")
    if not names.can_read(name):
        return Report(path, "misnamed", _describe_endings())
    stamp = stamp_in(relative, names.stamp, zone)
    if stamp is None and names.stamp not in ("", CHANGED):
        return Report(
            path, "misnamed", f"its name has no date of the form {names.stamp}, which OPTIONS (stamp) declares"
        )
    if stamp is None:
        stamp = (found or stat_file(path)).changed
    return Candidate(path, relative, relative, stamp, found)


def _describe_endings() -> str:
    endings = ", .".join(ending for ending, kind in FORMATS.items() if kind != "fixed")
    return f"expected one of .{endings}, with or without .{', .'.join(COMPRESSIONS)} after it"


def find_named(root: Path, names: FileNaming, zone: str, wanted: Collection[str]) -> list[Candidate]:
    """Find the files with these item names below a folder. Without names nothing is listed."""
    return find(root, names, zone, only=wanted).candidates if wanted else []


def has_stamp(names: FileNaming, name: str) -> bool:
    """Return whether an item's stamp comes from its name, and not from the last modification of the file."""
    return bool(names.supplier) or stamp_in(name, names.stamp, "UTC") is not None


def has_stamps(names: FileNaming, items: Iterable[Item]) -> bool:
    """Return whether the stamps of all items come from their names."""
    return all(has_stamp(names, item.name) for item in items)


def is_stamped(name: str) -> bool:
    """Return whether a file's name contains the time of its arrival."""
    return stamp_in(name, "", "UTC") is not None


def names_below(root: Path, names: FileNaming) -> list[str]:
    """Return the names of the items in a local folder that match a glob. Cost: a listing; no file is opened."""
    if names.supplier or is_remote(root) or not root.is_dir():
        return []
    return [each for each in _glob_paths(root, names.path) if names.can_read(each.rpartition("/")[2])]
