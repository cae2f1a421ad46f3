"""Prints the connections of an environment when each was tried."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.cli.views.error_card import show_errors
from waterclock.cli.views.theme import LOOKS, has_glyphs, state_character
from waterclock.operations.display_states import State
from waterclock.operations.formatting import count_words, seconds_words

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.engine.connection_checks import ConnectionTest


def print_probes(to: Console, probes: Iterable[ConnectionTest]) -> list[ConnectionTest]:
    """Print a line for each tried connection as its result arrives, then errors and warnings. Return all results."""
    found: list[ConnectionTest] = []
    for probe in probes:
        found.append(probe)
        to.print(_probe_line(to, probe), soft_wrap=True)
    errors = [probe.error for probe in found if probe.error is not None]
    if cards := [*errors, *(probe.warning for probe in found if probe.warning is not None)]:
        to.print()
        show_errors(to, cards)
    if errors:
        to.print()
        to.print(Text(f"{count_words(len(errors), 'check')} failed", style="fail.loud"))
    return found


def _probe_line(to: Console, probe: ConnectionTest) -> Text:
    if probe.error is not None:
        mark = (f"{state_character(State.FAILED, to)} ", LOOKS[State.FAILED].style)
        result = (f"{probe.error.code} {probe.description}", "fail")
    elif probe.warning is not None:
        mark = (f"{state_character(State.WARNED, to)} ", LOOKS[State.WARNED].style)
        result = (f"{probe.warning.code} {probe.description}", "warn")
    else:
        mark = ("✓ " if has_glyphs(to) else "+ ", "ok.loud")
        result = (probe.description, "")
    return Text.assemble(
        mark,
        (f"{probe.kind:<11} ", "quiet"),
        (probe.name, "name"),
        "  ",
        result,
        (f"  {seconds_words(probe.seconds)}", "quiet"),
    )
