"""Creates a table of a branch from a table of another storage: with a copy of its log, and links to its files.

The files stay where they are, and are only read. New commits, slices and checkpoints are written next to the links.
Folders are created, never linked, so that nothing is ever written through a link.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from waterclock.faults import fault
from waterclock.files.filesystem import (
    copy_file,
    entry_path,
    file_exists,
    files_below,
    make_folder,
    map_each,
    read_bytes,
    remove_folder,
)
from waterclock.files.object_stores import is_remote
from waterclock.storage.log.delta_log import last_version_with_same_rows

_LOG = "_delta_log"
_VERSION = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")
_HINT = "_last_checkpoint"


def mirror_table(
    source: str, target: str, version: int, unknown_claims: Callable[[frozenset[int]], Collection[int]]
) -> bool:
    """Create the table `target` with all rows that `source` has at a version, and its earlier versions.

    Any earlier attempt is removed first. Return False if the log of `source` no longer has that version.
    `unknown_claims` returns those of some claims that the ledger of `target` does not know: their commits are left out,
    also if they changed no row.
    Cost: a copy of each log file, and a link for each other file; a copy of each if a storage is an object store.
    """
    last = last_version_with_same_rows(source, version, unknown_claims)
    remove_folder(entry_path(target))
    make_folder(entry_path(target))
    paths = [path for path in _list_files(source) if not path.startswith(f"{_LOG}/")]
    map_each(paths, lambda path: _link(source, target, path), at=source)
    fault("branch files linked")
    return _copy_log(source, target, last)


def _list_files(folder: str) -> Iterator[str]:
    if is_remote(folder):
        # objects without content are markers of folders, which cannot be read under their listed name
        yield from (file.path for file in files_below(entry_path(folder)) if file.size)
        return
    for parent, _, names in os.walk(folder):  # lists links to files, too: a branch may be mirrored itself
        below = Path(parent).relative_to(folder).as_posix()
        yield from (name if below == "." else f"{below}/{name}" for name in names)


def _link(source: str, target: str, path: str) -> None:
    made = entry_path(target, *path.split("/"))
    make_folder(made.parent)
    if is_remote(source) or is_remote(target):
        copy_file(entry_path(source, *path.split("/")), made)
    else:
        os.symlink(f"{source}/{path}", made)  # noqa: PTH211 - called very often: a Path would double its cost


def _copy_log(source: str, target: str, last: int) -> bool:
    """Copy the commits and checkpoints up to a version. Return whether they contain that version."""
    log, own = entry_path(source, _LOG), entry_path(target, _LOG)
    make_folder(own)
    commits, checkpoints = set[int](), set[int]()
    for file in files_below(log):
        found = _VERSION.fullmatch(file.path)
        if found is None or int(found[1]) > last:
            continue
        copy_file(log / file.path, own / file.path)
        (commits if found[2] == "json" else checkpoints).add(int(found[1]))
    if checkpoints:
        hint = json.loads(read_bytes(log / _HINT)) if file_exists(log / _HINT) else {}
        newest = max(checkpoints)
        if hint.get("version") == newest:
            copy_file(log / _HINT, own / _HINT)
    begin = max(checkpoints, default=-1)
    return all(number in commits for number in range(begin + 1, last + 1))
