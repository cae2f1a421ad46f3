"""Decides whether two batches of a TRANSFORM with APART, one of each table, were made by the same query. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import NamedTuple


class DeclaredCode(NamedTuple):
    """The code of one of the two tables, as a flow declared it at an instant. `is_of_persons`: of the persons."""

    at: datetime
    is_of_persons: bool
    code: str


@dataclass(slots=True)
class CodePairs:
    """The codes of the events and of the persons, in groups of the same query.

    Codes that a flow declared together belong to one group: a rule on one table changes the code of this table only. A
    change of the query, a function, a key or a type changes both, and begins a new group.
    """

    _groups: dict[tuple[bool, str], int] = field(default_factory=dict)

    @classmethod
    def from_history(cls, declared: Iterable[DeclaredCode]) -> CodePairs:
        """Build the groups from all declarations of both tables, oldest first."""
        pairs = cls()
        now: dict[bool, str] = {}
        for _, together in groupby(declared, key=lambda each: each.at):
            now |= {each.is_of_persons: each.code for each in together}
            if len(now) == 2:
                pairs._join((False, now[False]), (True, now[True]))
        return pairs

    def _join(self, events: tuple[bool, str], persons: tuple[bool, str]) -> None:
        known = [self._groups[each] for each in (events, persons) if each in self._groups]
        group = min(known, default=len(self._groups))
        self._groups = {each: group if of in known else of for each, of in self._groups.items()}
        self._groups |= {events: group, persons: group}

    def are_paired(self, events: str, persons: str) -> bool:
        """Return whether batches of these codes have the same persons. Codes that no flow declared count as paired."""
        of_events, of_persons = self._groups.get((False, events)), self._groups.get((True, persons))
        return of_events is None or of_persons is None or of_events == of_persons
