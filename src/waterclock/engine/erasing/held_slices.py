"""Rewrites the slices of held batches without rows of persons, so that they can still be released.

The new files are written next to the old ones. The manifest, which is replaced atomically, changes from those to these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from waterclock.batches.records import QUARANTINED, BatchResult
from waterclock.engine.batch.claim_record import read_claim_record, replace_claim_record
from waterclock.engine.erasing.measures import without_persons
from waterclock.engine.erasing.request import ErasureRequest
from waterclock.engine.erasing.sealing import seal_slices
from waterclock.engine.erasing.slices import hold_table
from waterclock.engine.run_context import RunContext
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, files_below, link_file, remove_file, remove_folder, replace_text
from waterclock.flow.declarations import Table
from waterclock.storage.folds.slices_without_rows import Persons, find_rows
from waterclock.storage.slices.manifest import (
    MANIFEST,
    DataFile,
    Manifest,
    is_sealed,
    quarantine_measure,
    read_manifest,
)


def rewrite_held_slices(work: RunContext, request: ErasureRequest, table: Table) -> Mapping[str, int]:
    """Remove rows of persons from all held slices of a table. Return the numbers of removed rows and of labels.

    The table is paused meanwhile. May be repeated: what a killed process has left is completed.
    """
    folder = work.folder(table)
    persons = request.persons(table.name, {read.table for read in table.reads})
    counts = {"rows": 0, "quarantined": 0, "labels": 0}
    with hold_table(work, table) as claim:
        for label, number in work.ledger.reads.held_labels(table.name).items():
            path = work.lake.slice_path(label, number)
            if not is_sealed(folder, path):
                continue
            manifest = read_manifest(folder, path)
            found = find_rows(folder, manifest, persons)
            if found.count:
                [made] = seal_slices(work, request, table, [(manifest, found)], claim)
                manifest = _replace_files(folder, manifest, made)
                fault("erase.held_replaced")
                remove_folder(entry_path(folder, made.slice_path))
                counts["rows"] += found.rows
                counts["quarantined"] += found.aside_rows
                counts["labels"] += 1
            _complete(folder, manifest, persons.of_code(manifest.code))
    return counts


def _replace_files(folder: str, manifest: Manifest, made: Manifest) -> Manifest:
    """Link the files of a sealed copy into the folder of a held slice, and make them its content."""

    def link(file: DataFile) -> DataFile:
        inner = file.path.removeprefix(f"{made.slice_path}/").rpartition("/")
        own = "/".join(filter(None, (manifest.slice_path, inner[0], f"erased-{made.claim}-{inner[2]}")))
        link_file(entry_path(folder, file.path), entry_path(folder, own))
        return replace(file, path=own)

    new = replace(
        made,
        claim=manifest.claim,
        slice_path=manifest.slice_path,
        files=tuple(map(link, made.files)),
        aside=tuple(map(link, made.aside)),
    )
    replace_text(entry_path(folder, new.slice_path, MANIFEST), new.to_json())
    return new


def _complete(folder: str, manifest: Manifest, persons: Persons) -> None:
    """Make the record of a held claim that of its manifest, and remove the files that the manifest does not name."""
    record = read_claim_record(folder, manifest.slice_path)
    if record is not None:
        request, results = record
        new = tuple(_result_of(each, manifest, persons) for each in results)
        if new != results:
            replace_claim_record(folder, manifest.slice_path, manifest.claim, request, new)
    named = {file.path for file in (*manifest.files, *manifest.aside)}
    for file in list(files_below(entry_path(folder, manifest.slice_path))):
        path = f"{manifest.slice_path}/{file.path}"
        if path.endswith(".parquet") and path not in named:
            remove_file(entry_path(folder, path))


def _result_of(result: BatchResult, manifest: Manifest, persons: Persons) -> BatchResult:
    measures: dict[str, Any] = without_persons(result.measures, persons)
    if result.label != manifest.label:
        return replace(result, measures=measures)
    measures.pop(QUARANTINED, None)
    return replace(
        result,
        rows=manifest.rows,
        bytes=manifest.bytes,
        digest=manifest.digest,
        measures=measures | quarantine_measure(manifest),
    )
