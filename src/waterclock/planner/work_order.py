"""Orders ready groups for a runner: fresh windows before backfills and restatements, and no table waits forever."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from waterclock.planner.plan import Group

# how many fresh groups are started in a row while other groups wait
FRESH_IN_A_ROW = 3


@dataclass(slots=True)
class WorkOrder:
    """The order in which one runner starts groups. It remembers which tables had their turn.

    Fresh groups go first, in the order of the plan. After three of them in a row, one other group is started, if there
    is one. For other groups, tables take turns: first the table that has waited longest since its last turn, of equal
    ones the first in the plan.
    """

    _turns: dict[str, int] = field(default_factory=dict)
    _started: int = 0
    _fresh_in_a_row: int = 0

    def sort(self, ready: Iterable[Group]) -> list[Group]:
        """Return ready groups, given in the order of a plan, in the order in which they are to be started."""
        fresh: list[Group] = []
        others: list[Group] = []
        for group in ready:
            (fresh if group.is_fresh else others).append(group)
        others.sort(key=lambda group: self._turns.get(group.table, 0))
        return others + fresh if self._fresh_in_a_row >= FRESH_IN_A_ROW else fresh + others

    def start(self, group: Group) -> None:
        """Remember that a group was started."""
        self._started += 1
        if group.is_fresh:
            self._fresh_in_a_row += 1
        else:
            self._fresh_in_a_row = 0
            self._turns[group.table] = self._started
