"""Runs batches as they become due, for `run --watch`, and prints why batches wait whenever that changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from waterclock.cli.views.plan import next_due_words
from waterclock.cli.views.run import describe_source_wait
from waterclock.engine.abandoned_claims import find_abandoned_claims
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.runner import Runner
from waterclock.operations.pauses import pause_lines

if TYPE_CHECKING:
    from waterclock.cli.views.progress import Progress
    from waterclock.engine.run_context import RunContext

_MOST_HELD = 3
_LOOK_SECONDS = 1.0  # between two checks for ledger writes by other processes


def watch(
    runner: Runner,
    work: RunContext,
    progress: Progress,
    every: int,
    stop: threading.Event,
    reload_runner: Callable[[], Runner | None],
    on_cycle: Callable[[RunOutcome], None] = lambda _: None,
) -> RunOutcome:
    """Run whenever a window becomes due, by the ledger's clock, and at least every `every` seconds, until stopped.

    A run starts earlier if another process has written to the ledger. Before each run, `reload_runner` returns the
    runner of a changed flow, or None if it has not changed. `on_cycle` is called with the outcome of each run.
    """
    total, reporter = RunOutcome(), _WaitReporter(progress)
    while True:
        runner = reload_runner() or runner
        outcome = runner.run_once(work.real_now())
        total.add(outcome)
        on_cycle(outcome)
        if stop.is_set():
            return total
        reporter.report_waits(outcome)
        upcoming = outcome.plan.next_due if outcome.plan else None
        wait = timedelta(seconds=every)
        if upcoming is not None:
            wait = min(wait, max(upcoming - work.real_now(), timedelta(0)))
        if _is_stopped(stop, work, wait.total_seconds()):
            total.was_stopped = True
            return total


def _is_stopped(stop: threading.Event, work: RunContext, seconds: float) -> bool:
    """Wait up to `seconds`, and return whether the run was stopped.

    The wait ends early if another process wrote to the ledger, or ended without finishing its claims.
    """
    seen, end = work.ledger.sequence(), time.monotonic() + seconds
    abandoned = _find_abandoned_claims(work)
    while (remaining := end - time.monotonic()) > 0:
        if stop.wait(min(remaining, _LOOK_SECONDS)):
            return True
        if work.ledger.sequence() != seen or _find_abandoned_claims(work) - abandoned:
            return False
    return stop.is_set()


def _find_abandoned_claims(work: RunContext) -> set[int]:
    """Return the numbers of claims that can be taken over because their runners are gone."""
    return {claim.number for claim in find_abandoned_claims(work)}


@dataclass(slots=True)
class _WaitReporter:
    """Prints why a watching run waits: always in the status line, and on a separate line only after a change.

    The instant at which the next window is due changes with every window, and does not count as a change.
    """

    progress: Progress
    _last_message: str = ""

    def report_waits(self, outcome: RunOutcome) -> None:
        waits = [describe_source_wait(held, self.progress.flow) for held in outcome.held_back[:_MOST_HELD]]
        if more := len(outcome.held_back) - _MOST_HELD:
            waits += [f"and {more} more"] if more > 0 else []
        pauses = pause_lines(outcome.plan, self.progress.zone) if outcome.plan else []
        message = "; ".join(["watching", *pauses, *waits])
        if message != self._last_message or (self.progress.to.is_terminal and self.progress.log is None):
            due = next_due_words(outcome.plan, self.progress.zone) if outcome.plan else ""
            self.progress.note(f"{message}; {due}" if due else message)
        self._last_message = message
