"""The whole of it: random flows under random scheduling must come to what a clean rebuild comes to.

`WATERCLOCK_MODEL_FLOWS` says how many flows (the default takes some tens of seconds), `WATERCLOCK_MODEL_SEED` from
which on. A failure names its seed: run that one alone by both.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.model.driving import Driver
from tests.model.oracle import Oracle
from tests.model.random_flow import random_flow
from waterclock.planner import Status

FLOWS = int(os.environ.get("WATERCLOCK_MODEL_FLOWS", "200"))
FIRST = int(os.environ.get("WATERCLOCK_MODEL_SEED", "0"))
CHUNK = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + FLOWS, CHUNK))
def test_random_flows_come_to_what_a_clean_rebuild_comes_to(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + FLOWS)):
        live_and_compare(seed)


def live_and_compare(seed: int) -> Driver:
    random = Random(seed)
    made = random_flow(random)
    driver = Driver.of(made, random)
    try:
        driver.live()
        compare(driver)
    except Exception as error:
        error.add_note(f"seed {seed}: {[str(t.name) for t in made.flow.tables.values()]}")
        raise
    finally:
        driver.ledger.close()
    return driver


def compare(driver: Driver) -> None:
    oracle = Oracle(
        flow=driver.flow,
        grains=driver.lake.grains,
        source=driver.lake.source,
        looks=driver.looks,
        ticks=driver.ticks,
        skipped=frozenset(driver.skipped),
        first_look=driver.first_look,
        now=driver.now,
    )
    assert oracle.starts == driver.planner.starts(driver.snapshot(), driver.now)
    for batch in driver.planner.plan(driver.snapshot(), driver.now).batches:
        assert batch.status is Status.WAITING, f"{batch.table}@{batch.window.label}: {batch.reason}"
        assert not oracle.can_be_made(batch.table, batch.label), f"{batch.table}@{batch.window.label}: {batch.reason}"
    for name, label in sorted(oracle.needed()):
        window = driver.flow.tables[name].cadence.window_of(label)
        assert label in driver.lake.tables[name].slices, f"{name}@{window.label} never ran"
        assert driver.lake.tables[name].slices[label] == oracle.rows(name, window), f"{name}@{window.label} differs"
