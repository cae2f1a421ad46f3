"""Assigns the rows of collected slices to other windows: by data time, or by the windows in which items arrived.

The slices of the stage are unchanged; new ones are sealed in the second set of tables. For rows by arrival only the old
window is known, so each old window must be within a new one. A snapshot still stands for the same span, and becomes the
content as of the newest new boundary in it.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate, chain, groupby
from zoneinfo import ZoneInfo

from pyspark.sql.types import StructType

from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.batches.records import QUARANTINED, BatchResult, Input
from waterclock.connectors.windowing import instant_literal, label_sql
from waterclock.engine.collect.changes import NOTED
from waterclock.engine.collect.positions import find_label_to_read, find_skipped_end
from waterclock.engine.maintenance.seeded_tables import create_from_slices, linked_inputs_by_label, raw_schema_of
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Source, Table
from waterclock.flow.enums import Batching, Mode
from waterclock.ledger.read.current_revisions import CurrentRevision
from waterclock.spark_sql import quote_name, sql_text
from waterclock.storage.folds.fold import add_ordering_columns
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.row_filter import MISSING
from waterclock.storage.slices.writer import write_slices
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import TIMELABEL, label_of
from waterclock.timelabel.window import Window

_WINDOWS_PER_JOB = 64  # the maximum number of windows that one Spark job writes
_TIME = "_waterclock_time"
_BY_LABEL = frozenset({Batching.ARRIVAL_TIME, Batching.LABELS, Batching.CHANGES, Batching.EACH})
_LOCAL = frozenset({"date", "timestamp_ntz"})


@dataclass(frozen=True, slots=True)
class NewWindowPlan:
    """Describes how to build one window of the new cadence. `of`: the old slices that may contain its rows.

    `stands_from`: the start of the period that a snapshot covers. `is_state`: the content is that of one old slice,
    unchanged: a snapshot, or the state of another project's table.
    """

    window: Window
    of: tuple[CurrentRevision, ...]
    stands_from: datetime | None = None
    is_state: bool = False


def find_obstacle_to_new_windows(live: RunContext, table: Table, current: Sequence[CurrentRevision]) -> str | None:
    """Return why collected rows cannot be cut into a table's windows, or None if they can."""
    source = table.source
    if source is None or not current:
        return None
    aside = [each.result.label for each in current if each.result.measures.get(QUARANTINED)]
    if aside:
        return (
            f"rows of {label_of(aside[0])} are quarantined, and these are not cut again: `waterclock replay` or "
            "restate it first"
        )
    if source.batching in _BY_LABEL and (why := _find_unmovable_window(live, table, source, current)):
        return why
    if source.batching is Batching.DATA_TIME:
        if table.is_fold and source.lookback is not None:
            return "with LOOKBACK its slices contain rows of earlier windows, and their original windows are not known"
        kind = _time_type(live, table, current)
        if kind != "timestamp" and kind not in _LOCAL:
            return f"{source.time_column} is {kind or 'not among its columns'} in the stage, not a time"
    return _find_lost_value(live, table, current) if table.is_fold else None


def _find_unmovable_window(
    live: RunContext, table: Table, source: Source, current: Sequence[CurrentRevision]
) -> str | None:
    """Return why a slice cannot be assigned to a new window as a whole, or None if each slice can."""
    if source.each is not None and table.mode is Mode.REPLACE:
        return None
    for each in current:
        label, inside = each.result.label, table.cadence.window_of(each.result.label)
        if source.each is not None and inside != Window(label, each.result.end):
            return (
                f"{source.unit} was asked for each row of {label_of(label)}: an id that several of these windows have "
                "would be in one new window several times"
            )
        if each.result.end > inside.end:
            old = f"{label:%Y-%m-%d %H:%M} to {each.result.end:%Y-%m-%d %H:%M} UTC"
            what = "arrived" if source.batching is Batching.ARRIVAL_TIME else f"was collected from {source.unit}"
            return f"data that {what} from {old} belongs to that window as a whole, which would become two windows"
    is_arrival, newest = source.batching is Batching.ARRIVAL_TIME, current[-1].result.label
    if is_arrival and (unread := find_label_to_read(live, table, newest)) is not None:
        return (
            f"{label_of(unread)} is not done, and no new window would contain the records of {source.unit} that it "
            "owns: `waterclock retry`, `release` or `skip` it first"
        )
    return None


def _find_lost_value(live: RunContext, table: Table, current: Sequence[CurrentRevision]) -> str | None:
    """Return why old slices cannot share a new one, as one does not have a column of another; None if all can.

    In a MERGE or TEMPORAL table, a missing column keeps the older value, and a NULL replaces it. Cost: a read of each
    manifest.
    """
    folder, temporal = live.folder(table), table.temporal
    known = {
        each.result.label: fields_of(read_manifest(folder, each.result.slice_path).schema).keys()
        for each in current
        if each.result.rows
    }
    for piece in pieces_of(live, table, current):
        labels = [each.result.label for each in piece.of if each.result.label in known]
        for label in labels:
            for name in sorted({*chain.from_iterable(known[it] for it in labels)} - known[label] - {MISSING}):
                older = (name in columns for it, columns in known.items() if it < label)
                is_value = any(older) if temporal is None else temporal.are_all_values or name in temporal.values
                if is_value:
                    window = f"{piece.window.start:%Y-%m-%d %H:%M} to {piece.window.end:%Y-%m-%d %H:%M} UTC"
                    return (
                        f"the rows of {label_of(label)} have no column {name}, which others of {window} have: in one "
                        "slice with these it would be NULL, which replaces older values"
                    )
    return None


def pieces_of(live: RunContext, table: Table, current: Sequence[CurrentRevision]) -> list[NewWindowPlan]:
    """Return the new windows of collected slices for which the stage has all rows, oldest first.

    A window for which some items have arrived is sealed with these: later items belong to the next window, as always.
    """
    source = table.source
    if source is None or not current:
        return []
    if source.batching is Batching.SNAPSHOT:
        return _assign_snapshots(table.cadence, current)
    if source.batching in {Batching.STATE, Batching.AS_OF} or (source.each is not None and table.mode is Mode.REPLACE):
        return _assign_states(table.cadence, current)
    spans = [(each.result.label, each.result.end) for each in current]
    if source.batching in {Batching.ARRIVAL_TIME, Batching.CHANGES, Batching.EACH}:
        windows = sorted({table.cadence.window_of(low) for low, _ in spans})
        return _assign_slices(windows, current, spans)
    spans += live.ledger.maintenance.skipped_windows(table.name)
    if _time_type(live, table, current) in _LOCAL:
        zone = live.ledger.reads.table(table.name).zone
        spans = [
            (_same_local_time(low, zone, table.cadence.zone), _same_local_time(high, zone, table.cadence.zone))
            for low, high in spans
        ]
    known, low = spans[: len(current)], min(spans)[0]
    if live.ledger.maintenance.drop_boundary(table.name, by=FOREVER) is not None:
        spans.append((table.cadence.floor(low), low))  # dropped rows of the first window are not read again
    windows = [window for low, high in IntervalSet.from_intervals(spans) for window in table.cadence.windows(low, high)]
    return _assign_slices(windows, current, known)


def results_of(pieces: Sequence[NewWindowPlan]) -> list[CurrentRevision]:
    """Build placeholders for the new slices, with which the batches that read them are planned."""
    return [
        CurrentRevision(
            BatchResult(
                label=piece.window.start,
                end=piece.window.end,
                version=0,
                rows=1,
                bytes=0,
                digest=None,
                slice_path="",
                stands_from=piece.stands_from,
            ),
            claim=0,
            code="",
        )
        for piece in pieces
    ]


def seal_in_new_windows(live: RunContext, work: RunContext, table: Table, current: Sequence[CurrentRevision]) -> None:
    """Seal collected rows in their new windows, in the second set. Cost: all rows are read and written once."""
    pieces = pieces_of(live, table, current)
    if not pieces:
        return
    claim = work.ledger.maintenance.take_claim_number()
    folder = live.folder(table)
    known = {each.result.label: read_manifest(folder, each.result.slice_path) for each in current}
    skipped = find_skipped_end(live, table, {label: manifest.source for label, manifest in known.items()})
    if skipped is not None:
        newest = known[max(known)]
        items = [*newest.source.get("items", ()), skipped]
        known[newest.label] = replace(newest, source={**newest.source, "items": items})
    schema = add_ordering_columns(raw_schema_of(list(known.values())), table)
    made: list[Manifest] = []
    together = 1 if pieces[0].is_state else _WINDOWS_PER_JOB
    for own, alike in groupby(pieces, lambda piece: _schema_of(table, piece, known, schema)):
        members = list(alike)
        for start in range(0, len(members), together):
            made += _write_slices(live, work, table, members[start : start + together], known, own, claim)
    results = [
        CurrentRevision(
            BatchResult(
                label=piece.window.start,
                end=piece.window.end,
                version=-1,
                rows=manifest.rows,
                bytes=manifest.bytes,
                digest=manifest.digest,
                slice_path=manifest.slice_path,
                stands_from=piece.stands_from,
                source=manifest.source,
            ),
            claim,
            manifest.code,
        )
        for piece, manifest in zip(pieces, made, strict=True)
    ]
    create_from_slices(work, table, results, made, claim, _inputs(live, table, pieces))


def _schema_of(table: Table, piece: NewWindowPlan, known: Mapping[datetime, Manifest], schema: str) -> str:
    """Return the schema of a new slice: for MERGE and TEMPORAL the columns of its old slices, else those of all slices.

    In these modes a missing column keeps older values, and a NULL replaces them. Columns that order and delete rows are
    included even if they are missing, and are NULL then.
    """
    old = [fields_of(known[each.result.label].schema) for each in piece.of if each.result.rows]
    if not table.is_fold or not old:
        return schema
    parsed, own = json.loads(schema), {*chain.from_iterable(old), *(table.fold.order_by if table.fold else ())}
    deletes = (table.fold.delete_when or "").lower() if table.fold else ""
    kept = [it for it in parsed["fields"] if it["name"] in own or it["name"].lower() in deletes]
    return json.dumps(parsed | {"fields": kept})


def _write_slices(
    live: RunContext,
    work: RunContext,
    table: Table,
    pieces: Sequence[NewWindowPlan],
    known: Mapping[datetime, Manifest],
    schema: str,
    claim: int,
) -> tuple[Manifest, ...]:
    spark = work.sessions.own()
    try:
        labels = sorted({each.result.label for piece in pieces for each in piece.of})
        manifests = [known[label] for label in labels]
        rows = frame_of_slices(spark, live.folder(table), manifests, StructType.fromJson(json.loads(schema)))
        names = [quote_name(name) for name in rows.columns if name != TIMELABEL]
        if pieces[0].is_state:
            labelled = rows.selectExpr(*names)
        else:
            windows = [piece.window for piece in pieces]
            timed = rows.selectExpr(*names, f"{_time_sql(table, manifests)} AS {_TIME}")
            within = timed.where(
                f"{_TIME} >= {instant_literal(windows[0].start)} AND {_TIME} < {instant_literal(windows[-1].end)}"
            )
            by_window = f"{label_sql(_TIME, windows, has_gaps=True)} AS {TIMELABEL}"
            labelled = within.selectExpr(*names, by_window).where(f"{TIMELABEL} IS NOT NULL")
        return write_slices(
            labelled,
            folder=work.folder(table),
            claim=claim,
            labels=[piece.window.start for piece in pieces],
            lake=work.lake,
            fold=table.fold,
            code=table.fingerprint,
            source={piece.window.start: _source_notes(piece, known) for piece in pieces},
            name=table.name,
            sort_by=table.file_order,
        ).manifests
    finally:
        work.sessions.release(spark)


def _source_notes(piece: NewWindowPlan, known: Mapping[datetime, Manifest]) -> dict[str, object]:
    """Build the source notes of a new slice: the paths of its old slices, and the items of all of them.

    `read` lists the items that contained the rows of the old slices, and possibly others. A recollection of the new
    window reads these items, too.
    """
    sources = [known[each.result.label].source for each in piece.of]
    found: dict[str, object] = {"recut_from": [each.result.slice_path for each in piece.of]}
    if any("items" in source for source in sources):
        found["items"] = [item for source in sources for item in source.get("items", ())]
    if read := {str(item["name"]): item for source in sources for item in source.get("read", ())}:
        found["read"] = list(read.values())
    for source in sources:
        if NOTED in source:
            found[NOTED] = source[NOTED]  # the newest slice's: the position reached in the log
    if piece.stands_from is not None:
        found["stands_from"] = piece.stands_from.isoformat()
    return found


def _inputs(live: RunContext, table: Table, pieces: Sequence[NewWindowPlan]) -> dict[datetime, tuple[Input, ...]]:
    """Map each new window to the inputs from another project that its old slices had."""
    known = linked_inputs_by_label(live, table)
    return {
        piece.window.start: tuple(read for each in piece.of for read in known.get(each.result.label, ()))
        for piece in pieces
    }


def _assign_slices(
    windows: Iterable[Window], current: Sequence[CurrentRevision], spans: Sequence[tuple[datetime, datetime]]
) -> list[NewWindowPlan]:
    """Assign to each window the slices whose spans overlap it, in their order. Cost: two bisections for each window."""
    ordered = sorted(range(len(current)), key=lambda at: spans[at][0])
    lows = [spans[at][0] for at in ordered]
    reached = list(accumulate((spans[at][1] for at in ordered), max))
    found = []
    for window in windows:
        near = sorted(ordered[bisect_right(reached, window.start) : bisect_left(lows, window.end)])
        found.append(NewWindowPlan(window, tuple(current[at] for at in near if spans[at][1] > window.start)))
    return found


def _assign_snapshots(cadence: Cadence, current: Sequence[CurrentRevision]) -> list[NewWindowPlan]:
    """Assign each snapshot to the newest new boundary for which it stands. Leave out a snapshot without one."""
    found: list[NewWindowPlan] = []
    before: datetime | None = None
    for each in current:
        boundary = cadence.floor(each.result.end)
        if before is not None and boundary <= before:
            continue
        stands_from = before or each.result.stands_from or cadence.previous(boundary)
        found.append(NewWindowPlan(Window(cadence.previous(boundary), boundary), (each,), stands_from, is_state=True))
        before = boundary
    return found


def _assign_states(cadence: Cadence, current: Sequence[CurrentRevision]) -> list[NewWindowPlan]:
    """Return the states whose end is a boundary of the new windows. A reader requests others again if it needs them."""
    return [
        NewWindowPlan(Window(cadence.previous(end), end), (each,), is_state=True)
        for each in current
        if cadence.floor(end := each.result.end) == end
    ]


def _time_sql(table: Table, manifests: Sequence[Manifest]) -> str:
    source = table.source
    is_by_label = source is not None and source.batching in _BY_LABEL
    if source is None or is_by_label or source.time_column is None:
        return f"to_timestamp({TIMELABEL}, 'yyyyMMddHHmmss')"
    column = quote_name(source.time_column)
    kind = _type_in(manifests, source.time_column)
    if kind in _LOCAL:
        return f"to_utc_timestamp(CAST({column} AS TIMESTAMP), {sql_text(table.cadence.zone)})"
    return column


def _time_type(live: RunContext, table: Table, current: Sequence[CurrentRevision]) -> str | None:
    if table.source is None or table.source.time_column is None:
        return None
    manifest = read_manifest(live.folder(table), current[-1].result.slice_path)
    return _type_in([manifest], table.source.time_column)


def _type_in(manifests: Sequence[Manifest], column: str) -> str | None:
    for manifest in manifests:
        for name, field in fields_of(manifest.schema).items():
            if name.lower() == column.lower():
                return str(field["type"])
    return None


def _same_local_time(instant: datetime, old: str, new: str) -> datetime:
    """Return the instant at which clocks in the zone `new` show the same local time as in the zone `old`."""
    return instant.astimezone(ZoneInfo(old)).replace(tzinfo=ZoneInfo(new)).astimezone(UTC)
