"""Runs the steps of a scenario in order, with the project's engine, on a ledger and tables of its own."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import HELD_BACK
from waterclock.dpl.project import Project
from waterclock.engine.reads.as_of import frame_as_of
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import GroupReport, Listener
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.runner import Runner
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.session import Sessions
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.secrets.reader import Secrets
from waterclock.selection import Labels
from waterclock.specs.comparing import Comparison, Values, compare
from waterclock.specs.derived_flow import ScenarioFlow, derive
from waterclock.specs.given_rows import GivenRows, SpecConnections, build_source
from waterclock.specs.outcome import ScenarioVerdict, StepOutcome
from waterclock.specs.script import Action, ExpectedStep, GivenStep, ScriptRun, upstream
from waterclock.specs.steps import StepAction
from waterclock.specs.typed_rows import StepRows, TypedScript, keys_of
from waterclock.timelabel.label import TIMELABEL, label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WHO = "a specification"
LEDGER = "ledger.db"
_MOST_ROWS = 10_000
_NO_ROWS = StepRows((), {}, ())


@contextmanager
def open_scenario(
    project: Project, typed: TypedScript, sessions: Sessions, folder: Path, empty: Path
) -> Iterator[ScenarioRunner]:
    """Open a runner for a scenario, with its storage below `folder` and its ledger copied from the file `empty`."""
    derived = derive(project.flow, typed)
    folder.mkdir(parents=True)
    shutil.copy(empty, folder / LEDGER)
    own = replace(
        project,
        storage=str(folder / "storage"),
        ledger=f"sqlite:///{folder / LEDGER}",
        publish=False,
        flow=derived.flow,
    )
    given, results = build_source(derived.flow.tables), _BatchResults()
    with open_workplace(own, settings=RunSettings(attempts=1, who=WHO), listener=results, sessions=sessions) as work:
        work.connections = SpecConnections(folder, given, Secrets.from_places(project.secrets))
        yield ScenarioRunner(work, derived, typed, given, results)


@dataclass(slots=True)
class _BatchResults(Listener):
    """Stores the newest failure or warnings that the engine reported for each finished batch."""

    failures: dict[tuple[str, datetime], WaterclockError] = field(default_factory=dict)
    warnings: dict[tuple[str, datetime], tuple[str, ...]] = field(default_factory=dict)

    def on_group_finish(self, report: GroupReport) -> None:
        """Record the result of each batch."""
        for batch in report.group.batches:
            key = (report.group.table, batch.label)
            if report.error is not None:
                self.failures[key] = report.error
            else:
                self.failures.pop(key, None)
                self.warnings[key] = report.warnings


@dataclass(slots=True)
class ScenarioRunner:
    """Runs the steps of one scenario."""

    work: RunContext
    derived: ScenarioFlow
    typed: TypedScript
    given: GivenRows
    heard: _BatchResults
    _run_labels: dict[str, set[datetime]] = field(default_factory=dict)

    def step(self, at: int) -> StepOutcome:
        """Run the step at an index of the script, and return its outcome. An error is a failed outcome."""
        action = self.typed.script.actions[at]
        step = action.meaning.step
        try:
            if isinstance(action, GivenStep):
                name = self.derived.seeds.get(action.table.name, action.table.name)
                self.given.give(name, action, self.typed.rows.get(at))
                return StepOutcome(step, ScenarioVerdict.PASSED)
            found = self._run(at, action) if isinstance(action, ScriptRun) else self._check_expectation(at, action)
        except Exception as raised:  # noqa: BLE001 - a defect in one scenario is reported there
            return StepOutcome(step, ScenarioVerdict.FAILED, error=to_error(raised, where=str(step.place)))
        if isinstance(found, Comparison):
            return StepOutcome(step, ScenarioVerdict.PASSED if found.is_same else ScenarioVerdict.FAILED, found)
        if isinstance(found, WaterclockError):
            return StepOutcome(step, ScenarioVerdict.FAILED, error=found)
        return StepOutcome(step, ScenarioVerdict.FAILED if found else ScenarioVerdict.PASSED, failure=found)

    # Running tables

    def _run(self, at: int, action: ScriptRun) -> WaterclockError | str:
        """Run a table to the end of each window. Return an unexpected failure, why it did not run, or an empty text."""
        name = action.table.name
        made = upstream(self.derived.flow, name, frozenset())
        for window in action.windows:
            self._write_given_rows(made, window)
            run_labels = self._run_labels.setdefault(name, set())
            run_labels.add(window.start)
            bounds = Labels.from_range(min(run_labels), window.start)
            if self.derived.flow.tables[name].is_in_label_order:
                bounds = Labels(None, bounds.high)
            outcome = self._run_tables(
                self.derived.flow, made, window.end, {name: bounds}, {name: frozenset({window.start})}
            )
            failed = self._find_unexpected_error(at, outcome)
            if failed is not None:
                return failed
            if not self._is_done(name, window) and not outcome.failed:
                return self._explain_missing_batch(name, window, outcome)
        return ""

    def _write_given_rows(self, made: frozenset[str], window: Window) -> None:
        """Write the given rows of tables that the scenario also runs, before these tables run."""
        for name, hidden in self.derived.seeds.items():
            labels = sorted(self.given.rows.get(hidden, ()))
            todo = [label for label in labels if (hidden, label) not in self.given.read]
            if name not in made or not (todo or self.given.find_changed_labels(hidden)):
                continue
            end = self.derived.flow.tables[name].cadence.next(labels[-1])
            bounds = {name: Labels.from_range(labels[0], labels[-1])}
            outcome = self._run_tables(
                self.derived.seeding, frozenset({name, hidden}), min(end, window.end), bounds, {name: frozenset(labels)}
            )
            for report in outcome.failed:
                if report.error is not None:
                    raise report.error

    def _run_tables(
        self,
        flow: Flow,
        only: frozenset[str],
        now: datetime,
        labels: Mapping[str, Labels],
        force: Mapping[str, frozenset[datetime]],
    ) -> RunOutcome:
        """Run tables as `waterclock run` does. Changed given rows are collected again, failed batches are retried."""
        self.work.project = replace(self.work.project, flow=flow)
        apply_flow(self.work, now)
        ledger = self.work.ledger
        for name in sorted(only):
            if changed := self.given.find_changed_labels(name):
                ledger.decisions.request_restate(name, changed, "recollect", who=WHO)
        for name, label in tuple(self.heard.failures):
            if name in only:
                ledger.decisions.retry(name, [label], who=WHO)
                del self.heard.failures[name, label]
        return Runner(self.work, only=only, labels=labels, force=force).run_once(now)

    def _find_unexpected_error(self, at: int, outcome: RunOutcome) -> WaterclockError | None:
        expected = {
            action.table.name
            for action in self._actions_before_run(at)
            if isinstance(action, ExpectedStep) and action.meaning.does is StepAction.FAILS
        }
        for report in outcome.failed:
            if report.error is not None and report.group.table not in expected:
                return report.error
        return None

    def _actions_before_run(self, at: int) -> Iterator[Action]:
        for action in self.typed.script.actions[at + 1 :]:
            if isinstance(action, ScriptRun):
                return
            yield action

    def _is_done(self, name: str, window: Window) -> bool:
        return bool(self.work.ledger.reads.slices(name, window.start, window.end))

    def _explain_missing_batch(self, name: str, window: Window, outcome: RunOutcome) -> str:
        batches = outcome.plan.batches if outcome.plan else ()
        for batch in batches:
            if batch.table == name and batch.label == window.start:
                return f"{name}@{window.label} did not run: it is {batch.status}, {batch.reason}"
        return f"{name}@{window.label} did not run: nothing was due"

    # Checking expectations

    def _check_expectation(self, at: int, action: ExpectedStep) -> Comparison | WaterclockError | str:
        does = action.meaning.does
        if does is StepAction.FAILS:
            return self._check_failure(action)
        if does is StepAction.WARNS:
            return self._check_warning(action)
        name = action.table.name
        if failed := self._list_failures(action):
            return failed[0]
        low = action.low or self.derived.flow.tables[name].cadence.previous(action.high)
        if not self._is_done(name, Window(low, action.high)):
            return f"{name}@{label_of(low)} was not made: no step runs it"
        rows = self.typed.rows.get(at, _NO_ROWS)
        if does is StepAction.NOTHING:
            columns = tuple(c for c in self._frame(action).columns if c != TIMELABEL)
            return compare(columns, (), self._rows(action, columns))
        got = self._rows(action, rows.columns)
        keys = keys_of(action, rows.columns)
        return compare(rows.columns, rows.rows, got, keys=keys, may_be_more=does is StepAction.CONTAINS)

    def _check_failure(self, action: ExpectedStep) -> WaterclockError | str:
        found = self._list_failures(action)
        if not found:
            return f"{action.table.name} did not fail"
        return "" if any(is_failure_of(error, action.meaning.what) for error in found) else found[0]

    def _list_failures(self, action: ExpectedStep) -> list[WaterclockError]:
        failures = self.heard.failures.items()
        return [error for (of, label), error in failures if of == action.table.name and _covers_label(action, label)]

    def _check_warning(self, action: ExpectedStep) -> str:
        name, what = action.table.name, action.meaning.what
        found = [
            warning
            for (of, label), warnings in self.heard.warnings.items()
            for warning in warnings
            if of == name and _covers_label(action, label)
        ]
        if any(is_warning_of(warning, what) for warning in found):
            return ""
        return f"{name} did not warn of {what}" + (f"; it warned: {'; '.join(found)}" if found else "")

    def _frame(self, action: ExpectedStep) -> DataFrame:
        table = self.derived.flow.tables[action.table.name]
        frame = frame_as_of(self.work, self.work.sessions.own(), table, action.high)
        if table.is_partitioned and action.low is not None:
            return frame.where(f"timelabel >= '{label_of(action.low)}'")
        return frame

    def _rows(self, action: ExpectedStep, columns: tuple[str, ...]) -> list[Values]:
        frame = self._frame(action).selectExpr(*(f"`{name}`" for name in columns))
        table = frame.limit(_MOST_ROWS + 1).toArrow()
        if table.num_rows > _MOST_ROWS:
            raise WaterclockError(
                "E361",
                f"{action.table.name} has more than {_MOST_ROWS} rows",
                where=str(action.meaning.step.place),
                why="rows are compared one by one, and an example is small",
                fix="give fewer rows",
            )
        arrays = [table.column(at).to_pylist() for at in range(len(columns))]
        return list(zip(*arrays, strict=True)) if arrays else []


def is_failure_of(error: WaterclockError, what: str) -> bool:
    """Return whether `what` is the code of an error, or the rule, column or KEY that failed.

    An error about rules lists their names, each with an expression. A name inside an expression does not count.
    """
    is_of_rules = error.code in {HELD_BACK, "E740"}
    pattern = rf"(?:: |; |^){_message_pattern(what)}" if is_of_rules else rf"(?<!\w){re.escape(what)}(?!\w)"
    texts = (error.what, error.why or "")
    return error.code == what or any(re.search(pattern, text, re.IGNORECASE) for text in texts)


def is_warning_of(warning: str, what: str) -> bool:
    """Return whether a warning is about the rule, type, column or KEY `what`."""
    return re.match(_message_pattern(what), warning, re.IGNORECASE) is not None


def _message_pattern(what: str) -> str:
    """Return a pattern for the beginning of a message about the rule, column or KEY `what`."""
    return rf"{re.escape(what)}(?:: | \(| is null in )"


def _covers_label(action: ExpectedStep, label: datetime) -> bool:
    return label < action.high and (action.low is None or label >= action.low)
