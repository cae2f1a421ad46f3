"""Finds the first differences between two revisions of a label: walks the recorded inputs of both, upstream.

Two revisions are compared by digest, then by code, then by what they read. An input counts as different only if the
contents of the reads differ, and its slices only if their digests do. No row is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from waterclock.batches.earlier_revisions import REVERTED, EarlierRevision
from waterclock.batches.records import Input
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.provenance import ReadSlice

MOST_BATCHES = 2_000
"""The number of batches after which a walk stops."""
MOST_SLICES = 200_000
"""The number of slices, read by the compared batches, after which a walk stops."""
_ROUND = 200  # batches that are compared at a time
Batch = tuple[str, datetime]
_Read = tuple[datetime, datetime, str]  # the interval of a read, and its content
AreCodesEqual = Callable[[str, str], bool]


class CauseKind(StrEnum):
    """What differs first between two revisions of a label, while all that it was made from is equal."""

    CODE = "code"
    """The code of the table. Its inputs may differ as well."""
    SOURCE = "source"
    """The rows of the source of a collect."""
    REVERT = "revert"
    """One of them was made by a revert."""
    MISSING = "missing"
    """A label that only one side read: the other side did not have it then, or its rows were removed."""
    RANGE = "range"
    """The labels that the same code reads: its START or that of an input was moved."""
    DIGEST = "digest"
    """Nothing that is recorded, but a digest is missing: the rows may be equal."""
    ROWS = "rows"
    """Only the rows: the code gave others for the same inputs, or a decision changed them."""
    UNKNOWN = "unknown"
    """The rows of an input that the audit trail does not contain any more."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The first difference in some labels of a table, oldest first.

    `before` and `after` are the revisions of the first label, None on a side that does not have it. `path` leads from
    the batch that reads the first label to the explained one; it is empty for the explained one itself.
    """

    kind: CauseKind
    table: str
    labels: tuple[datetime, ...]
    before: EarlierRevision | None
    after: EarlierRevision | None
    path: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class Causes:
    """The first differences that a walk found, and how many batches it compared. One that was stopped is incomplete."""

    found: tuple[Cause, ...] = ()
    compared: int = 0
    is_complete: bool = True


@dataclass(frozen=True)
class Trail:
    """The audit trail of one side: its ledger."""

    ledger: Ledger

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each table."""
        return {record.name: record.kind for record in self.ledger.reads.tables()}

    def revisions(self, table: str, claims: Mapping[datetime, int | None]) -> dict[datetime, EarlierRevision]:
        """Map labels to their revisions of the given claims."""
        wanted = {label: claim for label, claim in claims.items() if claim is not None}
        made = self.ledger.reads.earlier_revisions(table, list(wanted)) if table in self.kinds else {}
        return {label: each for label, of in made.items() for each in of if each.claim == wanted[label]}


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two revisions of a label to compare, by their claims. None is a side without the label."""

    table: str
    label: datetime
    before: int | None
    after: int | None


@dataclass
class _Walk:
    """The state of a walk: the pairs to compare, those that were found, and by which other pair."""

    before: Trail
    after: Trail
    are_codes_equal: AreCodesEqual
    waiting: set[_Pair] = field(default_factory=set)
    found_by: dict[_Pair, _Pair | None] = field(default_factory=dict)
    causes: list[Cause] = field(default_factory=list)
    slices: int = 0

    def run(self, first: _Pair) -> Causes:
        self.found_by[first] = None
        self.waiting.add(first)
        compared = 0
        while self.waiting and compared < MOST_BATCHES and self.slices < MOST_SLICES:
            # the oldest first: what a table reads of itself is then explained before the batches that read it
            chosen = sorted(self.waiting, key=lambda it: (it.label, it.table))[: min(_ROUND, MOST_BATCHES - compared)]
            for pair, old, new in self._read(chosen):
                self.waiting.discard(pair)
                compared += 1
                self._compare(pair, old, new)
                if self.slices >= MOST_SLICES:
                    break
        return Causes(tuple(_group(self.causes)), compared, is_complete=not self.waiting)

    def _read(self, pairs: Sequence[_Pair]) -> Iterator[tuple[_Pair, EarlierRevision | None, EarlierRevision | None]]:
        """Yield each pair with both revisions, in the same order."""
        tables = {pair.table for pair in pairs}
        olds, news = dict[_Pair, EarlierRevision](), dict[_Pair, EarlierRevision]()
        for table in tables:
            rest = [pair for pair in pairs if pair.table == table]
            while rest:  # a label may have several pairs
                some = {pair.label: pair for pair in rest}
                rest = [pair for pair in rest if some[pair.label] != pair]
                earlier = self.before.revisions(table, {label: pair.before for label, pair in some.items()})
                later = self.after.revisions(table, {label: pair.after for label, pair in some.items()})
                olds |= {some[label]: each for label, each in earlier.items()}
                news |= {some[label]: each for label, each in later.items()}
        for pair in pairs:
            yield pair, olds.get(pair), news.get(pair)

    def _compare(self, pair: _Pair, old: EarlierRevision | None, new: EarlierRevision | None) -> None:
        if old is None or new is None:
            self._add(CauseKind.MISSING, pair, old, new)
            return
        is_other_code = not self.are_codes_equal(old.code, new.code)
        if is_other_code:
            self._add(CauseKind.CODE, pair, old, new)
        if not self._compare_inputs(pair, old, new, is_other_code=is_other_code) and not is_other_code:
            self._add(self._own_cause(pair, old, new), pair, old, new)

    def _own_cause(self, pair: _Pair, old: EarlierRevision, new: EarlierRevision) -> CauseKind:
        if (REVERTED in old.measures) != (REVERTED in new.measures):
            return CauseKind.REVERT
        if self.after.kinds.get(pair.table) == Kind.COLLECT:
            return CauseKind.SOURCE
        return CauseKind.DIGEST if None in (old.digest, new.digest) else CauseKind.ROWS

    def _compare_inputs(self, pair: _Pair, old: EarlierRevision, new: EarlierRevision, *, is_other_code: bool) -> bool:
        """Compare what two revisions of a label read. Return whether it differs."""
        olds, news = _reads_by_table(old.inputs), _reads_by_table(new.inputs)
        differing = [name for name in dict.fromkeys((*olds, *news)) if olds.get(name) != news.get(name)]
        if not differing:
            return False
        old_slices = self.before.ledger.past.list_read_slices((old.label, old.claim), differing)
        new_slices = self.after.ledger.past.list_read_slices((new.label, new.claim), differing)
        has_found = False
        for name in differing:
            mine, theirs = old_slices[name], new_slices[name]
            self.slices += len(mine) + len(theirs)
            pairs = list(_differing_slices(name, mine, theirs))
            outside = [each for each in pairs if _is_outside(each, olds.get(name, ()), news.get(name, ()))]
            known = [each for each in pairs if each not in outside]
            for each in known:
                if each not in self.found_by:
                    self.found_by[each] = pair
                    self.waiting.add(each)
            is_explained = bool(known) or is_other_code
            if not is_explained and (outside or _contents(olds.get(name, ())) != _contents(news.get(name, ()))):
                self._add(CauseKind.RANGE if outside else CauseKind.UNKNOWN, pair, old, new)
                has_found = True
            has_found |= bool(known)
        return has_found

    def _add(self, kind: CauseKind, pair: _Pair, old: EarlierRevision | None, new: EarlierRevision | None) -> None:
        path, reader = list[Batch](), self.found_by[pair]
        while reader is not None:
            path.append((reader.table, reader.label))
            reader = self.found_by[reader]
        self.causes.append(Cause(kind, pair.table, (pair.label,), old, new, tuple(path)))


def find_causes(
    before: Trail,
    after: Trail,
    batch: Batch,
    claims: tuple[int | None, int | None],
    are_codes_equal: AreCodesEqual,
) -> Causes:
    """Return the first differences between two revisions of a batch whose rows differ.

    `claims` are those of the revisions before and after; None if a side has none. Cost: three queries for each
    compared batch and each of its differing reads, and some 20 µs for each slice that these read.
    """
    return _Walk(before, after, are_codes_equal).run(_Pair(*batch, *claims))


def _reads_by_table(inputs: Sequence[Input]) -> dict[str, list[_Read]]:
    found: defaultdict[str, list[_Read]] = defaultdict(list)
    for each in inputs:
        found[each.table].append((each.low, each.high, each.content))
    return found


def _contents(reads: Sequence[_Read]) -> list[str]:
    return [content for _, _, content in reads]


def _is_outside(pair: _Pair, before: Sequence[_Read], after: Sequence[_Read]) -> bool:
    """Return whether only one side read a label because the other one did not ask for it."""
    spans = [[(low, high) for low, high, _ in reads] for reads in (before, after)]
    if None not in (pair.before, pair.after) or spans[0] == spans[1]:
        return False
    return not all(any(low <= pair.label < high for low, high in of) for of in spans)


def _differing_slices(
    name: str, before: Mapping[datetime, ReadSlice], after: Mapping[datetime, ReadSlice]
) -> Iterator[_Pair]:
    for label in sorted({*before, *after}):
        old, new = before.get(label), after.get(label)
        if old is not None and new is not None:
            if not _is_same(old, new):
                yield _Pair(name, label, old.claim, new.claim)
            continue
        if old is not None and old.has_content:
            yield _Pair(name, label, old.claim, None)
        if new is not None and new.has_content:
            yield _Pair(name, label, None, new.claim)


def _is_same(old: ReadSlice, new: ReadSlice) -> bool:
    """Return whether two slices of a label have the same rows. A branch has copies of the records of its base."""
    is_one = (old.claim, old.recorded_at) == (new.claim, new.recorded_at)
    return is_one or (old.digest is not None and old.digest == new.digest)


def _group(causes: Sequence[Cause]) -> Iterator[Cause]:
    """Yield one cause for all labels of a table that differ by the same kind, and by the same code."""
    groups: defaultdict[tuple[str | None, ...], list[Cause]] = defaultdict(list)
    for each in causes:
        codes = (each.before and each.before.code, each.after and each.after.code)
        is_missing = each.kind is CauseKind.MISSING
        side = "before" if each.before is not None else "after"
        own = codes if each.kind is CauseKind.CODE else (side,) if is_missing else ()
        groups[each.kind, each.table, *own].append(each)
    for of in groups.values():
        first = min(of, key=lambda it: it.labels)
        yield replace(first, labels=tuple(sorted({label for each in of for label in each.labels})))
