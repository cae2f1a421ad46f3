"""Finds the files of a unit in an object store, with one listing of all objects below a folder.

A listing contains sizes and times, so no request per file is needed. The modification time of an object cannot be set,
and an archived object gets a new one. So the arrival time of an archived object without a stamp in its name is stored
in the name of an empty marker object next to it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import translate
from functools import lru_cache
from itertools import chain, takewhile
from pathlib import Path, PurePosixPath

from waterclock.connectors.files.file_name_matching import (
    WILDCARD,
    FileNaming,
    MatchedFiles,
    is_date_folder,
    parse_file_name,
)
from waterclock.connectors.interface import Report
from waterclock.files.filesystem import FileInfo, entry_path, files_below, path_as_text, put_if_absent

_ARRIVED = "%Y%m%dT%H%M%S.%fZ"
_ARRIVAL_MARK = re.compile(r"\.(.+)\.([0-9]{8}T[0-9]{6}\.[0-9]{6}Z)\.arrived")


def find_in_bucket(
    root: Path, names: FileNaming, zone: str, *, without: Collection[str], only: Collection[str] | None
) -> MatchedFiles:
    """Find the files of a COLLECT in an object store. Parameters and result are those of `file_name_matching.find`.

    Cost: a request for each thousand objects.
    """
    finds = MatchedFiles()
    folder = path_as_text(root)
    found = _list_supplier_files(folder, names, finds) if names.supplier else _list_matching_files(folder, names)
    for relative, name, one in found:
        if name not in without and (only is None or name in only):
            finds.add(parse_file_name(f"{folder}/{relative}", name, folder, names, zone, one))
    return finds


def mark_arrival(target: Path, arrived: datetime) -> None:
    """Store the arrival time of an archived file in the name of an empty object next to its path `target`."""
    put_if_absent(target.with_name(f".{target.name}.{arrived.astimezone(UTC):{_ARRIVED}}.arrived"), "")


def _list_supplier_files(root: str, names: FileNaming, finds: MatchedFiles) -> Iterator[tuple[str, str, FileInfo]]:
    folder = f"{names.supplier}/{names.source}"
    strange: set[str] = set()
    for found in files_below(entry_path(root, folder)):
        *inner, name = found.path.split("/")
        if any(part[0] in "._" for part in (*inner, name)):
            continue
        depth = next((depth for depth, part in enumerate(inner, 1) if not is_date_folder(part)), None)
        if depth is not None:
            strange.add("/".join(inner[:depth]))
        elif found.size or not is_date_folder(name):  # else it is the placeholder object of a folder
            yield f"{folder}/{found.path}", name, found
    detail = "a subfolder here is part of a date, such as 2017/08"
    finds.reports.extend(Report(f"{root}/{folder}/{path}", "misnamed", detail) for path in sorted(strange))


def _list_matching_files(root: str, names: FileNaming) -> Iterator[tuple[str, str, FileInfo]]:
    inner, begin = _fixed_prefix(names.path)
    head = f"{inner}/" if inner else ""
    pattern = _segment_patterns(names.path)
    folder = entry_path(root, inner)
    marks = (
        files_below(folder, f".{begin}") if begin else ()
    )  # without `begin`, the second listing contains the marker objects
    arrived: dict[str, datetime] = {}
    matching: list[tuple[str, FileInfo]] = []
    for found in chain(marks, files_below(folder, begin)):
        relative = head + found.path
        above, slash, name = relative.rpartition("/")
        if mark := _ARRIVAL_MARK.fullmatch(name):
            time = datetime.strptime(mark[2], _ARRIVED).replace(tzinfo=UTC)
            of = above + slash + mark[1]
            arrived[of] = min(time, arrived.get(of, time))
        elif not any(part[0] in "._" for part in relative.split("/")) and _matches(relative.split("/"), pattern):
            matching.append((relative, found))
    for relative, found in matching:
        yield relative, relative, replace(found, changed=arrived.get(relative, found.changed))


def _fixed_prefix(path: str) -> tuple[str, str]:
    """Return the folders of a glob before its first wildcard, and the fixed prefix of the next path segment."""
    parts = PurePosixPath(path).parts
    fixed = list(takewhile(lambda part: not WILDCARD.search(part), parts[:-1]))
    return "/".join(fixed), WILDCARD.split(parts[len(fixed)])[0]


@lru_cache
def _segment_patterns(path: str) -> tuple[re.Pattern[str] | None, ...]:
    """Return the path segments of a glob as regular expressions, with None for `**`."""
    return tuple(None if part == "**" else re.compile(translate(part)) for part in PurePosixPath(path).parts)


def _matches(parts: Sequence[str], pattern: Sequence[re.Pattern[str] | None]) -> bool:
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] is None:
        return any(_matches(parts[skipped:], pattern[1:]) for skipped in range(len(parts)))
    return pattern[0].match(parts[0]) is not None and _matches(parts[1:], pattern[1:])
