"""A scenario as steps that a flow can run: rows of labels, runs of windows, and expected results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from waterclock.flow.declarations import Flow, Table
from waterclock.specs.document import Scenario
from waterclock.specs.steps import StepMeaning
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window


@dataclass(frozen=True, slots=True)
class GivenStep:
    """A step that gives rows of a table. `labels` maps each label to the indexes of its rows in the step's table."""

    meaning: StepMeaning
    table: Table
    labels: Mapping[datetime, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """A step that runs a table, and all that it depends on, up to the end of each window."""

    meaning: StepMeaning
    table: Table
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class ExpectedStep:
    """The expected content of a table: its slices in `[low, high)`, or its state as of `high`. `low` may be None."""

    meaning: StepMeaning
    table: Table
    low: datetime | None
    high: datetime


Action = GivenStep | ScriptRun | ExpectedStep


@dataclass(frozen=True, slots=True)
class Script:
    """A scenario whose steps are resolved to tables and labels of a flow.

    `given` has the tables whose rows are given. `made` has the tables that run, and all that they depend on, up to the
    given tables, which are included.
    """

    scenario: Scenario
    actions: tuple[Action, ...]
    given: frozenset[str]
    made: frozenset[str]

    @property
    def runs(self) -> frozenset[str]:
        """The tables that a step runs by name."""
        return frozenset(action.table.name for action in self.actions if isinstance(action, ScriptRun))

    @property
    def earliest(self) -> datetime:
        """The start of the first window that a step gives or runs."""
        given = (label for action in self.actions if isinstance(action, GivenStep) for label in action.labels)
        run = (window.start for action in self.actions if isinstance(action, ScriptRun) for window in action.windows)
        return min([*given, *run])


def upstream(flow: Flow, name: str, given: frozenset[str]) -> frozenset[str]:
    """Return a table and everything it depends on, up to the given tables, which are included."""
    found: set[str] = {name}
    waiting = _inputs(flow.tables[name])
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            if other not in given:
                waiting.extend(_inputs(flow.tables[other]))
    return frozenset(found)


def _inputs(table: Table) -> list[str]:
    """Return the tables that a table depends on: its inputs, and the table whose late rows or open windows it has."""
    closing = [table.late_rows.of] if table.late_rows else [table.open_of] if table.open_of else []
    return [*(read.table for read in table.reads), *closing]


def names_label(meaning: StepMeaning) -> bool:
    """Return whether the step's table names the hidden column `timelabel`."""
    grid = meaning.step.grid
    return grid is not None and any(cell.text.lower() == TIMELABEL for cell in grid.header)
