"""Checks that each column has the same name in the log as in the table now. Pure functions.

If a column was renamed and then renamed back, a part of the log has the temporary name. The column's values would be
lost, or assigned to another column. wal2json also writes the number of each column, which never changes. pgoutput
writes only names, in the order of these numbers, without dropped and generated columns. So its names are matched with
the columns that may have existed at that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

LoggedName = tuple[str, int | None]
"""The name of a column in the log, and its number if the log has it."""


class Presence(Enum):
    """Whether a column existed while a range of the log was written."""

    ALWAYS = auto()
    ADDED = auto()
    """The column exists now, and may have been added within the range."""
    DROPPED = auto()
    """The column no longer exists, and may have existed within the range."""


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """A column of the table. `name` is None for a column that was added and dropped between two batches."""

    number: int
    name: str | None
    presence: Presence
    is_generated: bool = False


@dataclass(frozen=True, slots=True)
class LoggedColumns:
    """All columns that a table may have had while a range of the log was written, including dropped ones.

    They are in the order of their numbers (`attnum`). `wanted` are the names of the collected columns.
    """

    columns: tuple[KnownColumn, ...]
    wanted: frozenset[str]

    def has_own_names(self, logged: Sequence[LoggedName], *, is_whole: bool) -> bool:
        """Return whether each wanted column has its current name in the log, and no other column has that name.

        `is_whole`: names without a number in `logged` are those of all columns, not only of some.
        """
        names = [name for name, number in logged if number is None]
        if is_whole:
            return self._can_match(names)
        return self._have_current_numbers([(name, number) for name, number in logged if number]) and self._are_in_order(
            names
        )

    def _have_current_numbers(self, logged: Sequence[tuple[str, int]]) -> bool:
        own = {each.number: each.name for each in self.columns if each.name in self.wanted and _exists_now(each)}
        numbers = {name: number for number, name in own.items()}
        return all(own.get(number, name) == name and numbers.get(name, number) == number for name, number in logged)

    def _are_in_order(self, names: Sequence[str]) -> bool:
        numbers = {each.name: each.number for each in self.columns if each.name in self.wanted and _exists_now(each)}
        found = [numbers[name] for name in names if name in numbers]
        return found == sorted(found)

    def _can_match(self, names: Sequence[str]) -> bool:
        """Return whether exactly these names, in this order, can be those of the columns at the time of the log.

        A new wanted name is refused if it follows a column that was added and dropped between two batches, as the name
        may have been that column's.
        """
        ways = {_PartialMatch(0)}
        for column in self.columns:
            if column.is_generated:
                continue
            ways = {
                after
                for way in ways
                for after in (self._match_column(column, way, names), self._skip_column(column, way))
                if after is not None
            }
        return any(way.count == len(names) for way in ways)

    def _match_column(self, column: KnownColumn, way: _PartialMatch, names: Sequence[str]) -> _PartialMatch | None:
        if way.is_before_added or way.count == len(names):
            return None
        name, is_wanted = names[way.count], column.name in self.wanted and _exists_now(column)
        if is_wanted and (name != column.name or (way.has_skipped and column.presence is Presence.ADDED)):
            return None
        if not is_wanted and (name in self.wanted or not (_exists_now(column) or column.name in {None, name})):
            return None
        return _PartialMatch(way.count + 1, way.is_before_added, way.has_skipped)

    def _skip_column(self, column: KnownColumn, way: _PartialMatch) -> _PartialMatch | None:
        if column.presence is Presence.ALWAYS:
            return None
        is_added = column.presence is Presence.ADDED
        return _PartialMatch(way.count, way.is_before_added or is_added, way.has_skipped or column.name is None)


@dataclass(frozen=True, slots=True)
class _PartialMatch:
    """A match of a table's first columns with the first `count` names in the log. Some columns have no name in it.

    `is_before_added`: one of these was added later. `has_skipped`: one of these was added and dropped between two
    batches.
    """

    count: int
    is_before_added: bool = False
    has_skipped: bool = False


def _exists_now(column: KnownColumn) -> bool:
    return column.presence is not Presence.DROPPED


def columns_of_range(
    now: Mapping[int, tuple[str, bool]], count: int, before: Mapping[str, Any], low: int, wanted: Iterable[str]
) -> LoggedColumns:
    """Return the columns that may be in the log from the position `low` on.

    `now` maps numbers to names and whether the column is generated. `count` is the highest number ever assigned.
    `before` is the record of the previous batch, whose `columns` were built by `columns_for_record`.
    """
    known = before["columns"]
    last_known = max(map(int, known), default=0)
    columns = []
    for number in range(1, count + 1):
        recorded = known.get(str(number))
        seen, was_dropped = recorded[3:] if recorded is not None and len(recorded) > 3 else (0, None)
        is_settled = recorded is not None and seen <= low
        if number in now:
            name, is_generated = now[number]
            presence = Presence.ALWAYS if is_settled else Presence.ADDED
            columns.append(KnownColumn(number, name, presence, is_generated))
        elif not (is_settled and was_dropped) and (recorded is not None or number > last_known):
            columns.append(KnownColumn(number, recorded[0] if recorded else None, Presence.DROPPED))
    return LoggedColumns(tuple(columns), frozenset(wanted))


def columns_for_record(
    now: Mapping[int, Sequence[Any]], count: int, before: Mapping[str, Any] | None, position: int
) -> dict[str, list[Any]]:
    """Build the columns for the record of a batch: `[name, kind, altered, seen, is_dropped]` by number.

    `now` has the first three values of each existing column; `count` is the highest number ever assigned. `before` is
    the record of the previous batch, or None. `seen` is the log position at which a column was first found to exist, or
    to be dropped; 0 in the first batch.
    """
    known: Mapping[str, Sequence[Any]] = {} if before is None else before["columns"]
    noted: dict[str, list[Any]] = {}
    for number in range(1, count + 1):
        recorded = list(known.get(str(number), ()))
        is_dropped = number not in now
        is_as_before = recorded[4] == is_dropped if len(recorded) > 4 else bool(recorded) and not is_dropped
        seen = (recorded[3] if len(recorded) > 3 else 0) if is_as_before else position if before is not None else 0
        noted[str(number)] = [*((recorded or [None] * 3)[:3] if is_dropped else now[number]), seen, is_dropped]
    return noted
