"""The whole planner: random flows under random scheduling have the result of a clean rebuild.

`WATERCLOCK_MODEL_FLOWS` is the number of flows (the default takes some tens of seconds), `WATERCLOCK_MODEL_SEED` the
first seed. A failure names its seed: set both variables to run that one alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.model.driving import Driver
from tests.model.oracle import Key, Oracle
from tests.model.random_flow import random_flow
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Kind
from waterclock.planner.plan import Status
from waterclock.planner.prerequisites import find_prerequisites, newest_tick

FLOWS = int(os.environ.get("WATERCLOCK_MODEL_FLOWS", "200"))
FIRST = int(os.environ.get("WATERCLOCK_MODEL_SEED", "0"))
CHUNK = 5


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(FIRST, FIRST + FLOWS, CHUNK))
def test_random_flows_yield_the_rows_of_a_clean_rebuild(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + FLOWS)):
        live_and_compare(seed)


def test_paused_tables_are_not_claimed_and_are_made_after_resume() -> None:
    assert sum(live_and_compare(seed, pauses=(0.3,)).refused for seed in range(12)) > 10


def test_batches_made_without_an_input_become_complete_in_the_end() -> None:
    assert sum(live_and_compare(seed).went_without for seed in (8, 40, 202)) > 20


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(FIRST, FIRST + FLOWS, CHUNK))
def test_books_are_closed_where_they_are_to_be_and_stay_so(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + FLOWS)):
        live_and_compare(seed, closes=True)


def test_the_flows_have_windows_whose_books_are_closed() -> None:
    lives = [live_and_compare(seed, closes=True) for seed in (3, 8, 9)]
    assert all(sum(life.books.closed.values()) > 2 for life in lives)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(FIRST, FIRST + FLOWS, CHUNK))
def test_flows_with_an_earlier_start_yield_the_rows_of_a_clean_rebuild(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + FLOWS)):
        live_and_compare(seed, begins_earlier=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(FIRST, FIRST + FLOWS, CHUNK))
def test_flows_with_versions_of_snapshots_yield_the_rows_of_a_clean_rebuild(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + FLOWS)):
        live_and_compare(seed, keeps_versions=True)


def test_batches_that_read_back_to_the_old_start_are_made_again() -> None:
    assert sum(live_and_compare(seed, begins_earlier=True).begun_earlier for seed in (13, 14)) > 15


def test_so_are_windows_whose_books_are_closed() -> None:
    assert live_and_compare(3, closes=True, begins_earlier=True).begun_earlier


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(FIRST, FIRST + FLOWS, CHUNK))
def test_restatements_held_by_limits_yield_the_rows_of_a_clean_rebuild(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + FLOWS)):
        live_and_compare(seed, has_limits=True)


def test_limits_hold_restatements_until_they_are_released() -> None:
    assert sum(live_and_compare(seed, has_limits=True).released for seed in range(12)) > 10


def with_limits(flow: Flow, random: Random) -> Flow:
    """Return a flow whose transforms and publishes have limits of ON RESTATE, most of them small."""
    tables = {
        name: table if table.kind is Kind.COLLECT else replace(table, restate_at_most=random.choice((0, 0, 1, 2, None)))
        for name, table in flow.tables.items()
    }
    return replace(flow, tables=tables)


def live_and_compare(
    seed: int,
    pauses: Sequence[float] = (0.0, 0.0, 0.1),
    *,
    closes: bool = False,
    begins_earlier: bool = False,
    keeps_versions: bool = False,
    has_limits: bool = False,
) -> Driver:
    random = Random(seed)
    made = random_flow(random, closes=closes, keeps_versions=keeps_versions)
    if has_limits:
        made = replace(made, flow=with_limits(made.flow, Random(seed)))
    driver = Driver.of(made, random)
    driver.begins_earlier = begins_earlier
    try:
        driver.live(pauses)
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
        closed=driver.books.ticks,
    )
    driver.books.at_rest(driver.now)
    assert oracle.starts == driver.planner.starts(driver.snapshot(), driver.now)
    behind = driver.behind()
    left = {key for key in driver.partial if key[1] not in behind.get(key[0], ())}
    assert not left, f"not made whole: {left}"
    for batch in driver.planner.plan(driver.snapshot(), driver.now).batches:
        assert batch.status is Status.WAITING, f"{batch.table}@{batch.window.label}: {batch.reason}"
        assert not oracle.can_be_made(batch.table, batch.label), f"{batch.table}@{batch.window.label}: {batch.reason}"
    for name, label in sorted(oracle.needed()):
        window = driver.flow.tables[name].cadence.window_of(label)
        assert label in driver.lake.tables[name].slices, f"{name}@{window.label} never ran"
        assert driver.lake.tables[name].slices[label] == oracle.rows(name, window), f"{name}@{window.label} differs"
    compare_older_states(driver, oracle)


def compare_older_states(driver: Driver, oracle: Oracle) -> None:
    """Verify that every done state is right or reported as behind, and that all are right once they are made again."""
    behind = driver.behind()
    due = {(batch.table, batch.label) for batch in driver.planner.plan(driver.snapshot(), driver.now).batches}
    for name, facts in driver.snapshot().tables.items():
        assert {(name, label) for label in facts.following} <= due, f"{name}: requested to follow, but not due"
    for name, labels in behind.items():
        assert driver.planner.graph.nodes[name].is_made_if_needed, f"{name} cannot be behind"
        assert set(labels) <= driver.lake.tables[name].slices.keys(), (
            f"{name}: batches that were never made are reported as behind"
        )
    wrong = wrong_states(driver, oracle)
    silent = [key for key in wrong if key[1] not in behind.get(key[0], ())]
    assert not silent, f"neither right nor reported as behind: {silent}"
    make_and_compare(driver, oracle)
    behind = driver.behind()
    some = {name: labels for name, labels in behind.items() if driver.random.random() < 0.5}
    driver.catch_up(some)
    left = driver.behind()
    assert not {name for name, labels in some.items() if set(labels) & set(left.get(name, ()))}
    assert set(wrong_states(driver, oracle)) <= {(name, label) for name, labels in left.items() for label in labels}
    driver.catch_up(left)
    assert not driver.behind()
    assert not wrong_states(driver, oracle)


def make_and_compare(driver: Driver, oracle: Oracle) -> None:
    """Verify that the needs of a query exist and are right once they were made, as far as they can be made."""
    names = [name for name, node in driver.planner.graph.nodes.items() if node.table.kind is not Kind.PUBLISH]
    tables = driver.random.sample(names, min(len(names), driver.random.choice((1, 1, 2, 3))))
    behind = driver.behind()
    if behind and driver.random.random() < 0.8:
        tables = [driver.random.choice(sorted(behind))]
    ticks = driver.planner.ticks(driver.snapshot(), driver.now)
    ends = [newest_tick(ticks, tables), *(w.end for name in tables for w in oracle.due(driver.flow.tables[name]))]
    if set(tables) <= set(behind):
        ends = [driver.flow.tables[name].cadence.next(label) for name in tables for label in behind[name]]
    tick = driver.random.choice(ends)
    driver.make(find_prerequisites(driver.flow, ticks, tables, tick))
    behind = driver.behind()
    for name, (low, high) in ticks.find_kept_intervals(tables, tick).items():
        table = driver.flow.tables[name]
        windows = [w for w in oracle.due(table) if low <= w.start < high and not table.is_snapshot]
        for window in windows:
            key = (name, window.start)
            if key not in driver.skipped and oracle.can_be_made(*key):
                assert window.start not in behind.get(name, ()), f"{name}@{window.label} is still behind"
                assert driver.lake.tables[name].slices.get(window.start) == oracle.rows(name, window), f"{key} differs"


def wrong_states(driver: Driver, oracle: Oracle) -> list[Key]:
    """Return the done batches, except those of publishes, that differ from a clean rebuild."""
    return [
        (name, label)
        for name, toy in driver.lake.tables.items()
        if not driver.planner.graph.nodes[name].is_newest_only
        for label, rows in sorted(toy.slices.items())
        if rows != oracle.rows(name, toy.table.cadence.window_of(label))
    ]
