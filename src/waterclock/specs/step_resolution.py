"""Resolves the tables and labels of a scenario's steps, and checks that the steps can run in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.errors import WaterclockError
from waterclock.flow.checks import Requirement, checks_of, every_rule, key_actions, rules_without_expression
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Action as RuleAction
from waterclock.flow.enums import Kind
from waterclock.flow.rule_actions import RuleActions
from waterclock.similar_names import did_you_mean
from waterclock.specs.document import Scenario, SpecStep
from waterclock.specs.script import Action, GivenStep, Script, ScriptRun, upstream
from waterclock.specs.step_labels import assign_labels
from waterclock.specs.steps import GIVEN, StepAction, StepMeaning, parse_step
from waterclock.timelabel.label import label_of

_CODE = re.compile(r"E\d{3}")


def script_of(scenario: Scenario, flow: Flow) -> tuple[Script | None, tuple[WaterclockError, ...]]:
    """Resolve the steps of a scenario. Return the script and no errors, or None and all errors.

    Errors: E351, E352 as `parse_step`; E511 and E706 for a name that is not a table of the flow; E512 to E514 for
    labels; E356 and E357 for steps that cannot run in their order.
    """
    reader = _StepReader(scenario, flow)
    reader.read()
    if reader.errors:
        return None, tuple(reader.errors)
    actions, errors = assign_labels(reader.meanings, flow)
    if errors:
        return None, errors
    reader.actions.extend(actions)
    reader.check_order()
    if reader.errors:
        return None, tuple(reader.errors)
    made = frozenset(name for run in reader.runs for name in upstream(flow, run.table.name, reader.given_tables))
    return Script(scenario, tuple(reader.actions), reader.given_tables, made), ()


@dataclass(slots=True)
class _StepReader:
    scenario: Scenario
    flow: Flow
    errors: list[WaterclockError] = field(default_factory=list)
    meanings: list[StepMeaning] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    @property
    def runs(self) -> Iterator[ScriptRun]:
        return (action for action in self.actions if isinstance(action, ScriptRun))

    @property
    def given_tables(self) -> frozenset[str]:
        return frozenset(meaning.table for meaning in self.meanings if meaning.does in GIVEN)

    def read(self) -> None:
        """Resolve each step and its table."""
        for step in self.scenario.steps:
            try:
                meaning = parse_step(step)
                _check_rule(meaning, self._resolve_table(meaning))
            except WaterclockError as error:
                self.errors.append(error)
            else:
                self.meanings.append(meaning)

    def _resolve_table(self, meaning: StepMeaning) -> Table:
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
            raise WaterclockError("E511", f"there is no table {name}", where=where, fix=did_you_mean(name, known))
        if tables[name].kind is Kind.PUBLISH:
            raise WaterclockError(
                "E706",
                f"{name} is a destination, not a table",
                where=where,
                why="a specification publishes nothing",
                fix=f"name {tables[name].reads[0].table}, which is published there",
            )
        return tables[name]

    def check_order(self) -> None:
        """Check the order of the steps, and collect an error for each step that cannot run where it is."""
        given: set[tuple[str, datetime]] = set()
        ran: set[str] = set()
        for action in self.actions:
            if isinstance(action, GivenStep):
                self._check_given(action, given, ran)
                given |= {(action.table.name, label) for label in action.labels}
            elif isinstance(action, ScriptRun):
                self._check_run(action, {name for name, _ in given})
                ran |= upstream(self.flow, action.table.name, self.given_tables)
            elif action.table.name not in ran | {name for name, _ in given}:
                self._add_error(
                    action.meaning.step, f"{action.table.name} has not run", f"write: When {action.table.name} runs"
                )
        does = {meaning.does for meaning in self.meanings}
        if not any(isinstance(action, ScriptRun) for action in self.actions):
            self._add_error(self.scenario, "nothing runs in this scenario", "write: When TABLE runs at LABEL")
        if does <= GIVEN | {StepAction.RUNS}:
            self._add_error(self.scenario, "nothing is expected in this scenario", "write: Then TABLE is")

    def _check_given(self, action: GivenStep, given: set[tuple[str, datetime]], ran: set[str]) -> None:
        name, does = action.table.name, action.meaning.does
        if does in {StepAction.HAS, StepAction.IS_EMPTY}:
            twice = [label for label in action.labels if (name, label) in given]
            if twice:
                fix = f"to add rows, write: the table {name} also gets; to replace them: the table {name} is now"
                self._add_error(action.meaning.step, f"{name}@{label_of(twice[0])} is given twice", fix)
        if action.table.kind is Kind.TRANSFORM and name in {run.table.name for run in self.runs} and name in ran:
            self._add_error(
                action.meaning.step,
                f"{name} has run, so its rows cannot be given any more",
                f"give the inputs of {name}; give its earlier rows above its first run",
            )

    def _check_run(self, action: ScriptRun, given: set[str]) -> None:
        for name in sorted(upstream(self.flow, action.table.name, self.given_tables)):
            table = self.flow.tables[name]
            is_source = table.kind is Kind.COLLECT or (name in self.given_tables and name != action.table.name)
            if is_source and name not in given:
                reason = f"{action.table.name} reads {name}" if name != action.table.name else f"{name} is collected"
                self.errors.append(
                    WaterclockError(
                        "E357",
                        f"{name} is not given before {action.table.name} runs",
                        where=str(action.meaning.step.place),
                        why=f"{reason}, directly or through others, and a specification reads no source",
                        fix=f"write before it: Given the table {name} is empty, or its rows",
                    )
                )

    def _add_error(self, at: SpecStep | Scenario, what: str, fix: str) -> None:
        self.errors.append(WaterclockError("E356", what, where=str(at.place), fix=fix))


def _check_rule(meaning: StepMeaning, table: Table) -> None:
    """Raise E363 if a step expects a failure or a warning of a rule that the table cannot cause."""
    if meaning.does not in {StepAction.FAILS, StepAction.WARNS} or _CODE.fullmatch(meaning.what):
        return
    known = list(_list_warnings(table) if meaning.does is StepAction.WARNS else _list_failures(table))
    if meaning.what.lower() not in {name.lower() for name in known}:
        does = "warns" if meaning.does is StepAction.WARNS else "fails"
        raise WaterclockError(
            "E363",
            f"{table.name} never {does} {'of' if does == 'warns' else 'with'} {meaning.what}",
            where=str(meaning.step.place),
            why=f"it may be {', '.join(known)}" if known else f"it has no rule that {does}, at {table.place}",
            fix=did_you_mean(meaning.what, known) or "name one of its rules, or an error's code such as E740",
        )


def _list_failures(table: Table) -> Iterator[str]:
    """Yield the names of the rules, types and columns that may fail or hold a batch of a table, and KEY."""
    yield from (name for name, actions in _list_rule_actions(table) if _can_fail(actions))
    yield from ("KEY", *(each.name for each in table.columns.named if each.is_key or each.is_not_null))


def _list_warnings(table: Table) -> Iterator[str]:
    """Yield the names of the rules, types and columns, and KEY, that may cause a warning in a successful batch."""
    yield from (name for name, actions in _list_rule_actions(table) if _can_warn(actions))
    of_key = _can_warn(key_actions(table))
    yield from ("KEY",) if of_key else ()
    for column in table.columns.named:
        if _can_warn(column.else_of_null) or (of_key and column.is_key):
            yield column.name


def _list_rule_actions(table: Table) -> Iterator[tuple[str, RuleActions]]:
    """Yield the name and the actions of each rule, also of those without an expression, and of each type."""
    for rule in (*every_rule(table), *rules_without_expression(table)):
        yield rule.name, rule.actions
    yield from ((check.name, check.actions) for check in checks_of(table) if check.demand is Requirement.TYPE)


def _can_warn(actions: RuleActions) -> bool:
    """Return whether a batch may succeed with a warning of a rule."""
    return any(each.action in {RuleAction.WARN, RuleAction.QUARANTINE} for each in actions)


def _can_fail(actions: RuleActions) -> bool:
    """Return whether a rule may fail or hold a batch. If its last action has a limit, more broken rows fail it."""
    stops = any(each.action in {RuleAction.FAIL, RuleAction.HOLD} for each in actions)
    return stops or actions[-1].most is not None
