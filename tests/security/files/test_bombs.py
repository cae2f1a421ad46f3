"""A small file that needs more memory than Spark has ends its own batch, and no other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from tests.ledgers import day
from tests.unit.engine.fakes import collect, group, table, work_of
from tests.unit.engine.test_runner import Planned
from waterclock.engine.batch import retry
from waterclock.engine.batch.batch_errors import batch_error
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_outcome import RunOutcome
from waterclock.errors import WaterclockError
from waterclock.planner.plan import Group


class InTheJvm(Py4JError):  # type: ignore[misc]
    """An exception whose text is in the JVM, as Py4J's are: once the JVM has ended, asking for it fails."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize("is_gone_at_once", [True, False])
def test_an_error_of_a_jvm_that_has_ended_is_reported(*, is_gone_at_once: bool) -> None:
    """Its text was asked from the JVM: the whole run ended in E999, and so did each run after it."""
    looks = iter([is_gone_at_once, True])
    work: Any = SimpleNamespace(sessions=SimpleNamespace(has_ended=lambda: next(looks)))
    error = batch_error(work, collect("raw.bomb"), InTheJvm(), "raw.bomb@20200101000000")
    assert (error.code, error.where, error.transient) == ("E712", "raw.bomb@20200101000000", True)


def test_a_batch_that_ends_the_jvm_again_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that ran beside it were lost with it a second time, and failed as well."""
    names = ["a.bomb", "a.b", "a.c", "a.d"]
    runner = Planned(work_of([table(name) for name in names]), *(group(name, 1) for name in names))
    together, lock = dict[str, threading.Event](), threading.Lock()

    def carry_out(_: Any, of: Group, now: Any) -> tuple[GroupReport, ...]:
        del now
        ended = threading.Event()
        with lock:
            together[of.table] = ended
        if of.table == "a.bomb":
            ended.wait(0.2)  # the others begin
            with lock:
                for each in together.values():
                    each.set()
        is_lost = ended.wait(0.5)
        with lock:
            del together[of.table]
        if is_lost:
            return (GroupReport(of, 1, error=WaterclockError("E712", "Spark's JVM has ended", transient=True)),)
        runner.groups.remove(of)
        return (GroupReport(of, 1),)

    monkeypatch.setattr(retry, "carry_out_with_retries", carry_out)
    outcome = RunOutcome()
    with ThreadPoolExecutor(4) as threads:
        runner._run_ready_groups(day(9), threads, outcome)
    assert [report.group.table for report in outcome.failed] == ["a.bomb"]
    assert outcome.done == 3
