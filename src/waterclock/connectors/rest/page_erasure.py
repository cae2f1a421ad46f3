"""Erases the records of persons from the stored pages of an API.

A page is replaced by a new file of records, which its metadata names from then on; the old file is removed. A killed
erasure leaves the old page or the new one, and at most a file that no page names. Such files, also those of two
runners that stored the same page, are removed if they contain records of erased persons.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from waterclock.connectors.interface import Setting
from waterclock.connectors.json_erasure import edit_json, edit_lines
from waterclock.connectors.original_erasure import OriginalErasure, Subjects
from waterclock.connectors.rest.page_store import Series, lines_of, unit_folder
from waterclock.connectors.rest.response_store import NOTHING, asked_member
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, files_below, remove_file

_RECORDS = ".ndjson.gz"
_NO_RECORD = f'"{NOTHING}": "nothing"}}'


def erase_pages(
    setting: Setting, unit: str, subjects: Subjects, requested: Sequence[str], *, is_dry_run: bool
) -> Iterator[OriginalErasure]:
    """Rewrite the pages of a unit without the records of erased persons. Yield a result for each file.

    `requested` are the columns of FOR EACH. A response to a request for an erased person is removed too.
    Cost: each page is read once, and those with records of persons are read again and written.
    """
    folder = unit_folder(entry_path(setting.archive), setting.name, unit)
    by_series: dict[str, list[str]] = {}
    for inner in sorted(file.path for file in files_below(folder) if file.path.endswith(_RECORDS)):
        above, _, name = inner.rpartition("/")
        by_series.setdefault(above, []).append(name)
    asked = {asked_member(at): name for at, name in enumerate(requested) if subjects.column_of(name) is not None}
    types = {**subjects.types, **{member: _type_of(subjects, name) for member, name in asked.items()}}
    subjects = replace(subjects, types=types)
    for above, names in by_series.items():
        series = Series(entry_path(folder, *above.split("/")))
        for name in names:
            path = series.folder / name
            try:
                yield _erase_page(series, path, subjects, is_dry_run=is_dry_run)
            except FileNotFoundError:
                yield OriginalErasure(str(path), problem="it is gone: another process has removed it")
            except WaterclockError as error:
                yield OriginalErasure(str(path), problem=error.why or error.what)
            except (OSError, EOFError, ValueError, TypeError, zlib.error) as error:
                yield OriginalErasure(str(path), problem=str(error) or type(error).__name__)


def _type_of(subjects: Subjects, name: str) -> str | None:
    return next(kind for known, kind in subjects.types.items() if known.lower() == name.lower())


def _erase_page(series: Series, path: Path, subjects: Subjects, *, is_dry_run: bool) -> OriginalErasure:
    kept: list[str] = []
    lines = (f"{line}\n" for line in lines_of(path))
    rows, removed, unread = edit_lines(lines, lambda line: edit_json(line, subjects), kept.append)
    if removed and not is_dry_run:
        page = next((page for page in series.pages() if page.file == path.name), None)
        if page is not None:
            series.require_whole(page, str(path))
            content = "".join(kept).encode()
            records = sum(not line.rstrip().endswith(_NO_RECORD) for line in kept)
            digest = hashlib.sha256(content).hexdigest()
            series.replace(replace(page, rows=records, digest=digest), content)
            fault("erase.page_replaced")
        remove_file(path)
    return OriginalErasure(str(path), rows, removed, unread)
