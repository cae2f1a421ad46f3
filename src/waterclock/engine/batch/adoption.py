"""Adopts sealed slices: a slice that is sealed already becomes a label's newest revision, without making a row.

A claim seals each adopted slice again, by links to its files, and commits it as any other slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

from waterclock.batches.earlier_revisions import PROMOTED, TAKEN_BACK, EarlierRevision
from waterclock.batches.records import Claim
from waterclock.batches.schemas import SCHEMA
from waterclock.engine.collect.change_scans import CHANGED, LOOKED
from waterclock.engine.collect.collect_result import ADOPTED, RECOMPUTED, RELEASED
from waterclock.engine.reads.pin import PinnedRead, pin
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.planner.adopting import find_equal_revisions, has_repeatable_rows, is_promotable, is_repeated
from waterclock.planner.plan import Batch, Group
from waterclock.planner.reverting import usable_revisions
from waterclock.storage.slices.damage import damage_of
from waterclock.storage.slices.hard_links import seal_linked_slice
from waterclock.storage.slices.manifest import Manifest, is_sealed, read_manifest
from waterclock.storage.slices.writer import WrittenSlices
from waterclock.timelabel.label import label_of

# notes of the batch that found them: scan positions, new columns, and the slice that this one was copied from
_OF_ONE_BATCH = frozenset({LOOKED, CHANGED, SCHEMA, RECOMPUTED, RELEASED, ADOPTED})


@dataclass(frozen=True, slots=True)
class AdoptedSlice:
    """A sealed slice to adopt, its revision, and the measures that record its adoption.

    `folder` is that of its table, if it is the slice of a branch.
    """

    manifest: Manifest
    revision: EarlierRevision
    note: Mapping[str, Any]
    folder: str | None = None

    @property
    def measures(self) -> dict[str, Any]:
        """The measures to record for the new revision."""
        return {**self.revision.own_measures, **self.note}


def slice_fault(folder: str, revision: EarlierRevision, *, is_deep: bool = False) -> str | None:
    """Return why a revision's slice cannot be read: it was removed, or a file is damaged. None if it can be read.

    Cost: a read of each file's footer, and of all rows if `is_deep`.
    """
    if not is_sealed(folder, revision.slice_path):
        return "its slice is gone"
    return damage_of(folder, revision.slice_path, is_deep=is_deep)


def adopt(folder: str, revision: EarlierRevision, note: Mapping[str, Any]) -> AdoptedSlice:
    """Return the slice of a revision to adopt. Raises E605 if it is not sealed any more."""
    return AdoptedSlice(read_manifest(folder, revision.slice_path), revision, note)


def seal_adopted_slices(work: RunContext, table: Table, adopted: Sequence[AdoptedSlice], claim: Claim) -> WrittenSlices:
    """Seal adopted slices under a new claim, by links to their files. Raises E605 if one was removed meanwhile."""
    try:
        linked = _link(work, table, adopted, claim)
    except FileNotFoundError as gone:
        raise WaterclockError(
            "E605", f"an earlier slice of {table.name} was removed meanwhile", where=table.name, why=str(gone),
            fix="nothing to fix: the batch is tried again", transient=True,
        ) from gone  # fmt: skip
    return WrittenSlices(linked, {it.label: {} for it in linked})


def _link(work: RunContext, table: Table, adopted: Sequence[AdoptedSlice], claim: Claim) -> tuple[Manifest, ...]:
    folder = work.folder(table)
    return tuple(
        seal_linked_slice(
            each.manifest,
            each.folder or folder,
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


def find_equal_slices(
    work: RunContext,
    table: Table,
    batches: Sequence[Batch],
    pins: Mapping[datetime, Sequence[PinnedRead]] | None = None,
    *,
    is_deep: bool = True,
) -> dict[datetime, AdoptedSlice]:
    """Map labels of batches to earlier slices, or to those of a branch, with equal code and inputs. `pins`: the inputs.

    Of its own table, only batches that are made again adopt slices. Damaged slices are left out. Cost: nothing unless a
    batch is made again because its inputs changed, or a branch is promoted. Then two ledger queries, and a scan of each
    slice that is found, or with `is_deep` False a read of the footers of its files.
    """
    if not has_repeatable_rows(table):
        return {}
    promoted = _find_promoted_slices(work, table, batches, pins, is_deep=is_deep)
    wanted = [batch for batch in batches if is_repeated(batch) and batch.label not in promoted]
    return promoted | _find_own_slices(work, table, wanted, pins, is_deep=is_deep)


def _find_promoted_slices(
    work: RunContext,
    table: Table,
    batches: Sequence[Batch],
    pins: Mapping[datetime, Sequence[PinnedRead]] | None,
    *,
    is_deep: bool,
) -> dict[datetime, AdoptedSlice]:
    """Map labels of batches to the slices of the branch that is promoted, if their code and inputs are equal."""
    if work.offered is None or table.name not in work.offered.revisions:
        return {}
    offered, folder = work.offered.revisions[table.name], work.offered.folders[table.name]
    wanted = [batch for batch in batches if batch.label in offered and is_promotable(batch)]
    pins = pins or (pin(work.ledger, work.lake, work.flow, wanted) if wanted else {})
    found = dict[datetime, AdoptedSlice]()
    for batch in wanted:
        reads = [read.input for read in pins[batch.label]]
        for each in find_equal_revisions([offered[batch.label]], reads, partial(_is_current_code, work, table)):
            if slice_fault(folder, each, is_deep=is_deep) is None:
                note = {PROMOTED: {"branch": work.offered.branch, "revision": each.claim, "by": work.settings.who}}
                found[batch.label] = replace(adopt(folder, each, note), folder=folder)
    return found


def _find_own_slices(
    work: RunContext,
    table: Table,
    wanted: list[Batch],
    pins: Mapping[datetime, Sequence[PinnedRead]] | None,
    *,
    is_deep: bool,
) -> dict[datetime, AdoptedSlice]:
    """Map labels of batches to earlier slices of their own table with equal code and inputs."""
    if not wanted:
        return {}
    emptying_versions = work.ledger.maintenance.emptying_versions_of(table.name)
    made = {
        label: usable_revisions(of_label, emptying_versions)
        for label, of_label in work.ledger.reads.earlier_revisions(table.name, [it.label for it in wanted]).items()
    }
    wanted = [batch for batch in wanted if len(made.get(batch.label, ())) > 1]
    if not wanted:
        return {}
    pins = pins or pin(work.ledger, work.lake, work.flow, wanted)
    folder, found = work.folder(table), dict[datetime, AdoptedSlice]()
    for batch in wanted:
        reads = [read.input for read in pins[batch.label]]
        equal = find_equal_revisions(made[batch.label], reads, partial(_is_current_code, work, table))
        whole = next((each for each in equal if slice_fault(folder, each, is_deep=is_deep) is None), None)
        if whole is not None:
            found[batch.label] = adopt(folder, whole, {TAKEN_BACK: {"revision": whole.claim}})
    return found


def split_by_adoption(work: RunContext, group: Group) -> list[Group]:
    """Split a group into labels that adopt earlier slices and labels whose rows are computed. Labels stay in order.

    The attempt searches the slices again, and scans them: if one is damaged, it computes the rows of its group.
    """
    table = work.flow.tables[group.table]
    found = find_equal_slices(work, table, group.batches, is_deep=False)
    if not found:
        return [group]
    first = label_of(min(found))
    what = first if len(found) == 1 else f"{first} and {len(found) - 1} more labels"
    whose = "earlier revisions" if work.offered is None else f"{work.offered.branch} or earlier revisions"
    work.listener.on_message(f"{table.name}: {what}: taken back from {whose}, made from equal inputs")
    if table.is_in_label_order:
        runs = [tuple(run) for _, run in groupby(group.batches, key=lambda batch: batch.label in found)]
    else:
        runs = [tuple(it for it in group.batches if (it.label in found) is is_found) for is_found in (True, False)]
    return [replace(group, batches=run) for run in runs if run]


def _is_current_code(work: RunContext, table: Table, code: str) -> bool:
    return work.former.code(code, table.fingerprint) == table.fingerprint
