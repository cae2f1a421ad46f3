"""Prints a plan, by table and oldest label first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text

from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.behind import print_behind_tables
from waterclock.cli.views.error_card import show_errors
from waterclock.cli.views.theme import LOOKS, state_character
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Kind
from waterclock.flow.shared_views import readers_of_shared
from waterclock.operations.blocking_batches import skip_words
from waterclock.operations.display_states import State, display_state_of
from waterclock.operations.first_window_times import FirstWindow, not_begun_lines
from waterclock.operations.formatting import count_words, instant_words, label_range, local_range, number_words
from waterclock.operations.held_batches import held_batch_commands
from waterclock.operations.lookback_report import format_lookbacks
from waterclock.operations.pauses import pause_lines
from waterclock.operations.source_waits import SourceWait, add_source_waits, count_waiting
from waterclock.operations.waiting_files import received_lines
from waterclock.planner.label_states import IdleCounts
from waterclock.planner.plan import Batch, Plan, Status
from waterclock.planner.sharing import SharedQueries
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.connectors.interface import PendingData

_IN_TROUBLE = frozenset({Status.BLOCKED, Status.FAILED, Status.HELD, Status.EXPIRED})
_PLAIN_REASONS = frozenset({"", "due", "running"})
_NONE: Mapping[str, FirstWindow] = {}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Adjacent labels of a table with the same state and the same kind of reason, printed as one line."""

    batches: tuple[Batch, ...]

    @property
    def state(self) -> State:
        """The display state of all batches."""
        return display_state_of(self.batches[0])

    @property
    def reason(self) -> str:
        """The reason of the first batch; empty if the state alone explains it."""
        reasons = dict.fromkeys(batch.reason for batch in self.batches)
        first = next(iter(reasons))
        if first in _PLAIN_REASONS:
            return ""
        return first if len(reasons) == 1 else f"{first}; the others alike"


def exit_code(plan: Plan) -> ExitCode:
    """Return the exit code of `plan`: 0 if no batch is due, 10 if one is due, 11 if one needs a user."""
    if plan.refused or any(batch.status in _IN_TROUBLE for batch in plan.batches):
        return ExitCode.IN_TROUBLE
    return ExitCode.DUE if plan.batches else ExitCode.DONE


def stretches(batches: Iterable[Batch]) -> Iterator[tuple[str, tuple[Stretch, ...]]]:
    """Yield each table, in the plan's order, with its labels grouped into stretches."""
    for name, of_table in groupby(batches, key=lambda batch: batch.table):
        alike: list[list[Batch]] = []
        for batch in of_table:
            if alike and _are_in_one_stretch(alike[-1][-1], batch):
                alike[-1].append(batch)
            else:
                alike.append([batch])
        yield name, tuple(Stretch(tuple(run)) for run in alike)


def summary_words(plan: Plan, *, at_source: int = 0) -> str:
    """Summarize a plan: `12 due: 3 ready, 9 waiting`. `at_source` of the ready batches wait for their source."""
    total = _count_due(plan)
    if not total:
        return "nothing is due"
    parts = (f"{number_words(count)} {words}" for words, count in _count_statuses(plan, at_source))
    return f"{number_words(total)} due: {', '.join(parts)}"


def remaining_words(plan: Plan, *, at_source: int = 0) -> str:
    """Summarize what remains due after a run: `1 batch remains (waiting)`, `5 batches remain (2 ready, 3 waiting)`."""
    total = _count_due(plan)
    if not total:
        return "nothing is due"
    counts = list(_count_statuses(plan, at_source))
    parts = (words if len(counts) == 1 else f"{number_words(count)} {words}" for words, count in counts)
    return f"{count_words(total, 'batch remains', 'batches remain')} ({', '.join(parts)})"


def _count_due(plan: Plan) -> int:
    return len(plan.batches) + sum(plan.left_out.values())


def _count_statuses(plan: Plan, at_source: int) -> Iterator[tuple[str, int]]:
    """Yield the statuses of due batches in words, each with its count."""
    counts = Counter(batch.status for batch in plan.batches)
    counts[Status.READY] -= at_source
    for status in Status:
        if counts[status]:
            yield str(status), counts[status]
        if status is Status.READY and at_source:
            yield f"waiting for {'its' if at_source == 1 else 'their'} source", at_source
    if plan.left_out:
        yield "left for later runs", sum(plan.left_out.values())


def next_due_words(plan: Plan, zone: str) -> str:
    """Return when the next window becomes due, in words."""
    return "nothing becomes due" if plan.next_due is None else f"next due {instant_words(plan.next_due, zone)}"


def print_plan(
    to: Console,
    plan: Plan,
    flow: Flow,
    zone: str,
    quiet: Mapping[str, IdleCounts],
    waiting: Mapping[str, FirstWindow] = _NONE,
    waits: Sequence[SourceWait] = (),
) -> None:
    """Print a plan.

    `quiet` has the numbers of labels that need no batch. `waiting` has the first windows of tables without a due
    window, and `waits` the oldest window of each table that waits for its source.
    """
    summary = summary_words(plan, at_source=count_waiting(plan, waits))
    to.print(Text.assemble((summary, "head"), f"; {next_due_words(plan, zone)}"))
    print_waits(to, waits)
    print_pauses(to, plan, zone)
    plan = add_source_waits(plan, waits)
    for name, runs in stretches(plan.batches):
        to.print()
        count = sum(len(run.batches) for run in runs) + plan.left_out.get(name, 0)
        to.print(_heading(to, name, f"{count_words(count, 'label')}{_queries_words(plan.queries.get(name), count)}"))
        for run in runs:
            _print_label_range(to, run, flow)
        if name in plan.left_out:
            to.print(
                Text(f"  and {count_words(plan.left_out[name], 'label')} more, left for later runs", style="quiet")
            )
    if plan.following:
        to.print()
        total = count_words(sum(plan.following.values()), "batch", "batches")
        tables = ", ".join(f"{name} ({number_words(each)})" for name, each in plan.following.items())
        to.print(Text(f"then, if rows differ, up to {total}: {tables}", style="quiet"))
    _print_quiet(to, plan, flow, quiet)
    for view, readers in shared_in_plan(plan, flow).items():
        to.print()
        to.print(Text(f"{view} is SHARED: read once per label for {', '.join(readers)}", style="quiet"), soft_wrap=True)
    if waiting:
        to.print()
        for line in not_begun_lines(waiting):
            to.print(Text(line, style="quiet"), soft_wrap=True)


def print_waits(to: Console, waits: Iterable[SourceWait]) -> None:
    """Print the oldest window of each table that waits for its source, as the last run recorded it."""
    for wait in waits:
        to.print(Text(wait.words(), style="quiet"), soft_wrap=True)


def print_pauses(to: Console, plan: Plan, zone: str) -> None:
    """Print the pauses, if there are any: one line for the tables that were paused together."""
    for line in pause_lines(plan, zone):
        to.print(
            Text.assemble((f"{state_character(State.PAUSED, to)} ", LOOKS[State.PAUSED].style), line), soft_wrap=True
        )


def print_refused(to: Console, plan: Plan) -> None:
    """Print the errors of tables whose declarations are refused. All other tables run."""
    if plan.refused:
        to.print()
        show_errors(to, list(plan.refused.values()))


def print_renames(to: Console, renames: Mapping[str, str]) -> None:
    """Print the tables that the next run renames, with all their batches."""
    for name, was in renames.items():
        to.print(Text(f"{name} was {was}: renamed at the next run", style="quiet"), soft_wrap=True)


def print_lookbacks(to: Console, lookbacks: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the result of the last check of each source whose past windows are checked for changes."""
    for line in format_lookbacks(lookbacks):
        to.print(Text(line, style="quiet"), soft_wrap=True)


def print_received(to: Console, found: Mapping[str, PendingData]) -> None:
    """Print the number and size of the files that have arrived for each table and are not collected yet."""
    for line in received_lines(found):
        to.print(Text(line, style="quiet"), soft_wrap=True)


def shared_in_plan(plan: Plan, flow: Flow) -> dict[str, tuple[str, ...]]:
    """Map each SHARED view to its readers, if several of them have a batch of the same window in the plan."""
    windows: dict[str, set[Window]] = {}
    for batch in plan.batches:
        windows.setdefault(batch.table, set()).add(batch.window)
    found = {}
    for view, readers in readers_of_shared(flow).items():
        due = {name: windows[name] for name in readers if name in windows}
        together = tuple(
            name for name in due if any(due[name] & others for other, others in due.items() if other != name)
        )
        if together:
            found[view] = together
    return found


def _are_in_one_stretch(one: Batch, other: Batch) -> bool:
    return one.window.end == other.window.start and _stretch_key(one) == _stretch_key(other)


def _stretch_key(batch: Batch) -> tuple[object, ...]:
    causes = tuple((cause.table, cause.status) for cause in batch.causes)
    return batch.status, batch.is_revision, batch.choice, causes or batch.reason


def _queries_words(queries: SharedQueries | None, labels: int) -> str:
    """Format the number of queries that make the labels of a table, or "" for a single label."""
    if queries is None or labels < 2:
        return ""
    if queries.least == queries.most:
        return f" in {count_words(queries.most, 'query', 'queries')}"
    return f" in {number_words(queries.least)} to {count_words(queries.most, 'query', 'queries')}"


def _heading(to: Console, name: str, count: str) -> Text:
    gap = max(2, min(to.width, 90) - len(name) - len(count))
    return Text.assemble((name, "name"), " " * gap, (count, "quiet"))


def _print_label_range(to: Console, run: Stretch, flow: Flow) -> None:
    first, last = run.batches[0], run.batches[-1]
    cadence = flow.tables[first.table].cadence
    word = f"{state_character(run.state, to)} {first.status if run.state is State.DUE else run.state}"
    line = Text.assemble(
        "  ",
        (f"{word:<12}", LOOKS[run.state].style),
        f"{local_range(first.label, last.label, cadence):<26}",
        ("  ", ""),
        (label_range(first.label, last.label), "quiet"),
    )
    if first.choice is not None:
        line.append(f"  {first.choice}", style="quiet")
    to.print(line, soft_wrap=True)
    if run.reason:
        to.print(_indent_text(to, run.reason))
    if first.status is Status.HELD and not first.is_over_limit:
        commands = held_batch_commands(
            first.table, first.window.label, last.window.label, is_outdated=first.is_outdated
        )
        to.print(_indent_text(to, commands))
    if command := skip_words(first, last):
        to.print(_indent_text(to, command))


def _indent_text(to: Console, text: str) -> Text:
    import textwrap

    if not to.is_terminal:
        return Text(f"      {text}")
    width = max(to.width - 1, 40)
    lines = textwrap.wrap(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6, break_long_words=False)
    return Text("\n".join(lines))


def _why_not_needed(flow: Flow, name: str) -> str:
    is_publish = flow.tables[name].kind is Kind.PUBLISH
    return "of which only the newest is delivered" if is_publish else "which no table reads"


def _print_quiet(to: Console, plan: Plan, flow: Flow, quiet: Mapping[str, IdleCounts]) -> None:
    lines = [
        f"not needed: {count_words(it.not_needed, 'label')} of {name}, {_why_not_needed(flow, name)}"
        for name, it in quiet.items()
        if it.not_needed
    ]
    lines += [
        f"stood for: {count_words(it.stood_for, 'label')} of {name}, by a later snapshot"
        for name, it in quiet.items()
        if it.stood_for
    ]
    if lines:
        to.print()
        for line in lines:
            to.print(Text(line, style="quiet"), soft_wrap=True)
    if plan.older_code or plan.reported or plan.behind:
        to.print()
        print_behind_tables(to, plan.behind)
        for name, labels in plan.reported.items():
            to.print(
                Text.assemble(
                    (f"{state_character(State.STALE, to)} ", LOOKS[State.STALE].style),
                    f"{name}: the inputs of {count_words(len(labels), 'done label')} have changed; "
                    f"ON RESTATE REPORT leaves it to `recompute {name}`",
                ),
                soft_wrap=True,
            )
        for name, count in plan.older_code.items():
            to.print(
                Text.assemble(
                    (f"{state_character(State.STALE, to)} ", LOOKS[State.STALE].style),
                    f"{name}: {count_words(count, 'done label')} ran under older code; the current code applies from "
                    "the next batch on",
                ),
                soft_wrap=True,
            )
