"""How the rules of tables held in their newest batches: which are broken, since when, and what was said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from waterclock.batches.audit_trail import Audit, Cell, RuleNote
from waterclock.batches.records import warnings_of
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.checks import all_rules, key_ladder
from waterclock.flow.declarations import Table
from waterclock.flow.ladders import FAILS, words
from waterclock.operations.opening import Reading, nothing_ran, one_table
from waterclock.operations.states import State


@dataclass(frozen=True, slots=True)
class Answer:
    """How a rule held in one batch: OK, WARNED, FAILED where the batch was refused for it, DUE where it never ran."""

    label: datetime
    state: State
    said: str = ""


@dataclass(frozen=True, slots=True)
class RuleKept:
    """A rule, and its answers by label, oldest first."""

    table: str
    rule: str
    expression: str
    action: str
    answers: tuple[Answer, ...]
    note: RuleNote | None = None

    @property
    def is_broken(self) -> bool:
        """Whether it did not hold in the newest batch that was tried, or holds back an older one still."""
        return bool(self._asked) and (self._asked[-1].state is not State.OK or bool(self._refused))

    @property
    def was_broken(self) -> bool:
        """Whether it did not hold in the one before."""
        return len(self._asked) > 1 and self._asked[-2].state is not State.OK

    @property
    def is_newly_broken(self) -> bool:
        """Whether it did not hold in the newest batch that was tried, and held in the one before."""
        return bool(self._asked) and self._asked[-1].state is not State.OK and not self.was_broken

    @property
    def since(self) -> datetime | None:
        """Since which label it is broken without a break, or the oldest that it holds back; None where it holds."""
        found = self._refused[0] if self._refused else None
        for answer in reversed(self._asked):
            if answer.state is State.OK:
                break
            found = answer.label if found is None else min(found, answer.label)
        return found

    @property
    def _refused(self) -> tuple[datetime, ...]:
        return tuple(answer.label for answer in self.answers if answer.state is State.FAILED)

    @property
    def _asked(self) -> tuple[Answer, ...]:
        """Those of batches that came as far as the rule."""
        return tuple(answer for answer in self.answers if answer.state is not State.DUE)


def rules_kept(at: Reading, tables: Sequence[Table], newest: int) -> tuple[RuleKept, ...]:
    """Return the rules of some tables with their answers in the newest batches of each, the broken ones first.

    Cost: two questions to the ledger for each table that has rules, and one.
    """
    if at.ledger is None:
        return ()
    notes = at.ledger.past.rule_notes([table.name for table in tables])
    found: list[RuleKept] = []
    for table in tables:
        rules = list(_rules(table))
        if not rules:
            continue
        cells = [
            cell for cell in at.ledger.past.newest(table.name, newest) if cell.status in {"done", "failed", "held"}
        ]
        if cells:
            span = cells[0].label, table.cadence.next(cells[-1].label)
            said = {label: texts for (_, label), texts in at.ledger.past.warned([table.name], *span).items()}
            found += [_kept(table, *rule, cells, said) for rule in rules]
        else:
            found += [RuleKept(table.name, *rule, ()) for rule in rules]
    noted = [replace(rule, note=notes.get((rule.table, rule.rule))) for rule in found]
    return tuple(sorted(noted, key=lambda rule: (not rule.is_broken, rule.since is None, rule.table, rule.rule)))


def rules_broken(table: Table, audit: Audit) -> tuple[str, ...]:
    """Return the names of the rules that a batch's newest attempt was refused for, or that its rows do not keep."""
    made = None if audit.current is None else audit.current.revision
    said = {audit.cell.label: () if made is None else warnings_of(made.measures)}
    names = dict.fromkeys(name for name, _, _ in _rules(table))
    return tuple(name for name in names if _answer(name, audit.cell, said).state in {State.FAILED, State.WARNED})


def note_rule(at: Reading, table: str, rule: str, text: str, who: str) -> None:
    """Keep what is known of a rule, with who said it; an empty text takes the note before back.

    Raises  E511 for an unknown table, E910 for a rule that it does not have, E412 where nothing has run yet
    """
    name, _ = one_table(at.flow, f"`{table}`")
    names = [known for known, _, _ in _rules(at.flow.tables[name])]
    if rule not in names:
        raise WaterclockError(
            "E910",
            f"{name} has no rule {rule[:80]}",
            why=f"it has {', '.join(dict.fromkeys(names))}" if names else "it has none",
            fix=did_you_mean(rule, names, otherwise="EXPECT declares one"),
        )
    if at.ledger is None:
        raise nothing_ran()
    at.ledger.decisions.note_rule(name, rule, text, who=who)


def _rules(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yield name, expression and consequence of each rule, NOT NULL among them."""
    for rule in all_rules(table):
        yield rule.name, rule.expression, words(rule.rungs)
    for column in table.columns.named:
        if column.is_not_null or column.is_key:
            ladder = column.else_of_null or (key_ladder(table) if column.is_key else FAILS)
            yield column.name, f"{column.name} IS NOT NULL", words(ladder)


def _kept(
    table: Table, name: str, expression: str, action: str, cells: Sequence[Cell], said: Mapping[datetime, Sequence[str]]
) -> RuleKept:
    return RuleKept(table.name, name, expression, action, tuple(_answer(name, cell, said) for cell in cells))


def _answer(name: str, cell: Cell, said: Mapping[datetime, Sequence[str]]) -> Answer:
    begins = (f"{name}: ", f"{name} is null in ")
    if cell.status in {"failed", "held"}:
        text = next((line for line in (cell.error or "").splitlines() if any(begin in line for begin in begins)), "")
        return Answer(cell.label, State.FAILED if text else State.DUE, text)
    text = next((text for text in said.get(cell.label, ()) if text.startswith(begins)), "")
    return Answer(cell.label, State.WARNED if text else State.OK, text)
