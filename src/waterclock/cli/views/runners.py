"""Prints the runners of a project and the batches that each is running."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.batches.audit_records import RunnerClaim, RunnerSeen
from waterclock.engine.ledger_opening import open_ledger
from waterclock.flow.declarations import Flow
from waterclock.operations.formatting import count_words, label_range, local_range, seconds_words
from waterclock.operations.runners import is_alive

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.dpl.project import Project
    from waterclock.json_models.runs import RunnersAnswer

_MOST_HELD = 5


@dataclass(frozen=True, slots=True)
class RunnerList:
    """The runners of a project at an instant of the ledger's clock.

    `applied` is the fingerprint of the applied flow. A runner of another flow cannot claim batches.
    """

    flow: Flow
    now: datetime
    applied: str | None
    runners: tuple[RunnerSeen, ...]


def read_runner_list(project: Project) -> RunnerList | None:
    """Read the runners from the ledger; None if there is no ledger yet."""
    ledger = open_ledger(project)
    if ledger is None:
        return None
    with ledger:
        applied = ledger.declared.applied_flow()
        now = ledger.now()
        # a runner that ended unexpectedly and holds no claims is irrelevant
        runners = tuple(each for each in ledger.runners.all() if each.held or is_alive(each, now))
        return RunnerList(project.flow, now, applied.fingerprint if applied else None, runners)


def print_runners(to: Console, found: RunnerList | None) -> None:
    """Print a line for each runner, and below it the batches that it has claimed."""
    if found is None or not found.runners:
        to.print("no runner is running")
        return
    for runner in found.runners:
        since = seconds_words((found.now - runner.started_at).total_seconds())
        is_gone = not is_alive(runner, found.now)
        line = Text.assemble((runner.runner, "name"), f"  {runner.who}  ", (runner.command or "a run", "quiet"))
        line.append(f"  since {since}")
        if is_gone:
            line.append("  gone: the next run takes over its claims", style="warn")
        elif runner.flow and runner.flow != found.applied:
            line.append("  has another flow than the applied one, and claims nothing", style="warn")
        to.print(line, soft_wrap=True)
        for held in runner.held[:_MOST_HELD]:
            to.print(Text("  ").append_text(_claim_line(held, found)), soft_wrap=True)
        more = len(runner.held) - _MOST_HELD
        if more > 0:
            to.print(f"  and {more} more")
        if not runner.held:
            to.print(Text("  makes no batch now", style="quiet"))


def runners_answer(found: RunnerList | None) -> RunnersAnswer:
    """Build the JSON answer with the runners and the batches that each has claimed."""
    from waterclock.json_models.runs import RunnerPart, RunnersAnswer

    if found is None:
        return RunnersAnswer(now=None, runners=[])
    runners = [
        RunnerPart.build(
            runner=runner.runner,
            who=runner.who,
            command=runner.command,
            since=runner.started_at,
            seen=runner.seen_at or None,
            is_gone=not is_alive(runner, found.now),
            has_applied_flow=not runner.flow or runner.flow == found.applied,
            holds=runner.held,
        )
        for runner in found.runners
    ]
    return RunnersAnswer.build(now=found.now, runners=runners)


def _claim_line(held: RunnerClaim, found: RunnerList) -> Text:
    table = found.flow.tables.get(held.table)
    first, last = held.labels[0], held.labels[-1]
    labels = label_range(first, last) if table is None else local_range(first, last, table.cadence)
    count = f" ({count_words(len(held.labels), 'label')})" if len(held.labels) > 1 else ""
    spent = seconds_words((found.now - held.since).total_seconds())
    return Text.assemble((held.table, "name"), f" {labels}{count}", (f"  {spent}", "quiet"))
