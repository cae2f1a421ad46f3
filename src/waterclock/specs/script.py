"""Which tables and labels do a scenario's steps mean, and can they be carried out in their order?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow import Action as RuleAction
from waterclock.flow import Flow, Kind, Place, Table
from waterclock.selection import parse_labels
from waterclock.specs.document import Scenario, Step
from waterclock.specs.steps import GIVEN, Does, Meaning, meaning_of
from waterclock.specs.values import plain_text
from waterclock.timelabel import Window, label_of

TIMELABEL = "timelabel"
_CODE = re.compile(r"E\d{3}")
_ANY_MONDAY = datetime(2000, 1, 3, 12, tzinfo=UTC)  # where no step names a label, one is as good as another


@dataclass(frozen=True, slots=True)
class Give:
    """Rows that batches of a table bring: of each label, which lines of the step's table."""

    meaning: Meaning
    table: Table
    labels: Mapping[datetime, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Run:
    """A table is brought up to date at the end of each window, one after the other."""

    meaning: Meaning
    table: Table
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class Expect:
    """What a table is expected to hold: its slices in `[low, high)`, or its state as of `high`. `low` None: all."""

    meaning: Meaning
    table: Table
    low: datetime | None
    high: datetime


Action = Give | Run | Expect


@dataclass(frozen=True, slots=True)
class Script:
    """A scenario whose every step has a meaning in a flow.

    `made` are the tables that run, those between them and what is given included; `given` those whose rows are given.
    """

    scenario: Scenario
    actions: tuple[Action, ...]
    given: frozenset[str]
    made: frozenset[str]

    @property
    def runs(self) -> frozenset[str]:
        """The tables that a step runs by name."""
        return frozenset(action.table.name for action in self.actions if isinstance(action, Run))

    @property
    def earliest(self) -> datetime:
        """The start of the first window that is named or meant."""
        given = (label for action in self.actions if isinstance(action, Give) for label in action.labels)
        run = (window.start for action in self.actions if isinstance(action, Run) for window in action.windows)
        return min([*given, *run])


def script_of(scenario: Scenario, flow: Flow) -> tuple[Script | None, tuple[WaterclockError, ...]]:
    """Read the steps of a scenario: the script where all is right, and all that is wrong.

    Errors: E351, E352 as `meaning_of`; E511 and E706 for what is no table to give or run; E512 to E514 for labels;
    E356 and E357 for steps that cannot be carried out in their order
    """
    reader = _Reader(scenario, flow)
    reader.read()
    if reader.errors:
        return None, tuple(reader.errors)
    reader.place()
    reader.check_order()
    if reader.errors:
        return None, tuple(reader.errors)
    made = frozenset(name for run in reader.runs for name in upstream(flow, run.table.name, reader.given_tables))
    return Script(scenario, tuple(reader.actions), reader.given_tables, made), ()


def upstream(flow: Flow, name: str, given: frozenset[str]) -> frozenset[str]:
    """Give a table and all that it is made of, up to what is given; what is given is among them."""
    found: set[str] = {name}
    waiting = [read.table for read in flow.tables[name].reads]
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            if other not in given:
                waiting.extend(read.table for read in flow.tables[other].reads)
    return frozenset(found)


@dataclass(slots=True)
class _Reader:
    scenario: Scenario
    flow: Flow
    errors: list[WaterclockError] = field(default_factory=list)
    meanings: list[Meaning] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    @property
    def runs(self) -> Iterator[Run]:
        return (action for action in self.actions if isinstance(action, Run))

    @property
    def given_tables(self) -> frozenset[str]:
        return frozenset(meaning.table for meaning in self.meanings if meaning.does in GIVEN)

    def read(self) -> None:
        """Read each step and find its table."""
        for step in self.scenario.steps:
            try:
                meaning = meaning_of(step)
                _check_rule(meaning, self._table(meaning))
            except WaterclockError as error:
                self.errors.append(error)
            else:
                self.meanings.append(meaning)

    def _table(self, meaning: Meaning) -> Table:
        name, where = meaning.table, str(meaning.step.place)
        tables = self.flow.tables
        if name in self.flow.views:
            raise WaterclockError(
                "E511",
                f"{name} is a view, not a table",
                where=where,
                why="a view has no rows of its own and does not run",
                fix="name the tables that it reads, or a table that reads it",
            )
        if name not in tables:
            known = [each for each, table in tables.items() if table.kind is not Kind.PUBLISH]
            raise WaterclockError("E511", f"no table {name}", where=where, fix=did_you_mean(name, known))
        if tables[name].kind is Kind.PUBLISH:
            raise WaterclockError(
                "E706",
                f"{name} is a destination, not a table",
                where=where,
                why="a specification publishes nothing",
                fix=f"name {tables[name].reads[0].table}, which is what is published there",
            )
        return tables[name]

    def place(self) -> None:
        """Find the labels that each step means: what is said first, then runs, what is given to them, the answers."""
        said = [self._said(meaning) for meaning in self.meanings]
        if self.errors:
            return
        runs: dict[int, tuple[Window, ...]] = {}
        for at, meaning in enumerate(self.meanings):
            if meaning.does is Does.RUNS:
                runs[at] = said[at] or (self._usual_window(meaning, at, said),)
        gives: dict[int, Mapping[datetime, tuple[int, ...]]] = {}
        newest: dict[str, datetime] = {}
        for at, meaning in enumerate(self.meanings):
            if meaning.does in GIVEN:
                usual = self._usual_label(meaning, at, runs, newest)
                gives[at] = self._given(meaning, said[at], usual)
                newest[meaning.table] = max([*gives[at], *filter(None, [newest.get(meaning.table)])])
        for at, meaning in enumerate(self.meanings):
            table = self.flow.tables[meaning.table]
            if at in runs:
                self.actions.append(Run(meaning, table, runs[at]))
            elif at in gives:
                self.actions.append(Give(meaning, table, gives[at]))
            else:
                self.actions.append(self._expected(meaning, said[at], at, runs))

    def _said(self, meaning: Meaning) -> tuple[Window, ...]:
        """Give the windows that a step names: behind `at`, or in the column `timelabel` of what it gives."""
        cadence = self.flow.tables[meaning.table].cadence
        texts = [(meaning.labels, meaning.step.place)] if meaning.labels is not None else _label_cells(meaning)
        found: list[Window] = []
        for text, place in texts:
            try:
                low, high = parse_labels(text).bounds(cadence)
                if low is None or high is None or low >= high:
                    raise self._no_window(text, meaning, low or high)
                found += cadence.windows(low, high)
            except WaterclockError as error:
                self.errors.append(_at(error, place))
        return tuple(sorted(set(found), key=lambda window: window.start))

    def _no_window(self, text: str, meaning: Meaning, near: datetime | None) -> WaterclockError:
        cadence = self.flow.tables[meaning.table].cadence
        if near is None or ".." in text:
            return WaterclockError("E513", f"{text} names no labels of {meaning.table}", fix="say both ends: A..B")
        return WaterclockError(
            "E513",
            f"no window of {meaning.table} begins at {text}",
            why=f"its windows are {cadence}",
            fix=f"the nearest labels are {label_of(cadence.previous(near))} and {label_of(near)}",
        )

    def _usual_window(self, meaning: Meaning, at: int, said: list[tuple[Window, ...]]) -> Window:
        """Choose the window that a run without a label means: the first that is over when all that is named is."""
        cadence = self.flow.tables[meaning.table].cadence
        before = [window.end for windows in said[:at] for window in windows]
        ends = before or [window.end for windows in said for window in windows]
        if not ends:
            return cadence.window_of(_ANY_MONDAY)
        end = cadence.ceil(max(ends))
        return Window(cadence.previous(end), end)

    def _usual_label(
        self, meaning: Meaning, at: int, runs: Mapping[int, tuple[Window, ...]], newest: Mapping[str, datetime]
    ) -> datetime:
        """Choose the label of what is given without one: the newest that is over at the tick of the next run."""
        if meaning.does in {Does.ALSO, Does.NOW} and meaning.table in newest:
            return newest[meaning.table]
        cadence = self.flow.tables[meaning.table].cadence
        later = [windows[0].end for index, windows in runs.items() if index > at]
        tick = next(iter(later), None) or max((w[-1].end for w in runs.values()), default=_ANY_MONDAY)
        return cadence.previous(cadence.floor(tick))

    def _given(self, meaning: Meaning, said: tuple[Window, ...], usual: datetime) -> Mapping[datetime, tuple[int, ...]]:
        grid = meaning.step.grid
        everything = tuple(range(len(grid.rows))) if grid is not None else ()
        by_row = dict(enumerate(_label_cells(meaning))) if meaning.labels is None else {}
        if not by_row:
            return {said[-1].start if said else usual: everything}
        cadence = self.flow.tables[meaning.table].cadence
        found: dict[datetime, tuple[int, ...]] = {}
        for row, (text, _) in by_row.items():
            low, _ = parse_labels(text).bounds(cadence)
            if low is not None:
                found[low] = (*found.get(low, ()), row)
        return found

    def _expected(
        self, meaning: Meaning, said: tuple[Window, ...], at: int, runs: Mapping[int, tuple[Window, ...]]
    ) -> Expect:
        table = self.flow.tables[meaning.table]
        if said:
            return Expect(meaning, table, said[0].start, said[-1].end)
        before = [(self.meanings[index].table, windows[-1]) for index, windows in runs.items() if index < at]
        own = [window for name, window in before if name == meaning.table]
        tick = own[-1].end if own else before[-1][1].end if before else _ANY_MONDAY
        high = table.cadence.floor(tick)
        is_whole = table.is_partitioned and names_label(meaning)
        return Expect(meaning, table, None if is_whole else table.cadence.previous(high), high)

    def check_order(self) -> None:
        """Refuse what cannot be carried out in this order."""
        given: set[tuple[str, datetime]] = set()
        ran: set[str] = set()
        for action in self.actions:
            if isinstance(action, Give):
                self._check_given(action, given, ran)
                given |= {(action.table.name, label) for label in action.labels}
            elif isinstance(action, Run):
                self._check_run(action, {name for name, _ in given})
                ran |= upstream(self.flow, action.table.name, self.given_tables)
            elif action.table.name not in ran | {name for name, _ in given}:
                self._refuse(action.meaning.step, f"{action.table.name} has not run", f"When {action.table.name} runs")
        does = {meaning.does for meaning in self.meanings}
        if not any(isinstance(action, Run) for action in self.actions):
            self._refuse(self.scenario, "nothing runs in this scenario", "When TABLE runs at LABEL")
        if does <= GIVEN | {Does.RUNS}:
            self._refuse(self.scenario, "nothing is expected in this scenario", "Then TABLE is")

    def _check_given(self, action: Give, given: set[tuple[str, datetime]], ran: set[str]) -> None:
        name, does = action.table.name, action.meaning.does
        if does in {Does.HAS, Does.IS_EMPTY}:
            twice = [label for label in action.labels if (name, label) in given]
            if twice:
                fix = f"to add rows: the table {name} also gets; to replace them: the table {name} is now"
                self._refuse(action.meaning.step, f"{name}@{label_of(twice[0])} is given twice", fix)
        if action.table.kind is Kind.TRANSFORM and name in {run.table.name for run in self.runs} and name in ran:
            self._refuse(
                action.meaning.step,
                f"{name} has run, so what it holds is not to be given any more",
                f"give what {name} reads; what it held before stands above its first run",
            )

    def _check_run(self, action: Run, given: set[str]) -> None:
        for name in sorted(upstream(self.flow, action.table.name, self.given_tables)):
            table = self.flow.tables[name]
            is_source = table.kind is Kind.COLLECT or (name in self.given_tables and name != action.table.name)
            if is_source and name not in given:
                said = f"{action.table.name} reads {name}" if name != action.table.name else f"{name} is collected"
                self.errors.append(
                    WaterclockError(
                        "E357",
                        f"{name} is not given before {action.table.name} runs",
                        where=str(action.meaning.step.place),
                        why=f"{said}, directly or through others, and a specification reads no source",
                        fix=f"write before it: Given the table {name} is empty, or its rows",
                    )
                )

    def _refuse(self, at: Step | Scenario, what: str, fix: str) -> None:
        self.errors.append(WaterclockError("E356", what, where=str(at.place), fix=f"write: {fix}"))


def _check_rule(meaning: Meaning, table: Table) -> None:
    """Refuse the name of what a table can neither fail with nor warn of."""
    if meaning.does not in {Does.FAILS, Does.WARNS} or _CODE.fullmatch(meaning.what):
        return
    rules = (*table.rules, *(rule for column in table.columns.named for rule in column.rules))
    known = [rule.name for rule in rules if (rule.action is RuleAction.WARN) is (meaning.does is Does.WARNS)]
    if meaning.does is Does.FAILS:
        known += ["KEY", *(each.name for each in table.columns.named if each.is_key or each.is_not_null)]
    if meaning.what.lower() not in {name.lower() for name in known}:
        does = "warns" if meaning.does is Does.WARNS else "fails"
        raise WaterclockError(
            "E363",
            f"{table.name} never {does} {'of' if does == 'warns' else 'with'} {meaning.what}",
            where=str(meaning.step.place),
            why=f"it may be {', '.join(known)}" if known else f"it has no rule that {does}, at {table.place}",
            fix=did_you_mean(meaning.what, known) or "name one of its rules, or an error's code such as E740",
        )


def names_label(meaning: Meaning) -> bool:
    """Whether the step's table names the hidden column `timelabel`."""
    grid = meaning.step.grid
    return grid is not None and any(cell.text.lower() == TIMELABEL for cell in grid.header)


def _label_cells(meaning: Meaning) -> list[tuple[str, Place]]:
    grid = meaning.step.grid
    if grid is None or meaning.does not in GIVEN:
        return []
    at = next((at for at, cell in enumerate(grid.header) if cell.text.lower() == TIMELABEL), None)
    return [] if at is None else [(plain_text(row[at]) or "", row[at].place) for row in grid.rows]


def _at(error: WaterclockError, place: Place) -> WaterclockError:
    return WaterclockError(error.code, error.what, where=str(place), why=error.why, fix=error.fix)
