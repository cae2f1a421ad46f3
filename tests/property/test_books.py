"""Close of books: each row of what is read is in its window, late, early, or its window is open; and in one of them."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from random import Random

from tests.model.books import LENGTH, START, Life
from waterclock.batches.ledger_snapshot import AT_LAST, BY_HAND, CONDITION
from waterclock.timelabel.window import Window

LIVES = int(os.environ.get("WATERCLOCK_MODEL_LIVES", "12"))


def test_every_row_is_in_its_window_or_late_or_early_or_its_window_is_open() -> None:
    total: Counter[str] = Counter()
    for seed in range(LIVES):
        life = Life.of(Random(seed))
        try:
            life.live()
            total += _shares(life)
        except AssertionError as error:
            error.add_note(f"seed {seed}: {life.condition}")
            raise
        total += life.reasons()
        life.ledger.close()
    assert min(total[kind] for kind in ("closed", "late", "early", "open", "no time")) > LIVES, total
    assert min(total[reason] for reason in (CONDITION, BY_HAND, AT_LAST)) > LIVES // 4, total


def _shares(life: Life) -> Counter[str]:
    """Say where each row is by the ticks that the ledger keeps, and hold the windows against that."""
    ticks = life.closing_ticks()
    found: Counter[str] = Counter()
    wanted: dict[object, list[int]] = {label: [] for label in life.made}
    for arrived, rows in life.slices.items():
        for row in rows:
            if row.at is None or row.at < START:
                found["no time"] += 1
                continue
            label = START + LENGTH * ((row.at - START) // LENGTH)
            tick = ticks.get(label)
            if label in life.skipped:
                found["left out"] += 1
            elif arrived < label - life.reach:
                found["early"] += 1
            elif tick is None:
                found["open"] += 1
            elif arrived >= tick:
                found["late"] += 1
            else:
                found["closed"] += 1
                wanted[label].append(row.id)
    assert {label: [row.id for row in rows] for label, rows in life.made.items()} == {
        label: sorted(ids) for label, ids in wanted.items()
    }
    assert life.made.keys() == ticks.keys() - life.skipped
    assert [tick for _, tick in sorted(ticks.items())] == sorted(ticks.values()) or life.is_interfered
    assert all(tick >= label + LENGTH for label, tick in ticks.items())
    return found


def test_ticks_are_the_first_boundaries_at_which_the_condition_holds() -> None:
    """Where nothing is restated and nobody interferes, all that overlapping runners find follows from the slices."""
    closed = 0
    for seed in range(LIVES):
        life = Life.of(Random(1000 + seed))
        arrived = 0
        while arrived < 50:
            for _ in range(life.random.choice((1, 2, 9))):
                life.arrive()
                arrived += 1
            for _ in range(life.random.choice((1, 3))):
                life.random.choice((life.look, life.write, life.make))()
        life.rest()
        before = START
        for window in (Window(START + LENGTH * n, START + LENGTH * (n + 1)) for n in range(arrived // 4)):
            tick = life.first_tick(window.start, before, life.patience)
            assert life.closing_ticks().get(window.start) == tick, (seed, life.condition, window.label)
            if tick is None:
                break
            closed += 1
            before = tick
        life.ledger.close()
    assert closed > LIVES * 2


def test_a_closing_tick_is_kept_when_its_input_is_restated() -> None:
    life = Life.of(Random(4))
    while not life.made:
        life.arrive()
        life.rest()
    label, tick = next(iter(life.ticks.items()))
    life.change(label, ())
    life.rest()
    assert life.closing_ticks()[label] == tick
    assert life.made[label] == tuple(row for row in life.made[label] if row.at and row.at >= label + timedelta(hours=1))
    life.ledger.close()
