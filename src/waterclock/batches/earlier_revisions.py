"""Defines a committed revision of a label with all that decides whether its sealed slice may be adopted. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from waterclock.batches.records import Input

REVERTED = "reverted"
"""The measure of a revision that a revert committed: the revision it was reverted to and from, by whom, and why."""
TAKEN_BACK = "taken back"
"""The measure of a revision that adopts an earlier one, since its code and inputs are equal again: that revision."""
PROMOTED = "promoted"
"""The measure of a revision that adopts a slice of a branch: the branch, its revision, and by whom."""
_OF_ONE_COMMIT = frozenset({REVERTED, TAKEN_BACK, PROMOTED, "recovered"})


@dataclass(frozen=True, slots=True)
class EarlierRevision:
    """One committed revision of a label, current or replaced. Its name is the number of the claim that committed it.

    `code` is the fingerprint of the code that made its rows, and `inputs` are those that it read. `weight` is what the
    slice adds to the content of an interval (see `ledger.read.content`). It is None without a digest: the weight then
    depends on the claim.
    """

    label: datetime
    claim: int
    version: int
    code: str
    rows: int
    digest: str | None
    slice_path: str
    stands_from: datetime | None
    end: datetime
    recorded_at: datetime
    measures: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    is_current: bool = False
    weight: tuple[int, int] | None = None

    @property
    def own_measures(self) -> dict[str, Any]:
        """The measures that describe the rows, without the notes about how this revision was committed."""
        return {name: value for name, value in self.measures.items() if name not in _OF_ONE_COMMIT}


@dataclass(frozen=True, slots=True)
class OfferedRevisions:
    """The current revisions that a branch has made itself, by table and label, and the folders of these tables."""

    branch: str
    folders: Mapping[str, str] = field(default_factory=dict)
    revisions: Mapping[str, Mapping[datetime, EarlierRevision]] = field(default_factory=dict)


def input_identities(inputs: Sequence[Input]) -> list[tuple[object, ...]]:
    """Return the interval and the content of each read. If they are equal, two batches read the same rows."""
    return [(it.table, it.read, it.low, it.high, it.content) for it in inputs]
