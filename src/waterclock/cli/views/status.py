"""Prints the output of `status`: the grid or the lag of tables, problems, and the next due window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.batches.ledger_snapshot import describe_missing_inputs
from waterclock.cli.views.behind import print_behind_tables
from waterclock.cli.views.grid_drawing import (
    column_words,
    fit_grid,
    grid_parts,
    now_line,
    print_grid,
)
from waterclock.cli.views.held_restatements import print_held_restatements
from waterclock.cli.views.lag import print_lags
from waterclock.cli.views.plan import (
    next_due_words,
    print_lookbacks,
    print_pauses,
    print_received,
    print_refused,
    print_waits,
    summary_words,
)
from waterclock.cli.views.status_input import StatusInput
from waterclock.cli.views.theme import LOOKS, state_character
from waterclock.cli.views.timeliness import print_deadlines, print_offline, print_retained_logs, print_silences
from waterclock.operations.blocking_batches import blockers, skip_words
from waterclock.operations.closings import OpenBooks
from waterclock.operations.display_states import State
from waterclock.operations.formatting import common_reason, count_words
from waterclock.operations.held_batches import held_batch_commands
from waterclock.operations.lookback_report import lookbacks_json
from waterclock.operations.open_windows import OpenWindows
from waterclock.operations.source_waits import count_waiting
from waterclock.planner.plan import Batch, Plan, Status
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.json_models.status import StatusAnswer

_MOST_LABELS = 3

_MOST_PROBLEMS = 5


def print_status(to: Console, data: StatusInput, zone: str) -> None:
    """Print the grid, the problems that need a user, and the next due window."""
    shown = fit_grid(data.grid, to.width)
    to.print(now_line(data.now, column_words(shown)), soft_wrap=True)
    to.print()
    print_grid(to, shown)
    if data.is_asked and (hidden := len(data.grid.columns) - len(shown.columns)):
        to.print(Text(f"{count_words(hidden, 'older column')} that do not fit the line", style="quiet"))
    to.print()
    _print_problems(to, data.plan)
    if data.held_restatements:
        print_held_restatements(to, data.held_restatements.values())
        to.print()
    print_deadlines(to, data.deadlines)
    print_silences(to, data.silent)
    if data.plan.behind:
        print_behind_tables(to, data.plan.behind)
        to.print()
    print_partial(to, data.plan)
    print_open(to, data.open)
    print_refused(to, data.plan)
    print_pauses(to, data.plan, zone)
    print_lookbacks(to, data.lookbacks)
    print_received(to, data.received)
    print_retained_logs(to, data.held)
    _print_open_windows(to, data.open_windows)
    print_offline(to, data.offline)
    _print_summary(to, data, zone)


def print_lag(to: Console, data: StatusInput, zone: str) -> None:
    """Print the lag of tables, the problems that need a user, and the next due window."""
    print_lags(to, data.lags or (), data.now)
    _print_problems(to, data.plan)
    print_deadlines(to, data.deadlines)
    print_silences(to, data.silent)
    print_refused(to, data.plan)
    print_pauses(to, data.plan, zone)
    _print_summary(to, data, zone)


def _print_summary(to: Console, data: StatusInput, zone: str) -> None:
    if data.clock is not None:
        look = LOOKS[State.WARNED]
        to.print(
            Text.assemble((f"{state_character(State.WARNED, to)} ", look.style), data.clock.words()), soft_wrap=True
        )
    print_waits(to, data.waits)
    summary = summary_words(data.plan, at_source=count_waiting(data.plan, data.waits))
    to.print(Text(f"{summary}; {next_due_words(data.plan, zone)}"), soft_wrap=True)


def _print_open_windows(to: Console, found: Mapping[str, OpenWindows]) -> None:
    for name, windows in found.items():
        to.print(Text(f"{name}: {windows.words()}", style="quiet"), soft_wrap=True)
    if found:
        to.print()


def status_answer(data: StatusInput) -> StatusAnswer:
    """Build the JSON answer of `status`: the grid, the counts of the plan, and problems."""
    from waterclock.json_models.status import StatusAnswer

    counts: dict[str, int] = {}
    for batch in data.plan.batches:
        counts[batch.status.value] = counts.get(batch.status.value, 0) + 1
    fields = data.plan.to_dict()
    return StatusAnswer.build(
        env=data.env,
        now=data.now,
        next_due=data.plan.next_due,
        due=counts,
        **{key: fields[key] for key in ("behind", "paused", "paused_all", "partial", "refused")},
        held_restatements={name: held.to_dict() for name, held in data.held_restatements.items()},
        lookbacks=lookbacks_json(data.lookbacks),
        received=data.received,
        kept_at_sources=data.held,
        waits_for_source=data.waits,
        open=data.open,
        open_windows=data.open_windows,
        deadlines=data.deadlines.found,
        silent=data.silent.found,
        offline=[each.to_answer() for each in data.offline],
        clock_back=data.clock,
        lag=data.lags,
        **grid_parts(data.grid),
    )


def _print_problems(to: Console, plan: Plan) -> None:
    """Print the failed, held and expired batches, which are root causes, and how many batches each blocks."""
    blocks = {(table, label): count for table, label, _, count in blockers(plan.batches)}
    problems: dict[tuple[str, ...], list[Batch]] = {}
    for batch in plan.batches:
        if batch.status in {Status.FAILED, Status.HELD, Status.EXPIRED} and not batch.is_over_limit:
            problems.setdefault((batch.table, batch.status.value, common_reason(batch.reason)), []).append(batch)
    for batch, *alike in list(problems.values())[:_MOST_PROBLEMS]:
        state = State(batch.status.value)
        count = sum(blocks.get((each.table, each.label), 0) for each in (batch, *alike))
        tail = f" (blocks {count_words(count, 'batch', 'batches')})" if count else ""
        to.print(
            Text.assemble(
                (f"{state_character(state, to)} ", LOOKS[state].style),
                (f"{batch.table}@{batch.window.label}", "name"),
                f" {batch.status}: {batch.reason}{tail}",
            ),
            soft_wrap=True,
        )
        if alike:
            shown = ", ".join(each.window.label for each in alike[:_MOST_PROBLEMS])
            more = f" and {len(alike) - _MOST_PROBLEMS} more" if len(alike) > _MOST_PROBLEMS else ""
            to.print(Text(f"  and the same for {shown}{more}", style="quiet"), soft_wrap=True)
        if batch.status is Status.HELD and not batch.is_over_limit:
            last = max(each.window.label for each in (batch, *alike))
            commands = held_batch_commands(batch.table, batch.window.label, last, is_outdated=batch.is_outdated)
            to.print(Text(f"  {commands}", style="quiet"), soft_wrap=True)
        if command := skip_words(batch):
            to.print(Text(f"  {command}", style="quiet"), soft_wrap=True)
    if rest := sum(map(len, list(problems.values())[_MOST_PROBLEMS:])):
        to.print(Text(f"  and {rest} more: waterclock plan", style="quiet"))
    if problems:
        to.print()


def print_partial(to: Console, plan: Plan) -> None:
    """Print how many batches of each table are partial, and the missing inputs of the newest ones."""
    for name, of_table in plan.partial.items():
        newest = sorted(of_table, reverse=True)[:_MOST_LABELS]
        to.print(Text(f"{len(of_table)} partial of {name}, completed once the missing inputs arrive", style="quiet"))
        for label in newest:
            to.print(
                Text(f"  {label_of(label)}  {describe_missing_inputs(of_table[label])}", style="quiet"), soft_wrap=True
            )
    if plan.partial:
        to.print()


def print_open(to: Console, found: Mapping[str, OpenBooks]) -> None:
    """Print the oldest open window of each table, and how many windows wait after it."""
    for books in found.values():
        for line in books.lines():
            to.print(Text(line, style="quiet"), soft_wrap=True)
    if found:
        to.print()
