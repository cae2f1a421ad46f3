"""States of tables: their content, and the cost of finding it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from tests.ledgers import Desk, day, require_sums, result, table
from waterclock.batches.ledger_snapshot import content_text
from waterclock.flow.enums import Kind, Mode
from waterclock.ledger.read import current
from waterclock.ledger.read.content import NOTHING, weight
from waterclock.ledger.write.committed_claims import CommittedClaim
from waterclock.timelabel.window import Window

DAYS = 40
STATES = [(low, high) for low in (0, 3, 50) for high in (-1, 0, 1, 5, 20, 39, 40, 60)]


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    replaced = [table(f"dim.{name}", mode=Mode.REPLACE) for name in "abc"]
    at_desk.apply(table("mart.m", mode=Mode.MERGE, keys=("id",)), *replaced)


def wanted_of(digests: dict[int, str], low: int, high: int) -> str:
    """Compute the expected weight of the slices of `[low, high)` in plain Python."""
    weights = [weight(day(at), digest, 1, 0) for at, digest in digests.items() if low <= at < high]
    return content_text(sum(high for high, _ in weights), sum(low for _, low in weights)) if weights else NOTHING


@pytest.mark.parametrize("some", [1, 3, len(STATES)])
def test_the_content_of_a_state_is_that_of_its_slices_however_many_states_are_requested(
    at_desk: Desk, some: int
) -> None:
    digests = {at: f"1:{at}:7" for at in range(0, DAYS, 2)}
    for at in (*range(10, DAYS, 2), *range(0, 10, 2)):  # the oldest arrive late
        at_desk.done("mart.m", at, digest=digests[at])
    digests[4] = "1:9:9"
    at_desk.done("mart.m", 4, digest=digests[4], restates="again")
    for start in range(0, len(STATES), some):
        asked = STATES[start : start + some]
        pins = at_desk.ledger.reads.pins([("mart.m", day(low), day(high)) for low, high in asked])
        assert [pin.content for pin in pins] == [wanted_of(digests, *each) for each in asked]


def test_states_that_begin_with_one_start_are_found_together(at_desk: Desk) -> None:
    digests = {at: f"1:{at}:7" for at in range(DAYS)}
    for at, digest in digests.items():
        at_desk.done("mart.m", at, digest=digest)
    asked = [(2, high) for high in range(2, DAYS + 1)]
    pins = at_desk.ledger.reads.pins([("mart.m", day(low), day(high)) for low, high in asked])
    assert [pin.content for pin in pins] == [wanted_of(digests, *each) for each in asked]


@pytest.mark.parametrize("some", [1, 99])
def test_a_snapshot_is_part_of_the_states_of_all_days_that_it_covers(at_desk: Desk, some: int) -> None:
    at_desk.apply(table("dim.t", mode=Mode.TEMPORAL, kind=Kind.COLLECT), fingerprint="flow 2")
    digests = {at: f"1:{at}:7" for at in (2, 3, 6, 9)}
    for at, since in ((2, -9), (3, 3), (6, 4), (9, 7)):
        for failed in range(since if since > 3 else at, at):  # of the outage
            claim = at_desk.claim("dim.t", failed)
            at_desk.ledger.claims.record_failed(claim, error="E1 away", is_transient=False)
        at_desk.done("dim.t", at, digest=digests[at], stands_from=since)
    covering = {tick: min(at for at in digests if at >= tick - 1) for tick in range(-2, 11)}
    asked = [(min(2, tick - 1), tick) for tick in covering]  # the first one covers all days before START, too
    for start in range(0, len(asked), some):
        wanted = asked[start : start + some]
        pins = at_desk.ledger.reads.pins([("dim.t", day(low), day(high)) for low, high in wanted])
        assert [pin.content for pin in pins] == [wanted_of(digests, 2, covering[tick] + 1) for _, tick in wanted]
        assert [pin.slices[0].label for pin in pins] == [day(covering[tick]) for _, tick in wanted]
    alike = [(2, tick) for tick in range(3, 11)]
    pins = at_desk.ledger.reads.pins([("dim.t", day(low), day(high)) for low, high in alike])
    assert [pin.content for pin in pins] == [wanted_of(digests, 2, covering[tick] + 1) for _, tick in alike]


def test_a_restated_snapshot_marks_the_readers_of_the_days_that_it_covers(at_desk: Desk) -> None:
    at_desk.apply(
        table("dim.t", mode=Mode.TEMPORAL, kind=Kind.COLLECT),
        table("core.r", partitioned=True, reads=["dim.t"]),
        fingerprint="flow 2",
    )
    at_desk.done("dim.t", 0, stands_from=-9)
    at_desk.done("dim.t", 3, digest="1:3:3", stands_from=1)
    for at in (0, 1, 2):
        at_desk.done("core.r", at, reads={at: [at_desk.read("dim.t", 0, at + 1)]})
    at_desk.done("dim.t", 3, digest="1:4:4", stands_from=1, restates="again")
    found = at_desk.ledger.reads.snapshot(at_desk.flow).of("core.r").suspects
    assert {label: fact.recorded != fact.current for label, (fact,) in found.items()} == {day(1): True, day(2): True}
    above = at_desk.ledger.past.upstream("core.r", day(1))
    assert [(link.label, link.is_replaced) for link in above] == [(day(0), False), (day(3), True)]


def test_a_snapshot_without_rows_is_another_content_than_a_skipped_one(at_desk: Desk) -> None:
    """It ends all keys of a TEMPORAL table."""
    at_desk.apply(
        table("dim.t", mode=Mode.TEMPORAL, kind=Kind.COLLECT),
        table("core.r", partitioned=True, reads=["dim.t"]),
        fingerprint="flow 2",
    )
    at_desk.done("dim.t", 0, stands_from=-9)
    at_desk.ledger.decisions.skip("dim.t", [Window(day(1), day(2))], who="ann", why="x")
    at_desk.done("core.r", 1, reads={1: [at_desk.read("dim.t", 0, 2)]})
    at_desk.ledger.decisions.retry("dim.t", [day(1)], who="ann")
    at_desk.done("dim.t", 1, digest="0:0:0", stands_from=1)
    assert at_desk.suspects("core.r") == {("core.r", day(1))}
    require_sums(at_desk.ledger)


def test_a_table_that_was_rebuilt_has_other_sums_that_are_right(at_desk: Desk) -> None:
    at_desk.apply(
        table("mart.m", mode=Mode.MERGE, keys=("id",)),
        table("core.r", partitioned=True, reads=["mart.m"]),
        fingerprint="flow 2",
    )
    at_desk.done("mart.m", 0, 1)
    at_desk.done("core.r", 1, reads={1: [at_desk.read("mart.m", 0, 2)]})
    before = at_desk.read("mart.m", 0, 2).content
    number, _ = at_desk.ledger.maintenance.begin_rebuild("mart.m", who="ann")
    results = tuple(replace(result(at, version=9), slice_path=f"_stage/new/{at}") for at in (0, 1))
    found = CommittedClaim(number, at_desk.request("mart.m", 0, 1, restates="rebuild"), results, at_desk.clock.at)
    at_desk.ledger.maintenance.redeclare(at_desk.flow.tables["mart.m"], version=9, claim=number, who="ann", found=found)
    require_sums(at_desk.ledger)
    assert at_desk.read("mart.m", 0, 2).content != before
    assert at_desk.suspects("core.r") == {("core.r", day(1))}


@pytest.mark.parametrize("at_desk", ["sqlite"], indirect=True)
@pytest.mark.parametrize("states", [1, 9])
def test_the_newest_states_cost_the_same_after_any_history(at_desk: Desk, states: int) -> None:
    steps = []
    for days in (20, 400):
        for at in range(0 if days == 20 else 20, days):
            at_desk.done("mart.m", at)
        asked = [("mart.m", day(0), day(days - at)) for at in range(states)]
        steps.append(steps_of(at_desk, asked))
    assert steps[1] < 1.5 * steps[0]


def test_states_of_many_tables_take_as_many_statements_as_that_of_one(at_desk: Desk) -> None:
    for name in "abc":
        at_desk.done(f"dim.{name}", 0, digest=f"1:{name}:1", stands_from=0)
    asked = [(f"dim.{name}", day(0), day(1)) for name in "abc"]
    pins: list[Any] = []
    assert len(statements_of(at_desk, lambda: at_desk.ledger.reads.pins(asked[:1]))) == len(
        statements_of(at_desk, lambda: pins.extend(at_desk.ledger.reads.pins(asked)))
    )
    assert [pin.table for pin in pins] == ["dim.a", "dim.b", "dim.c"]
    assert len({pin.content for pin in pins}) == 3
    assert [pin.slices[0].table for pin in pins] == ["dim.a", "dim.b", "dim.c"]


def steps_of(desk: Desk, asked: list[tuple[str, datetime, datetime]]) -> int:
    """Count the steps that SQLite needs to find contents, in tens of its virtual machine's instructions."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with desk.ledger._database.read() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
    driver.set_progress_handler(count, 10)
    current.contents(desk.ledger._database, asked)
    driver.set_progress_handler(None, 0)
    return steps


def statements_of(desk: Desk, work: Callable[[], object]) -> list[str]:
    said: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        said.append(statement)

    engine = desk.ledger._database._engine
    sa.event.listen(engine, "before_cursor_execute", note)
    work()
    sa.event.remove(engine, "before_cursor_execute", note)
    return said
