"""Two projects that are linked come to what they would come to as one flow, whatever arrives, fails and is restated.

`WATERCLOCK_MODEL_FLOWS` says how many pairs, `WATERCLOCK_MODEL_SEED` from which on, as of `test_model`.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.model.driving import Driver
from tests.model.linked import LinkedDriver, as_one_oracle, linked
from tests.model.random_flow import random_flow
from waterclock.planner.plan import Status

PAIRS = int(os.environ.get("WATERCLOCK_MODEL_FLOWS", "200"))
FIRST = int(os.environ.get("WATERCLOCK_MODEL_SEED", "0"))
CHUNK = 10


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(FIRST, FIRST + PAIRS, CHUNK))
def test_linked_projects_yield_the_rows_of_a_single_flow(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + PAIRS)):
        live_and_compare(seed)


def live_and_compare(seed: int) -> LinkedDriver | None:
    random = Random(seed)
    made = random_flow(random)
    try:
        found = linked(random, made)
    except IndexError:  # no table of it can be linked
        return None
    up = Driver.of(made, random)
    up.is_wild = True
    here = LinkedDriver.beside(up, found[0], random)
    here.is_wild = False
    try:
        for _ in range(random.choice((2, 3, 4))):
            up.rest(random.choice((0, 3, 10, 1_000_000)))
            here.rest(random.choice((3, 1_000_000)))
            up.restate()
            here.rest(random.choice((0, 1_000_000)))
            up.pass_time()
            here.now = up.now
        up.clear_troubles()
        up.rest()
        here.rest()
        compare(up, here, as_one_oracle(up, here, found[1]))
        before = here.ledger.sequence()
        here.snapshot()
        assert here.ledger.sequence() == before, "what is marked is not marked again"
    except Exception as error:
        error.add_note(f"seed {seed}: {[str(t.name) for t in found[1].tables.values()]}")
        raise
    finally:
        up.ledger.close()
        here.ledger.close()
    return here


def compare(up: Driver, here: LinkedDriver, oracle: object) -> None:
    from tests.model.oracle import Oracle

    assert isinstance(oracle, Oracle)
    assert not up.flights
    for batch in here.planner.plan(here.snapshot(), here.now).batches:
        where = f"{batch.table}@{batch.window.label}: {batch.reason}"
        assert batch.status is Status.WAITING, where
        assert not oracle.can_be_made(batch.table, batch.label), where
    for name, label in sorted(oracle.needed()):
        if name not in here.flow.tables:
            continue
        window = here.flow.tables[name].cadence.window_of(label)
        assert label in here.lake.tables[name].slices, f"{name}@{window.label} never ran"
        assert here.lake.tables[name].slices[label] == oracle.rows(name, window), f"{name}@{window.label} differs"
