"""Past windows are collected again if no pending batch will read their late rows. No Spark."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import Desk, day, desk, result
from tests.unit.engine.fakes import collect, manifest
from waterclock.batches.ledger_snapshot import FOLLOW
from waterclock.engine.batch.releasing import HeldBatch, recollect_past
from waterclock.ledger.store.database import Write
from waterclock.operations.skipping import skip
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.window import Window

NAME = "shop.orders"
TABLE = collect(NAME, lookback=Duration(2, "DAY"))


def opened(*done: int) -> Desk:
    found = desk()
    found.apply(TABLE)
    for label in done:
        found.done(NAME, label)
    return found


def window(label: int) -> Window:
    return Window(day(label), day(label + 1))


@pytest.mark.parametrize(
    ("done", "skipped", "again"),
    [
        pytest.param((1, 2, 3), (4,), (2,), id="the next batch reads the newer window"),
        pytest.param((1, 2, 3, 5), (4,), (2, 3), id="the next batch was made before"),
        pytest.param((1, 2, 3), (5, 4), (2, 3), id="the next batch is skipped as well"),
        pytest.param((1, 2, 3, 5), (4, 6), (2, 3), id="a later batch is skipped with it"),
        pytest.param((1, 2, 3, 5, 6), (4,), (2, 3), id="all batches within reach were made before"),
    ],
)
def test_windows_that_no_batch_after_a_skipped_one_reads_are_collected_again(
    done: tuple[int, ...], skipped: tuple[int, ...], again: tuple[int, ...]
) -> None:
    found = skip(opened(*done).ledger, TABLE, [window(label) for label in skipped], who="ann", why="lost")
    assert found == tuple(map(day, again))


def test_windows_before_an_earlier_skip_are_collected_again_too() -> None:
    at = opened(1, 2, 3)
    skip(at.ledger, TABLE, [window(5)], who="ann", why="lost")
    assert skip(at.ledger, TABLE, [window(4)], who="ann", why="lost") == (day(2), day(3))


def test_a_kill_between_any_two_writes_leaves_no_skip_without_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    at, most = opened(1, 2, 3), 0
    at.ledger.decisions.request_restate(NAME, [day(3)], FOLLOW, who="ann")
    at.ledger.claims.record_failed(at.claim(NAME, 3), error="E805", is_transient=False)
    while not is_skipped_within(monkeypatch, at, most):
        facts = at.ledger.reads.snapshot(at.flow).of(NAME)
        assert (dict(facts.requested), set(facts.troubles)) == ({}, {day(3)})
        assert not facts.covered.covers_instant(day(4))
        most += 1
    facts = at.ledger.reads.snapshot(at.flow).of(NAME)
    assert (set(facts.requested), facts.covered.covers_instant(day(4))) == ({day(2), day(3)}, True)
    assert (dict(facts.troubles), most >= 10) == ({}, True)


def is_skipped_within(monkeypatch: pytest.MonkeyPatch, at: Desk, most: int) -> bool:
    """Skip two batches, killed after `most` writes; return whether they were enough."""
    written = count(1)

    def kill_after(write: Any) -> Any:
        def counted(*args: Any, **named: Any) -> Any:
            if next(written) > most:
                raise KilledError
            return write(*args, **named)

        return counted

    with monkeypatch.context() as patched:
        for name in ("execute", "log"):
            patched.setattr(Write, name, kill_after(getattr(Write, name)))
        try:
            skip(at.ledger, TABLE, [window(4), window(5)], who="ann", why="lost")
        except KilledError:
            return False
    return True


class KilledError(Exception):
    pass


@pytest.mark.parametrize(
    ("before", "after", "skipped", "again"),
    [
        pytest.param((), (), (), {1}, id="the next batch reads the newer window"),
        pytest.param((), (4,), (), {1}, id="the next batch has read the newer window"),
        pytest.param((4,), (), (), {1, 2}, id="the next batch was made before the held one"),
        pytest.param((), (), (4,), {1, 2}, id="the next batch is skipped"),
        pytest.param((4,), (), (5,), {1, 2}, id="one was made before, and one is skipped"),
    ],
)
def test_windows_that_no_batch_after_a_released_one_reads_are_collected_again(
    before: tuple[int, ...], after: tuple[int, ...], skipped: tuple[int, ...], again: set[int]
) -> None:
    at = opened(1, 2, *before)
    claim = at.claim(NAME, 3)
    for label in after:
        at.done(NAME, label)
    at.ledger.decisions.skip(NAME, [window(label) for label in skipped], who="ann", why="lost")
    request = replace(claim.request, labels=(day(1), day(2), day(3)))
    held = HeldBatch(replace(manifest(NAME, 3), claim=claim.number), request, result(3))
    work: Any = SimpleNamespace(ledger=at.ledger, settings=SimpleNamespace(who="ann"))
    recollect_past(work, TABLE, held)
    assert set(at.ledger.reads.snapshot(at.flow).of(NAME).requested) == set(map(day, again))
