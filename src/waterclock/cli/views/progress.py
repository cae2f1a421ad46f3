"""Tells how a run goes: a line for each group that runs, and one for each that is finished, above them."""

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
from waterclock.cli.views.theme import LOOKS, has_glyphs, sign
from waterclock.engine.progress import GroupReport
from waterclock.flow.declarations import Flow
from waterclock.operations.states import State
from waterclock.operations.words import count_words, label_range, local_range, seconds_words
from waterclock.planner.plan import Group, Plan
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_DONE_GLYPHS = ("✓", "+")
_WIDEST_NAME = 32
_NARROWEST_LABELS, _WIDEST_LABELS = 24, 41  # a day; hours of two days and how many
_OF_OTHERS = 30  # what else is in a line: the glyph, rows, seconds, and space between


@dataclass(slots=True)
class _Work:
    """A group that runs: since when, and how far it is."""

    group: Group
    begun: float
    step: str = "waiting for Spark"


@dataclass(slots=True)
class Progress:
    """A listener that tells a person; on a terminal it redraws what runs, elsewhere it prints plain lines.

    A run that steps through time says each new date. With a `log` that is told, and nothing printed. Safe from
    any thread, and never waits for the terminal: its lock is held to change what is known and to queue lines,
    never to print or draw.
    """

    flow: Flow
    zone: str
    to: Console
    is_quiet: bool = False
    is_stepping: bool = False
    log: JsonLog | None = None
    _running: dict[tuple[str, datetime], _Work] = field(default_factory=dict)
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
    def shown(self) -> Iterator[None]:
        """Print what is told within the block, and keep what runs drawn below it; of the drawing nothing stays."""
        with self._screen.shown(is_drawn=self.to.is_terminal and not self.is_quiet and self.log is None):
            yield

    def tick(self, now: datetime) -> None:
        """Remember the instant; its date is said once something runs at it."""
        with self._lock:
            self._now = now

    def planned(self, plan: Plan) -> None:
        """Count what is left to do."""
        with self._lock:
            self._left = len(plan.batches) + sum(plan.left_out.values())

    def started(self, group: Group) -> None:
        """Show a group as running."""
        if self.log is not None:
            self.log.started(group)
            return
        with self._lock:
            self._say_tick()
            self._running[_key(group)] = _Work(group, time.monotonic())
            if self._note.startswith("watching"):
                self._note = ""

    def step(self, group: Group, name: str) -> None:
        """Show at which step a group is; a group that was split goes on as its parts."""
        if self.log is not None:
            return
        with self._lock:
            work = self._running.setdefault(_key(group), _Work(group, time.monotonic()))
            work.group, work.step = group, name

    def finished(self, report: GroupReport) -> None:
        """Print what came of a group."""
        if self.log is not None:
            self.log.finished(report)
            return
        with self._lock:
            self._running.pop(_key(report.group), None)
            if report.error is None:
                self._done += len(report.group.batches)
                self._left = max(0, self._left - len(report.group.batches))
            if report.is_repeat:
                return
            told = [self._earlier_line(report.earlier)] if report.earlier else []
            told += [self._warning_line(warning) for warning in report.warnings]
            self._say(self._finished_line(report), *told)

    def said(self, message: str) -> None:
        """Print something a person should know."""
        if self.log is not None:
            self.log.said(message)
            return
        self._say(Text(f"  {message}", style="quiet"))

    def note(self, message: str) -> None:
        """Show a message below what runs, until the end."""
        if self.log is not None:
            self.log.said(message)
            return
        with self._lock:
            self._note = message
        if not self.to.is_terminal:
            self._screen.say(Text(message))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw what runs now."""
        with self._lock:
            works = list(self._running.values())
            counts = f"{count_words(self._done, 'batch', 'batches')} done, {self._left} left"
            note = self._note
        for work in works[: max(1, options.size.height - 6)]:
            yield self._running_line(work, options.max_width)
        if works or note:
            yield Text(f"  {counts}", style="quiet", no_wrap=True, overflow="ellipsis")
        if note:  # it says how to leave: it is shown whole, however narrow the terminal is
            yield Text(f"  {note}", style="quiet")

    def _say(self, *lines: Text) -> None:
        if not self.is_quiet:
            self._screen.say(*lines)

    def _say_tick(self) -> None:
        if self._now is None or not self.is_stepping:
            return
        text = f"{self._now.astimezone(nominal_zone(self.zone)):%A %-d %B %Y}"
        if text != self._shown:
            self._say(Text(text, style="quiet"))
        self._shown = text

    def _running_line(self, work: _Work, width: int) -> Text:
        spent = seconds_words(time.monotonic() - work.begun)
        look = LOOKS[State.RUNNING]
        line = Text.assemble(
            (f"{sign(State.RUNNING, self.to)} ", look.style),
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
        if report.error is not None and report.is_anothers:
            line = Text.assemble("  ", name, labels, report.error.what)
            line.stylize("quiet")
            return line
        if report.error is not None:
            state = State.HELD if report.is_held else State.FAILED
            mark = (f"{sign(state, self.to)} ", LOOKS[state].style)
            line = Text.assemble(mark, name, labels, (f"{report.error.code} {report.error.what}", "fail"))
            if self.to.is_terminal:
                line.truncate(self.to.width, overflow="ellipsis")  # the whole of it is told at the end
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
        return Text.assemble((f"  {sign(State.WARNED, self.to)} ", look.style), warning)

    def _labels(self, group: Group) -> str:
        first, last = group.batches[0].label, group.batches[-1].label
        table = self.flow.tables.get(group.table)
        text = label_range(first, last) if table is None else local_range(first, last, table.cadence)
        count = len(group.batches)
        return text if count == 1 else f"{text} ({count})"


def _key(group: Group) -> tuple[str, datetime]:
    return group.table, group.batches[0].label
