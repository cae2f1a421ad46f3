"""The row rules (EXPECT) of a form, of which the form evaluates those that compare columns with literals or patterns.

A rule is kept if its condition is true; a condition that is unknown, as of an empty value, breaks it. Other rules are
checked by the run that collects the row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from waterclock.flow.checks import list_batch_rules
from waterclock.flow.enums import Action, Scope
from waterclock.flow.row_conditions import (
    BoundCondition,
    Matcher,
    RowCondition,
    bind_condition,
    columns_of,
    evaluate,
    find_unsuitable,
    patterns_of,
)

if TYPE_CHECKING:
    from waterclock.flow.declarations import Table
    from waterclock.flow.forms import FormField

_EFFECTS: Mapping[Action, str] = {
    Action.WARN: "the next run warns of it",
    Action.HOLD: "the next run holds its batch",
    Action.QUARANTINE: "the next run quarantines the row",
    Action.DROP: "the next run leaves the row out",
    Action.FAIL: "the next run fails",
}


@dataclass(frozen=True, slots=True)
class FormRule:
    """A rule on single rows of a form.

    - `text`: its condition in SQL.
    - `action`: the effect of one row that breaks it.
    - `column`: the field beside which it is shown; "" for a rule of the table that only a run checks.
    - `condition`: the condition as forms evaluate it; None if only a run checks the rule.
    - `columns`: the columns that the condition names, of a rule that forms evaluate.
    """

    name: str
    text: str
    action: Action
    column: str = ""
    condition: BoundCondition | None = None
    columns: tuple[str, ...] = ()

    @property
    def is_checked(self) -> bool:
        """Whether the form evaluates the rule."""
        return self.condition is not None

    @property
    def is_refusing(self) -> bool:
        """Whether a row that breaks the rule is not saved."""
        return self.action is not Action.WARN

    @property
    def words(self) -> str:
        """The name of the rule, and its condition if that is not the name."""
        return self.text if self.name == self.text else f"{self.name}: {self.text}"

    @property
    def problem(self) -> str:
        """The reason why a row that breaks the rule is not saved."""
        return f"it breaks the rule {self.words}"

    @property
    def warning(self) -> str:
        """The warning of a row that breaks the rule and is saved."""
        return f"{self.problem}; {_EFFECTS[self.action]}"

    def is_broken_by(self, row: Mapping[str, str | None]) -> bool:
        """Return whether a stored row breaks the rule; False for a rule that the form does not evaluate."""
        return self.condition is not None and evaluate(self.condition, row) is not True


def form_rules_of(table: Table, left_out: Collection[str]) -> tuple[FormRule, ...]:
    """Return the row rules of a form's table, without those of the names `left_out`. None has a condition yet."""
    columns = {rule.name: column.name for column in table.columns.named for rule in column.rules}
    rules = (rule for rule in list_batch_rules(table) if rule.scope is Scope.ROW and rule.name not in left_out)
    return tuple(
        FormRule(rule.name, rule.expression, rule.actions[0].action, columns.get(rule.name, "")) for rule in rules
    )


def bind_rule(
    rule: FormRule, condition: RowCondition | None, fields: Mapping[str, FormField], matches: Matcher
) -> FormRule:
    """Return a rule with its condition, if the form can evaluate it. `fields` are keyed by names in lower case."""
    if condition is None or any(find_unsuitable(condition, fields)):
        return rule
    try:
        for pattern in patterns_of(condition):
            matches(pattern, "")
    except ValueError:  # RE2 has limits that Java has not
        return rule
    named = tuple(fields[name.lower()].name for name in columns_of(condition))
    beside = rule.column or next((name for name in named if not fields[name.lower()].is_key), named[0])
    return replace(rule, column=beside, condition=bind_condition(condition, fields, {}, matches), columns=named)


def find_broken_rules(
    rules: Collection[FormRule],
    before: Mapping[str, str | None] | None,
    after: Mapping[str, str | None],
    unknown: Collection[str] = (),
) -> Iterator[tuple[str, FormRule]]:
    """Yield the rules that a change of a row breaks, each with the field beside which it is shown.

    A rule is checked if the row is new, or if the change sets one of the rule's columns: a row that breaks a rule
    already does not hinder changes of other columns. `before` is the row as it is, None for a new one. Rules that name
    one of the columns `unknown` are left out.
    """
    for rule in rules:
        changed = [name for name in rule.columns if before is None or before.get(name) != after.get(name)]
        if changed and not set(rule.columns) & set(unknown) and rule.is_broken_by(after):
            yield (rule.column if rule.column in changed else changed[0]), rule
