"""Runs specifications from the command line: shows progress, handles Ctrl-C, prints results and writes the page."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.error_card import style_error
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import LOOKS, console, has_glyphs, state_character
from waterclock.errors import WaterclockError
from waterclock.operations.display_states import State
from waterclock.operations.formatting import count_words, seconds_words
from waterclock.operations.project_opening import open_project
from waterclock.specs.comparing import RowMark
from waterclock.specs.finding import find_features
from waterclock.specs.outcome import ScenarioOutcome, ScenarioVerdict, SpecOutcome, StepOutcome
from waterclock.specs.spec_runner import ScenarioListener, prepare_specs, run_all

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from waterclock.specs.document import Scenario

_PASSED = ("✓", "+")
_STYLES = {"-": "fail", "+": "warn", "~": "fail"}


@dataclass(frozen=True, slots=True)
class SpecSelection:
    """Selects the specifications to run, by files, name and tags. `html` is the file to write the results to."""

    files: tuple[str, ...] = ()
    name: str | None = None
    tags: str | None = None
    html: Path | None = None


def run_specs(folder: Path, env: str | None, wanted: SpecSelection, *, is_json: bool) -> int:
    """Run specifications, print the results, and return the exit code. Raises ProjectErrors, E360 for none, E362."""
    project = open_project(folder, env)
    found = find_features(project.root, wanted.files, name=wanted.name, tags=wanted.tags)
    to = console(stderr=is_json)
    report = SpecReport(to, len(found.scenarios), is_quiet=is_json and not to.is_terminal)
    with report.show_progress(), prepare_specs(project, found.scenarios, errors=found.errors) as at:
        outcome = run_all(at, found.features, report)
    if wanted.html is not None:
        _write_page(outcome, wanted.html)
    if is_json:
        from waterclock.json_models.setup import SpecAnswer

        page = None if wanted.html is None else str(wanted.html)
        print_answer(SpecAnswer.build(**outcome.to_dict(), page=page))
    else:
        _print_summary(to, outcome, wanted.html)
    if outcome.was_stopped:
        return ExitCode.INTERRUPTED
    return ExitCode.of_failure(not outcome.is_passed)


def _write_page(outcome: SpecOutcome, page: Path) -> None:
    try:
        page.write_text(outcome.html(), encoding="utf-8")
    except OSError as error:
        raise WaterclockError(
            "E362",
            "the page cannot be written",
            where=str(page),
            why=error.strerror or str(error),
            fix="name a file in an existing folder",
        ) from error


class SpecReport(ScenarioListener):
    """Prints the result of each scenario when it ends. On a terminal it also shows the running one."""

    def __init__(self, to: Console, count: int, *, is_quiet: bool) -> None:
        self._to = to
        self._count = count
        self._is_quiet = is_quiet
        self._status: Status | None = None
        self._stop = threading.Event()
        self._under = ("", "")

    def on_scenario_start(self, scenario: Scenario, number: int) -> None:
        """Show the running scenario."""
        if self._status is not None:
            self._status.update(Text(f"{number} of {self._count}: {scenario.title}", style="quiet"))

    def on_scenario_end(self, outcome: ScenarioOutcome) -> None:
        """Print the result of a scenario, below its feature and rule."""
        if self._is_quiet:
            return
        scenario = outcome.scenario
        feature, rule = scenario.feature, scenario.rule
        if feature != self._under[0]:
            self._to.print(Text(feature, style="head"), soft_wrap=True)
        if rule and (feature, rule) != self._under:
            self._to.print(Text(f"  {rule}"), soft_wrap=True)
        self._under = (feature, rule)
        self._to.print(_result_line(outcome, self._to), soft_wrap=True)
        if outcome.failed is not None:
            for line in _failure_lines(outcome.failed):
                self._to.print(line, soft_wrap=True)

    def is_stopping(self) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self._stop.is_set()

    @contextmanager
    def show_progress(self) -> Iterator[None]:
        """Show the running scenario on a terminal. The first Ctrl-C stops after it, the second at once."""

        def on_interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signature of signal handlers
            if self._stop.is_set():
                raise KeyboardInterrupt
            self._stop.set()

        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, on_interrupt) if is_main else None
        try:
            if self._is_quiet or not self._to.is_terminal:
                yield
            else:
                with self._to.status(Text("reading the specifications", style="quiet")) as status:
                    self._status = status
                    yield
        finally:
            self._status = None
            if is_main:
                signal.signal(signal.SIGINT, before)


def _result_line(outcome: ScenarioOutcome, to: Console) -> Text:
    is_passed = outcome.verdict is ScenarioVerdict.PASSED
    glyph = _PASSED[0 if has_glyphs(to) else 1] if is_passed else state_character(State.FAILED, to)
    style = "ok.loud" if is_passed else LOOKS[State.FAILED].style
    indent = "    " if outcome.scenario.rule else "  "
    title = Text(outcome.scenario.title, style="" if is_passed else "fail")
    return Text.assemble(indent, (f"{glyph} ", style), title, (f"  {seconds_words(outcome.seconds)}", "quiet"))


def _failure_lines(failed: StepOutcome) -> Iterator[Text]:
    """Yield the lines about a failed step: its text, then the differing rows, the error or the reason."""
    indent = "      "
    step = failed.step
    yield Text.assemble(indent, f"{step.keyword} {step.text}", ("  " + str(step.place), "where"))
    if failed.comparison is not None:
        yield Text(f"{indent}{failed.comparison.summary()}", style="fail")
        drawn = failed.comparison.text().splitlines()
        marks = [RowMark.SAME, *(line.mark for line in failed.comparison.lines)]
        for line, mark in zip(drawn, marks, strict=True):
            yield Text(indent + line, style="" if mark is RowMark.SAME else _STYLES[line[0]])
    elif failed.error is not None:
        for part in style_error(failed.error).split("\n"):
            yield Text(indent) + part
    else:
        yield Text(indent + failed.failure, style="fail")


def _print_summary(to: Console, outcome: SpecOutcome, page: Path | None) -> None:
    failed = len(outcome.failed)
    line = Text("\n")
    line.append(f"{len(outcome.passed)} passed", style="ok.loud" if outcome.passed else "")
    if failed:
        line.append(", ")
        line.append(f"{failed} failed", style="fail.loud")
    line.append(f" of {count_words(len(outcome.scenarios), 'example')} ({seconds_words(outcome.seconds)})")
    if outcome.was_stopped:
        line.append(f"; stopped, {outcome.left_out} not run")
    to.print(line, soft_wrap=True)
    if page is not None:
        to.print(f"written: {page}", soft_wrap=True)
