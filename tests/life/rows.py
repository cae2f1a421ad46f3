"""Rows of a life, and the states and versions of tables: plain Python, from the documented rules alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
DAY = 24 * 60
"""A day of the oracle in minutes. It is the shortest window of a life, which may be shorter on the engine."""
TOKEN = 1000
"""The token of a person is the person's key plus this number, so it equals no value and no other token."""
OPEN_END = 1 << 40
"""The minute that represents the end of an open version."""


class Row(NamedTuple):
    """A row of every table of a life. `at`: minutes since the first of January 2020; `gone`: the row is a delete.

    `old`: the column that may be retired, if a table has it.
    """

    k: int
    v: int
    at: int
    gone: int = 0
    old: int | None = None

    @property
    def day(self) -> int:
        """The day of January 2020 whose window contains the row by its time."""
        return self.at // DAY + 1


class Version(NamedTuple):
    """A row of a TEMPORAL table: a key had the value `v` from the minute `at` up to the minute `until`."""

    k: int
    v: int
    at: int
    until: int


class File(NamedTuple):
    """A file of a landing folder: its stamp is the `place`-th of a day, or the day's last second (0)."""

    day: int
    place: int
    rows: tuple[Row, ...]

    @property
    def name(self) -> tuple[int, int]:
        return self.day, self.place


def person_of(key: int) -> int:
    """Return the person of a key, which is the value itself or its token."""
    return key % TOKEN


def token_of(key: int) -> int:
    """Return the token of a value; a token is returned unchanged."""
    return key if key >= TOKEN else key + TOKEN


Rows = tuple[Row, ...]
Slices = dict[int, Rows]


def instant(at: int, hours: int = 24) -> datetime:
    """Return the instant of a minute of the oracle, whose day is `hours` long on the engine."""
    return EPOCH + timedelta(minutes=at) * hours / 24


def minute(at: datetime, hours: int = 24) -> int:
    """Return the minute of an instant; for an open end OPEN_END."""
    if at.year > 9000:
        return OPEN_END
    return round((at.replace(tzinfo=UTC) - EPOCH) * 24 / hours / timedelta(minutes=1))


def winners(slices: Slices, until: int, *, by_time: bool, deletes: bool) -> Rows:
    """Return the state of a MERGE table at the end of a label: the last row of each key, unless it is a delete."""
    last: dict[int, tuple[tuple[int, ...], Row]] = {}
    for label in sorted(slices):
        for row in slices[label] if label <= until else ():
            rank = (row.at, label) if by_time else (label,)
            if row.k not in last or rank >= last[row.k][0]:
                last[row.k] = (rank, row)
    return tuple(sorted(row for _, row in last.values() if not (deletes and row.gone)))


def versions(slices: Slices, until: int, *, deletes: bool) -> tuple[Version, ...]:
    """Return the versions of a TEMPORAL table at the end of a label: a row without a new value makes none."""
    told: dict[int, dict[int, tuple[tuple[int, int], Row]]] = defaultdict(dict)
    for label in sorted(slices):
        for row in slices[label] if label <= until else ():
            rank = (label, row.v)
            if row.at not in told[row.k] or rank >= told[row.k][row.at][0]:
                told[row.k][row.at] = (rank, row)
    made: list[Version] = []
    for key in sorted(told):
        open_: Row | None = None
        for at in sorted(told[key]):
            row = told[key][at][1]
            is_end = bool(deletes and row.gone)
            if open_ is not None and (is_end or row.v != open_.v):
                made.append(Version(key, open_.v, open_.at, at))
                open_ = None
            if open_ is None and not is_end:
                open_ = row
        if open_ is not None:
            made.append(Version(key, open_.v, open_.at, OPEN_END))
    return tuple(made)


def versions_of_snapshots(slices: Slices, until: int, size: int = 1) -> tuple[Version, ...]:
    """Return the versions of a TEMPORAL table of snapshots: a key lives for as long as the snapshots allow.

    A key starts at the end of the last snapshot without it, or in the first snapshot at the start of its window. It
    ends at the end of the first snapshot without it. Another `v` is valid from the end of the snapshot that contains
    it. `size`: the days of a window.
    """
    labels = [label for label in sorted(slices) if label <= until]
    made: list[Version] = []
    for key in sorted({row.k for label in labels for row in slices[label]}):
        told: Row | None = None
        since, begin = 0, (labels[0] - 1) * DAY
        for label in labels:
            row, end = next((it for it in slices[label] if it.k == key), None), (label + size - 1) * DAY
            if told is not None and (row is None or row.v != told.v):
                made.append(Version(key, told.v, since, end))
            if row is not None and (told is None or row.v != told.v):
                since = begin if told is None else end
            told, begin = row, end
        if told is not None:
            made.append(Version(key, told.v, since, OPEN_END))
    return tuple(made)


def in_effect(of: Iterable[Version], key: int, at: int) -> Version | None:
    """Return the version of a key that was valid at a minute."""
    return next((it for it in of if it.k == key and it.at <= at < it.until), None)
