"""Searches the stored slices of tables for rows of persons. Starts no JVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.records import Slice
from waterclock.engine.erasing.request import ErasureRequest
from waterclock.engine.maintenance.rebuild import current_slices
from waterclock.engine.run_context import RunContext
from waterclock.files.filesystem import entry_path, is_folder
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.storage.folds.slices_without_rows import FoundRows, Persons, find_rows
from waterclock.storage.slices.inventory import SliceFolder, list_slice_folders
from waterclock.storage.slices.manifest import Manifest, read_manifest


@dataclass(frozen=True, slots=True)
class TouchedSlice:
    """A current slice with rows of persons."""

    piece: Slice
    manifest: Manifest
    found: FoundRows


@dataclass(frozen=True, slots=True)
class TableSearch:
    """The places of a table with rows of persons.

    `touched` are current slices, `older` are slices of replaced revisions and of failed claims, `held` are labels of
    held batches. `older_rows` are those in `older`.
    """

    table: str
    kind: Kind
    columns: tuple[str, ...]
    touched: tuple[TouchedSlice, ...] = ()
    older: tuple[SliceFolder, ...] = ()
    older_rows: int = 0
    held: tuple[datetime, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows in current slices."""
        return sum(each.found.rows for each in self.touched)

    @property
    def aside_rows(self) -> int:
        """The number of quarantined rows of current slices."""
        return sum(each.found.aside_rows for each in self.touched)

    @property
    def is_empty(self) -> bool:
        """Whether no rows were found."""
        return not (self.touched or self.older or self.held)


def searched_places(work: RunContext, request: ErasureRequest) -> list[tuple[RunContext, Table]]:
    """Return the tables and deliveries with columns of the subject, inputs first, then those not declared any more.

    Each is returned with the run context whose flow declares it.
    """
    flow = work.flow
    order = [*flow.order, *(name for name in flow.tables if name not in flow.order)]
    former = [(each.work, each.table) for each in request.former if each.name in request.columns.columns]
    return [
        *((work, flow.tables[name]) for name in order if name in request.columns.columns),
        *((of_table, table) for of_table, table in former if of_table is not None and table is not None),
    ]


def search_table(work: RunContext, request: ErasureRequest, table: Table) -> TableSearch:
    """Search all slices of a table. Cost: a read of the columns of the subject.

    Raises E605 for a damaged current slice, which may contain rows of persons.
    """
    persons = request.persons(table.name, {read.table for read in table.reads})
    empty = TableSearch(table.name, table.kind, request.columns_of(table.name))
    folder = work.folder(table)
    if not is_folder(entry_path(folder)):
        return empty
    pieces = {(piece.label, piece.claim): piece for piece in stored_slices(work, table)}
    held = set(work.ledger.reads.held_labels(table.name).items())
    touched = [
        TouchedSlice(piece, manifest, found)
        for piece in pieces.values()
        if (found := find_rows(folder, manifest := read_manifest(folder, piece.slice_path), persons)).count
    ]
    older: list[SliceFolder] = []
    held_labels: list[datetime] = []
    rows = 0
    paths = {piece.slice_path for piece in pieces.values()}
    for leaf, count in _search_others(folder, paths, persons):
        # other slices of a held claim are those of its LOOKBACK, which a release does not need
        if leaf.label is not None and (leaf.label, leaf.claim) in held:
            held_labels.append(leaf.label)
        else:
            older.append(leaf)
            rows += count
    return TableSearch(
        table.name, table.kind, empty.columns, tuple(touched), tuple(older), rows, tuple(sorted(set(held_labels)))
    )


def stored_slices(work: RunContext, table: Table) -> list[Slice]:
    """Return the current slices; of a REPLACE table or a delivery without those that maintenance has removed.

    Of deliveries of a state, those before the newest whole one do not count: it covers them, and they are never
    delivered again.
    """
    pieces = [piece for piece in current_slices(work, table) if piece.slice_path]
    if table.mode is not Mode.REPLACE and table.kind is not Kind.PUBLISH:
        return pieces
    folder = work.folder(table)
    there = [piece for piece in pieces[:-1] if is_folder(entry_path(folder, piece.slice_path))] + pieces[-1:]
    if table.kind is not Kind.PUBLISH or table.is_delivered_by_label:
        return there
    needed: list[Slice] = []
    for piece in reversed(there):
        needed.insert(0, piece)
        if table.mode is not Mode.MERGE or read_manifest(folder, piece.slice_path).source.get("is_whole"):
            break
    return needed


def _search_others(folder: str, current: set[str], persons: Persons) -> Iterator[tuple[SliceFolder, int]]:
    """Yield the slices that are not current and have rows of persons, or cannot be read, with the number of rows."""
    for leaf in list_slice_folders(folder):
        if not leaf.is_sealed or leaf.path in current:
            continue
        try:
            count = find_rows(folder, read_manifest(folder, leaf.path), persons).count
        except Exception:  # noqa: BLE001 - a damaged slice that nothing needs: it is removed as well
            yield leaf, 0
        else:
            if count:
                yield leaf, count
