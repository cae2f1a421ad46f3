"""What lies in a landing folder: which files are complete, what are their names and stamps, what is left alone?

Two ways to name a unit's files, both below the connection's `path` (the landing folder):

`supplier.source`   `<supplier>/<source>/<supplier>_<source>_<YYYY_MM_DD_HH_MM_SS>.<ext>`, in date subfolders or not
                    (`2017/08`, `year=2017/month=08`). An item's name is the file's, wherever it lies. Every other file
                    there is misnamed.
a glob              `web/click/*.json.gz`, `**` crosses folders. An item's name is its path below the landing folder;
                    its stamp is one in the name (`2017_08_18_05_33_44`, `20170818053344`, `20170818T053344`), else the
                    time of its last change.

The archive mirrors the landing folder. Names that begin with `.` or `_` are not looked at.
"""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from waterclock.connectors.completeness import problem_of
from waterclock.connectors.interface import Item, Listing, Report
from waterclock.errors import WaterclockError
from waterclock.timelabel import resolve_local

FORMATS = {
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "parquet": "parquet",
}
COMPRESSIONS = ("gz", "bz2", "zst")

_UNFINISHED = (".part", ".partial", ".tmp", ".temp", ".crdownload", ".filepart", "._copying_", "~")
_STAMP = r"[0-9]{4}_[0-9]{2}_[0-9]{2}_[0-9]{2}_[0-9]{2}_[0-9]{2}"
_ANY_STAMP = re.compile(rf"(?<![0-9])({_STAMP}|[0-9]{{8}}T?[0-9]{{6}})(?![0-9])")
_SUPPLIER_SOURCE = re.compile(r"[^./*?\[\]]+\.[^./*?\[\]]+")
_DATE_FOLDER = re.compile(r"(?:[a-z]+=)?[0-9]{1,4}(?:[-_][0-9]{2}){0,2}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Names:
    """How the files of a unit are named. `supplier` and `source` are empty for a glob."""

    path: str
    supplier: str = ""
    source: str = ""

    @property
    def folder(self) -> str:
        """The part of the path without wildcards, below the landing folder."""
        if self.supplier:
            return f"{self.supplier}/{self.source}"
        fixed = []
        for part in self.path.split("/")[:-1]:
            if any(sign in part for sign in "*?["):
                break
            fixed.append(part)
        return "/".join(fixed)


@dataclass(frozen=True, slots=True)
class Landing:
    """A landing folder with its archive. A file is left alone until it has not changed for `settle_seconds`."""

    folder: Path
    archive: Path
    stamp_zone: str = "UTC"
    settle_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that is named as it should be."""

    path: Path
    relative: str
    name: str
    stamp: datetime


@dataclass(slots=True)
class _Finds:
    candidates: list[Candidate] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)


def names_of(path: str) -> Names:
    """Tell a `supplier.source` from a glob: a glob has a slash, a wildcard or a known ending.

    Raises  E803 for a path that leads out of the landing folder or has neither form
    """
    last = path.rsplit(".", 1)[-1].lower()
    if _SUPPLIER_SOURCE.fullmatch(path) and last not in FORMATS and last not in COMPRESSIONS:
        supplier, source = path.split(".")
        return Names(path, supplier, source)
    if not path or path.startswith("/") or ".." in path.split("/") or not re.search(r"[./*?\[]", path):
        raise WaterclockError(
            "E803",
            f"{path!r} names no files",
            why="a unit of files is supplier.source, or a glob below the connection's path",
            fix="such as landing.faa.flights, or landing.`web/click/*.json.gz`",
        )
    return Names(path)


def format_of(name: str) -> tuple[str, str] | None:
    """Give a file's format and compression by its ending: ('csv', 'gz'); None for an ending that is not known."""
    parts = name.lower().split(".")
    compression = parts.pop() if len(parts) > 2 and parts[-1] in COMPRESSIONS else ""
    ending = parts[-1] if len(parts) > 1 else ""
    return (ending, compression) if ending in FORMATS else None


def list_items(landing: Landing, names: Names, *, now: datetime) -> Listing:
    """List the complete files of a unit, new and archived, oldest first, and report what is left alone.

    `now` is the real clock, for `settle_seconds`. A name whose archived file has other content is reported: what
    was taken under that name stays as it is.
    Raises  E804 when the landing folder is not there
    Cost    one walk; files that are new are read once in a process to see that they are whole (see `completeness`)
    """
    archived = {one.name: one for one in _find(landing.archive, names, landing.stamp_zone).candidates}
    fresh = _find(existing(landing.folder), names, landing.stamp_zone)
    reports = list(fresh.reports)
    items = {name: _item(one, is_archived=True) for name, one in archived.items()}
    taken: dict[str, Candidate] = {}
    for one in sorted(fresh.candidates, key=lambda one: one.relative):
        report = _unfit(one, landing, now) or _clash(one, archived.get(one.name) or taken.get(one.name))
        if report:
            reports.append(report)
            continue
        taken[one.name] = one
        items[one.name] = _item(one, is_archived=False)
    ordered = sorted(items.values(), key=lambda item: (item.stamp, item.name))
    return Listing(tuple(ordered), tuple(sorted(reports, key=lambda report: report.path)))


def find_items(landing: Landing, names: Names, wanted: Collection[str]) -> tuple[Item, ...]:
    """Find files by their names, those of the archive before those that still lie where they arrived.

    Cost: a walk of the archive, and one of the landing folder where something is not archived
    """
    meant = set(wanted)
    archived = _find(landing.archive, names, landing.stamp_zone).candidates
    found = {one.name: _item(one, is_archived=True) for one in archived if one.name in meant}
    if meant - found.keys():
        fresh = _find(landing.folder, names, landing.stamp_zone).candidates
        found |= {one.name: _item(one, is_archived=False) for one in fresh if one.name in meant - found.keys()}
    return tuple(found.values())


def newest_stamp(landing: Landing, names: Names, *, now: datetime) -> datetime | None:
    """Give the stamp of the newest complete file, archived or not; None where there is none."""
    stamps = [one.stamp for one in _find(landing.archive, names, landing.stamp_zone).candidates]
    fresh = _find(existing(landing.folder), names, landing.stamp_zone).candidates
    for one in sorted(fresh, key=lambda one: one.stamp, reverse=True):
        if _unfit(one, landing, now) is None:
            stamps.append(one.stamp)
            break
    return max(stamps, default=None)


def has_stamps(names: Names, items: Iterable[Item]) -> bool:
    """Whether the arrival of these items is in their names; where not, it is the time of their last change."""
    return bool(names.supplier) or all(_ANY_STAMP.search(Path(item.path).name) for item in items)


def existing(folder: Path) -> Path:
    """Give the folder back; E804 when it is not there."""
    if not folder.is_dir():
        raise WaterclockError(
            "E804",
            f"the folder {folder} is not there",
            where=str(folder),
            why="a landing folder is made by whoever delivers into it",
            fix="create it, or mend the connection's path",
        )
    return folder


def _item(one: Candidate, *, is_archived: bool) -> Item:
    return Item(one.name, one.stamp, one.path.stat().st_size, str(one.path), is_archived)


def _find(root: Path, names: Names, zone: str) -> _Finds:
    finds = _Finds()
    if names.supplier:
        pattern = re.compile(rf"{re.escape(names.supplier)}_{re.escape(names.source)}_({_STAMP})\.[^.].*")
        for path in _walk(root / names.supplier / names.source, finds):
            _sort_named(path, root, pattern, zone, finds)
    else:
        for path in sorted(root.glob(names.path)) if root.is_dir() else ():
            relative = path.relative_to(root).as_posix()
            if path.is_file() and not any(part.startswith((".", "_")) for part in relative.split("/")):
                _sort_matched(path, relative, zone, finds)
    return finds


def _walk(folder: Path, finds: _Finds) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith((".", "_")):
            continue
        if not entry.is_dir():
            yield Path(entry.path)
        elif _DATE_FOLDER.fullmatch(entry.name):
            yield from _walk(Path(entry.path), finds)
        else:
            finds.reports.append(Report(entry.path, "misnamed", "a subfolder here is part of a date, such as 2017/08"))


def _sort_named(path: Path, root: Path, pattern: re.Pattern[str], zone: str, finds: _Finds) -> None:
    match = pattern.fullmatch(path.name)
    if path.name.lower().endswith(_UNFINISHED):
        finds.reports.append(Report(str(path), "half-written", "its ending says that it is still being written"))
    elif match is None:
        wanted = pattern.pattern.split("_(")[0].replace("\\", "")
        detail = f"expected {wanted}_<YYYY_MM_DD_HH_MM_SS>.<ext>"
        finds.reports.append(Report(str(path), "misnamed", detail))
    elif (stamp := _stamp(match[1], zone)) is None:
        finds.reports.append(Report(str(path), "misnamed", f"{match[1]} is no date and time"))
    elif format_of(path.name) is None:
        finds.reports.append(Report(str(path), "misnamed", _endings()))
    else:
        finds.candidates.append(Candidate(path, path.relative_to(root).as_posix(), path.name, stamp))


def _sort_matched(path: Path, relative: str, zone: str, finds: _Finds) -> None:
    if path.name.lower().endswith(_UNFINISHED):
        finds.reports.append(Report(str(path), "half-written", "its ending says that it is still being written"))
        return
    if format_of(path.name) is None:
        finds.reports.append(Report(str(path), "misnamed", _endings()))
        return
    match = _ANY_STAMP.search(path.name)
    stamp = _stamp(match[1], zone) if match else None
    if stamp is None:
        stamp = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    finds.candidates.append(Candidate(path, relative, relative, stamp))


def _endings() -> str:
    return f"expected one of .{', .'.join(FORMATS)}, with .{', .'.join(COMPRESSIONS)} after it or not"


def _stamp(text: str, zone: str) -> datetime | None:
    try:
        local = datetime.strptime(re.sub("[_T]", "", text), "%Y%m%d%H%M%S")  # noqa: DTZ007 (resolved right below)
    except ValueError:
        return None
    return resolve_local(local, zone)


def _unfit(one: Candidate, landing: Landing, now: datetime) -> Report | None:
    stat = one.path.stat()
    if now.timestamp() - stat.st_mtime < landing.settle_seconds:
        return Report(str(one.path), "half-written", f"changed less than {landing.settle_seconds:g} seconds ago")
    problem = problem_of(str(one.path), stat.st_size, stat.st_mtime_ns, format_of(one.name) or ("", ""))
    return Report(str(one.path), *problem) if problem else None


def _clash(one: Candidate, known: Candidate | None) -> Report | None:
    if known is None or _same(one.path, known.path):
        return None
    return Report(str(one.path), "same name, other content", f"{known.path} has that name; what it holds stays")


def _same(one: Path, other: Path) -> bool:
    return one.samefile(other) or filecmp.cmp(one, other, shallow=False)


def archive_items(landing: Landing, items: Iterable[Item]) -> tuple[Report, ...]:
    """Move files to the archive, under the same path as in the landing folder; report those that stay.

    Idempotent: what is there already with the same content is only removed from the landing folder. Never puts a
    file over another content.
    """
    reports = []
    for item in items:
        path = Path(item.path)
        if not path.is_relative_to(landing.folder) or not path.exists():
            continue
        target = landing.archive / path.relative_to(landing.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not _put(path, target):
            reports.append(Report(item.path, "same name, other content", f"{target} holds something else"))
    return tuple(reports)


def _put(path: Path, target: Path) -> bool:
    try:
        os.link(path, target)
    except FileExistsError:
        if not _same(path, target):
            return False
    except OSError:  # another file system, or one without hard links
        if not _copy(path, target):
            return False
    path.unlink()
    return True


def _copy(path: Path, target: Path) -> bool:
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with path.open("rb") as source, aside.open("wb") as sink:
            while chunk := source.read(1 << 20):
                sink.write(chunk)
            sink.flush()
            os.fsync(sink.fileno())
        stat = path.stat()
        os.utime(aside, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        if target.exists():
            return _same(path, target)
        aside.rename(target)
        return True
    finally:
        aside.unlink(missing_ok=True)
