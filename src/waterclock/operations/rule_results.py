"""Reads the results of rules in the newest batches: which rules are broken, since when, and users' notes on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.audit_records import Audit, BatchState, RuleNote
from waterclock.batches.records import warnings_of
from waterclock.errors import WaterclockError
from waterclock.flow.checks import Check, Requirement, checks_of, every_rule
from waterclock.flow.declarations import Table
from waterclock.flow.rule_actions import format_actions
from waterclock.operations.display_states import State
from waterclock.operations.project_opening import OpenedProject, no_ledger_error, one_table
from waterclock.permissions.users_and_roles import Person, Right, require_right
from waterclock.similar_names import did_you_mean


@dataclass(frozen=True, slots=True)
class LabelResult:
    """The result of a rule in one batch, with the message of the rule.

    FAILED: the rule rejected the batch. DUE: the rule never ran.
    """

    label: datetime
    state: State
    message: str = ""


@dataclass(frozen=True, slots=True)
class RuleResults:
    """A rule and its results by label, oldest first."""

    table: str
    rule: str
    expression: str
    action: str
    answers: tuple[LabelResult, ...]
    note: RuleNote | None = None

    @property
    def is_broken(self) -> bool:
        """Whether the rule failed in the newest evaluated batch, or still holds back an older one."""
        return bool(self._evaluations) and (self._evaluations[-1].state is not State.OK or bool(self._failed_labels))

    @property
    def is_refusing(self) -> bool:
        """Whether the rule holds back a batch, or failed one."""
        return bool(self._failed_labels)

    @property
    def was_broken(self) -> bool:
        """Whether the rule failed in the batch before the newest."""
        return len(self._evaluations) > 1 and self._evaluations[-2].state is not State.OK

    @property
    def is_newly_broken(self) -> bool:
        """Whether the rule failed in the newest evaluated batch, and passed in the one before."""
        return bool(self._evaluations) and self._evaluations[-1].state is not State.OK and not self.was_broken

    @property
    def since(self) -> datetime | None:
        """The label since which the rule has been broken, or the oldest held one; None if it passes."""
        found = self._failed_labels[0] if self._failed_labels else None
        for answer in reversed(self._evaluations):
            if answer.state is State.OK:
                break
            found = answer.label if found is None else min(found, answer.label)
        return found

    @property
    def _failed_labels(self) -> tuple[datetime, ...]:
        return tuple(answer.label for answer in self.answers if answer.state is State.FAILED)

    @property
    def _evaluations(self) -> tuple[LabelResult, ...]:
        """The results of batches in which the rule was evaluated."""
        return tuple(answer for answer in self.answers if answer.state is not State.DUE)


def rule_results(at: OpenedProject, tables: Sequence[Table], newest: int) -> tuple[RuleResults, ...]:
    """Return the rules of some tables with their results in the `newest` batches of each, broken rules first.

    Cost: two queries for each table with rules, and one for the notes.
    """
    if at.ledger is None:
        return ()
    notes = at.ledger.past.rule_notes([table.name for table in tables])
    found: list[RuleResults] = []
    for table in tables:
        if next(_list_rules(table), None) is None:
            continue
        cells = filter_evaluated_batches(at.ledger.past.newest(table.name, newest))
        warnings: Mapping[datetime, Sequence[str]] = {}
        if cells:
            span = cells[0].label, table.cadence.next(cells[-1].label)
            warnings = {label: texts for (_, label), texts in at.ledger.past.row_warnings([table.name], *span).items()}
        found += rules_in(table, cells, warnings, notes)
    return worst_first(found)


def filter_evaluated_batches(cells: Iterable[BatchState]) -> list[BatchState]:
    """Return the batches that may have results of rules."""
    return [cell for cell in cells if cell.status in {"done", "failed", "held"}]


def rules_in(
    table: Table,
    cells: Sequence[BatchState],
    warnings: Mapping[datetime, Sequence[str]],
    notes: Mapping[tuple[str, str], RuleNote],
) -> list[RuleResults]:
    """Return a table's rules with results in `cells`, oldest first. `warnings`: those of batches, by label. Pure."""
    return [
        RuleResults(
            table.name,
            *rule,
            tuple(_rule_result(rule[0], cell, warnings) for cell in cells),
            notes.get((table.name, rule[0])),
        )
        for rule in _list_rules(table)
    ]


def worst_first(rules: Iterable[RuleResults]) -> tuple[RuleResults, ...]:
    """Return rules by severity: the broken ones first."""
    return tuple(sorted(rules, key=lambda rule: (not rule.is_broken, rule.since is None, rule.table, rule.rule)))


def rules_broken(table: Table, audit: Audit) -> tuple[str, ...]:
    """Return the names of the rules that rejected a batch's newest attempt, or that its visible rows break."""
    made = None if audit.current is None else audit.current.revision
    warnings = {audit.cell.label: () if made is None else warnings_of(made.measures)}
    names = dict.fromkeys(name for name, _, _ in _list_rules(table))
    return tuple(
        name for name in names if _rule_result(name, audit.cell, warnings).state in {State.FAILED, State.WARNED}
    )


def store_rule_note(at: OpenedProject, table: str, rule: str, text: str, by: Person) -> None:
    """Store a user's note about a rule. An empty text removes the previous note.

    Raises E940 without the right to run, E511 for an unknown table,
            E910 for a rule that it does not have, E412 if nothing has run yet.
    """
    require_right(by, Right.RUN, "write a note on a rule", at.project.access)
    name, _ = one_table(at.flow, f"`{table}`")
    names = [known for known, _, _ in _list_rules(at.flow.tables[name])]
    if rule not in names:
        raise WaterclockError(
            "E910",
            f"{name} has no rule {rule[:80]}",
            why=f"its rules are {', '.join(dict.fromkeys(names))}" if names else "it has no rules",
            fix=did_you_mean(rule, names, otherwise="declare it with EXPECT"),
        )
    if at.ledger is None:
        raise no_ledger_error()
    at.ledger.decisions.record_rule_note(name, rule, text, who=by.name)


def _list_rules(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yield name, expression and consequence of each rule, including NOT NULL, and types and keys with an ELSE."""
    for rule in every_rule(table):
        yield rule.name, f"{rule.expression}{f' of {rule.of}' if rule.of else ''}", format_actions(rule.actions)
    for check in checks_of(table):
        if check.demand is not Requirement.EXPRESSION:
            yield check.name, _describe_check(check), format_actions(check.actions)


def _describe_check(check: Check) -> str:
    """Describe the condition of a type, NOT NULL, key, reference or parsed() check for each row."""
    if check.demand in {Requirement.PARSED, Requirement.REFERENCE}:
        return check.text if check.demand is Requirement.PARSED else check.name
    if check.demand is Requirement.VALUE:
        return f"{check.columns[0]} IS NOT NULL"
    return f"{check.columns[0]} holds {check.text}" if check.demand is Requirement.TYPE else f"{check.name} occurs once"


# an error lists its findings in this form: the first one after the table, the others in the line `why`
_BEFORE_A_FINDING = r"(?:^E\d{3} .+? is (?:not as expected|held): |^why  |; )"


def _rule_result(name: str, cell: BatchState, warnings: Mapping[datetime, Sequence[str]]) -> LabelResult:
    column = name.removesuffix(f" ({Requirement.VALUE})")
    beginnings = (f"{name}: ", f"{column} is null in ", f"{name} is not unique: ")
    if cell.status in {"failed", "held"}:
        pattern = re.compile(rf"{_BEFORE_A_FINDING}(?:{'|'.join(map(re.escape, beginnings))})")
        text = next((line for line in (cell.error or "").splitlines() if pattern.search(line)), "")
        return LabelResult(cell.label, State.FAILED if text else State.DUE, text)
    text = next((text for text in warnings.get(cell.label, ()) if text.startswith(beginnings)), "")
    return LabelResult(cell.label, State.WARNED if text else State.OK, text)
