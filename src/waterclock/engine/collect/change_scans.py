"""Scans a source for past windows that changed, and stores the position of the scan with its batch.

A scan's notes list the windows that it found unchanged or collects itself. They are in the manifest of the batch's
slices, so they become valid together with these, or never. If several scans cover a window, the newest counts: an
older one would only report changes that are already collected.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.batches.records import Slice
from waterclock.connectors.interface import ChangedWindows, ChangeScanner, ChangeScanRequest, Mark
from waterclock.engine.collect.lookback import find_revisited_slices, slack_of
from waterclock.flow.declarations import Source, Table
from waterclock.ledger.ledger import Ledger
from waterclock.planner.plan import Group
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.engine.run_context import RunContext

LOOKED = "looked"
CHANGED = "changed"
NEVER = "not looked at before"
_PAGE = 64


@dataclass(frozen=True, slots=True)
class ChangeScan:
    """The result of a scan: the past windows to collect again, and the notes to store with each label of the claim.

    `is_exact`: the claim must fail if another runner changes one of these windows meanwhile.
    """

    again: tuple[Slice, ...] = ()
    notes: Mapping[datetime, Mapping[str, Any]] = field(default_factory=dict)
    is_exact: bool = False

    @property
    def scanned_claims(self) -> Mapping[datetime, int]:
        """Maps each window to collect again to its claim at the scan. The new claim fails if that has changed.

        Empty if another runner may change these windows meanwhile.
        """
        return {piece.label: piece.claim for piece in self.again} if self.is_exact else {}

    def merge_notes(self, source: Mapping[datetime, Mapping[str, Any]]) -> Mapping[datetime, Mapping[str, Any]]:
        """Return the source's notes for each label, extended by the notes of the scan."""
        return {label: {**noted, **self.notes.get(label, {})} for label, noted in source.items()}


@dataclass(frozen=True, slots=True)
class ScanNotes:
    """The scan notes of one batch: for its own window and, with the first batch of a group, for past windows.

    `at` is the time of the scan. `of_all`, `of_own` and `of_past` are the source's marks: of the scan as a whole, of
    the own window and of each past window. If `of_all` is None, there are no notes.
    """

    at: datetime
    label: datetime
    of_all: Any
    of_own: Any = None
    past: IntervalSet = field(default_factory=IntervalSet)
    of_past: Mapping[str, Any] = field(default_factory=dict)


def scan_past_windows(work: RunContext, table: Table, group: Group, spark: Callable[[], SparkSession]) -> ChangeScan:
    """Return the done windows before the group to collect again: all within LOOKBACK, or those that changed.

    `spark` is called only if the source must be scanned with Spark.
    """
    past = find_revisited_slices(work.ledger, table, group)
    source = table.source
    if source is None or source.changed is None or group.is_made_of_kept:
        # a MERGE or TEMPORAL table keeps these slices' rows: its claim is refused if another runner changed one since
        return ChangeScan(past, is_exact=table.is_fold)
    own = [batch.window for batch in group.batches]
    by = compute_scan_key(table, source)
    at = work.real_now()
    marks = known_marks(work.ledger, table, [Window(piece.label, piece.end) for piece in past], by)
    windows = sorted([*(Window(piece.label, piece.end) for piece in past), *own])
    column = source.changed.column
    request = ChangeScanRequest(source.time_column or "", column, windows, marks, slack_of(table, windows[-1].end))
    looked = _query_changes(work, table, source, request, spark)
    changed = {piece.label: NEVER for piece in past if piece.label not in marks} | dict(looked.changed)
    again = tuple(piece for piece in past if piece.label in changed)
    return ChangeScan(again, notes_of(looked, at, by, own, past, changed), is_exact=True)


def _query_changes(
    work: RunContext, table: Table, source: Source, request: ChangeScanRequest, spark: Callable[[], SparkSession]
) -> ChangedWindows:
    unit = work.connections.resolve_unit(source.unit)
    collector = work.connections.collector(unit.connection)
    if isinstance(collector, ChangeScanner):
        return collector.scan_changes(spark, unit, request, table.columns, table.cadence.zone)
    raise AssertionError(f"{unit} cannot find changes, which check refuses")


def compute_scan_key(table: Table, source: Source) -> str:
    """Return a hash of a source's declaration. The notes of scans with another hash are ignored."""
    options = sorted((name, str(value)) for name, value in source.unit.options.items())
    text = f"{source.unit} {source.unit.query} {options} {source.time_column} {source.changed} {table.cadence}"
    return blake2b(text.encode(), digest_size=8).hexdigest()


def known_marks(ledger: Ledger, table: Table, windows: Sequence[Window], by: str) -> dict[datetime, Mark]:
    """Map each window's start to the mark that the newest scan stored for it. Windows never scanned are left out.

    `by` is the key of the current declaration (`compute_scan_key`).
    """
    if not windows or table.source is None or table.source.lookback is None:
        return {}
    low, last = windows[0].start, windows[-1].end
    # a scan covers its own window, and those that end at most a LOOKBACK before it
    high = table.source.lookback.add_to(last, table.cadence.zone) + (last - windows[-1].start)
    noted: list[ScanNotes] = []
    while True:
        page = ledger.reads.source_notes(table.name, low, high, most=_PAGE, past=len(noted))
        noted += [read_note(label, source, by) for label, source in page]
        marks = marks_of(windows, noted)
        if len(page) < _PAGE or len(marks) == len(windows):
            return marks


def read_note(label: datetime, source: Mapping[str, Any], by: str) -> ScanNotes:
    """Parse the scan notes of a batch. They cover no window if they are missing or made with another key than `by`."""
    note = source.get(LOOKED)
    if not isinstance(note, Mapping) or note.get("by") != by:
        return ScanNotes(BEGINNING, label, None)
    past = note.get("past", {})
    spans = ((datetime.fromisoformat(low), datetime.fromisoformat(high)) for low, high in past.get("windows", ()))
    return ScanNotes(
        datetime.fromisoformat(note["at"]),
        label,
        note["mark"],
        note.get("own"),
        IntervalSet.from_intervals(spans),
        past.get("of", {}),
    )


def marks_of(windows: Sequence[Window], noted: Iterable[ScanNotes]) -> dict[datetime, Mark]:
    """Map each window's start to the mark of the newest scan that covers it. `windows` are in ascending order."""
    left = [window.start for window in windows]
    marks: dict[datetime, Mark] = {}
    for notes in sorted((each for each in noted if each.of_all is not None), key=lambda each: each.at, reverse=True):
        at = bisect_left(left, notes.label)
        if at < len(left) and left[at] == notes.label:
            marks[left.pop(at)] = Mark(notes.of_all, notes.of_own)
        for low, high in notes.past:
            first, end = bisect_left(left, low), bisect_left(left, high)
            for start in left[first:end]:
                marks[start] = Mark(notes.of_all, notes.of_past.get(label_of(start)))
            del left[first:end]
        if not left:
            break
    return marks


def notes_of(
    looked: ChangedWindows,
    at: datetime,
    by: str,
    own: Sequence[Window],
    past: Sequence[Slice],
    changed: Mapping[datetime, str],
) -> dict[datetime, Mapping[str, Any]]:
    """Build scan notes by label: the scan's position for the group's labels, and the reason for changed past labels.

    The notes on all past windows are stored with the first of the group's labels.
    """
    notes: dict[datetime, Mapping[str, Any]] = {label: {CHANGED: why} for label, why in changed.items()}
    for window in own:
        note = {"at": at.isoformat(), "by": by, "mark": looked.of_all, "own": looked.of_window.get(window.start)}
        notes[window.start] = {LOOKED: {name: value for name, value in note.items() if value is not None}}
    spans = IntervalSet.from_intervals((piece.label, piece.end) for piece in past)
    starts = {piece.label for piece in past}
    of_past = {
        "windows": [[low.isoformat(), high.isoformat()] for low, high in spans],
        "of": {label_of(start): value for start, value in looked.of_window.items() if start in starts},
        "changed": {label_of(start): why for start, why in sorted(changed.items())},
    }
    first = notes[own[0].start][LOOKED]
    notes[own[0].start] = {LOOKED: {**first, "past": of_past}}
    return notes
