"""Copies files that another user can change, so that Spark reads the same files that were checked.

Spark opens files by name, and follows links. After the listing, another user who can write to a file or its folder
could replace it by a link to a file that only this user may read. Files that others can change are therefore opened
here without following links, and copied into a folder of this user. All other files are read in place.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from waterclock.connectors.files.file_schemas import unreadable_file_error
from waterclock.connectors.files.reading_options import COPIES, ReadOptions
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import make_folder, open_for_writing, path_as_text, path_below, put_copy_if_absent
from waterclock.files.object_stores import is_remote
from waterclock.permissions.ownership import foreign_writer, open_below

_CHUNK = 1 << 20


def find_changeable_files(paths: Sequence[str], landing: Path | None) -> dict[str, str]:
    """Map the files that another user can change to their paths below `landing`. Cost: a stat of each file."""
    if landing is None or is_remote(landing):
        return {}
    known: dict[Path, bool] = {}
    below = {path: relative for path in paths if (relative := path_below(path, landing)) is not None}
    return {path: relative for path, relative in below.items() if _is_changeable(landing, Path(relative), known)}


def copy_files(files: Mapping[str, str], landing: Path | None, folder: Path) -> dict[str, str]:
    """Copy files below `landing` into a folder, under the same relative paths. Return the copies by original path.

    Raises E807 for a file that does not exist, is unreadable or a link.
    """
    copies: dict[str, str] = {}
    if landing is None:
        return copies
    for path, relative in files.items():
        target = folder / COPIES / relative
        make_folder(target.parent)
        with open_landed(path, landing, relative) as file:
            _copy(file, target)
        copies[path] = path_as_text(target)
    return copies


def open_landed(path: str, landing: Path, relative: str) -> IO[bytes]:
    """Open a file below a landing folder without following links.

    Raises E807 for a missing or unreadable file or a link.
    """
    try:
        return os.fdopen(open_below(landing, relative), "rb")
    except OSError as error:
        raise unreadable_file_error(path, error) from error


def name_as_landed(error: WaterclockError, reading: ReadOptions) -> WaterclockError:
    """Replace the paths of copies in an error's texts by the original paths. The error is changed in place."""
    if reading.room is None or reading.landing is None:
        return error
    pattern = re.compile(rf"{re.escape(str(reading.room))}/[^/]+/{COPIES}/")
    to = f"{reading.landing}/"
    error.what = pattern.sub(lambda _: to, error.what)
    error.where = None if error.where is None else pattern.sub(lambda _: to, error.where)
    error.why = None if error.why is None else pattern.sub(lambda _: to, error.why)
    return error


def _is_changeable(landing: Path, relative: Path, known: dict[Path, bool]) -> bool:
    if relative not in known:
        path = landing / relative
        try:
            status = path.stat() if relative == Path() else path.lstat()
            is_changeable = foreign_writer(status, str(path)) is not None
        except FileNotFoundError:  # reported when the file is opened
            is_changeable = True
        known[relative] = is_changeable or (relative != Path() and _is_changeable(landing, relative.parent, known))
    return known[relative]


def _copy(file: IO[bytes], target: Path) -> None:
    if not is_remote(target):
        put_copy_if_absent(file, target, is_flushed=False)  # it is removed after the scan
        return
    with open_for_writing(target) as sink:
        shutil.copyfileobj(file, sink, _CHUNK)
