"""Random lives of batches that rules hold back: nothing refused is seen, and what stands in the end is as made anew."""

from __future__ import annotations

from random import Random

import pytest

from tests.model.held_lives import Life

LIVES = 40


@pytest.mark.sampled(6)
@pytest.mark.parametrize("report", [False, True])
@pytest.mark.parametrize("seed", range(LIVES))
def test_held_batches_are_invisible_and_released_once(seed: int, report: bool) -> None:
    life = Life(Random(seed), report=report)
    life.live()
    life.settle()
    stands = {key: it.stay for key, it in life.lake.items()}
    assert stands == {key: rows for key, rows in life.anew().items() if key not in life.gone}
    days = len({label for _, label in life.source})
    assert len({*stands, *life.gone}) == days * len(life.flow.tables)
    for name in life.flow.tables:
        facts = life.snapshot().of(name)
        assert (facts.requested, facts.wanted) == ({}, frozenset()), "nothing that was asked for is forgotten"
    done = life.commits
    life.replay()
    assert (life.look(), life.commits) == (False, done), "a second replay does nothing"
    life.ledger.close()
