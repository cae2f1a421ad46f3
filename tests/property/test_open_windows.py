"""Random early and late rows: at every tick a view shows each window once, closed or with its rows so far."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.model.open_windows import EVE, HOUR, SLOT, TABLES, Life, flow_in
from waterclock.engine.query.ticks import MomentFinder, RequestedTick, ResolvedTick
from waterclock.engine.query.view_rows import find_shown_windows
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.planner.closings import manual_closing_tick
from waterclock.timelabel.label import label_of

LIVES = 40
QUESTIONS = (
    ["web.daily_view"],
    ["web.half_view"],
    ["web.daily_view", "web.half_view", "web.u"],
    ["web.daily", "web.daily_view"],
)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    return flow_in(tmp_path_factory.mktemp("open"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(LIVES))
def test_a_view_shows_each_window_once_as_of_every_tick(flow: Flow, seed: int) -> None:
    live(flow, seed)


def test_most_questions_to_a_life_with_few_failures_are_answered(flow: Flow) -> None:
    counts = live(flow, 5)
    assert counts["answered"] > counts["refused"]


def live(flow: Flow, seed: int) -> Counter[str]:
    """Live one life, and compare its views. Return how many questions were answered, and how many refused."""
    life, counts = Life(flow, Random(seed)), Counter[str]()
    for _ in range(10):
        life.pass_time()
        life.work(life.random.choice((1, 3, 1000)))
        life.restate()
        life.work(life.random.choice((0, 2, 1000)))
        hold_now(life)
        if life.random.random() < 0.3:
            life.clear()
        if life.random.random() < 0.3:
            life.backfill()
        ask(life, counts)
    life.clear()
    life.work()
    life.backfill()
    life.catch_up()
    ask(life, counts)
    for table in TABLES:
        shown = find_shown_windows(flow, life.ledger, life.now, table)
        assert (table, shown.boundary) == (table, life.newest_state(table))
        assert life.shown(table, shown, life.now, None) == life.expected_now(table, shown)
    assert counts["answered"]
    life.ledger.close()
    return counts


def test_a_window_whose_skip_ended_is_open_beside_later_ones_that_closed(flow: Flow) -> None:
    life, table = Life(flow, Random(1), failing=0.0), "web.daily"

    def take_slices(count: int) -> None:
        for _ in range(count):
            life.source[life.now] = ((EVE + HOUR, (life.now - EVE) // SLOT),)
            life.now += SLOT
            life.work()

    def close_first() -> None:
        books = life.planner.books_of(life.snapshot(), life.now, table)
        if (first := books.first_open()) is not None:
            tick = manual_closing_tick(books, first)
            life.ledger.decisions.close_by_hand(table, first.start, tick, who="a test", why="enough")
        life.work()

    def opened() -> list[int]:
        return [start.day for start in life.commits(None, life.beside(table))[-1].opened]

    take_slices(5)
    life.ledger.decisions.skip(table, [flow.tables[table].cadence.window_of(EVE)], who="a test", why="enough")
    take_slices(4)
    close_first()
    take_slices(3)
    close_first()
    take_slices(6)
    assert opened() == [4, 5]
    life.ledger.decisions.retry(table, [EVE], open_windows=life.beside(table), who="a test")
    life.work()
    assert opened() == [1, 4, 5]
    shown = find_shown_windows(flow, life.ledger, life.now, table)
    assert life.shown(table, shown, life.now, None) == life.expected_now(table, shown)
    take_slices(1)
    assert opened() == [1, 4, 5]
    life.ledger.close()


def ask(life: Life, counts: Counter[str]) -> None:
    ticks = ["latest", *(label_of(EVE + number * SLOT) for number in range(1, (life.now - EVE) // SLOT + 1))]
    for names in QUESTIONS:
        for tick in life.random.sample(ticks, min(6, len(ticks))):
            known = life.random.choice(life.log).at if life.log and life.random.random() < 0.2 else None
            moment = answered(life, names, RequestedTick(tick, known))
            counts["refused" if moment is None else "answered"] += 1
            if moment is not None:
                check(life, names, moment)


def answered(life: Life, names: list[str], asked: RequestedTick) -> ResolvedTick | None:
    try:
        return MomentFinder(life.planner, life.ledger, life.now).moment(names, asked)
    except WaterclockError as error:
        if error.code not in {"E521", "E522", "E523"}:
            raise
        return None


def check(life: Life, names: list[str], moment: ResolvedTick) -> None:
    for table in TABLES:
        if f"{table}_view" in names:
            shown = life.shown(table, moment.shown_open[table], moment.tick, moment.known_at)
            expected = life.expected(table, moment.tick, moment.known_at)
            assert shown == expected, (table, moment)


def hold_now(life: Life) -> None:
    """Verify the current view against the commits, while tables rest, fail and follow: each window once."""
    for table, (length, _) in TABLES.items():
        shown = find_shown_windows(life.flow, life.ledger, life.now, table)
        if shown.boundary is None:
            continue
        done, windows = life.slices(None, table).keys(), {window.start for window in shown.windows}
        [*_, state] = [it for it in life.commits(None, life.beside(table)) if it.key[1] == shown.boundary - SLOT]
        assert not done & windows
        assert windows <= {*state.opened}
        start = EVE
        while start < shown.boundary:
            assert start in done or start in windows or (table, start) in life.skipped, (table, start, shown)
            start += length
