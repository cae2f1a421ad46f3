"""State as slices: what is carried from slice to slice comes to what all rows come to, however late they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import pytest

from tests.model.late_rows import (
    Row,
    Session,
    Slices,
    accepted,
    by_id,
    firsts,
    instant,
    pairs,
    random_slices,
    sessions,
    watermarks,
)
from waterclock.flow.watermarks import Watermark

HISTORIES = 1000
STEP = 5


@dataclass(frozen=True, slots=True)
class PartState:
    """The state of a part: its newest time, and for how many windows it has been silent."""

    newest: datetime
    quiet: int = 0


@dataclass(frozen=True, slots=True)
class WatermarkMark:
    """The watermark after a window, None before the first row, and the state to compute the next one."""

    at: datetime | None = None
    parts: Mapping[str, PartState] = field(default_factory=dict)


def advance(mark: WatermarkMark, newest: Mapping[str, datetime], end: datetime, said: Watermark) -> WatermarkMark:
    """Return the mark after a window that ends at `end`, given the newest time of each part with rows in its slice."""
    parts = {part: PartState(heard.newest, heard.quiet + 1) for part, heard in mark.parts.items()}
    for part, at in newest.items():
        before = parts.get(part)
        parts[part] = PartState(at if before is None else max(at, before.newest))
    speaking = [heard.newest for heard in parts.values() if heard.quiet < said.silent_after]
    reached = [min(end, min(speaking) - said.lateness)] if speaking else []
    return WatermarkMark(max([*reached, *([mark.at] if mark.at else [])], default=None), parts)


def is_late(at: datetime, before: WatermarkMark) -> bool:
    """Return whether a row is too late, given the mark before its slice."""
    return before.at is not None and at < before.at


def marks_of(
    slices: Slices, said: Watermark, *, first: WatermarkMark | None = None, begin: int = 0
) -> list[WatermarkMark]:
    """Carry the rule on from slice to slice."""
    marks: list[WatermarkMark] = []
    mark = first or WatermarkMark()
    for window, rows in enumerate(slices, begin):
        newest: dict[str, int] = {}
        for row in rows:
            part = row.part if said.per else ""
            newest[part] = max(newest.get(part, row.at), row.at)
        ends = {part: instant(at) for part, at in newest.items()}
        mark = advance(mark, ends, instant((window + 1) * STEP), said)
        marks.append(mark)
    return marks


@pytest.mark.parametrize("by_part", [False, True])
def test_the_watermark_is_a_function_of_the_slices(by_part: bool) -> None:
    late = 0
    for seed in range(HISTORIES):
        random = Random(seed)
        slices = random_slices(random)
        lateness, silent_after = random.choice([0, 5, 10, 30]), random.choice([1, 2, 3])
        said = Watermark("at", timedelta(minutes=lateness), ("part",) if by_part else (), silent_after)
        marks = marks_of(slices, said)
        wanted = watermarks(slices, lateness, silent_after, by_part=by_part)
        assert [mark.at for mark in marks] == [None if at is None else instant(at) for at in wanted], seed
        before = [WatermarkMark(), *marks]
        kept = [
            [row for row in rows if not is_late(instant(row.at), before[window])] for window, rows in enumerate(slices)
        ]
        assert kept == accepted(slices, wanted), seed
        late += len(by_id(slices)) - len(by_id(kept))
    assert late > HISTORIES  # else nothing was shown


@pytest.mark.parametrize("by_part", [False, True])
def test_a_restated_slice_is_followed_from_its_window_on_until_the_mark_is_the_same(by_part: bool) -> None:
    followed = 0
    for seed in range(HISTORIES):
        random = Random(seed)
        slices = random_slices(random)
        said = Watermark("at", timedelta(minutes=10), ("part",) if by_part else ())
        marks = marks_of(slices, said)
        window = random.randrange(len(slices))
        slices[window] = random_slices(random, windows=len(slices))[window]
        for at in range(window, len(slices)):
            before = marks[at - 1] if at else None
            [again] = marks_of([slices[at]], said, first=before, begin=at)
            followed += 1
            if again == marks[at]:
                break
            marks[at] = again
        assert marks == marks_of(slices, said), seed
    assert followed > HISTORIES


def step(
    pending: Sequence[Session], rows: Sequence[Row], gap: int, mark: int | None
) -> tuple[list[Session], list[Session]]:
    """Bring the rows of a slice into the sessions that are pending: those that stay so, and those that are complete."""
    by_key: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for key, first, last, number in pending:
        by_key[key].append((first, last, number))
    for row in rows:
        by_key[row.key].append((row.at, row.at, 1))
    found: list[Session] = []
    for key, spans in by_key.items():
        spans.sort()
        first, last, number = spans[0]
        for a, z, n in spans[1:]:
            if a - last < gap:
                last, number = max(last, z), number + n
            else:
                found.append((key, first, last, number))
                first, last, number = a, z, n
        found.append((key, first, last, number))
    done = [it for it in found if mark is not None and it[2] + gap <= mark]
    return sorted(set(found) - set(done)), sorted(done)


def test_pending_and_completed_sessions_are_those_of_all_rows_that_were_not_late() -> None:
    completed = 0
    for seed in range(HISTORIES):
        random = Random(seed)
        slices = random_slices(random)
        gap = random.choice([3, 7, 20])
        marks = watermarks(slices, random.choice([0, 10, 30]), 2, by_part=random.random() < 0.5)
        kept = accepted(slices, marks)
        pending: list[Session] = []
        done: list[Session] = []
        for window, rows in enumerate(kept):
            pending, complete = step(pending, rows, gap, marks[window])
            done += complete
            assert sorted([*done, *pending]) == sessions((it for some in kept[: window + 1] for it in some), gap), seed
        completed += len(done)
    assert completed > HISTORIES


def on_time(slices: Slices, lateness: int) -> Slices:
    """Return rows that came in their own window or at most `lateness` after it began."""
    return [
        [row for row in rows if window * STEP - lateness <= row.at < (window + 1) * STEP]
        for window, rows in enumerate(slices)
    ]


def past(slices: Slices, window: int, reach: int) -> list[Row]:
    """Read back as PAST does: the slices in `[e - reach, e)`."""
    return [row for rows in slices[max(window + 1 - reach // STEP, 0) : window + 1] for row in rows]


@pytest.mark.parametrize("short", [0, 1])
def test_a_time_bounded_join_is_complete_only_with_the_reach_that_check_requires(short: int) -> None:
    wrong = found = 0
    for seed in range(HISTORIES):
        random = Random(seed)
        late = random.choice([0, 10, 25])
        left, right = (on_time(random_slices(random, keys=2), late) for _ in range(2))
        low, high = random.choice([(0, 30), (-10, 15), (5, 20)])
        came = [by_id(left), by_id(right)]
        rounded = [-(-minutes // STEP) * STEP for minutes in (high + late, late - low)]
        reach = [max(minutes + STEP - short * STEP, STEP) for minutes in rounded]
        made = []
        for window in range(len(left)):
            joined = pairs(past(left, window, reach[0]), past(right, window, reach[1]), low, high)
            made += [pair for pair in joined if max(came[0][pair[0]], came[1][pair[1]]) == window]
        wanted = pairs((it for rows in left for it in rows), (it for rows in right for it in rows), low, high)
        assert len(made) == len(set(made)), seed
        wrong += sorted(made) != wanted
        found += len(wanted)
    assert found > HISTORIES
    assert (wrong == 0) if not short else (wrong > 0)


@pytest.mark.parametrize("short", [0, 1])
def test_the_first_row_of_a_key_is_found_only_with_the_reach_that_check_requires(short: int) -> None:
    wrong = 0
    for seed in range(HISTORIES):
        random = Random(seed)
        late, horizon = random.choice([0, 10]), random.choice([10, 20])
        slices = on_time(random_slices(random, keys=4), late)
        wanted = firsts(slices, horizon)
        reach = horizon + late + STEP - short * STEP
        kept = {}
        for window, rows in enumerate(slices):
            seen = past(slices, window, reach)
            came = by_id(slices)
            for row in rows:
                kept[row.id] = not any(
                    other.key == row.key
                    and abs(other.at - row.at) < horizon
                    and (came[other.id], other.at, other.id) < (window, row.at, row.id)
                    for other in seen
                )
        wrong += kept != wanted
    assert (wrong == 0) if not short else (wrong > 0)
