"""The actions if a rule is broken: a ladder of actions, each for up to a limit of rows."""

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
    """One action of a ladder, for up to `most` rows that break the rule; None: any number.

    `is_percent`: `most` is a percentage of all rows.
    """

    action: Action
    most: Decimal | None = None
    is_percent: bool = False

    def bears(self, broken: int, of: int) -> bool:
        """Return whether `broken` rows of `of` are within the limit, which is inclusive."""
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
    """An EXPECT parsed(): the actions for lines that cannot be parsed. `name` is the rule's name in reports."""

    name: str
    ladder: RuleActions


def find_outcome(ladder: RuleActions, broken: int, of: int) -> Action | None:
    """Return the action if `broken` of `of` rows break a rule: FAIL if above all limits, None if no row does."""
    if not broken:
        return None
    return next((rung.action for rung in ladder if rung.bears(broken, of)), Action.FAIL)


def find_row_action(ladder: RuleActions) -> Action | None:
    """Return the action on a single row that breaks the rule, QUARANTINE or DROP; None if the row stays."""
    first = ladder[0].action if ladder else Action.FAIL
    return first if first in ROW_ACTIONS else None


def is_weaker(rung: Action, before: Action) -> bool:
    """Return whether an action is no stronger than the one before it on a ladder."""
    return _STRENGTH[rung] <= _STRENGTH[before]


def format_actions(ladder: Sequence[RuleAction]) -> str:
    """Return a ladder as text for messages: "warn at most 5, else fail"."""
    return ", else ".join(map(str, ladder))
