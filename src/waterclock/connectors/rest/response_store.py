"""Stores the responses of an API for each row of a table (FOR EACH), in pages, and finds stored responses.

    <archive>/<connection>/<unit>/each=<table>/
        w=<label>/<request digest>/000001/  a series of pages, as in `page_store`; `closed.json`: it is complete
        asked/<request digest>/<day>/       a file named after each series to which pages were added on that day
        columns.json                        the columns that were seen

`<table>` is the first name of a table that was renamed.

Each line of a page is a record as the source wrote it, preceded by the requested values and the time of the response. A
response without records is a line without a record. A page is stored once it has 8 MiB, or after a second or a
hundredth of the collect's duration so far, whichever is longer. If the process is killed, the next run repeats the
requests since the last page.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from waterclock.connectors.rest.page_store import Page, Series, lines_of
from waterclock.files.filesystem import folders_in, make_folder, names_in, put_if_absent

KEY = "_waterclock_each"
ANSWERED_AT = "_waterclock_at"
NOTHING = "_waterclock_none"
_MOST_BYTES = 8 * 1024 * 1024
_SECONDS = 1.0
_SHARE = 0.01
_DAY = "%Y%m%d"


def asked_member(at: int) -> str:
    """Return the JSON member of a stored line that contains the value of the requested column at a position."""
    return f"_waterclock_asked_{at}"


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it is stored: its lines, the columns of its records, and their number."""

    lines: tuple[str, ...]
    columns: tuple[str, ...]
    records: int


@dataclass(frozen=True, slots=True)
class ResponseStore:
    """The stored responses for one table. `request_digest` is of the requests' path, parameters and options."""

    folder: Path
    request_digest: str

    def series(self, label: str, resume: float, now: datetime, *, is_done: bool, is_anew: bool) -> Series:
        """Return the series of pages to continue for a label, or a new one.

        A label that is done keeps its responses, however old they are, and also if a series that was to replace them
        was interrupted. An interrupted label continues for `resume` seconds. With `is_anew` only an interrupted series
        is continued.
        """
        folder = self.folder / f"w={label}" / self.request_digest
        numbers = sorted(int(name) for name in folders_in(folder) if name.isdigit())
        if not numbers:
            return Series(folder / "000001")
        newest = Series(folder / f"{numbers[-1]:06d}")
        if is_done and not is_anew:
            whole = (Series(folder / f"{number:06d}") for number in reversed(numbers))
            return next((each for each in whole if each.is_closed), newest)
        goes_on = is_young(newest, resume, now) and not (is_anew and newest.is_closed)
        return newest if goes_on else Series(folder / f"{numbers[-1] + 1:06d}")

    def files_since(self, earliest: datetime, now: datetime, own: Series) -> list[str]:
        """Return the files of all other series that may contain a response from `earliest` or later."""
        found: list[str] = []
        day = earliest.date()
        seen = {_series_name(own)}
        while day <= now.date():
            for name in names_in(self._day_folder(day.strftime(_DAY)), ""):
                if name in seen or name.startswith("."):
                    continue
                seen.add(name)
                label, _, number = name.partition("-")
                series = Series(self.folder / f"w={label}" / self.request_digest / number)
                pages = (page for page in series.pages() if datetime.fromisoformat(page.asked_at) >= earliest)
                found += [series.path_of(page) for page in pages]
            day += timedelta(days=1)
        return found

    def record_series(self, series: Series, now: datetime) -> None:
        """Record that a series was written to today, so that later labels find its responses."""
        folder = self._day_folder(now.strftime(_DAY))
        make_folder(folder)
        put_if_absent(folder / _series_name(series), "{}")

    def _day_folder(self, day: str) -> Path:
        return self.folder / "asked" / self.request_digest / day


@dataclass(slots=True)
class ResponseWriter:
    """Writes the responses of one series, page by page. Several runners may write to a series at the same time.

    If two of them request the same key, only the response that is stored first is valid.
    """

    answers: ResponseStore
    series: Series
    number: int
    _begun: float = field(default_factory=time.monotonic)
    _last: float = field(default_factory=time.monotonic)
    _added: dict[str, StoredResponse] = field(default_factory=dict)
    _keys_of_others: set[str] = field(default_factory=set)
    _bytes: int = 0
    _recorded_day: str = ""

    def add(self, key: str, answer: StoredResponse) -> None:
        """Add a response, and store a page if it is due. All lines of a response are in one page."""
        if key in self._keys_of_others:
            return
        self._added[key] = answer
        self._bytes += sum(map(len, answer.lines))
        now = time.monotonic()
        if self._bytes > _MOST_BYTES or now - self._last > max(_SECONDS, _SHARE * (now - self._begun)):
            self.flush()

    def flush(self) -> None:
        """Store the added responses as a page.

        If another runner stored a page with that number first, added responses for its keys are discarded.
        """
        while self._added:
            now = datetime.now(UTC)
            content = "".join(f"{line}\n" for answer in self._added.values() for line in answer.lines).encode()
            columns = tuple(dict.fromkeys(name for answer in self._added.values() for name in answer.columns))
            rows = sum(answer.records for answer in self._added.values())
            digest = hashlib.sha256(content).hexdigest()
            page = Page(self.number, "", rows, columns, digest, {}, {}, now.isoformat())
            kept = self.series.keep(page, content)
            self.number += 1
            if self._recorded_day != (day := now.strftime(_DAY)):
                self.answers.record_series(self.series, now)
                self._recorded_day = day
            if (kept.asked_at, kept.digest) == (page.asked_at, digest):
                self._added = {}
            else:
                known = {json.loads(line)[KEY] for line in lines_of(self.series.folder / kept.file)}
                self._keys_of_others |= known
                self._added = {key: answer for key, answer in self._added.items() if key not in known}
        self._bytes, self._last = 0, time.monotonic()


def answer_of(
    key: str, names: Sequence[str], records: Sequence[str], columns: Iterable[str], now: datetime
) -> StoredResponse:
    """Build a stored response: a JSON line for each record, preceded by the key, the time and the requested values.

    `key` is a JSON array of the requested values, `names` are their members in a line, and `now` is the time of the
    response. A response without records has one line, with the member `NOTHING`.
    """
    asked = zip(names, json.loads(key), strict=True)
    head = json.dumps({KEY: key, ANSWERED_AT: now.isoformat(timespec="microseconds"), **dict(asked)})[:-1]
    lines = tuple(_join_record(head, record) for record in records)
    return StoredResponse(lines or (f'{head}, "{NOTHING}": "nothing"}}',), tuple(columns), len(records))


def _series_name(series: Series) -> str:
    return f"{series.folder.parent.parent.name.removeprefix('w=')}-{series.folder.name}"


def is_young(series: Series, resume: float, now: datetime) -> bool:
    """Return whether a series was written to in the last `resume` seconds, or has no pages."""
    asked = [page.asked_at for page in series.pages()]
    return not asked or (now - datetime.fromisoformat(asked[-1])).total_seconds() <= resume


def _join_record(head: str, record: str) -> str:
    members = record[1:].lstrip()
    return f"{head}{'' if members.startswith('}') else ', '}{members}"
