"""Random lives of closed tables and their late rows: each row is in one window, in one slice of late rows, or open."""

from __future__ import annotations

from random import Random

import pytest

from tests.model.late_lives import LENGTHS, Life, flow_in
from waterclock.flow.declarations import Flow

LIVES = 60


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    return flow_in(tmp_path_factory.mktemp("late"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(LIVES))
def test_each_row_is_in_one_window_or_late_or_its_window_is_open(flow: Flow, seed: int) -> None:
    life = Life(flow, Random(seed))
    life.live(16)
    counts = life.check()
    done = life.commits
    life.rest()
    assert life.commits == done, "a second run makes no batch"
    assert counts["in"] > counts["late"] > 0, counts
    life.ledger.close()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(LIVES // 3))
def test_the_steps_of_the_clock_change_nothing(flow: Flow, seed: int) -> None:
    ends = []
    for odds in (0.0, 0.4, 1.0):  # how often a runner runs while slices arrive
        life, come, steps = Life(flow, Random(seed), is_calm=True), Random(seed), Random(seed)
        for _ in range(22):
            life.random = come
            life.arrive()
            life.random = steps
            if steps.random() < odds:
                life.rest()
        life.rest()
        life.check()
        ends.append((life.lake, {name: life.ticks(name) for name in LENGTHS}))
        life.ledger.close()
    assert ends[0] == ends[1] == ends[2]
