"""Keeps the records of each page on disk before anybody parses them, and knows where a stopped collect goes on.

    <archive>/<connection>/<unit>/w=<label>/<what is asked>/000001/
        page-000001.json                what came: how many records, which columns, when, and the place of the next page
        page-000001-<random>.ndjson.gz  the records, each on a line, as the source wrote them
        closed.json                     the collect is over: whoever reads the window once more begins a new series

A page is there once its JSON is, put if absent and flushed, which names the file of its records: of two that write the
same page the first wins, and both go on from what it holds. So a series is one chain of pages, whoever wrote them.
A series goes on where its last page points, unless it is closed or its last page is older than `resume` seconds.
No secret is in it: the key is taken out of links. Pages are originals: they are never changed, and nobody removes them.
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
from waterclock.filesystem import (
    folders_in,
    is_there,
    make_folder,
    opened,
    put_if_absent,
    read_text,
    remove_file,
    replace_text,
    written,
)

_CLOSED = "closed.json"
_COLUMNS = "columns.json"
_FAST = 1  # of gzip: pages are text of a kind that packs well at once


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is kept. `place` is where it stood, `next` where the one after it stands, None for the last."""

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
    """The pages of one collect of one window, in their order."""

    folder: Path

    def pages(self) -> Iterator[Page]:
        """Yield the pages that are there, up to the first that is not."""
        number = 1
        while (page := self._read(number)) is not None:
            yield page
            number += 1

    def keep(self, page: Page, content: bytes) -> Page:
        """Keep a page; gives what stands as that page, which another may have kept first."""
        make_folder(self.folder)
        name = f"page-{page.number:06d}-{uuid.uuid4().hex[:12]}.ndjson.gz"
        path = self.folder / name
        with written(path) as file:
            file.write(gzip.compress(content, _FAST, mtime=0))
        fault("page.written")
        kept = {**asdict(page), "file": name}
        if put_if_absent(self._place(page.number), json.dumps(kept), is_flushed=True):
            fault("page.kept")
            return _page(kept)
        stands = self._read(page.number)
        if stands is None:
            raise AssertionError(f"{self._place(page.number)} was there, and is gone")
        if stands.file != name:
            remove_file(path)
        return stands

    def require_whole(self, page: Page, where: str) -> None:
        """Refuse a page whose records are not what came: whoever goes on from it would miss some.

        Raises  E879
        Cost    the page is read
        """
        path = self.folder / page.file
        try:
            with opened(path) as file, gzip.open(file) as content:
                found = hashlib.file_digest(content, "sha256").hexdigest()
        except FileNotFoundError:
            why = "it is gone"
        except (OSError, EOFError, zlib.error) as error:
            why = str(error)
        else:
            if found == page.digest:
                return
            why = f"its SHA-256 is {found[:12]}…, that of what came is {page.digest[:12]}…"
        raise WaterclockError(
            "E879",
            "what an API answered is not kept as it came",
            where=where,
            why=f"{path}: {why}",
            fix=f"put that file back, or remove {self.folder} to have all asked for anew; then `waterclock retry`",
        )

    def path_of(self, page: Page) -> str:
        """Return where a page's records are."""
        return str(self.folder / page.file)

    def close(self) -> None:
        """Have the next collect of the window begin anew."""
        make_folder(self.folder)
        put_if_absent(self.folder / _CLOSED, "{}", is_flushed=True)

    @property
    def is_closed(self) -> bool:
        """True where the next collect begins anew."""
        return is_there(self.folder / _CLOSED)

    def _place(self, number: int) -> Path:
        return self.folder / f"page-{number:06d}.json"

    def _read(self, number: int) -> Page | None:
        try:
            return _page(json.loads(read_text(self._place(number))))
        except FileNotFoundError:
            return None


def open_series(folder: Path, resume: float, now: datetime | None = None, *, goes_on_whole: bool = True) -> Series:
    """Return the newest series of what is asked, where it is to go on, or else a new one.

    Not `goes_on_whole`: one that came to its last page is not gone on with. Whoever read it may have committed it, and
    was killed before it could be closed: what is asked now is how things stand now.
    """
    numbers = sorted(int(name) for name in folders_in(folder) if name.isdigit())
    if numbers:
        newest = Series(folder / f"{numbers[-1]:06d}")
        if not newest.is_closed and _goes_on(newest, resume, now or datetime.now(UTC), goes_on_whole=goes_on_whole):
            return newest
    return Series(folder / f"{(numbers or [0])[-1] + 1:06d}")


def folder_of(archive: Path, connection: str, unit: str, label: str, asked: Any) -> Path:
    """Return the folder of the series of a window; `label` is empty where one collect serves all windows."""
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
    return unit_folder(archive, connection, unit) / (f"w={label}" if label else "all") / digest


def unit_folder(archive: Path, connection: str, unit: str) -> Path:
    """Return the folder of all that is kept of a unit."""
    return archive / connection / (re.sub(r"[^A-Za-z0-9_.-]+", "_", unit).strip(".") or "all")


def columns_seen(folder: Path) -> tuple[str, ...]:
    """Return the columns that earlier collects of a unit saw; none before the first."""
    try:
        return tuple(json.loads(read_text(folder / _COLUMNS)))
    except (FileNotFoundError, ValueError):
        return ()


def note_columns(folder: Path, columns: Sequence[str]) -> None:
    """Note the columns that were seen, beside those of before."""
    known = columns_seen(folder)
    if set(columns) - set(known):
        make_folder(folder)
        replace_text(folder / _COLUMNS, json.dumps(list(dict.fromkeys((*known, *columns)))))


def lines_of(path: Path) -> Iterator[str]:
    """Yield the records of a page that is kept, as they are."""
    with opened(path) as file, gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        yield from (line.rstrip("\n") for line in lines)


def _goes_on(series: Series, resume: float, now: datetime, *, goes_on_whole: bool) -> bool:
    last = deque(series.pages(), 1)
    if not last:
        return True
    is_young = (now - datetime.fromisoformat(last[0].asked_at)).total_seconds() <= resume
    return is_young and (goes_on_whole or last[0].next is not None)


def _page(told: dict[str, Any]) -> Page:
    return Page(**{**told, "columns": tuple(told["columns"])})
