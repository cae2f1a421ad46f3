"""Adopts sealed slices: a slice that is sealed already becomes a label's newest revision, without making a row.

A claim seals each adopted slice anew by links to its files, and commits it as any other slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waterclock.batches.earlier_revisions import EarlierRevision
from waterclock.batches.records import Claim
from waterclock.batches.schemas import SCHEMA
from waterclock.engine.collect.change_scans import CHANGED, LOOKED
from waterclock.engine.collect.collect_result import ADOPTED, RECOMPUTED, RELEASED
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Table
from waterclock.storage.slices.damage import damage_of
from waterclock.storage.slices.hard_links import seal_linked_slice
from waterclock.storage.slices.manifest import Manifest, is_sealed, read_manifest
from waterclock.storage.slices.writer import WrittenSlices

# notes of the batch that found them: scan positions, new columns, and the slice that this one was copied from
_OF_ONE_BATCH = frozenset({LOOKED, CHANGED, SCHEMA, RECOMPUTED, RELEASED, ADOPTED})


@dataclass(frozen=True, slots=True)
class AdoptedSlice:
    """A sealed slice to adopt, the revision that it is, and the measures that record its adoption."""

    manifest: Manifest
    revision: EarlierRevision
    note: Mapping[str, Any]

    @property
    def measures(self) -> dict[str, Any]:
        """The measures to record for the new revision."""
        return {**self.revision.own_measures, **self.note}


def slice_fault(folder: str, revision: EarlierRevision, *, is_deep: bool = False) -> str | None:
    """Return what is wrong with a revision's slice: it is gone, or a file is damaged. None if nothing is.

    Cost: a read of each file's footer, and of all rows if `is_deep`.
    """
    if not is_sealed(folder, revision.slice_path):
        return "its slice is gone"
    return damage_of(folder, revision.slice_path, is_deep=is_deep)


def adopt(folder: str, revision: EarlierRevision, note: Mapping[str, Any]) -> AdoptedSlice:
    """Return the slice of a revision, to be adopted. Raises E605 if it is not sealed any more."""
    return AdoptedSlice(read_manifest(folder, revision.slice_path), revision, note)


def seal_adopted_slices(work: RunContext, table: Table, adopted: Sequence[AdoptedSlice], claim: Claim) -> WrittenSlices:
    """Seal adopted slices under a new claim, by links to their files."""
    folder = work.folder(table)
    linked = tuple(
        seal_linked_slice(
            each.manifest,
            folder,
            folder=folder,
            lake=work.lake,
            claim=claim.number,
            label=each.revision.label,
            code=claim.request.code,
            name=table.name,
            source={name: of for name, of in each.manifest.source.items() if name not in _OF_ONE_BATCH}
            | {ADOPTED: each.manifest.slice_path},
        )
        for each in adopted
    )
    return WrittenSlices(linked, {it.label: {} for it in linked})
