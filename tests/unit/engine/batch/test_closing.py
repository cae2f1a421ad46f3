"""Recorded facts about a CLOSE WHEN condition that cannot be evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.model.open_windows import EVE, HOUR, SLOT, Life, flow_in
from waterclock.engine.batch import closing
from waterclock.errors import WaterclockError
from waterclock.operations.closings import books_words
from waterclock.planner.request import ALL

FAILED = "its condition failed at the last check (E730; `waterclock run` shows the error)"


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    """Return a table whose first day is over and was not checked."""
    monkeypatch.setattr(Life, "look", lambda _: None)  # the tests check the books themselves
    found = Life(flow_in(tmp_path), Random(1), failing=0.0)
    for _ in range(5):
        found.source[found.now] = ((EVE + HOUR, 1),)
        found.now += SLOT
    found.resting = frozenset(found.flow.tables) - {"web.u"}
    found.work()
    yield found
    found.ledger.close()


def check(life: Life, monkeypatch: pytest.MonkeyPatch, error: WaterclockError | None) -> None:
    """Check the books of `web.daily` as a run does, with a condition that fails or is not TRUE."""

    def evaluate(*_: Any) -> dict[Any, Any]:
        if error is not None:
            raise error
        return {}

    monkeypatch.setattr(closing, "_evaluate_condition", evaluate)
    work: Any = SimpleNamespace(ledger=life.ledger, flow=life.flow, settings=SimpleNamespace(who="a test"))
    closing.close_due_books(work, life.planner, life.now, ALL, life.snapshot)


def reason(life: Life) -> str:
    plan = life.planner.plan(life.snapshot(), life.now)
    return next(batch.reason for batch in plan.batches if batch.table == "web.daily")


def test_a_condition_that_fails_is_shown_until_it_is_evaluated(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(life).startswith("open, not checked yet: waits for")
    check(life, monkeypatch, WaterclockError("E730", "Division by zero in 'a secret'"))
    assert reason(life).startswith(f"open, {FAILED}: waits for")
    stored = life.ledger.reads.closings("web.daily", [EVE])[EVE]
    assert books_words(stored, "UTC") == f"open, {FAILED}"
    assert "secret" not in str(stored)
    before = life.ledger.sequence()
    check(life, monkeypatch, WaterclockError("E730", "Division by zero in 'a secret'"))
    assert life.ledger.sequence() == before, "a recorded fact is not written again"
    check(life, monkeypatch, None)
    assert reason(life).startswith("open, checked up to 2020-01-02 06:00 +00:00: waits for")


def test_a_condition_that_failed_is_evaluated_once_in_a_run(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[str] = []

    def evaluate(_: Any, books: Any, *__: Any) -> dict[Any, Any]:
        evaluated.append(books.table.name)
        raise WaterclockError("E730", "Division by zero")

    monkeypatch.setattr(closing, "_evaluate_condition", evaluate)
    work: Any = SimpleNamespace(ledger=life.ledger, flow=life.flow, settings=SimpleNamespace(who="a test"))
    tried: set[tuple[str, Any]] = set()
    for _ in range(3):
        failed = closing.close_due_books(work, life.planner, life.now, ALL, life.snapshot, tried)
        firsts = ((books.table.name, books.first_open()) for books, _ in failed)
        tried |= {(name, first.start) for name, first in firsts if first is not None}
    assert sorted(evaluated) == ["web.daily", "web.half"]


def test_an_error_that_may_pass_is_not_recorded(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    check(life, monkeypatch, WaterclockError("E609", "the store is away", transient=True))
    assert reason(life).startswith("open, not checked yet: waits for")
