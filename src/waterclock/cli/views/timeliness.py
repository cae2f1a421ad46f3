"""Prints missed and near deadlines, slow batches, and sources that deliver nothing or retain too much change log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.cli.views.theme import LOOKS, state_character
from waterclock.operations.deadline_words import group_due_windows, remaining_time_words, situation_words, window_words
from waterclock.operations.deadlines import Deadlines, DeadlineState
from waterclock.operations.display_states import State
from waterclock.operations.offline_status import OfflineTableStatus
from waterclock.operations.retained_logs import TableLog, calm_words, log_words
from waterclock.operations.silent_sources import SilentCollects, silence_words

if TYPE_CHECKING:
    from rich.console import Console

_STATES = {DeadlineState.MISSED: State.FAILED, DeadlineState.NEAR: State.WARNED, DeadlineState.LONG: State.WARNED}
_VERBS = {
    DeadlineState.MISSED: "missed the deadline",
    DeadlineState.NEAR: "near the deadline",
    DeadlineState.LONG: "takes long",
}
_MOST = 10


def print_deadlines(to: Console, deadlines: Deadlines, indent: str = "") -> None:
    """Print a line for all windows of a table in the same situation. Print nothing if there are none."""
    groups = group_due_windows(deadlines.found)
    for alike in groups[:_MOST]:
        situation = alike[0].situation
        text = situation_words(alike, deadlines.flow, remaining_time_words(alike[0]))
        to.print(
            Text.assemble(
                (f"{indent}{state_character(_STATES[situation], to)} ", LOOKS[_STATES[situation]].style),
                (window_words(alike, deadlines.flow), "name"),
                f" {_VERBS[situation]}: {text}",
            ),
            soft_wrap=True,
        )
    if (rest := len(groups) - _MOST) > 0:
        to.print(Text(f"{indent}  and {rest} more: waterclock status --json", style="quiet"))
    if groups and not indent:
        to.print()


def print_offline(to: Console, tables: Sequence[OfflineTableStatus]) -> None:
    """Print the tables that the next run measures offline, and those whose last measurement failed."""
    for each in tables:
        if text := each.trouble_words():
            mark = (f"{state_character(State.WARNED, to)} ", LOOKS[State.WARNED].style)
            to.print(Text.assemble(mark, (each.table.name, "name"), f": {text}"), soft_wrap=True)
        if text := each.due_words():
            to.print(Text(text, style="quiet"), soft_wrap=True)


def print_silences(to: Console, silences: SilentCollects) -> None:
    """Print a line for each collect whose source has delivered nothing for unusually long."""
    for silence in silences.found[:_MOST]:
        to.print(
            Text.assemble(
                (f"{state_character(State.WARNED, to)} ", LOOKS[State.WARNED].style),
                (silence.table, "name"),
                f": {silence_words(silence, silences.flow)}",
            ),
            soft_wrap=True,
        )
    if (rest := len(silences.found) - _MOST) > 0:
        to.print(Text(f"  and {rest} more: waterclock status --json", style="quiet"))
    if silences.found:
        to.print()


def print_retained_logs(to: Console, logs: Sequence[TableLog]) -> None:
    """Print the change logs that sources retain, as a run last recorded them: a line for each that needs attention."""
    troubled = [log for log in logs if log.is_troubled or not log.is_needed]
    for log in troubled[:_MOST]:
        mark = (f"{state_character(State.WARNED, to)} ", LOOKS[State.WARNED].style)
        to.print(Text.assemble(mark, (log.table, "name"), f": {log_words(log)}; {log.fix()}"), soft_wrap=True)
    if (rest := len(troubled) - _MOST) > 0:
        to.print(Text(f"  and {rest} more: waterclock status --json", style="quiet"))
    if text := calm_words(logs):
        to.print(Text(text, style="quiet"), soft_wrap=True)
