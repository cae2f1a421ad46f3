"""Resolves where a table's content as of a tick lies, as it was known then: a pure function of commit records.

`storage.folds.older_states` gives the rows of what is found here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from waterclock.flow.choices import FOLDS, Mode
from waterclock.flow.declarations import Table

NO_VERSION = -1


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """What one data commit of ours says: at `version`, known since `at`, `slices` became current, by label.

    `stands_from` is set for snapshots: from when on the one slice stands. `begins_anew`: of what was committed before,
    nothing stands any more, for it was of other windows. The engine makes them from the
    ledger, which outlives the log.
    """

    version: int
    at: datetime
    slices: Mapping[datetime, str]
    stands_from: datetime | None = None
    begins_anew: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One label of a table's past: its sealed slice, and the Delta version of the state it led to, if kept."""

    label: datetime
    slice_path: str
    version: int = NO_VERSION


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where the content of a table as of `tick` is, as known at `known_at` (None: by now).

    `steps` are the current sealed slices it is made of, oldest first: for APPEND those in `[low, high)`, for REPLACE
    the one of the state, for MERGE all before the tick, whose fold is the state. None: the table is empty there.
    `version` is the Delta version that holds the same rows, `NO_VERSION` where none does; of an APPEND table's version
    only rows with labels in `[low, high)` count.
    """

    table: str
    mode: Mode
    is_partitioned: bool
    tick: datetime
    known_at: datetime | None
    version: int
    low: datetime | None
    high: datetime
    steps: tuple[Step, ...]


def resolve(
    table: Table, tick: datetime, records: Iterable[CommitRecord], *, known_at: datetime | None = None
) -> Resolved:
    """Say where the content of `table` as of `tick` is, by its data commits, as far as they were known at `known_at`.

    An APPEND table is its rows with labels before the tick (cut at RETAIN), a MERGE table its state there, a REPLACE
    table the state of the window that ends at `⌊tick⌋`, or the snapshot that stands for it. Opens nothing; whether the
    files still lie there is found out on reading. Cost: microseconds a record.
    """
    known, is_whole = _known(records, known_at)
    known = _since_anew(known)
    boundary = table.cadence.floor(tick)
    low = _low(table, boundary)
    steps, version = _of_mode(table, boundary, low, known)
    if not is_whole:
        steps, version = tuple(replace(step, version=NO_VERSION) for step in steps), NO_VERSION
    return Resolved(table.name, table.mode, table.is_partitioned, tick, known_at, version, low, boundary, steps)


def version_map(mode: Mode, records: Sequence[CommitRecord]) -> dict[datetime, int]:
    """Return which version holds the state at which label, by records in the order of versions.

    A commit leaves the table at its newest label; one that restates a MERGE from a label first drops all from there
    on. An older REPLACE state leaves the table as it is: no version holds it, it is its sealed slice.
    """
    versions: dict[datetime, int] = {}
    head: datetime | None = None
    for record in records:
        if not record.slices:
            continue
        oldest, newest = min(record.slices), max(record.slices)
        if mode is Mode.REPLACE and head is not None and newest < head:
            versions.pop(newest, None)
            continue
        if mode in FOLDS and head is not None and oldest <= head:
            versions = {label: version for label, version in versions.items() if label < oldest}
        head = newest if head is None else max(head, newest)
        if mode is Mode.REPLACE:  # of several snapshots in one commit it shows the newest
            versions = {label: version for label, version in versions.items() if version != record.version}
        versions[head] = record.version
    return versions


def current(records: Iterable[CommitRecord]) -> dict[datetime, CommitRecord]:
    """Return by label the record of its current slice, labels in order: the newest commit that names it."""
    found = {label: record for record in records for label in record.slices}
    return dict(sorted(found.items()))


def _known(records: Iterable[CommitRecord], known_at: datetime | None) -> tuple[list[CommitRecord], bool]:
    """Return the records known at an instant, and whether they are all up to one version, which holds what they say.

    Claims of a partitioned table lie side by side, and are recorded in another order than they were committed in: each
    label is known since its own record. Its revisions follow each other by version, whatever the clocks said.
    """
    ordered = sorted(records, key=lambda record: record.version)
    if known_at is None:
        return ordered, True
    known: list[CommitRecord] = []
    later: set[datetime] = set()
    is_whole = True
    for record in ordered:
        if record.at > known_at:
            later.update(record.slices)
            continue
        is_whole = is_whole and not later
        slices = {label: path for label, path in record.slices.items() if label not in later}
        known += [replace(record, slices=slices)] if slices or record.begins_anew else []
    return known, is_whole


def _since_anew(known: list[CommitRecord]) -> list[CommitRecord]:
    """Return the records from the newest on at which the table began anew."""
    first = max((place for place, record in enumerate(known) if record.begins_anew), default=0)
    while first and known[first - 1].version == known[first].version:
        first -= 1  # one commit, told label by label
    return known[first:]


def _low(table: Table, boundary: datetime) -> datetime | None:
    if table.retain is None or table.mode is not Mode.APPEND:
        return None
    return table.cadence.ceil(table.retain.before(boundary, table.cadence.zone))


def _of_mode(
    table: Table, boundary: datetime, low: datetime | None, known: Sequence[CommitRecord]
) -> tuple[tuple[Step, ...], int]:
    slices = current(known)
    if table.mode is Mode.REPLACE:
        return _standing(table, boundary, slices, version_map(table.mode, known))
    within = {label: record for label, record in slices.items() if (low is None or label >= low) and label < boundary}
    if table.mode is Mode.APPEND:
        steps = tuple(Step(label, record.slices[label]) for label, record in within.items())
        return steps, known[-1].version if steps else NO_VERSION
    versions = version_map(table.mode, known)
    steps = tuple(
        Step(label, record.slices[label], versions.get(label, NO_VERSION)) for label, record in within.items()
    )
    return steps, steps[-1].version if steps else NO_VERSION


def _standing(
    table: Table, boundary: datetime, slices: Mapping[datetime, CommitRecord], versions: Mapping[datetime, int]
) -> tuple[tuple[Step, ...], int]:
    start = table.cadence.previous(boundary)
    for label, record in slices.items():
        if label >= start and (record.stands_from or label) <= start:
            version = versions.get(label, NO_VERSION)
            return (Step(label, record.slices[label], version),), version
    return (), NO_VERSION
