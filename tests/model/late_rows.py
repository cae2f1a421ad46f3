"""Random histories of late rows, and their results by brute force: watermarks, sessions, pairs, first rows.

All functions apply the definitions to whole histories; no state is carried from one slice to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

START = datetime(2024, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A row of a slice: its key, its part, and its own time in minutes since START."""

    at: int
    key: str
    part: str
    id: int


Slices = list[list[Row]]


def random_slices(random: Random, windows: int = 12, keys: int = 3, parts: int = 3) -> Slices:
    """Return slices of rows by arrival: some rows are late, some have a clock ahead, and parts fall silent."""
    slices: Slices = []
    number = 0
    silent = {f"p{part}": random.choice([99, 99, random.randrange(windows)]) for part in range(parts)}
    for window in range(windows):
        rows = []
        for _ in range(random.choice([0, 1, 2, 3, 4])):
            part = f"p{random.randrange(parts)}"
            if silent[part] <= window < silent[part] + 5:
                continue
            number += 1
            off = random.choice([0, 0, 0, 0, -10, -25, -60, 40])
            rows.append(Row(window * 5 + random.randrange(5) + off, f"k{random.randrange(keys)}", part, number))
        slices.append(rows)
    return slices


def instant(minutes: int) -> datetime:
    """Return an instant of a history."""
    return START + timedelta(minutes=minutes)


def watermarks(slices: Slices, lateness: int, silent_after: int, *, by_part: bool, step: int = 5) -> list[int | None]:
    """Return the watermark after each slice, in minutes, from the definition; None before the first row."""
    found: list[int | None] = []
    for window in range(len(slices)):
        newest: dict[str, int] = {}
        heard: dict[str, int] = {}
        for number, rows in enumerate(slices[: window + 1]):
            for row in rows:
                part = row.part if by_part else ""
                newest[part] = max(newest.get(part, row.at), row.at)
                heard[part] = number
        speaking = [at for part, at in newest.items() if window - heard[part] < silent_after]
        now = [min((window + 1) * step, min(speaking) - lateness)] if speaking else []
        before = [mark for mark in found[-1:] if mark is not None]
        found.append(max([*now, *before], default=None))
    return found


def accepted(slices: Slices, marks: Sequence[int | None]) -> Slices:
    """Return the slices without the rows that arrived too late."""
    before = [None, *marks]
    return [
        [row for row in rows if (mark := before[window]) is None or row.at >= mark]
        for window, rows in enumerate(slices)
    ]


Session = tuple[str, int, int, int]


def sessions(rows: Iterable[Row], gap: int) -> list[Session]:
    """Return the sessions of rows: key, first and last time, number; a pause of `gap` ends a session."""
    by_key: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows:
        by_key[row.key].append(row.at)
    found: list[Session] = []
    for key, times in by_key.items():
        run: list[int] = []
        for at in sorted(times):
            if run and at - run[-1] >= gap:
                found.append((key, run[0], run[-1], len(run)))
                run = []
            run.append(at)
        found.append((key, run[0], run[-1], len(run)))
    return sorted(found)


def pairs(left: Iterable[Row], right: Iterable[Row], low: int, high: int) -> list[tuple[int, int]]:
    """Return the pairs of one key whose right time is `low` to `high` minutes after the left one."""
    rights = list(right)
    return sorted((a.id, b.id) for a in left for b in rights if a.key == b.key and low <= b.at - a.at <= high)


def firsts(slices: Slices, horizon: int) -> dict[int, bool]:
    """Return whether each row is kept: no earlier row of its key lies within the horizon of its own time.

    Rows are in the order of their slices, and within one slice in the order of time and id.
    """
    order = [(window, row) for window, rows in enumerate(slices) for row in sorted(rows, key=lambda it: (it.at, it.id))]
    return {
        row.id: not any(other.key == row.key and abs(row.at - other.at) < horizon for _, other in order[:place])
        for place, (_, row) in enumerate(order)
    }


def by_id(slices: Slices) -> Mapping[int, int]:
    """Return the slice in which each row arrived."""
    return {row.id: window for window, rows in enumerate(slices) for row in rows}
