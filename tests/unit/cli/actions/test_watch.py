"""Output of a watching run: each change once, and the reasons for waiting."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.model.flows import at, collect, flow
from waterclock.batches.ledger_snapshot import Pause
from waterclock.cli.actions import watch as watching
from waterclock.cli.actions.watch import watch
from waterclock.cli.views.theme import make_console
from waterclock.engine.collect.source_clocks import UnfinishedSource
from waterclock.engine.run_outcome import RunOutcome
from waterclock.planner.plan import Plan
from waterclock.timelabel.window import Window

FLOW = flow(collect("raw.a", "HOUR"))
NOW = at("2013-01-03 22:00")
HELD = UnfinishedSource(
    "raw.a", Window(at("2013-01-03 21:00"), at("2013-01-03 22:00")), at("2013-01-03 21:48:01"), of_items=True
)


@dataclass
class Looking:
    """Runner and ledger clock of a watch: each check returns the next outcome, and the last one stops it."""

    outcomes: list[RunOutcome]
    stop: threading.Event
    now: datetime = NOW
    sequence: int = 0
    claims: list[Any] = field(default_factory=list)

    @property
    def ledger(self) -> Any:
        claims = SimpleNamespace(open=lambda: self.claims)
        return SimpleNamespace(sequence=lambda: self.sequence, claims=claims)

    def real_now(self) -> datetime:
        return self.now

    def abandoned_claims(self) -> frozenset[int]:
        return frozenset()

    def run_once(self, now: datetime) -> RunOutcome:
        self.now = now + timedelta(minutes=1)
        outcome = self.outcomes.pop(0)
        plan = outcome.plan or Plan(now=now)
        found = replace(outcome, plan=replace(plan, now=now, next_due=self.now))
        if not self.outcomes:
            self.stop.set()
        return found


@dataclass
class Notes:
    """Records the output, as a terminal or not."""

    is_terminal: bool
    flow: Any = FLOW
    zone: str = "UTC"
    log: Any = None
    noted: list[str] = field(default_factory=list)

    @property
    def to(self) -> Any:
        console = make_console(io.StringIO())
        console._force_terminal = self.is_terminal
        return console

    def note(self, message: str) -> None:
        self.noted.append(message)


def watched(*outcomes: RunOutcome, is_terminal: bool = False) -> tuple[list[str], RunOutcome]:
    stop, notes = threading.Event(), Notes(is_terminal)
    looking: Any = Looking([*outcomes, RunOutcome()], stop)
    to: Any = notes
    return notes.noted, watch(looking, looking, to, 1, stop, lambda: None)


def waiting(file: str, due: str) -> str:
    return (
        f"watching; raw.a@20130103210000 waits for the source's clock: newest file 2013-01-03 {file}Z; "
        f"the window ends 2013-01-03 22:00Z; next due 2013-01-03 {due}Z"
    )


def test_a_log_gets_one_line_per_change_and_none_per_check() -> None:
    idle, held = RunOutcome(), RunOutcome(held_back=(HELD,))
    later = RunOutcome(held_back=(replace(HELD, clock=at("2013-01-03 21:50:01")),))
    noted, _ = watched(idle, idle, held, held, later)
    assert noted == ["watching; next due 2013-01-03 22:01Z", waiting("21:48", "22:03"), waiting("21:50", "22:05")]


def test_a_pause_is_a_change_and_so_is_its_end() -> None:
    pause = Pause(NOW, "ann", "the source lies")
    paused, of_all = Plan(NOW, paused={"raw.a": pause}), Plan(NOW, paused_all=replace(pause, is_of_all=True))
    looks = [RunOutcome(plan=paused), RunOutcome(plan=paused), RunOutcome(plan=of_all), RunOutcome()]
    noted, _ = watched(*looks)
    said = "paused by ann since 2013-01-03 22:00 +00:00: the source lies"
    assert noted == [
        f"watching; raw.a is {said}; next due 2013-01-03 22:01Z",
        f"watching; all is {said}; next due 2013-01-03 22:03Z",
        "watching; next due 2013-01-03 22:04Z",
    ]


def test_the_line_that_is_drawn_is_always_as_of_now() -> None:
    assert len(watched(RunOutcome(), RunOutcome(), is_terminal=True)[0]) == 2


def test_results_of_all_checks_are_summed_and_the_state_is_that_of_the_last() -> None:
    _, total = watched(RunOutcome(done=1, rows=5, held_back=(HELD,)), RunOutcome(done=2, rows=7))
    assert (total.done, total.rows, total.held_back) == (3, 12, ())
    assert total.plan is not None


def written(looking: Looking) -> None:
    looking.sequence = 1


def left(looking: Looking) -> None:
    gone = SimpleNamespace(runner="another machine, process 1")
    looking.claims = [SimpleNamespace(number=1, has_expired=lambda _: True, request=gone)]


@pytest.mark.parametrize("happens", [written, left])
def test_watch_checks_early_after_another_process_writes_to_the_ledger_or_leaves_a_claim(
    monkeypatch: pytest.MonkeyPatch, happens: Callable[[Looking], None]
) -> None:
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.01)
    stop, notes = threading.Event(), Notes(is_terminal=False)
    looking: Any = Looking([RunOutcome(), RunOutcome()], stop)
    looking.real_now = lambda: NOW - timedelta(hours=1)  # nothing is due for an hour
    to: Any = notes
    others = threading.Timer(0.1, happens, [looking])
    others.start()
    begun = time.monotonic()
    watch(looking, looking, to, 3600, stop, lambda: None)
    assert looking.outcomes == []
    assert time.monotonic() - begun < 60


def test_a_flow_that_was_changed_is_run_by_the_runner_that_works_from_it() -> None:
    stop, notes = threading.Event(), Notes(is_terminal=False)
    old: Any = Looking([RunOutcome(done=1)], stop)
    new: Any = Looking([RunOutcome(done=10)], stop)
    to: Any = notes
    assert watch(old, old, to, 1, stop, lambda: new).done == 10
