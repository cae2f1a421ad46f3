"""The actions if a rule is broken: a ladder of actions, each up to a limit. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from waterclock.flow.choices import Action

# actions that remove single rows as they are written, before their number is known
SETS_ASIDE = frozenset({Action.QUARANTINE, Action.DROP})
_STRENGTH = {Action.WARN: 0, Action.QUARANTINE: 1, Action.DROP: 1, Action.HOLD: 2, Action.FAIL: 3}


@dataclass(frozen=True, slots=True)
class Rung:
    """One action, for up to `most` rows that break the rule, or percent of all; None: any number. The rest fails."""

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


Ladder = tuple[Rung, ...]
FAILS: Ladder = (Rung(Action.FAIL),)


@dataclass(frozen=True, slots=True)
class Unread:
    """An EXPECT parsed(): the actions for lines that cannot be parsed in their file's format. `name` is for reports."""

    name: str
    ladder: Ladder


def outcome(ladder: Ladder, broken: int, of: int) -> Action | None:
    """Return the action if `broken` of `of` rows break a rule, or None if none do."""
    if not broken:
        return None
    return next((rung.action for rung in ladder if rung.bears(broken, of)), Action.FAIL)


def sets_aside(ladder: Ladder) -> Action | None:
    """Return what happens to a row that breaks the rule, QUARANTINE or DROP; None if it stays."""
    first = ladder[0].action if ladder else Action.FAIL
    return first if first in SETS_ASIDE else None


def is_weaker(rung: Action, before: Action) -> bool:
    """Return whether an action is no stronger than the one before it on a ladder."""
    return _STRENGTH[rung] <= _STRENGTH[before]


def words(ladder: Sequence[Rung]) -> str:
    """Return a ladder as text for people."""
    return ", else ".join(map(str, ladder))
