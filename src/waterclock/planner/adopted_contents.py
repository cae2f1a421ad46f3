"""Computes the content that a read will have once slices are replaced by others whose weights are known. Pure.

The content of an interval is the sum of the weights of its slices, or for a REPLACE table the weight of the slice that
covers it (`ledger.read.content`). So the content after a change follows from the content before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from waterclock.batches.earlier_revisions import EarlierRevision
from waterclock.batches.ledger_snapshot import content_sums, content_text
from waterclock.batches.records import Input
from waterclock.flow.enums import FOLDS, Mode

_UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class ReplacedSlice:
    """A label's slice and the one that replaces it. `after` is None if the rows are not known yet."""

    label: datetime
    since: datetime
    end: datetime
    before: tuple[int, int]
    after: tuple[int, int] | None


@dataclass
class ContentChanges:
    """The slices that are replaced, by table, and the modes of the tables."""

    modes: Mapping[str, Mode]
    slices: dict[str, list[ReplacedSlice]] = field(default_factory=lambda: defaultdict(list))

    def add(self, table: str, current: EarlierRevision, target: EarlierRevision | None) -> None:
        """Record that a label's current revision is replaced by `target`, or by rows that are not known."""
        after = None if target is None else target.weight
        before = current.weight or (0, 0)
        if after is not None and after == current.weight:
            return
        since = current.stands_from or current.label
        self.slices[table].append(ReplacedSlice(current.label, since, current.end, before, after))

    def after(self, reads: Iterable[Input]) -> tuple[Input, ...]:
        """Return the inputs with the contents that they will have. A content that is not known is equal to no other."""
        return tuple(replace(read, content=self._content_after(read)) for read in reads)

    def _content_after(self, read: Input) -> str:
        changed = [each for each in self.slices.get(read.table, ()) if self._is_read(each, read)]
        if not changed:
            return read.content
        if any(each.after is None for each in changed):
            return _UNKNOWN
        if self.modes[read.table] is Mode.REPLACE:
            [covering] = changed
            return content_text(*(covering.after or (0, 0)))
        high, low = content_sums(read.content)
        high += sum((each.after or (0, 0))[0] - each.before[0] for each in changed)
        low += sum((each.after or (0, 0))[1] - each.before[1] for each in changed)
        return content_text(high, low)

    def _is_read(self, each: ReplacedSlice, read: Input) -> bool:
        """Return whether a slice is part of what a read contains."""
        if read.low >= read.high:
            return False
        mode = self.modes[read.table]
        if mode is Mode.REPLACE:
            return each.since <= read.low < each.end
        if mode in FOLDS:  # a snapshot is part of the states from the first window on that it covers
            return read.low <= each.label and each.since < read.high
        return read.low <= each.label < read.high
