"""Many batches in parallel, none made twice: which batches may start while others run."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import day
from tests.unit.engine.fakes import FakeConnections, FakeSessions, collect, group, table, work_of
from waterclock.engine.batch import retry
from waterclock.engine.lease_renewal import Heartbeat
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.runner import Runner
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Read, Table
from waterclock.flow.enums import Mode, ReadKind
from waterclock.ledger import ledger_errors
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.planner.plan import Group, Plan


def running(*groups: Group) -> dict[Future[tuple[GroupReport, ...]], Group]:
    return {Future(): of for of in groups}


def has_slot(tables: Iterable[Table], asked: Group, *others: Group, pools: dict[str, int] | None = None) -> bool:
    return Runner(work_of(tables, pools=pools))._has_slot(asked, running(*others))


def test_labels_of_a_partitioned_transform_run_side_by_side() -> None:
    assert has_slot([table("a.b", partitioned=True)], group("a.b", 2), group("a.b", 1))


@pytest.mark.parametrize(
    "alone",
    [
        table("a.b"),
        table("a.b", mode=Mode.MERGE, keys=("id",)),
        collect("a.b"),
        dataclasses.replace(table("a.b", partitioned=True), is_sequential=True),
        dataclasses.replace(table("a.b", partitioned=True), reads=(Read("a.b", ReadKind.PREVIOUS),)),
    ],
    ids=["regular", "merge", "collect", "sequential", "previous"],
)
def test_a_table_with_an_order_has_one_batch_at_a_time(alone: Table) -> None:
    others = table("c.d")
    assert not has_slot([alone, others], group("a.b", 2), group("a.b", 1))
    assert has_slot([alone, others], group("a.b", 2), group("c.d", 1))


def test_a_pool_bounds_the_batches_of_its_tables_alone() -> None:
    of_shop = [dataclasses.replace(table(name, partitioned=True), pool="shop") for name in ("a.b", "a.c")]
    tables = [*of_shop, table("c.d", partitioned=True)]
    pools = {"shop": 2}
    assert has_slot(tables, group("a.b", 1), group("a.c", 1), pools=pools)
    assert not has_slot(tables, group("a.b", 2), group("a.b", 1), group("a.c", 1), pools=pools)
    assert has_slot(tables, group("c.d", 1), group("a.b", 1), group("a.c", 1), pools=pools)


class Planned(Runner):
    """A runner with given plans: a group is ready until it is reported as done."""

    def __init__(self, work: Any, *groups: Group, **more: Any) -> None:
        super().__init__(work, **more)
        self.groups = list(groups)

    def plan(self, now: datetime) -> Plan:
        return Plan(now=now, groups=tuple(self.groups))


def drained(monkeypatch: pytest.MonkeyPatch, runner: Planned, answers: dict[str, WaterclockError]) -> RunOutcome:
    """Run ready groups in real threads without a ledger; `answers` are the errors of tables that fail."""

    def patiently(_: Any, of: Group, now: datetime) -> tuple[GroupReport, ...]:
        del now
        error = answers.get(of.table)
        if error is None:
            runner.groups.remove(of)
        return (GroupReport(of, 1, rows=5, error=error),)

    monkeypatch.setattr(retry, "run_group_with_retries", patiently)
    outcome = RunOutcome()
    with ThreadPoolExecutor(4) as threads:
        runner._run_ready_groups(day(9), threads, outcome)
    return outcome


def test_a_run_continues_until_no_batch_is_ready_and_tries_a_failed_one_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [table("a.b", partitioned=True), table("c.d", partitioned=True)]
    groups = [group("a.b", 1), group("a.b", 2), group("c.d", 1)]
    runner = Planned(work_of(tables), *groups)
    outcome = drained(monkeypatch, runner, {"c.d": WaterclockError("E730", "division by zero")})
    assert (outcome.done, outcome.rows) == (2, 10)
    assert [report.group for report in outcome.failed] == [groups[2]]


class _Rows:
    """Placeholder for a batch's context."""


def test_a_recorded_failure_keeps_no_reference_to_objects_of_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_with: list[weakref.ref[_Rows]] = []

    def fails() -> None:
        rows = _Rows()
        worked_with.append(weakref.ref(rows))
        raise WaterclockError("E730", "division by zero") from ValueError(rows)

    with pytest.raises(WaterclockError) as raised:
        fails()
    error = raised.value
    del raised
    runner = Planned(work_of([table("a.b")]), group("a.b", 1))
    (failed,) = drained(monkeypatch, runner, {"a.b": error}).failed
    assert failed.error is error
    assert worked_with[0]() is None


def test_a_batch_that_fails_repeatedly_is_counted_once_with_its_last_failure() -> None:
    total, first, other = RunOutcome(), group("a.b", 1), group("a.b", 2)
    for look in range(100):
        total.add(RunOutcome(failed=[GroupReport(first, look, error=WaterclockError("E804", "it is away"))]))
    total.add(RunOutcome(failed=[GroupReport(other, 100, error=WaterclockError("E804", "it is away"))]))
    assert [(report.group, report.claim) for report in total.failed] == [(first, 99), (other, 100)]


def test_a_claim_of_another_runner_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Planned(work_of([table("a.b")]), group("a.b", 1))
    outcome = drained(monkeypatch, runner, {"a.b": ClaimRefused("E407", "another runner holds it")})
    assert (outcome.done, outcome.failed) == (0, [])


@pytest.mark.parametrize(
    "refused", [ledger_errors.batch_done_error("a.b", day(2), 7), ledger_errors.build_skipped_error("a.b", day(2))]
)
def test_a_label_that_was_done_or_skipped_since_the_plan_keeps_no_other_of_its_group_back(
    monkeypatch: pytest.MonkeyPatch, refused: ClaimRefused
) -> None:
    runner = Planned(work_of([table("a.b", partitioned=True)]), group("a.b", 1, 2, 3))

    def run_group(_: Any, of: Group, now: datetime) -> tuple[GroupReport, ...]:
        del now
        is_refused = any(batch.label == day(2) for batch in of.batches)
        runner.groups = [group("a.b", 1, 3)] if is_refused else []
        return (GroupReport(of, None, error=refused) if is_refused else GroupReport(of, 1, rows=5),)

    monkeypatch.setattr(retry, "run_group_with_retries", run_group)
    outcome = RunOutcome()
    with ThreadPoolExecutor(4) as threads:
        runner._run_ready_groups(day(9), threads, outcome)
    assert (outcome.done, outcome.failed) == (2, [])


@pytest.mark.parametrize("code", ["E407", "E429"])
def test_a_batch_claimed_by_another_runner_is_reported_once_while_it_stays_claimed(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """A watching run plans again after each write of other runners."""
    work = work_of([table("a.b")])
    repeats: list[bool] = []
    monkeypatch.setattr(work.listener, "on_group_finish", lambda report: repeats.append(report.is_repeat))
    runner = Planned(work, group("a.b", 1))
    theirs: dict[str, WaterclockError] = {"a.b": ClaimRefused(code, "another runner holds it")}

    def look(answers: dict[str, WaterclockError]) -> None:
        runner._refused.clear()  # as at the start of each planning of a watch
        runner.groups = [group("a.b", 1)]
        drained(monkeypatch, runner, answers)

    for answers in (theirs, theirs, theirs, {}, theirs):
        look(answers)
    assert repeats == [False, True, True, False, False]


def test_a_source_with_an_unreadable_clock_fails_only_its_own_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = WaterclockError("E804", "the landing folder is not there", where="landing")
    work = work_of([collect("a.b"), table("c.d")], connections=FakeConnections(gone))
    outcome = drained(monkeypatch, Planned(work, group("a.b", 1), group("c.d", 1)), {})
    assert outcome.done == 1
    (failed,) = outcome.failed
    assert failed.error is not None
    assert failed.error.where == "landing (a.b@20130102000000)"


def test_an_unreadable_source_clock_is_reported_once_while_the_error_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = work_of([collect("a.b")], connections=FakeConnections(WaterclockError("E804", "the folder is not there")))
    runner = Planned(work, group("a.b", 1))
    assert [len(drained(monkeypatch, runner, {}).failed) for _ in range(3)] == [1, 0, 0]

    work.connections.clock_at = WaterclockError("E804", "the folder cannot be read")
    assert [len(drained(monkeypatch, runner, {}).failed) for _ in range(2)] == [1, 0]

    work.connections.clock_at = day(1)  # reachable again, but not far enough
    held = drained(monkeypatch, runner, {})
    assert (held.failed, [each.table for each in held.held_back]) == ([], ["a.b"])
    work.connections.clock_at = WaterclockError("E804", "the folder cannot be read")
    assert len(drained(monkeypatch, runner, {}).failed) == 1


def test_a_log_older_than_the_ledger_is_reported_once_while_it_is_older(monkeypatch: pytest.MonkeyPatch) -> None:
    older = {"a.b": WaterclockError("E754", "the log of a.b is older than the ledger")}
    monkeypatch.setattr("waterclock.engine.runner.find_log_errors", lambda *_: older)
    runner = Planned(work_of([table("a.b")]), group("a.b", 1))
    assert [len(drained(monkeypatch, runner, {}).failed) for _ in range(2)] == [1, 0]

    there_again = WaterclockError("E730", "division by zero")
    for is_older, failed in ((False, 1), (True, 1), (True, 0)):
        monkeypatch.setattr(
            "waterclock.engine.runner.find_log_errors", lambda *_, is_it=is_older: older if is_it else {}
        )
        assert len(drained(monkeypatch, runner, {"a.b": there_again}).failed) == failed


def test_a_stopped_runner_starts_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Planned(work_of([table("a.b")]), group("a.b", 1))
    runner.stop()
    outcome = drained(monkeypatch, runner, {})
    assert outcome.done == 0
    assert runner.is_stopping


def test_no_more_groups_run_than_there_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(retry, "run_group_with_retries", lambda *_: go.wait(10))
    work = work_of([table("a.b", partitioned=True)])
    busy: dict[Any, Group] = {}
    ready = deque(group("a.b", number) for number in range(6))
    with ThreadPoolExecutor(8) as threads:
        Runner(work)._start_groups(ready, busy, threads, day(9))
        go.set()
    assert len(busy) == work.settings.threads == 4
    assert [of.batches[0].label for of in ready] == [day(4), day(5)]


def test_a_store_that_becomes_unreachable_ends_the_run_after_the_running_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = WaterclockError("E609", "it cannot be reached", where="s3://lake", why="no answer", transient=True)
    work = work_of([table("a.b", partitioned=True)])
    runner, is_away = Planned(work, group("a.b", 1)), [False, True, True, False]
    said: list[str] = []
    monkeypatch.setattr(work.listener, "on_message", said.append)

    def look(*_: Any) -> dict[str, WaterclockError]:
        if is_away.pop(0):
            raise away
        return {}

    monkeypatch.setattr("waterclock.engine.runner.find_log_errors", look)
    first, second, third = (drained(monkeypatch, runner, {}) for _ in range(3))
    assert (first.done, first.away, first.has_failed) == (1, away, True)
    assert (second.done, second.away) == (0, away)
    assert (third.away, third.has_failed) == (None, False)
    assert said == ["s3://lake: it cannot be reached: no answer", "the object store answers again"]
    first.add(third)
    assert (first.done, first.away) == (1, None)


def test_a_store_that_refuses_the_user_ends_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: Any) -> dict[str, WaterclockError]:
        raise WaterclockError("E609", "it cannot be reached", why="it refuses this user")

    monkeypatch.setattr("waterclock.engine.runner.find_log_errors", look)
    with pytest.raises(WaterclockError, match="E609"):
        drained(monkeypatch, Planned(work_of([table("a.b")]), group("a.b", 1)), {})


def test_a_spark_that_does_not_start_is_one_error_of_the_whole_run() -> None:
    refusal = WaterclockError("E701", "java is missing")
    work = work_of([table("a.b"), table("c.d")], sessions=FakeSessions(refusal))
    with pytest.raises(WaterclockError) as caught, ThreadPoolExecutor(4) as threads:
        Planned(work, group("a.b", 1), group("c.d", 1))._run_ready_groups(day(9), threads, RunOutcome())
    assert caught.value is refusal


@pytest.mark.parametrize(("times", "failed"), [(1, 0), (2, 1)])
def test_a_batch_whose_jvm_died_is_retried_once(monkeypatch: pytest.MonkeyPatch, times: int, failed: int) -> None:
    runner = Planned(work_of([table("a.b"), table("c.d")]), group("a.b", 1), group("c.d", 1))
    lost: list[Group] = []

    def patiently(_: Any, of: Group, now: datetime) -> tuple[GroupReport, ...]:
        del now
        if of.table == "a.b" and len(lost) < times:
            lost.append(of)
            return (GroupReport(of, 1, error=WaterclockError("E712", "Spark's JVM has ended", transient=True)),)
        runner.groups.remove(of)
        return (GroupReport(of, 1),)

    monkeypatch.setattr(retry, "run_group_with_retries", patiently)
    outcome = RunOutcome()
    with ThreadPoolExecutor(1) as threads:
        runner._run_ready_groups(day(9), threads, outcome)
    assert (outcome.done, len(outcome.failed)) == (2 - failed, failed)
    assert runner._work.sessions.revived == times  # type: ignore[attr-defined]
    for report in outcome.failed:
        assert report.error is not None
        assert report.error.why == "it was killed by SIGKILL"


def test_windows_that_become_due_during_a_long_backfill_are_made_next_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: a watching run read the clock once, and looked for new windows only after the whole backfill."""
    made = threading.Event()
    work = work_of([table("a.b", partitioned=True), table("c.d", partitioned=True)])
    new = dataclasses.replace(group("c.d", 9), is_fresh=True)
    clock = iter([day(10) - timedelta(milliseconds=50), *[day(10)] * 99])
    work.real_now = lambda: next(clock)

    class Watching(Planned):
        def plan(self, now: datetime) -> Plan:
            due = [new] if now == day(10) and not made.is_set() else []
            return Plan(now=now, groups=(*self.groups, *due), next_due=now + timedelta(days=1))

    def run_group(_: Any, of: Group, now: datetime) -> tuple[GroupReport, ...]:
        if of is new:
            assert now == day(10)
            made.set()
        elif not made.wait(10):
            return (GroupReport(of, 1, error=WaterclockError("E730", "the new window was not made")),)
        runner.groups[:] = []
        return (GroupReport(of, 1),)

    monkeypatch.setattr(retry, "run_group_with_retries", run_group)
    runner, outcome = Watching(work, group("a.b", 1), follows_clock=True), RunOutcome()
    with ThreadPoolExecutor(4) as threads:
        assert runner._run_ready_groups(day(9), threads, outcome) == day(10)
    assert (outcome.done, outcome.failed) == (2, [])


def test_new_windows_are_planned_before_the_queue_of_a_backfill_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of a new window are ready as soon as it is made; they do not wait for the queue of a backfill."""
    work = work_of([table("a.b", partitioned=True), table("c.d", partitioned=True), table("e.f", partitioned=True)])
    old = [group("a.b", number) for number in range(1, 9)]
    new = [dataclasses.replace(group(name, 9), is_fresh=True) for name in ("c.d", "e.f")]
    order: list[str] = []

    def run_group(_: Any, of: Group, now: datetime) -> tuple[GroupReport, ...]:
        del now
        order.append(of.table)
        runner.groups.remove(of)
        if of is new[0]:
            runner.groups.insert(0, new[1])
        return (GroupReport(of, 1),)

    monkeypatch.setattr(retry, "run_group_with_retries", run_group)
    runner = Planned(work, new[0], *old)
    with ThreadPoolExecutor(1) as threads:
        runner._work.settings = dataclasses.replace(work.settings, threads=1)
        runner._run_ready_groups(day(9), threads, RunOutcome())
    assert order[:2] == ["c.d", "e.f"]
    assert len(order) == 10


LOST = "lease of a.b@20130101000000 not renewed: claim 7 is no longer open: lost"


@pytest.mark.parametrize(
    ("is_held", "status", "told"), [(False, "lost", []), (True, "done", []), (True, "lost", [LOST])]
)
def test_a_failed_lease_renewal_is_reported_only_if_the_claim_is_active_and_lost(
    *, is_held: bool, status: str, told: list[str]
) -> None:
    claim = SimpleNamespace(request=SimpleNamespace(table="a.b", labels=(day(0),)))
    held, said, looked = [claim], list[str](), threading.Event()

    def renew(_: object) -> None:
        if not is_held:
            held.clear()
        looked.set()
        raise ledger_errors.closed_claim_error(7, status)

    work: Any = SimpleNamespace(
        settings=SimpleNamespace(lease=0.01),
        active_claims=lambda: tuple(held),
        ledger=SimpleNamespace(claims=SimpleNamespace(renew=renew)),
        listener=SimpleNamespace(on_message=said.append),
    )
    with Heartbeat(work):
        assert looked.wait(10)
    assert said[:1] == told
