"""A toy lake: slices of a few rows, and "queries" that are hashes of the exact inputs of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from zlib import crc32

from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.planner.plan import BoundRead, ReadScope
from waterclock.timelabel.window import Window

# A row is (key, value); a value of None deletes its key from a MERGE table.
Row = tuple[str, int | None]
Rows = tuple[Row, ...]
KEYS = ("k0", "k1", "k2")


def query(table: Table, window: Window, given: Iterable[object], grain: int) -> Rows:
    """Make the rows of a batch from its window and its inputs; a small `grain` makes many batches equal.

    A renamed table has its first name in its comment, so it makes the same rows.
    """
    seed = crc32(
        repr((table.about.comment or table.name, window.start.isoformat() if grain > 3 else "", tuple(given))).encode()
    )
    rows: list[Row] = []
    for place, key in enumerate(KEYS):
        part = (seed >> (8 * place)) % 256
        if part % 3:  # else this batch has no such row
            is_delete = table.mode is Mode.MERGE and part % 7 == 0
            rows.append((key, None if is_delete else (seed + place) % grain))
    return tuple(rows)


def fold(slices: Iterable[Rows]) -> Rows:
    """Return the state of a MERGE table: per key the last row; a delete removes the key."""
    state: dict[str, int] = {}
    for rows in slices:
        for key, value in rows:
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
    return tuple(sorted(state.items()))


def digest(rows: Rows) -> str:
    """Return the digest that the ledger compares: equal for equal rows."""
    return f"{len(rows)}:{crc32(repr(rows).encode())}:0"


@dataclass(slots=True)
class ToyTable:
    """The current slice of every label, and from when on each stands."""

    table: Table
    slices: dict[datetime, Rows] = field(default_factory=dict)
    stands: dict[datetime, datetime] = field(default_factory=dict)

    def given(self, read: BoundRead) -> object:
        """Return the rows that a batch reads; an empty slice counts as none, but versions need all snapshots."""
        parts = self.parts(read)
        if self.table.mode is Mode.TEMPORAL:
            return tuple((label.isoformat(), rows) for label, rows in parts)
        if read.scope is ReadScope.STATE and self.table.mode is Mode.MERGE:
            return fold(rows for _, rows in parts)
        if read.scope is ReadScope.STATE and self.table.mode is Mode.REPLACE:
            return tuple(row for _, rows in parts for row in rows)
        return tuple((label.isoformat(), *row) for label, rows in parts for row in rows)

    def parts(self, read: BoundRead) -> tuple[tuple[datetime, Rows], ...]:
        """Return the slices of a read, oldest first, without empty ones that end no key."""
        ends_keys = self.table.mode is Mode.TEMPORAL
        return tuple((label, self.slices[label]) for label in self.chosen(read) if self.slices[label] or ends_keys)

    def chosen(self, read: BoundRead) -> list[datetime]:
        """Return the labels of a read, oldest first."""
        if read.low >= read.high:
            return []
        if read.scope is ReadScope.STATE and self.table.mode is Mode.REPLACE:
            standing = self.standing(read.low)
            return [] if standing is None else [standing]
        since = self.stands
        return [label for label in sorted(self.slices) if read.low <= label and since.get(label, label) < read.high]

    def standing(self, start: datetime) -> datetime | None:
        """Return the label whose state stands for the window that starts there."""
        found = (label for label in sorted(self.slices) if label >= start and self.stands.get(label, label) <= start)
        return next(found, None)


@dataclass(slots=True)
class ToyLake:
    """All tables, and the sources of collects: a number for each window, and the current content for snapshots."""

    tables: Mapping[str, ToyTable]
    grains: Mapping[str, int]
    source: dict[tuple[str, datetime], int] = field(default_factory=dict)

    def make(self, table: Table, window: Window, reads: Iterable[BoundRead], seen: object) -> Rows:
        """Make one batch; `seen`: the content of its source, None for tables without one."""
        given = [self.tables[read.read.table].given(read) for read in reads]
        return query(table, window, [*given, seen], self.grains[table.name])

    def evidence(self, reads: Iterable[BoundRead]) -> tuple[object, ...]:
        """Return the slices that a batch depends on; they must differ before it runs again."""
        return tuple((read.read.table, self.tables[read.read.table].parts(read)) for read in reads)
