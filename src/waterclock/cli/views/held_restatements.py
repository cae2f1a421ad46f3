"""Prints restatements that a limit holds, with their cost and the commands to continue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.cli.views.theme import LOOKS, state_character
from waterclock.flow.declarations import Flow
from waterclock.operations.display_states import State
from waterclock.operations.held_restatements import RestatementCost, held_words
from waterclock.planner.plan import Plan

if TYPE_CHECKING:
    from rich.console import Console

_NEXT_AFTER_RUN = {
    True: "`waterclock run` without --at-most makes them again",
    False: "`waterclock plan` shows their cost",
}


def print_held_restatements(to: Console, found: Iterable[RestatementCost]) -> None:
    """Print each held restatement: its labels and the reason, then its cost and the commands to continue."""
    for each in found:
        first, *others = each.lines()
        to.print(Text.assemble((f"{state_character(State.HELD, to)} ", LOOKS[State.HELD].style), first), soft_wrap=True)
        for line in others:
            to.print(Text(f"  {line}", style="quiet"), soft_wrap=True)


def print_held_after_run(to: Console, plan: Plan, flow: Flow) -> None:
    """Print the restatements that are held after a run, and the command that shows their cost."""
    for name, held in plan.held_restatements.items():
        glyph = (f"{state_character(State.HELD, to)} ", LOOKS[State.HELD].style)
        words = held_words(name, held, flow.tables[name].cadence)
        to.print(Text.assemble(glyph, f"{words}; {_NEXT_AFTER_RUN[held.is_of_run]}"), soft_wrap=True)
