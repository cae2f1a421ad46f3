"""Makes the rows of a group of any kind, in the columns that its table declares."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.batches.facts import BEGINNING
from waterclock.batches.records import MISSING as LACKING
from waterclock.batches.records import Slice
from waterclock.engine.batch.checking_references import with_orphans_marked
from waterclock.engine.batch.columns_kept import find_new_schema
from waterclock.engine.batch.ending_columns import with_endings
from waterclock.engine.batch.for_each import gather_each
from waterclock.engine.batch.give_up import rows_given_up
from waterclock.engine.batch.late_rows import open_again
from waterclock.engine.batch.publish import publish_frame
from waterclock.engine.batch.results import GroupPart, MadeSlices, Notes
from waterclock.engine.batch.rows_seen_before import with_rows_seen_before
from waterclock.engine.batch.sieves import loose_of, put_together, through_of
from waterclock.engine.batch.transform import transform_parts
from waterclock.engine.collect.change_scans import ChangeScan
from waterclock.engine.collect.collect import gather
from waterclock.engine.collect.columns_seen import find_source_changes, fit_columns, with_noted
from waterclock.engine.collect.gathered import Gathered
from waterclock.engine.collect.linked import LinkedPin, gather_linked
from waterclock.engine.collect.origins import with_origins
from waterclock.engine.collect.positions import Owned
from waterclock.engine.reads.absent_parents import AbsentParents
from waterclock.engine.reads.pin import PinnedRead, frame_of
from waterclock.engine.workplace import Workplace
from waterclock.errors import WaterclockError
from waterclock.flow.checks import is_of_key
from waterclock.flow.choices import Kind
from waterclock.flow.declarations import Column, Table
from waterclock.planner.plan import GIVE_UP, Batch, Group
from waterclock.storage.folds.table_columns import state_schema
from waterclock.storage.folds.versions import raw_known, require_fit, require_instant
from waterclock.storage.log.open_tables import has_columns
from waterclock.storage.slices.conform import Conformed, conform
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import table_schema
from waterclock.storage.slices.row_filter import MISSING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound inputs of a group: the pinned reads of each label, and the result of a lookback at its source.

    `linked`: the pinned reads of each window from another project. `owned`: the ranges of a log that each label owns
    once it is claimed.
    """

    pins: Mapping[datetime, tuple[PinnedRead, ...]]
    look: ChangeScan = field(default_factory=ChangeScan)
    linked: tuple[LinkedPin, ...] = ()
    owned: Owned = field(default_factory=dict)

    @property
    def again(self) -> tuple[Slice, ...]:
        """The done slices whose windows are read again."""
        return self.look.again


def make(
    work: Workplace,
    spark: SparkSession,
    table: Table,
    group: Group,
    bound: Bound,
    now: datetime,
) -> MadeSlices:
    """Return the rows of all labels, with declared columns and types applied, and their schema.

    Rows of a MERGE or TEMPORAL table may be incomplete: a column missing from a change keeps its older value.
    """
    known = _find_known_columns(work, table)
    made = _make_slices(work, spark, table, group, bound, now, known)
    if table.kind is Kind.PUBLISH or group.verb == GIVE_UP:
        return made
    first = min(label for part in made.parts for label in part.labels)
    new = find_new_schema(work, table, known if table.temporal is None else None, made.schema, first)
    return replace(made, notes=replace(made.notes, source=with_noted(made.notes.source, new))) if new else made


def _make_slices(
    work: Workplace,
    spark: SparkSession,
    table: Table,
    group: Group,
    bound: Bound,
    now: datetime,
    known: StructType | None,
) -> MadeSlices:
    labels = tuple(batch.label for batch in group.batches)
    if group.verb == GIVE_UP:
        frame, notes = rows_given_up(work, spark, table, group, known)
        shaped = conform(frame, table.columns, known, table=table.name, may_lack=True)
        return MadeSlices([GroupPart(labels, shaped.frame)], _resolve_stored_columns(table, shaped.schema), notes)
    if table.kind is Kind.COLLECT:
        gathered = _gather_rows(work, spark, table, group, bound, now)
        rows = with_origins(table, gathered.collected.frame)
        gathered = replace(gathered, collected=replace(gathered.collected, frame=rows))
        all_labels = tuple(sorted({*labels, *(piece.label for piece in bound.again)}))
        try:
            columns_of_source = find_source_changes(work, table, gathered.collected, all_labels)
            fits = fit_columns(table, gathered.collected, known)
            frame, columns = with_endings(work, table, (fits.frame, fits.columns), all_labels, known, now)
            shaped = conform(
                frame, columns, known, table=table.name, may_lack=table.is_fold, loose=loose_of(table),
                values=gathered.collected.values,
            )  # fmt: skip
        except BaseException:
            gathered.collected.close()
            raise
        notes = Notes(
            with_noted(bound.look.merge_notes(gathered.source), columns_of_source.new),
            gathered.collected.set_aside,
            left_out=(*shaped.left_out, *gathered.collected.left_out, *fits.left_out),
            after=gathered.after,
            close=gathered.collected.close,
            require_unchanged=gathered.collected.require_unchanged,
            holds=columns_of_source.holds,
        )
        part = GroupPart(all_labels, shaped.frame, gathered.collected.is_empty, through_of(table, shaped))
        if gathered.aside is not None:
            part = _with_aside(table, part, shaped, gathered)
        values = gathered.collected.values
        part = with_rows_seen_before(work, spark, table, group, bound.again, part, (shaped, columns, values))
        return MadeSlices([part], _resolve_stored_columns(table, shaped.schema), notes)
    if table.kind is Kind.TRANSFORM:
        open_again(work, spark, table, group.batches, bound.pins)
        return _transform_batches(work, spark, table, group, bound, known, now)
    # unlisted columns are already left out; the columns that mark rows to filter are in no list
    columns = replace(table.columns, is_open=True)
    staged = publish_frame(work, spark, table, group, bound.pins)
    source = {label: {"is_whole": True} for label in staged.whole}
    shaped = conform(staged.frame, columns, known, table=table.name, may_lack=table.is_fold, loose=loose_of(table))
    notes = Notes(source, left_out=shaped.left_out)
    part = GroupPart(labels, shaped.frame, through=through_of(table, shaped))
    return MadeSlices([part], _resolve_stored_columns(table, shaped.schema), notes)


def _gather_rows(
    work: Workplace, spark: SparkSession, table: Table, group: Group, bound: Bound, now: datetime
) -> Gathered:
    if bound.linked:
        return gather_linked(work, spark, table, bound.linked)
    if table.each is not None:
        return gather_each(work, spark, table, group, bound.pins)
    return gather(work, spark, table, group, bound.again, now, bound.owned)


def _with_aside(table: Table, part: GroupPart, kept: Conformed, gathered: Gathered) -> GroupPart:
    """Add quarantined rows to the kept ones, so that all pass the current row filter."""
    loose, declared = loose_of(table), table.columns
    if gathered.aside is None:
        return part
    came = conform(
        with_origins(table, gathered.aside), declared, kept.schema, table=table.name, may_lack=True, loose=loose,
        values=gathered.collected.values,
    )  # fmt: skip
    frame, through = put_together(part.through, [kept, came])
    return replace(part, frame=frame, through=through, of_nothing=False)


def _transform_batches(
    work: Workplace,
    spark: SparkSession,
    table: Table,
    group: Group,
    bound: Bound,
    known: StructType | None,
    now: datetime,
) -> MadeSlices:
    parts: list[GroupPart] = []
    left_out: dict[str, None] = {}
    schema: StructType | None = None
    absent = AbsentParents()
    for batches, rows in transform_parts(work, spark, table, group.batches, bound.pins, absent):
        before = known or (schema if table.choices else None)
        frame, columns = with_endings(work, table, (rows, table.columns), [it.label for it in batches], before, now)
        shaped = _conform_rows(replace(table, columns=columns), frame, before)
        schema = schema or shaped.schema
        left_out |= dict.fromkeys(shaped.left_out)
        pinned = [each for batch in batches for each in bound.pins[batch.label] if not is_of_key(each.read)]
        of_nothing = all(_has_no_rows(work, each) for each in pinned)
        own = tuple(batch.label for batch in batches)
        marked = with_orphans_marked(work, spark, table, shaped.frame, {label: bound.pins[label] for label in own})
        past = _past_of(work, spark, table, bound, batches)
        parts.append(GroupPart(own, marked, of_nothing, through_of(table, shaped, past)))
    if schema is None:
        raise AssertionError(f"a group of {table.name} without labels")
    noted = {batch.label: found for batch in group.batches if (found := _build_notes(batch))}
    return MadeSlices(
        parts, _resolve_stored_columns(table, schema), Notes(noted, left_out=tuple(left_out), without_parent=absent.of)
    )


def _past_of(
    work: Workplace, spark: SparkSession, table: Table, bound: Bound, batches: Sequence[Batch]
) -> DataFrame | None:
    """Return the table's own rows of the labels that its KEY looks back at, or None if there are none."""
    found = [each for batch in batches for each in bound.pins[batch.label] if is_of_key(each.read)]
    if not found or not any(each.rows for each in found[0].slices):
        return None
    if len(found) > 1:
        raise AssertionError(f"{table.name} looks back from {len(found)} labels at once")
    return frame_of(spark, work.lake, work.flow, found[0])


def _build_notes(batch: Batch) -> dict[str, Any]:
    """Return the notes of a batch: the query that made it, the closing of its books, and its missing inputs."""
    noted: dict[str, Any] = {} if batch.choice is None else {"choice": batch.choice}
    noted |= {} if batch.closing is None else {"closing": batch.closing.to_dict()}
    noted |= {"open_windows": [each.window.label for each in batch.opened]} if batch.opened else {}
    return noted | ({LACKING: [missing.to_dict() for missing in batch.missing]} if batch.missing else {})


def _has_no_rows(work: Workplace, pinned: PinnedRead) -> bool:
    is_slices = not work.flow.tables[pinned.read.table].is_fold
    return not pinned.slices or (is_slices and not any(piece.rows for piece in pinned.slices))


def _conform_rows(table: Table, frame: DataFrame, known: StructType | None) -> Conformed:
    columns = table.columns
    if table.temporal is not None:
        require_instant(frame.schema.json(), table.temporal, table=table.name)
    if MISSING in frame.columns and not columns.is_open:
        columns = replace(columns, named=(*columns.named, Column(MISSING, table.place)))
    return conform(
        frame, columns, known, table=table.name, may_lack=table.is_fold, may_rename=False, zone=table.cadence.zone,
        loose=loose_of(table),
    )  # fmt: skip


def _find_known_columns(work: Workplace, table: Table) -> StructType | None:
    """Return the columns that the table's rows have so far. None before its first row."""
    folder = work.folder(table)
    if table.kind is Kind.PUBLISH or not has_columns(folder):
        return None
    if table.temporal is None:
        return table_schema(folder)
    newest = _newest_readable(work, table)
    if newest is None:
        return None
    return _parse_schema(raw_known(newest, table_schema(folder).json(), table.temporal))


def _newest_readable(work: Workplace, table: Table) -> Manifest | None:
    """Return the manifest of the newest slice; if it is damaged, that of the newest undamaged one before it."""
    newest = work.ledger.reads.newest(table.name)
    while newest is not None and newest.slice_path:
        try:
            return read_manifest(work.folder(table), newest.slice_path)
        except WaterclockError:
            newest = next(reversed(work.ledger.reads.slices(table.name, BEGINNING, newest.label)), None)
    return None


def _resolve_stored_columns(table: Table, rows: StructType) -> StructType:
    """Return the table's columns, given the columns of its batches' rows."""
    if table.temporal is None:
        return rows
    require_fit(rows.json(), table.temporal, table=table.name)
    return state_schema(rows, table)


def _parse_schema(schema: str) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema))
