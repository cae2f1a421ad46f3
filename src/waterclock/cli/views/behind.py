"""Prints older states that are behind: their inputs were restated since, and no batch needs the states."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.cli.views.theme import LOOKS, state_character
from waterclock.operations.display_states import State
from waterclock.operations.formatting import count_words, label_range

if TYPE_CHECKING:
    from rich.console import Console


def print_behind_tables(to: Console, behind: Mapping[str, tuple[datetime, ...]]) -> None:
    """Print one line per table: how many of its states are behind, their labels, and the command to make them again."""
    for name, labels in behind.items():
        glyph = (f"{state_character(State.BEHIND, to)} ", LOOKS[State.BEHIND].style)
        to.print(Text.assemble(glyph, describe_behind_states(name, labels)), soft_wrap=True)


def describe_behind_states(name: str, labels: tuple[datetime, ...]) -> str:
    """Return how many older states of a table are behind, their labels, and the command to make them again."""
    are = "is" if len(labels) == 1 else "are"
    return (
        f"{name}: {count_words(len(labels), 'older state')} {are} behind, {label_range(labels[0], labels[-1])}: "
        f"its inputs were restated since; `waterclock recompute {name} --behind` makes what changed again"
    )
