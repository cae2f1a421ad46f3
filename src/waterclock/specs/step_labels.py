"""Determines the labels of each step of a scenario: those that it names, or defaults that follow from its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Place, Table
from waterclock.selection import parse_labels
from waterclock.specs.script import Action, ExpectedStep, GivenStep, ScriptRun, names_label
from waterclock.specs.steps import GIVEN, StepAction, StepMeaning
from waterclock.specs.values import plain_text
from waterclock.timelabel.label import TIMELABEL, label_of
from waterclock.timelabel.window import Window

_ANY_MONDAY = datetime(2000, 1, 3, 12, tzinfo=UTC)  # used if no step names a label


def assign_labels(
    meanings: Sequence[StepMeaning], flow: Flow
) -> tuple[tuple[Action, ...], tuple[WaterclockError, ...]]:
    """Determine the labels of each step. Return the actions, and the errors E512 to E514 of invalid labels."""
    placing = _LabelAssignment(tuple(meanings), flow)
    placing.place()
    return tuple(placing.actions), tuple(placing.errors)


def named_windows(text: str, table: Table) -> list[Window]:
    """Return the windows of a table that a label or a range selects. Raises E512 to E514 if it is invalid."""
    cadence = table.cadence
    low, high = parse_labels(text).bounds(cadence)
    if low is not None and high is not None and low < high:
        return list(cadence.windows(low, high))
    near = low or high
    if near is None or ".." in text:
        raise WaterclockError("E513", f"{text} is not a range of labels of {table.name}", fix="write both ends: A..B")
    raise WaterclockError(
        "E513",
        f"no window of {table.name} starts at {text}",
        why=f"its windows are {cadence}",
        fix=f"use the nearest label: {label_of(cadence.previous(near))} or {label_of(near)}",
    )


@dataclass(slots=True)
class _LabelAssignment:
    meanings: tuple[StepMeaning, ...]
    flow: Flow
    errors: list[WaterclockError] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def place(self) -> None:
        """Determine the labels of runs, then of given rows, which depend on runs, then of expectations."""
        named = [self._parse_named_windows(meaning) for meaning in self.meanings]
        if self.errors:
            return
        runs: dict[int, tuple[Window, ...]] = {}
        for at, meaning in enumerate(self.meanings):
            if meaning.does is StepAction.RUNS:
                runs[at] = named[at] or (self._default_window(meaning, at, named),)
        gives: dict[int, Mapping[datetime, tuple[int, ...]]] = {}
        newest: dict[str, datetime] = {}
        for at, meaning in enumerate(self.meanings):
            if meaning.does in GIVEN:
                usual = self._default_label(meaning, at, runs, newest)
                gives[at] = self._assign_rows_to_labels(meaning, named[at], usual)
                newest[meaning.table] = max([*gives[at], *filter(None, [newest.get(meaning.table)])])
        for at, meaning in enumerate(self.meanings):
            table = self.flow.tables[meaning.table]
            if at in runs:
                self.actions.append(ScriptRun(meaning, table, runs[at]))
            elif at in gives:
                self.actions.append(GivenStep(meaning, table, gives[at]))
            else:
                self.actions.append(self._build_expectation(meaning, named[at], at, runs))

    def _parse_named_windows(self, meaning: StepMeaning) -> tuple[Window, ...]:
        """Return the windows that a step names: after `at`, or in the column `timelabel` of its rows."""
        texts = [(meaning.labels, meaning.step.place)] if meaning.labels is not None else _list_label_cells(meaning)
        found: list[Window] = []
        for text, at in texts:
            try:
                found += named_windows(text, self.flow.tables[meaning.table])
            except WaterclockError as error:
                self.errors.append(_add_place(error, at))
        return tuple(sorted(set(found), key=lambda window: window.start))

    def _default_window(self, meaning: StepMeaning, at: int, named: list[tuple[Window, ...]]) -> Window:
        """Return the window of a run without a label: the first that ends at or after all named windows."""
        cadence = self.flow.tables[meaning.table].cadence
        before = [window.end for windows in named[:at] for window in windows]
        ends = before or [window.end for windows in named for window in windows]
        if not ends:
            return cadence.window_of(_ANY_MONDAY)
        end = cadence.ceil(max(ends))
        return Window(cadence.previous(end), end)

    def _default_label(
        self, meaning: StepMeaning, at: int, runs: Mapping[int, tuple[Window, ...]], newest: Mapping[str, datetime]
    ) -> datetime:
        """Return the label of rows that are given without one: the newest that is over at the tick of the next run."""
        if meaning.does in {StepAction.ALSO, StepAction.NOW} and meaning.table in newest:
            return newest[meaning.table]
        cadence = self.flow.tables[meaning.table].cadence
        later = [windows[0].end for index, windows in runs.items() if index > at]
        tick = next(iter(later), None) or max((w[-1].end for w in runs.values()), default=_ANY_MONDAY)
        return cadence.previous(cadence.floor(tick))

    def _assign_rows_to_labels(
        self, meaning: StepMeaning, named: tuple[Window, ...], default: datetime
    ) -> Mapping[datetime, tuple[int, ...]]:
        grid = meaning.step.grid
        everything = tuple(range(len(grid.rows))) if grid is not None else ()
        by_row = dict(enumerate(_list_label_cells(meaning))) if meaning.labels is None else {}
        if not by_row:
            return {named[-1].start if named else default: everything}
        found: dict[datetime, tuple[int, ...]] = {}
        for row, (text, _) in by_row.items():
            label = named_windows(text, self.flow.tables[meaning.table])[-1].start
            found[label] = (*found.get(label, ()), row)
        return found

    def _build_expectation(
        self, meaning: StepMeaning, named: tuple[Window, ...], at: int, runs: Mapping[int, tuple[Window, ...]]
    ) -> ExpectedStep:
        table = self.flow.tables[meaning.table]
        if named:
            return ExpectedStep(meaning, table, named[0].start, named[-1].end)
        before = [(self.meanings[index].table, windows[-1]) for index, windows in runs.items() if index < at]
        own = [window for name, window in before if name == meaning.table]
        tick = own[-1].end if own else before[-1][1].end if before else _ANY_MONDAY
        high = table.cadence.floor(tick)
        is_whole = table.is_partitioned and names_label(meaning)
        return ExpectedStep(meaning, table, None if is_whole else table.cadence.previous(high), high)


def _list_label_cells(meaning: StepMeaning) -> list[tuple[str, Place]]:
    grid = meaning.step.grid
    if grid is None or meaning.does not in GIVEN:
        return []
    at = next((at for at, cell in enumerate(grid.header) if cell.text.lower() == TIMELABEL), None)
    return [] if at is None else [(plain_text(row[at]) or "", row[at].place) for row in grid.rows]


def _add_place(error: WaterclockError, place: Place) -> WaterclockError:
    return WaterclockError(error.code, error.what, where=str(place), why=error.why, fix=error.fix)
