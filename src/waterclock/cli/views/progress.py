"""Shows the progress of a run: a line for each running group, and above them one for each finished group."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.cli.views.json_log import JsonLog
from waterclock.cli.views.screen import Screen
from waterclock.cli.views.theme import LOOKS, has_glyphs, state_character
from waterclock.engine.run_listener import GroupReport, Listener
from waterclock.flow.declarations import Flow
from waterclock.operations.display_states import State
from waterclock.operations.formatting import count_words, label_range, local_range, seconds_words
from waterclock.planner.plan import Group, Plan
from waterclock.printable import printable_line
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_DONE_GLYPHS = ("✓", "+")
_WIDEST_NAME = 32
_NARROWEST_LABELS, _WIDEST_LABELS = 24, 41  # fits a day; fits the hours of two days with a count
_OF_OTHERS = 30  # width of the other parts of a line: glyph, rows, seconds and gaps


@dataclass(slots=True)
class _RunningGroup:
    """A running group: its start and its current step."""

    group: Group
    begun: float
    step: str = "waiting for Spark"


@dataclass(slots=True)
class Progress(Listener):
    """A listener that prints for people. On a terminal it redraws the running groups; elsewhere it prints plain lines.

    A run that steps through time prints each new date. With a `log`, events are logged and nothing is printed. All
    methods are thread-safe and never wait for the terminal. The lock protects the state and the queue of lines, and is
    never held during printing or drawing.
    """

    flow: Flow
    zone: str
    to: Console
    is_quiet: bool = False
    is_stepping: bool = False
    log: JsonLog | None = None
    _running: dict[tuple[str, datetime], _RunningGroup] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _screen: Screen = field(init=False)
    _now: datetime | None = None
    _shown: str = ""
    _width: int = 0
    _labels_width: int = 0
    _done: int = 0
    _left: int = 0
    _note: str = ""

    def __post_init__(self) -> None:
        self._screen = Screen(self.to, self)
        self._width = min(_WIDEST_NAME, max((len(name) for name in self.flow.tables), default=0))
        self._labels_width = min(_WIDEST_LABELS, max(_NARROWEST_LABELS, self.to.width - self._width - _OF_OTHERS))

    @contextmanager
    def display(self) -> Iterator[None]:
        """Print messages within the block, and draw the running groups below them until the block ends."""
        with self._screen.display(is_drawn=self.to.is_terminal and not self.is_quiet and self.log is None):
            yield

    def tick(self, now: datetime) -> None:
        """Store the instant that the run has reached. Its date is printed once a batch runs at that instant."""
        with self._lock:
            self._now = now

    def on_plan(self, plan: Plan) -> None:
        """Store the number of remaining batches."""
        with self._lock:
            self._left = len(plan.batches) + sum(plan.left_out.values())

    def on_group_start(self, group: Group) -> None:
        """Show a group as running."""
        if self.log is not None:
            self.log.on_group_start(group)
            return
        with self._lock:
            self._print_tick()
            self._running[_group_key(group)] = _RunningGroup(group, time.monotonic())
            if self._note.startswith("watching"):
                self._note = ""

    def step(self, group: Group, name: str) -> None:
        """Show the current step of a group, or of a part of a group that was split."""
        if self.log is not None:
            return
        with self._lock:
            work = self._running.setdefault(_group_key(group), _RunningGroup(group, time.monotonic()))
            work.group, work.step = group, name

    def on_group_finish(self, report: GroupReport) -> None:
        """Print the result of a group."""
        if self.log is not None:
            self.log.on_group_finish(report)
            return
        with self._lock:
            self._running.pop(_group_key(report.group), None)
            if report.error is None:
                self._done += len(report.group.batches)
                self._left = max(0, self._left - len(report.group.batches))
            if report.is_repeat:
                return
            lines = [self._earlier_line(report.earlier)] if report.earlier else []
            lines += [self._warning_line(warning) for warning in report.warnings]
            self._print_lines(self._finished_line(report), *lines)

    def on_message(self, message: str) -> None:
        """Print a message for the user."""
        if self.log is not None:
            self.log.on_message(message)
            return
        self._print_lines(Text(f"  {printable_line(message)}", style="quiet"))

    def note(self, message: str) -> None:
        """Show a message below the running groups, until the end of the run or the next message."""
        if self.log is not None:
            self.log.on_message(message)
            return
        message = printable_line(message)
        with self._lock:
            self._note = message
        if not self.to.is_terminal:
            self._screen.say(Text(message))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the running groups."""
        with self._lock:
            works = list(self._running.values())
            counts = f"{count_words(self._done, 'batch', 'batches')} done, {self._left} left"
            note = self._note
        for work in works[: max(1, options.size.height - 6)]:
            yield self._running_line(work, options.max_width)
        if works or note:
            yield Text(f"  {counts}", style="quiet", no_wrap=True, overflow="ellipsis")
        if note:  # the note names the key to exit, so a narrow terminal does not cut it
            yield Text(f"  {note}", style="quiet")

    def _print_lines(self, *lines: Text) -> None:
        if not self.is_quiet:
            self._screen.say(*lines)

    def _print_tick(self) -> None:
        if self._now is None or not self.is_stepping:
            return
        text = f"{self._now.astimezone(nominal_zone(self.zone)):%A %-d %B %Y}"
        if text != self._shown:
            self._print_lines(Text(text, style="quiet"))
        self._shown = text

    def _running_line(self, work: _RunningGroup, width: int) -> Text:
        spent = seconds_words(time.monotonic() - work.begun)
        look = LOOKS[State.RUNNING]
        line = Text.assemble(
            (f"{state_character(State.RUNNING, self.to)} ", look.style),
            (f"{work.group.table:<{self._width}} ", "name"),
            f"{self._labels(work.group):<{self._labels_width}} ",
            (f"{spent:>6}  {work.step}", "quiet"),
            no_wrap=True,
            overflow="ellipsis",
        )
        line.truncate(width)
        return line

    def _finished_line(self, report: GroupReport) -> Text:
        name = Text(f"{report.group.table:<{self._width}} ", style="name")
        labels = f"{self._labels(report.group):<{self._labels_width}} "
        if report.error is not None and report.is_of_other_runner:
            line = Text.assemble("  ", name, labels, report.error.what)
            line.stylize("quiet")
            return line
        if report.error is not None:
            state = State.HELD if report.is_held else State.FAILED
            mark = (f"{state_character(state, self.to)} ", LOOKS[state].style)
            line = Text.assemble(mark, name, labels, (f"{report.error.code} {report.error.what}", "fail"))
            if self.to.is_terminal:
                line.truncate(self.to.width, overflow="ellipsis")  # the full error is printed at the end
            return line
        mark = (f"{_DONE_GLYPHS[0 if has_glyphs(self.to) else 1]} ", "ok.loud")
        rows = f"{count_words(report.rows, 'row'):>14}  {seconds_words(report.seconds):>9}"
        return Text.assemble(mark, name, labels, rows)

    def _earlier_line(self, count: int) -> Text:
        return Text(
            f"  with {count_words(count, 'earlier label')}, whose rows had changed at the source", style="quiet"
        )

    def _warning_line(self, warning: str) -> Text:
        look = LOOKS[State.WARNED]
        return Text.assemble((f"  {state_character(State.WARNED, self.to)} ", look.style), warning)

    def _labels(self, group: Group) -> str:
        first, last = group.batches[0].label, group.batches[-1].label
        table = self.flow.tables.get(group.table)
        text = label_range(first, last) if table is None else local_range(first, last, table.cadence)
        count = len(group.batches)
        return text if count == 1 else f"{text} ({count})"


def _group_key(group: Group) -> tuple[str, datetime]:
    return group.table, group.batches[0].label
