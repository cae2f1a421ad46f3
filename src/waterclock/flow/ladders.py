"""What happens where a rule does not hold: a ladder of actions, each up to a limit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from waterclock.flow.choices import Action

# what takes single rows out as they are written, before anybody knows how many there will be
SETS_ASIDE = frozenset({Action.QUARANTINE, Action.DROP})
_STRENGTH = {Action.WARN: 0, Action.QUARANTINE: 1, Action.DROP: 1, Action.HOLD: 2, Action.FAIL: 3}


@dataclass(frozen=True, slots=True)
class Rung:
    """One action, up to `most` rows that break the rule, or percent of the rows that came; None: whatever their number.

    What goes beyond the last rung fails.
    """

    action: Action
    most: Decimal | None = None
    is_percent: bool = False

    def bears(self, broken: int, of: int) -> bool:
        """Tell whether so many broken rows of so many are within the limit; the limit itself is."""
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
    """An EXPECT parsed(): what becomes of lines that cannot be read as the format of their file; `name` tells of it."""

    name: str
    ladder: Ladder


def outcome(ladder: Ladder, broken: int, of: int) -> Action | None:
    """Return what is done where `broken` of `of` rows break a rule; None where all hold."""
    if not broken:
        return None
    return next((rung.action for rung in ladder if rung.bears(broken, of)), Action.FAIL)


def sets_aside(ladder: Ladder) -> Action | None:
    """Return what is done with the single rows that break the rule, as they are written; None: they stay."""
    first = ladder[0].action if ladder else Action.FAIL
    return first if first in SETS_ASIDE else None


def is_weaker(rung: Action, before: Action) -> bool:
    """Tell whether an action does no more than the one before it on a ladder."""
    return _STRENGTH[rung] <= _STRENGTH[before]


def words(ladder: Sequence[Rung]) -> str:
    """Write a ladder as people read it."""
    return ", else ".join(map(str, ladder))
