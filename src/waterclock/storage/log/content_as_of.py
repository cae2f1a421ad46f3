"""Finds the slices and the version with a table's content as of a tick, as known at an instant. Needs no files.

`storage.folds.older_states` returns the rows of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from waterclock.flow.declarations import Table
from waterclock.flow.enums import FOLDS, Mode

NO_VERSION = -1


@dataclass(frozen=True, slots=True)
class DataCommit:
    """One commit of a batch's data: its Delta version, the instant `at` of its record, and its slices' paths by label.

    `stands_from` is set for snapshots: the start of the period that its one slice stands for. `is_reset`: the table
    was reset, so earlier commits no longer count, as their windows were different. The engine creates these objects
    from the ledger, which keeps records longer than the Delta log keeps commits.
    """

    version: int
    at: datetime
    slices: Mapping[datetime, str]
    stands_from: datetime | None = None
    is_reset: bool = False


@dataclass(frozen=True, slots=True)
class LogStep:
    """One label of a table's history: its sealed slice, and the Delta version of the resulting state, if known."""

    label: datetime
    slice_path: str
    version: int = NO_VERSION


@dataclass(frozen=True, slots=True)
class ContentLocation:
    """The place of a table's content as of `tick`, as known at `known_at` (None: now).

    `steps` are the current sealed slices of which it consists, oldest first: for APPEND those in `[low, high)`, for
    REPLACE the one of the state. For MERGE they are all slices before the tick, which are merged into the state; for
    TEMPORAL also the snapshot that covers the last window. Without steps the table was empty. `version` is the Delta
    version with the same rows, or `NO_VERSION`. In an APPEND table's version only rows with labels in `[low, high)`
    count.
    """

    table: str
    mode: Mode
    is_partitioned: bool
    tick: datetime
    known_at: datetime | None
    version: int
    low: datetime | None
    high: datetime
    steps: tuple[LogStep, ...]


def resolve(
    table: Table, tick: datetime, records: Iterable[DataCommit], *, known_at: datetime | None = None
) -> ContentLocation:
    """Find the content of `table` as of `tick`, from the data commits that were recorded by `known_at`.

    The content of an APPEND table is its rows with labels before the tick (limited by RETAIN), that of a MERGE table
    its state then. That of a REPLACE table is the state of the window that ends at `⌊tick⌋`, or the snapshot that
    stands for it. A state of a TEMPORAL table includes that snapshot. No file is opened, so the files of the result may
    not exist any more. Cost: microseconds a record.
    """
    known, is_whole = _select_known_commits(records, known_at)
    known = _drop_before_reset(known)
    boundary = table.cadence.floor(tick)
    low = find_retained_start(table, boundary)
    steps, version = _select_steps(table, boundary, low, known)
    if not is_whole:
        steps, version = tuple(replace(step, version=NO_VERSION) for step in steps), NO_VERSION
    return ContentLocation(table.name, table.mode, table.is_partitioned, tick, known_at, version, low, boundary, steps)


def find_known_slices(records: Iterable[DataCommit], known_at: datetime) -> dict[datetime, str]:
    """Map each label, in order, to the path of the slice that was its current one at an instant."""
    known, _ = _select_known_commits(records, known_at)
    return {label: record.slices[label] for label, record in current(_drop_before_reset(known)).items()}


def version_map(mode: Mode, records: Sequence[DataCommit]) -> dict[datetime, int]:
    """Map each label to the version that contains its state, given the records in the order of versions.

    After a commit the table has the state of its newest label. If a commit restates an older label of a MERGE or
    TEMPORAL table, no version contains the states from that label on any more. An older REPLACE state does not change
    the table: its sealed slice contains it, and no version does.
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
        if mode is Mode.REPLACE:  # of several snapshots in one commit the table shows the newest
            versions = {label: version for label, version in versions.items() if version != record.version}
        versions[head] = record.version
    return versions


def current(records: Iterable[DataCommit]) -> dict[datetime, DataCommit]:
    """Map each label, in order, to the record of its current slice: the newest commit that names the label."""
    found = {label: record for record in records for label in record.slices}
    return dict(sorted(found.items()))


def _select_known_commits(records: Iterable[DataCommit], known_at: datetime | None) -> tuple[list[DataCommit], bool]:
    """Return the records known at an instant, and whether they are exactly the commits up to one version.

    Claims of a partitioned table run in parallel, and may be recorded in another order than they were committed in.
    Each label is known since its own record. Its revisions are ordered by version, whatever the clocks showed.
    """
    ordered = sorted(records, key=lambda record: record.version)
    if known_at is None:
        return ordered, True
    known: list[DataCommit] = []
    later: set[datetime] = set()
    is_whole = True
    for record in ordered:
        if record.at > known_at:
            later.update(record.slices)
            continue
        is_whole = is_whole and not later
        slices = {label: path for label, path in record.slices.items() if label not in later}
        known += [replace(record, slices=slices)] if slices or record.is_reset else []
    return known, is_whole


def _drop_before_reset(known: list[DataCommit]) -> list[DataCommit]:
    """Return the records from the newest reset of the table on."""
    first = max((place for place, record in enumerate(known) if record.is_reset), default=0)
    while first and known[first - 1].version == known[first].version:
        first -= 1  # one commit, recorded label by label
    return known[first:]


def find_retained_start(table: Table, boundary: datetime) -> datetime | None:
    """Return the first window before a boundary that RETAIN keeps. None if all are kept."""
    if table.retain is None or table.mode is not Mode.APPEND:
        return None
    return table.cadence.ceil(table.retain.subtract_from(boundary, table.cadence.zone))


def _select_steps(
    table: Table, boundary: datetime, low: datetime | None, known: Sequence[DataCommit]
) -> tuple[tuple[LogStep, ...], int]:
    slices = current(known)
    if table.mode is Mode.REPLACE:
        return _find_standing_snapshot(table, boundary, slices, version_map(table.mode, known))
    within = {
        label: record
        for label, record in slices.items()
        if (low is None or label >= low) and (record.stands_from or label) < boundary
    }
    if table.mode is Mode.APPEND:
        steps = tuple(LogStep(label, record.slices[label]) for label, record in within.items())
        return steps, known[-1].version if steps else NO_VERSION
    versions = version_map(table.mode, known)
    steps = tuple(
        LogStep(label, record.slices[label], versions.get(label, NO_VERSION)) for label, record in within.items()
    )
    return steps, steps[-1].version if steps else NO_VERSION


def _find_standing_snapshot(
    table: Table, boundary: datetime, slices: Mapping[datetime, DataCommit], versions: Mapping[datetime, int]
) -> tuple[tuple[LogStep, ...], int]:
    start = table.cadence.previous(boundary)
    for label, record in slices.items():
        if label >= start and (record.stands_from or label) <= start:
            version = versions.get(label, NO_VERSION)
            return (LogStep(label, record.slices[label], version),), version
    return (), NO_VERSION
