"""Finds the revisions of a table's labels to compare: the current ones, earlier ones, or those known at an instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.engine.reads.as_of import group_commits
from waterclock.flow.declarations import Table
from waterclock.flow.measures import MeasuredValue
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.revisions import CommittedRevision
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import find_known_slices, find_retained_start

Bounds = tuple[datetime, datetime]
ALL: Bounds = (BEGINNING, FOREVER)
QUARANTINED = "quarantined rows"
"""The name under which the number of quarantined rows is compared, next to the names of measures."""


@dataclass(frozen=True, slots=True)
class TableRevisions:
    """All revisions of some labels of a table in one ledger, in the order of their commits.

    `emptying_versions` are the versions that emptied the table, with their instants. The rows of labels before
    `dropped_before` were dropped by RETAIN. `held` are labels whose newest rows a rule holds.
    """

    revisions: tuple[CommittedRevision, ...] = ()
    emptying_versions: Mapping[int, datetime] = field(default_factory=dict)
    dropped_before: datetime | None = None
    held: frozenset[datetime] = frozenset()

    def current(self) -> dict[datetime, CommittedRevision]:
        """Map each label to its current revision."""
        return {each.label: each for each in self.revisions if each.is_current}

    def known_at(self, at: datetime) -> dict[datetime, CommittedRevision]:
        """Map each label to the revision that was its current one at an instant of the ledger's clock."""
        paths = {(each.label, each.slice_path): each for each in self.revisions}
        found = find_known_slices(group_commits(self.revisions, self.emptying_versions), at)
        return {label: paths[label, path] for label, path in found.items()}

    def before_current(self) -> dict[datetime, CommittedRevision]:
        """Map each label that was made again to the revision before its current one."""
        since = max(self.emptying_versions, default=-1)  # earlier revisions have other windows
        found: dict[datetime, CommittedRevision] = {}
        last: dict[datetime, CommittedRevision] = {}
        for each in self.revisions:
            if each.version < since:
                continue
            if each.is_current and each.label in last:
                found[each.label] = last[each.label]
            last[each.label] = each
        return found


def read_table_revisions(ledger: Ledger, table: Table, bounds: Bounds = ALL) -> TableRevisions:
    """Read the revisions of a table's labels within `bounds`. Cost: some queries, and 20 µs for each revision."""
    newest = ledger.reads.newest(table.name)
    retained = None if newest is None else find_retained_start(table, newest.end)
    dropped = ledger.maintenance.drop_boundary(table.name, by=FOREVER)
    boundaries = [each for each in (retained, dropped) if each is not None]
    return TableRevisions(
        tuple(ledger.reads.revisions(table.name, *bounds)),
        ledger.maintenance.emptying_versions_of(table.name),
        max(boundaries, default=None),
        frozenset(ledger.reads.held_labels(table.name)),
    )


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One side of a comparison: the revisions of a table's labels, and the storage with their slices.

    `name` names the side in messages, such as "in prod". `env` is its environment if it is not that of the project.
    """

    name: str
    table: Table
    lake: Lake
    revisions: Mapping[datetime, CommittedRevision] = field(default_factory=dict)
    dropped_before: datetime | None = None
    env: str | None = None

    @property
    def folder(self) -> str:
        """The folder of the table."""
        return self.lake.folder(self.table.name)


def are_one_slice(before: ComparedSide, after: ComparedSide, label: datetime) -> bool:
    """Return whether both sides of a label have the same files."""
    slices = before.revisions[label].slice_path, after.revisions[label].slice_path
    return before.folder == after.folder and slices[0] == slices[1]


def are_same_rows(before: ComparedSide, after: ComparedSide, label: datetime) -> bool:
    """Return whether the ledgers prove that both sides have the same rows of a label: one slice, or equal digests."""
    old, new = before.revisions[label], after.revisions[label]
    return (old.digest is not None and old.digest == new.digest) or are_one_slice(before, after, label)


def compare_measures(old: CommittedRevision, new: CommittedRevision) -> dict[str, tuple[str | None, str | None]]:
    """Map each measure that differs to its values before and after. None is NULL, or a measure that is missing."""
    if old.quarantined == new.quarantined and old.measured == new.measured:
        return {}
    olds, news = _measures_of(old), _measures_of(new)
    names: Iterable[str] = dict.fromkeys((*olds, *news))
    return {name: (olds.get(name), news.get(name)) for name in names if olds.get(name) != news.get(name)}


def _measures_of(revision: CommittedRevision) -> dict[str, str | None]:
    measured: Mapping[str, MeasuredValue] = revision.measured or {}
    values = {name: each.value for name, each in measured.items()}
    return {QUARANTINED: str(revision.quarantined), **values}
