"""Prints the result of a run: done, failed and blocked batches with their causes, and the remaining ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.cli.views.error_card import show_errors
from waterclock.cli.views.held_restatements import print_held_after_run
from waterclock.cli.views.plan import next_due_words, print_pauses, remaining_words, summary_words
from waterclock.cli.views.theme import LOOKS, state_character
from waterclock.engine.collect.arrivals import STAMP_RESOLUTION
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.operations.blocking_batches import blockers
from waterclock.operations.display_states import State
from waterclock.operations.formatting import common_reason, count_words, instant_words, seconds_words
from waterclock.operations.project_opening import zone_of
from waterclock.operations.source_waits import is_waiting_for_source
from waterclock.planner.plan import Plan, Status
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from waterclock.engine.collect.source_clocks import UnfinishedSource
    from waterclock.engine.run_listener import GroupReport
    from waterclock.engine.run_outcome import RunOutcome

_MOST_PLACES = 5


def print_outcome(to: Console, outcome: RunOutcome, flow: Flow, zone: str, seconds: float) -> None:
    """Print the result of a run: errors, the batches that they block, and a summary line."""
    for alike in _group_failures(outcome.failed):
        to.print()
        show_errors(to, [error.at(place_of(report)) for report, error in alike[:1]])
        if len(alike) > 1:
            others = ", ".join(place_of(report) for report, _ in alike[1 : _MOST_PLACES + 1])
            rest = len(alike) - 1 - _MOST_PLACES
            more = f" and {rest} more" if rest > 0 else ""
            to.print(Text(f"and the same for {others}{more}"), soft_wrap=True)
    if run_errors := [*outcome.unsettled, *([outcome.away] if outcome.away else [])]:
        to.print()
        show_errors(to, run_errors)
    plan = outcome.plan or Plan(now=FOREVER)
    blocked = blockers(plan.batches)
    if blocked:
        to.print()
    look = LOOKS[State.BLOCKED]
    for line in _blocked_lines(blocked):
        to.print(Text.assemble((f"{state_character(State.BLOCKED, to)} ", look.style), line), soft_wrap=True)
    if outcome.done or outcome.has_failed:
        to.print()
    for held in outcome.held_back:
        to.print(Text(describe_source_wait(held, flow), style="quiet"), soft_wrap=True)
    print_pauses(to, plan, zone)
    print_held_after_run(to, plan, flow)
    to.print(_summary_line(outcome, plan, zone, seconds), soft_wrap=True)
    if any(batch.status is Status.FAILED for batch in plan.batches):
        to.print(
            Text("after the fix, `waterclock retry` makes the failed batches and those that they block", style="quiet")
        )
    if any(batch.status is Status.HELD and not batch.is_over_limit for batch in plan.batches):
        to.print(Text("`waterclock status` shows the held batches, the reasons, and how to continue", style="quiet"))


def run_json(outcome: RunOutcome, flow: Flow, now: datetime, until: datetime | None, seconds: float) -> dict[str, Any]:
    """Return the result of a run as a dictionary for JSON. Its `left` counts the remaining due batches by status."""
    from waterclock.json_models.runs import RunAnswer

    plan = outcome.plan
    fields = {} if plan is None else plan.to_dict()
    return RunAnswer.build(
        outcome,
        now=now,
        until=until,
        seconds=round(seconds, 3),
        stopped=outcome.was_stopped,
        failed=[
            {
                "table": report.group.table,
                "kind": flow.tables[report.group.table].kind.value,
                "labels": [batch.window.label for batch in report.group.batches],
                "claim": report.claim,
                "error": report.error,
            }
            for report in outcome.failed
        ],
        left={} if plan is None else Counter(batch.status.value for batch in plan.batches),
        paused=fields.get("paused"),
        paused_all=fields.get("paused_all"),
        held_restatements=fields.get("held_restatements", {}),
        held_by_source=[
            {
                "table": held.table,
                "label": held.window.label,
                "end": held.window.end,
                "clock": None if held.clock == BEGINNING else held.clock,
                "awaits": None if held.awaits is None else str(held.awaits),
            }
            for held in outcome.held_back
        ],
        next_due=None if plan is None else plan.next_due,
    ).to_json()


def _group_failures(failed: Iterable[GroupReport]) -> list[list[tuple[GroupReport, WaterclockError]]]:
    """Group the failures by table and error. Labels and counts in the error's text are ignored."""
    found: dict[tuple[str | None, ...], list[tuple[GroupReport, WaterclockError]]] = {}
    for report in failed:
        error = report.error
        if error is not None:
            reasons = tuple(part and common_reason(part) for part in (error.what, error.why))
            found.setdefault((report.group.table, error.code, *reasons), []).append((report, error))
    return list(found.values())


def _blocked_lines(blocked: Iterable[tuple[str, datetime, str, int]]) -> list[str]:
    """Format the blocking batches and the number of batches that they block: one line per table and reason."""
    alike: dict[tuple[str, str], list[tuple[str, datetime, str, int]]] = {}
    for cause in blocked:
        alike.setdefault((cause[0], common_reason(cause[2])), []).append(cause)
    lines = []
    for causes in alike.values():
        table, label, detail, _ = min(causes, key=lambda cause: cause[1])
        more = f" and {count_words(len(causes) - 1, 'more label')}" if len(causes) > 1 else ""
        count = count_words(sum(cause[3] for cause in causes), "batch", "batches")
        lines.append(f"{count} blocked by {table}@{label_of(label)}{more}: {detail}")
    return lines


def describe_source_wait(held: UnfinishedSource, flow: Flow) -> str:
    """Describe which batch waits for its source, and the source's clock."""
    zone = flow.tables[held.table].cadence.zone
    if held.awaits is not None or held.clock is None:
        return f"{held.table}@{held.window.label} waits for its source: AWAIT {held.awaits}"
    if held.clock == BEGINNING:
        clock = "no file has arrived yet"
    elif held.of_items:
        clock = f"newest file {instant_words(held.clock - STAMP_RESOLUTION, zone)}"
    else:
        clock = instant_words(held.clock, zone)
    ends = instant_words(held.window.end, zone)
    return f"{held.table}@{held.window.label} waits for the source's clock: {clock}; the window ends {ends}"


def place_of(report: GroupReport) -> str:
    """Return the batch or batches of a report as `table@label`."""
    batches = report.group.batches
    last = f"..{batches[-1].window.label}" if len(batches) > 1 else ""
    return f"{report.group.table}@{batches[0].window.label}{last}"


def _summary_line(outcome: RunOutcome, plan: Plan, zone: str, seconds: float) -> Text:
    line = Text()
    if outcome.done or outcome.failed:
        done = f"{count_words(outcome.done, 'batch', 'batches')} done"
        line.append(done, style="ok.loud" if outcome.done else "")
        line.append(f" ({count_words(outcome.rows, 'row')}, {seconds_words(seconds)})")
        if outcome.failed:
            line.append(", ")
            held = sum(report.is_held for report in outcome.failed)
            if len(outcome.failed) > held:
                line.append(f"{len(outcome.failed) - held} failed", style="fail.loud")
            if held:
                line.append(f"{', ' if len(outcome.failed) > held else ''}{held} held", style="warn.loud")
        line.append("; ")
    if outcome.unsettled:
        line.append(f"{count_words(len(outcome.unsettled), 'claim')} not settled", style="fail.loud")
        line.append("; ")
    if outcome.away:
        line.append("left by the object store", style="fail.loud")
        line.append("; ")
    line.append("stopped; " if outcome.was_stopped else "")
    describe = remaining_words if outcome.done or outcome.failed else summary_words
    line.append(describe(plan, at_source=_count_source_waits(outcome, plan)))
    line.append(f"; {next_due_words(plan, zone)}")
    return line


def _count_source_waits(outcome: RunOutcome, plan: Plan) -> int:
    """Count the batches that still wait only for their source after a run."""
    since = {held.table: held.window.label for held in outcome.held_back}
    return sum(is_waiting_for_source(batch, since) for batch in plan.batches)


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of a run and details to print. `unrequested` counts ready batches that were not requested."""

    outcome: RunOutcome
    flow: Flow
    now: datetime
    until: datetime | None
    seconds: float
    unrequested: int = 0

    def draw(self, to: Console) -> None:
        """Print errors, the batches that they block, and a summary line."""
        print_outcome(to, self.outcome, self.flow, zone_of(self.flow), self.seconds)
        if self.unrequested:
            count = count_words(self.unrequested, "batch is", "batches are")
            to.print(Text(f"besides the requested batches, {count} ready: `waterclock run` makes them", style="quiet"))

    def to_json(self) -> dict[str, Any]:
        """Return the result of the run as a dictionary for JSON."""
        return run_json(self.outcome, self.flow, self.now, self.until, self.seconds)
