"""Finds what is new in the inputs of an open window since the tick before, so that a tick can append its rows alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from waterclock.connectors.interface import Item
from waterclock.dpl.query.row_by_row import find_row_source
from waterclock.engine.batch.results import MadeSlices
from waterclock.engine.batch.row_filters import row_filter_of
from waterclock.engine.reads.pin import OpenSlices, PinnedRead
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, stat_file
from waterclock.files.object_stores import is_remote
from waterclock.flow.checks import Requirement, checks_of
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.flow.schema_changes import OnSchemaChange
from waterclock.planner.plan import ReadScope
from waterclock.storage.commit.speed_tables import new_slice_number
from waterclock.storage.lake import Lake
from waterclock.storage.schema_types import schema_text
from waterclock.storage.slices.appended import find_parts_to_merge, newest_part
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_of_files
from waterclock.storage.slices.row_filter import is_hidden
from waterclock.storage.slices.writer import write_slices
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

AFTER = "after"
"""The entry in the notes of a slice with the path of the slice that it was appended to."""
_MADE_FROM = "made_from"


def can_append(table: Table) -> bool:
    """Return whether new rows of an open window can be checked and stored without its other rows.

    They cannot if a rule has a limit of rows, or if rows with the same KEY are removed. A COLLECT without a list of
    columns is left out, as the columns of its new rows may differ, and so is one that fails if they do.
    """
    is_filtered = row_filter_of(table) is not None
    checks, on_change = checks_of(table), table.columns.on_change
    return (
        table.mode is Mode.APPEND
        and table.temporal is None
        and not (table.kind is Kind.COLLECT and (table.columns.is_open or on_change is OnSchemaChange.FAIL))
        and all(action.most is None for check in checks for action in check.actions)
        and not (is_filtered and any(check.demand is Requirement.KEY for check in checks))
    )


def has_whole_items(table: Table, items: Iterable[Item]) -> bool:
    """Return whether the rows of items can be read alone: none is a part of a file whose rows the table numbers."""
    is_numbered = any(column.metadata_field == "row" for column in table.columns.named)
    return not (is_numbered and any(item.bytes_read for item in items))


@dataclass(frozen=True, slots=True)
class RowSource:
    """The slice of an open window from whose rows, one by one, a transform makes its own rows.

    `others` identifies the rows of all other inputs, which are joined.
    """

    pinned: PinnedRead
    folder: str
    slice: Manifest
    others: str

    def to_notes(self) -> dict[str, Any]:
        """Return the entry in the notes of the slice that is made from it."""
        return {_MADE_FROM: [self.slice.slice_path, self.others]}

    def find_new_pins(self, pins: Iterable[PinnedRead], known: Manifest) -> tuple[PinnedRead, ...] | None:
        """Return the reads for the rows that were appended since `known` was made; None if others changed as well."""
        if known.source.get(_MADE_FROM) != [self.slice.source.get(AFTER), self.others]:
            return None
        opened = OpenSlices(self.folder, (newest_part(self.slice),))
        return tuple(replace(each, opened=opened) if each is self.pinned else each for each in pins)


def find_row_slice(table: Table, label: datetime, pins: Sequence[PinnedRead]) -> RowSource | None:
    """Return the slice of which a window of a transform is made row by row; None if its query is of another kind."""
    if table.query is None or table.choices or table.input_rules or table.late_rows is not None:
        return None
    read = find_row_source(table.query) if can_append(table) else None
    sources = [each for each in pins if each.read == read]
    opened = sources[0].opened if len(sources) == 1 and not sources[0].slices else None
    if opened is None or [each.label for each in opened.manifests] != [label]:
        return None
    others = identity_of_pins(table, [each for each in pins if each is not sources[0]])
    return RowSource(sources[0], opened.folder, opened.manifests[0], others)


def identity_of_pins(table: Table, pins: Iterable[PinnedRead]) -> str:
    """Return a hash that identifies the rows that a window reads."""
    parts = [
        (
            str(each.read),
            str(each.bound.high) if each.bound.scope is ReadScope.STATE else "",
            [(label_of(piece.label), piece.claim) for piece in each.slices],
            [manifest.slice_path for manifest in each.opened.manifests] if each.opened is not None else [],
        )
        for each in pins
    ]
    return sha256(json.dumps([table.fingerprint, parts]).encode()).hexdigest()


def has_same_columns(made: MadeSlices, to: Mapping[datetime, Manifest]) -> bool:
    """Return whether rows to be written have the columns and types of the slices of their labels in `to`."""
    return all(
        schema_text(StructType([field for field in part.frame.schema.fields if not is_hidden(field.name)]))
        == schema_text(to[label].schema)
        for part in made.parts
        for label in part.labels
        if label in to
    )


def is_undamaged(folder: str, known: Manifest) -> bool:
    """Return whether all files of a slice are there with their sizes. Files in object stores are not looked at."""
    if is_remote(folder):
        return True
    try:
        return all(stat_file(entry_path(folder, file.path)).size == file.size for file in known.files)
    except FileNotFoundError:
        return False


def merge_small_parts(spark: SparkSession, folder: str, lake: Lake, known: Manifest) -> Manifest:
    """Return a slice with the same rows, whose newest files are merged if there are many. Cost: a job if they are."""
    files = find_parts_to_merge(known.files)
    if not files:
        return known
    written = write_slices(
        frame_of_files(spark, folder, files, known.schema),
        folder=folder,
        claim=new_slice_number(),
        labels=(known.label,),
        lake=lake,
        code=known.code,
        name=known.table,
    )
    fault("speed.merged")
    kept = known.files[: len(known.files) - len(files)]
    return replace(known, files=(*kept, *written.manifests[0].files))


def join_items(known: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the items that a slice was read from, with those that are appended. A range is continued."""
    found = {str(each.get("name")): each for each in known}
    for each in new:
        name = str(each.get("name"))
        before = found.get(name, {}).get("positions")
        found[name] = each if before is None else {**each, "positions": _join_ranges(before, each["positions"])}
    return list(found.values())


def _join_ranges(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    first = {part: low for part, (low, _) in before["parts"].items()}
    return {**after, "parts": {part: [first.get(part, low), high] for part, (low, high) in after["parts"].items()}}
