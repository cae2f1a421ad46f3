"""Tracks the pairs that other lives have covered, so that a life draws a flow and operations with new pairs."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from tests.life.declarations import Declared
from tests.life.part import BY_LABEL
from tests.life.parts import Bucketed, Closes, Clustered, Fail, Groups, Hold, OverTable, Retain, Sorted
from tests.life.people import Granted, Subject

Pair = tuple[str, str]
LIVES = 60
"""The number of lives in a soak."""
RARE = 9
"""How much more a pair counts that no soak has covered than one that only this soak has not."""
OF_ALL = (
    "maintain", "struck", "killed", "two runners", "clock set back", "ledger lost, just exported",
    "ledger lost, never exported", "asked as known at",
)  # fmt: skip
"""Operations on all tables of a life."""


def seeds_of(soak: int | None) -> range:
    """Return the seeds of a soak's lives by its number; by default those of the first soak."""
    first = (soak or 0) * LIVES
    return range(first, first + LIVES)


@dataclass(frozen=True)
class Met:
    """The pairs that earlier lives of the same soak have covered, and those of lives of any soak."""

    soak: frozenset[Pair] = frozenset()
    ever: frozenset[Pair] = frozenset()

    def gain(self, pairs: AbstractSet[Pair]) -> int:
        """Return the value of these pairs for coverage."""
        return len(pairs - self.soak) + RARE * len(pairs - self.ever)

    def gain_of(self, what: str, words: AbstractSet[str]) -> int:
        """Return the value for coverage of an operation on a table with these declarations."""
        in_soak, ever = self._words.get(f"op {what}", (set(), set()))
        return len(words - in_soak) + RARE * len(words - ever)

    @cached_property
    def _words(self) -> dict[str, tuple[set[str], set[str]]]:
        """All second elements of pairs by the first one, in this soak and ever."""
        found: dict[str, tuple[set[str], set[str]]] = {}
        for number, pairs in enumerate((self.soak, self.ever)):
            for one, other in pairs:
                found.setdefault(one, (set(), set()))[number].add(other)
        return found

    def with_pairs(self, pairs: Iterable[Pair]) -> Met:
        """Return the covered pairs after a life of this soak."""
        return Met(self.soak.union(pairs), self.ever.union(pairs))

    def next_soak(self) -> Met:
        """Return the covered pairs at the start of another soak."""
        return Met(frozenset(), self.ever)


def operations(table: Declared) -> tuple[str, ...]:
    """Return the operations that a table's declarations allow; operations on all tables are in `OF_ALL`."""
    found = ["pause", "resume"]
    if table.kind == "PUBLISH":
        return tuple(found)
    found += ["renamed", "reset", "rebuild", "older log put back, rebuild"]
    is_troubled = table.has(Hold, Fail, Groups, OverTable)
    found += ["retry", "skip", "skip taken back"] * is_troubled + ["release"] * table.has(Hold)
    found += ["recompute", "skip refused"] * (table.mode != "REPLACE" or table.is_form)
    found += ["recollect"] * (table.is_by_data_time or table.is_form or bool(table.answers))
    if table.is_form:
        found += ["edited", *["START moved back"] * (table.start > table.size)]
    elif table.kind == "COLLECT":
        found += ["late rows", *["corrected"] * (not table.is_by_file), *["vanished"] * table.is_snapshot]
        found += ["START moved back"] * (table.start > table.size and not table.is_snapshot)
    elif not table.answers:
        found.append("code changed")
    found += ["erased"] * table.has(Subject)
    found += ["sorted otherwise"] * table.has(Sorted, Clustered, Bucketed)
    is_by_label = table.mode in BY_LABEL and not table.is_snapshot and not table.answers
    found += ["given up"] * is_by_label + ["damaged, recompute"] * (
        is_by_label and table.kind == "TRANSFORM" and not table.has(Closes)
    )
    found += ["dropped windows before"] * table.has(Retain) + ["asked as a reader"] * table.has(Granted)
    closes = table.part(Closes)
    if isinstance(closes, Closes):
        found += ["skip", "skip taken back", *["closed by hand"] * closes.by_hand]
    return tuple(found)


def operated(tables: Iterable[Declared]) -> dict[str, set[str]]:
    """Return, by operation, the declarations of the tables that it may happen to."""
    found: dict[str, set[str]] = {}
    for table in tables:
        for what in (*OF_ALL, *operations(table)):
            found.setdefault(what, set()).update(table.words)
    return found
