"""The ELSE actions of a rule, in order of severity. All but the last apply up to a limit of rows that break it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from waterclock.flow.enums import Action

# actions that remove single rows while a batch is written, before the number of broken rows is known
ROW_ACTIONS = frozenset({Action.QUARANTINE, Action.DROP})
_STRENGTH = {Action.WARN: 0, Action.QUARANTINE: 1, Action.DROP: 1, Action.HOLD: 2, Action.FAIL: 3}


@dataclass(frozen=True, slots=True)
class RuleAction:
    """One ELSE action of a rule, which applies if at most `most` rows break the rule; None: any number.

    `is_percent`: `most` is a percentage of all rows.
    """

    action: Action
    most: Decimal | None = None
    is_percent: bool = False

    def is_within_limit(self, broken: int, of: int) -> bool:
        """Return whether `broken` of `of` rows are within the limit, which is inclusive."""
        if self.most is None:
            return True
        return broken * 100 <= self.most * of if self.is_percent else broken <= self.most

    def __str__(self) -> str:
        limit = "" if self.most is None else f" at most {self.most}{' percent' if self.is_percent else ''}"
        return f"{self.action}{limit}"


RuleActions = tuple[RuleAction, ...]
FAILS: RuleActions = (RuleAction(Action.FAIL),)


@dataclass(frozen=True, slots=True)
class UnparsedLines:
    """An EXPECT parsed(): the actions for lines that cannot be parsed. `name` is the name of the rule in reports."""

    name: str
    actions: RuleActions


def find_outcome(actions: RuleActions, broken: int, of: int) -> Action | None:
    """Return the action if `broken` of the `of` rows break a rule: FAIL above all limits, None if no row breaks it."""
    if not broken:
        return None
    return next((each.action for each in actions if each.is_within_limit(broken, of)), Action.FAIL)


def find_row_action(actions: RuleActions) -> Action | None:
    """Return the action on a single row that breaks the rule, QUARANTINE or DROP; None if the row stays."""
    first = actions[0].action if actions else Action.FAIL
    return first if first in ROW_ACTIONS else None


def is_weaker(action: Action, before: Action) -> bool:
    """Return whether the ELSE action `action` is not more severe than `before`, the action before it."""
    return _STRENGTH[action] <= _STRENGTH[before]


def format_actions(actions: Sequence[RuleAction]) -> str:
    """Return the ELSE actions of a rule as text for messages, such as "warn at most 5, else fail"."""
    return ", else ".join(map(str, actions))
