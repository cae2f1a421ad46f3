"""Transient errors are retried, permanent ones are not, and one bad label does not block the others (scenario S)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tests.ledgers import day
from tests.unit.engine.fakes import FakeSessions, group, table, work_of
from waterclock.engine.batch import retry
from waterclock.engine.batch.expectations import RuleVerdict, batch_hold_error
from waterclock.engine.run_listener import GroupReport
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.planner.plan import Group

Answer = Callable[[Group], WaterclockError | None]
PASSING = WaterclockError("E811", "the database is locked", transient=True)
LASTING = WaterclockError("E730", "division by zero")


def carried(monkeypatch: pytest.MonkeyPatch, answer: Answer, of: Group) -> tuple[list[list[int]], Any, Any]:
    """Return the labels of every attempt, the reports, and the run context."""
    attempts: list[list[int]] = []

    def run_group(_: Any, tried: Group, now: datetime) -> GroupReport:
        assert now == day(9)
        attempts.append([(one.label - day(0)).days for one in tried.batches])
        return GroupReport(tried, len(attempts), error=answer(tried))

    monkeypatch.setattr(retry, "run_group", run_group)
    work = work_of([table("a.b")])
    return attempts, retry.run_group_with_retries(work, of, day(9)), work


def test_a_successful_group_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts, (report,), _ = carried(monkeypatch, lambda _: None, group("a.b", 1, 2))
    assert attempts == [[1, 2]]
    assert report.error is None


def test_a_transient_error_is_retried_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([PASSING, PASSING, None])
    attempts, (report,), work = carried(monkeypatch, lambda _: next(answers), group("a.b", 1))
    assert attempts == [[1], [1], [1]]
    assert report.error is None
    assert work.listener.said_ == ["a.b: the database is locked; tried again in 0 s"] * 2


def test_patience_ends_after_the_attempts_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts, (report,), work = carried(monkeypatch, lambda _: PASSING, group("a.b", 1))
    assert len(attempts) == work.settings.attempts
    assert report.error is PASSING


def test_a_permanent_error_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts, (report,), work = carried(monkeypatch, lambda _: LASTING, group("a.b", 1))
    assert attempts == [[1]]
    assert report.error is LASTING
    assert work.listener.said_ == []


def test_a_group_with_a_refused_claim_is_neither_retried_nor_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = ClaimRefused("E407", "held", transient=True)
    attempts, (report,), _ = carried(monkeypatch, lambda _: refused, group("a.b", 1, 2))
    assert attempts == [[1, 2]]
    assert report.error is refused


def test_a_group_that_fails_is_split_and_only_the_bad_label_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_with_2(tried: Group) -> WaterclockError | None:
        return LASTING if any(one.label == day(2) for one in tried.batches) else None

    attempts, reports, work = carried(monkeypatch, only_with_2, group("a.b", 1, 2, 3))
    assert attempts == [[1, 2, 3], [1], [2, 3], [2], [3]]
    assert [report.error for report in reports] == [None, LASTING, None]
    assert work.listener.said_ == [
        "a.b: 3 labels failed together (division by zero); tried again in two parts",
        "a.b: 2 labels failed together (division by zero); tried again one by one",
    ]


def test_labels_that_are_held_back_are_taken_out_of_their_group_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {day(number) for number in (3, 17, 30)}

    def answer(tried: Group) -> WaterclockError | None:
        found = held & {one.label for one in tried.batches}
        if not found:
            return None
        return batch_hold_error(table("a.b"), "a.b", RuleVerdict(holds=("few: 1 row",)), found)

    attempts, reports, work = carried(monkeypatch, answer, group("a.b", *range(1, 32)))
    others = [number for number in range(1, 32) if day(number) not in held]
    assert attempts == [[*range(1, 32)], others, [3], [17], [30]]
    assert [report.is_held for report in reports] == [False, True, True, True]
    assert work.listener.said_ == ["a.b: 3 of 31 labels are held; tried one by one, after the others"]
    held = {day(1), day(2)}
    attempts, reports, _ = carried(monkeypatch, answer, group("a.b", 1, 2))
    assert (attempts, [report.is_held for report in reports]) == ([[1, 2], [1], [2]], [True, True])


def test_of_a_group_of_which_past_windows_alone_are_held_halves_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(tried: Group) -> WaterclockError | None:
        return (
            batch_hold_error(table("a.b"), "a.b", RuleVerdict(holds=("few",)), [day(0)])
            if len(tried.batches) > 1
            else None
        )

    attempts, _, _ = carried(monkeypatch, answer, group("a.b", 1, 2, 3))
    assert attempts == [[1, 2, 3], [1], [2, 3], [2], [3]]


def test_a_retried_or_split_group_reports_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    away = WaterclockError("E609", "the store cannot be reached", why="it does not answer\nin full", transient=True)
    _, _, work = carried(monkeypatch, lambda _: away, group("a.b", 1, 2))
    said = work.listener.said_
    assert said[0] == "a.b: the store cannot be reached: it does not answer; tried again in 0 s"
    whole = "a.b: 2 labels failed together (the store cannot be reached: it does not answer); tried again one by one"
    assert whole in said


def test_one_bad_label_of_a_year_costs_some_attempts_and_not_one_for_each_day(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_with_77(tried: Group) -> WaterclockError | None:
        return LASTING if any(one.label == day(77) for one in tried.batches) else None

    attempts, reports, _ = carried(monkeypatch, only_with_77, group("a.b", *range(1, 366)))
    assert len(attempts) <= 19
    assert sorted(label for report in reports for label in attempts[report.claim - 1]) == list(range(1, 366))
    (failed,) = [report for report in reports if report.error]
    assert [batch.label for batch in failed.group.batches] == [day(77)]


def test_a_group_whose_spark_jvm_ended_is_neither_retried_nor_split(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = WaterclockError("E712", "Spark's JVM has ended", transient=True)
    attempts, (report,), _ = carried(monkeypatch, lambda _: gone, group("a.b", 1, 2))
    assert attempts == [[1, 2]]
    assert report.error is gone


def test_without_spark_nothing_is_attempted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "run_group", lambda *_: pytest.fail("it would have claimed"))
    refusal = WaterclockError("E701", "java is missing")
    with pytest.raises(WaterclockError) as caught:
        retry.run_group_with_retries(work_of([table("a.b")], sessions=FakeSessions(refusal)), group("a.b", 1), day(9))
    assert caught.value is refusal
