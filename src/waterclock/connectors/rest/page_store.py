"""Stores the records of each page on disk before they are parsed, so that an interrupted collect can continue.

    <archive>/<connection>/<unit>/w=<label>/<request digest>/000001/
        page-000001.json                metadata: number of records, columns, time, and the position of the next page
        page-000001-<random>.ndjson.gz  the records, each on a line, as the source wrote them
        closed.json                     exists once the collect is over: the next one starts a new series (folder)
    <archive>/<connection>/<unit>/columns/<digest>/columns.json     the columns that were seen, by request and rows

A page is valid once its JSON file exists, which names the file of its records. The JSON file is flushed, and created
only if it does not exist. If two runners write the same page, the first wins, and both continue with its content. So a
series is one chain of pages, even with several writers. A collect continues a series after its last page, unless the
series is closed or that page is older than `resume` seconds. A series contains no secret: the key is removed from
links. Pages are originals: they are never removed, and only changed if persons are erased from them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import uuid
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import (
    file_exists,
    folders_in,
    make_folder,
    open_for_reading,
    open_for_writing,
    put_if_absent,
    read_text,
    remove_file,
    replace_text,
    replaced_file,
)

_CLOSED = "closed.json"
_COLUMNS = "columns.json"
_COMPRESSION_LEVEL = 1  # of gzip: pages are text that compresses well even at the fastest level


@dataclass(frozen=True, slots=True)
class Page:
    """A stored page. `place` is its position; `next` is the position of the following page, None for the last page."""

    number: int
    file: str
    rows: int
    columns: tuple[str, ...]
    digest: str
    place: dict[str, Any]
    next: dict[str, Any] | None
    asked_at: str


@dataclass(frozen=True, slots=True)
class Series:
    """The stored pages of one collect of a window, in order, in one folder."""

    folder: Path

    def pages(self) -> Iterator[Page]:
        """Yield the stored pages, up to the first number that is missing."""
        number = 1
        while (page := self._read(number)) is not None:
            yield page
            number += 1

    def keep(self, page: Page, content: bytes) -> Page:
        """Store a page with its records, unless another runner has stored a page with that number.

        Return the stored page with that number.
        """
        make_folder(self.folder)
        name = f"page-{page.number:06d}-{uuid.uuid4().hex[:12]}.ndjson.gz"
        path = self.folder / name
        with open_for_writing(path) as file:
            file.write(gzip.compress(content, _COMPRESSION_LEVEL, mtime=0))
        fault("page.written")
        kept = {**asdict(page), "file": name}
        if put_if_absent(self._page_path(page.number), json.dumps(kept), is_flushed=True):
            fault("page.kept")
            return _parse_page(kept)
        recorded = self._read(page.number)
        if recorded is None:
            raise AssertionError(f"{self._page_path(page.number)} was there, and is gone")
        if recorded.file != name:
            remove_file(path)
        return recorded

    def replace(self, page: Page, content: bytes) -> None:
        """Store other records for a stored page. The file with its former records remains; `page.file` names it."""
        name = f"page-{page.number:06d}-{uuid.uuid4().hex[:12]}.ndjson.gz"
        with open_for_writing(self.folder / name) as file:
            file.write(gzip.compress(content, _COMPRESSION_LEVEL, mtime=0))
        fault("page.rewritten")
        with replaced_file(self._page_path(page.number)) as file:
            file.write(json.dumps({**asdict(page), "file": name}).encode())

    def require_whole(self, page: Page, where: str) -> None:
        """Check that the stored records of a page are those that the API sent, by their digest. Reads the file.

        Raises E879 for a missing or changed file.
        """
        path = self.folder / page.file
        try:
            with open_for_reading(path) as file, gzip.open(file) as content:
                found = hashlib.file_digest(content, "sha256").hexdigest()
        except FileNotFoundError:
            why = "it is gone"
        except (OSError, EOFError, zlib.error) as error:
            why = str(error)
        else:
            if found == page.digest:
                return
            why = f"its SHA-256 is {found[:12]}…, that of the response was {page.digest[:12]}…"
        raise WaterclockError(
            "E879",
            "a stored response of an API is damaged",
            where=where,
            why=f"{path}: {why}",
            fix=f"restore that file, or remove {self.folder} to request everything again; then `waterclock retry`",
        )

    def path_of(self, page: Page) -> str:
        """Return the file with a page's records."""
        return str(self.folder / page.file)

    def close(self) -> None:
        """Close the series: the next collect of the window starts a new one."""
        make_folder(self.folder)
        put_if_absent(self.folder / _CLOSED, "{}", is_flushed=True)

    @property
    def is_closed(self) -> bool:
        """True if the next collect starts a new series."""
        return file_exists(self.folder / _CLOSED)

    def _page_path(self, number: int) -> Path:
        return self.folder / f"page-{number:06d}.json"

    def _read(self, number: int) -> Page | None:
        try:
            return _parse_page(json.loads(read_text(self._page_path(number))))
        except FileNotFoundError:
            return None


def open_series(folder: Path, resume: float, *, reuses_complete: bool = True) -> Series:
    """Return the newest series of a request if it can be continued, else a new one.

    `reuses_complete`: a series that has its last page is returned too, so that no page is requested again.
    """
    numbers = sorted(int(name) for name in folders_in(folder) if name.isdigit())
    if numbers:
        newest = Series(folder / f"{numbers[-1]:06d}")
        if not newest.is_closed and _can_continue(newest, resume, reuses_complete=reuses_complete):
            return newest
    return Series(folder / f"{(numbers or [0])[-1] + 1:06d}")


def folder_of(archive: Path, connection: str, unit: str, label: str, request: Any) -> Path:
    """Return the folder of the series for a request of a window. `label` is empty for a request without a window."""
    return unit_folder(archive, connection, unit) / (f"w={label}" if label else "all") / _digest_of(request)


def columns_folder(archive: Path, connection: str, unit: str, request: Any) -> Path:
    """Return the folder with the list of seen columns of a request, which is the same for all windows."""
    return unit_folder(archive, connection, unit) / "columns" / _digest_of(request)


def _digest_of(request: Any) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:16]


def unit_folder(archive: Path, connection: str, unit: str) -> Path:
    """Return the folder of all data that is stored for a unit."""
    return archive / connection / (re.sub(r"[^A-Za-z0-9_.-]+", "_", unit).strip(".") or "all")


def read_seen_columns(folder: Path) -> tuple[str, ...]:
    """Return the list of columns that earlier collects stored with `add_seen_columns`."""
    try:
        return tuple(json.loads(read_text(folder / _COLUMNS)))
    except (FileNotFoundError, ValueError):
        return ()


def add_seen_columns(folder: Path, columns: Sequence[str]) -> None:
    """Add columns to the stored list of seen columns."""
    known = read_seen_columns(folder)
    if set(columns) - set(known):
        make_folder(folder)
        replace_text(folder / _COLUMNS, json.dumps(list(dict.fromkeys((*known, *columns)))))


def lines_of(path: Path) -> Iterator[str]:
    """Yield the records of a stored page, unchanged."""
    with open_for_reading(path) as file, gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        yield from (line.rstrip("\n") for line in lines)


def _can_continue(series: Series, resume: float, *, reuses_complete: bool) -> bool:
    last = deque(series.pages(), 1)
    if not last:
        return True
    is_young = (datetime.now(UTC) - datetime.fromisoformat(last[0].asked_at)).total_seconds() <= resume
    return is_young and (reuses_complete or last[0].next is not None)


def _parse_page(fields: dict[str, Any]) -> Page:
    return Page(**{**fields, "columns": tuple(fields["columns"])})
