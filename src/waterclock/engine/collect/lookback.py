"""Finds the earlier windows that a collect with LOOKBACK reads again, and those whose rows changed.

For a source that reports changed windows itself (CHANGED), see `change_scans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, LOOK_AGAIN
from waterclock.batches.records import Slice
from waterclock.engine.collect.collect_result import RELEASED
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.ledger.ledger import Ledger
from waterclock.planner.plan import Group
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.timelabel.window import Window

_PAGE = 64


def find_revisited_slices(ledger: Ledger, table: Table, group: Group) -> tuple[Slice, ...]:
    """Return the done slices of the windows that are entirely within the LOOKBACK before the group, oldest first.

    A window that begins before the LOOKBACK is included only if it was released after the last batch before the group
    was made: while it was held, no LOOKBACK read it. Windows that RETAIN or `drop` removed are never included: a late
    row would restore all their rows.
    """
    if table.source is None or table.source.lookback is None or group.is_made_of_kept or group.verb == LOOK_AGAIN:
        return ()
    first = group.batches[0].window.start
    own = {batch.label for batch in group.batches}
    begin = table.cadence.ceil(table.source.lookback.subtract_from(first, table.cadence.zone))
    dropped = ledger.maintenance.drop_boundary(table.name, by=FOREVER) or BEGINNING
    low = max(begin, dropped)
    released = ledger.reads.list_unread_releases(table.name, first, low, note=RELEASED)
    known = ledger.reads.slices(table.name, low, group.batches[-1].window.end)
    return tuple(piece for piece in (*released, *known) if piece.label >= dropped and piece.label not in own)


def find_next_lookback(ledger: Ledger, table: Table, start: datetime, claim: int | None = None) -> datetime:
    """Return the start of the LOOKBACK of the first batch from `start` on that will still be made.

    Batches that were made or held by a claim after `claim` count as well. Skipped ones do not. The result is `start` or
    later if no such batch reads a window before `start`. Cost: three ledger queries, and one step for each window
    within a LOOKBACK after `start`.
    """
    if table.source is None or (lookback := table.source.lookback) is None:
        return start
    cadence, held = table.cadence, ledger.reads.held_labels(table.name)
    covered, claims = ledger.reads.covered_windows(table.name), dict[datetime, int]()
    if claim is not None:
        end = cadence.window_of(lookback.add_to(start, cadence.zone)).end
        claims = {piece.label: piece.claim for piece in ledger.reads.slices(table.name, start, end)} | held
    label = start
    while True:
        begin = cadence.ceil(lookback.subtract_from(label, cadence.zone))
        is_made = label in held or covered.covers_instant(label)
        if begin >= start or not is_made or (claim is not None and claims.get(label, claim) > claim):
            return begin
        label = cadence.window_of(label).end


def slack_of(table: Table, end: datetime) -> timedelta:
    """Return the time after a window's end in which its rows may arrive: the DELAY plus the LOOKBACK of the table."""
    lookback = None if table.source is None else table.source.lookback
    late = end - lookback.subtract_from(end, table.cadence.zone) if lookback else timedelta(0)
    return table.cadence.delay + late


def find_arrival_slack(ledger: Ledger, table: Table, group: Group, again: Sequence[Slice]) -> timedelta:
    """Return the time after the group's end in which arriving items are read, so that no window made before loses rows.

    Batches that are made together read the items of all their windows. If one of these windows is later collected
    separately, the read must extend as far as any batch may have read items for it: its own batch, and each batch whose
    LOOKBACK contains it. Cost: nothing if no window was made before; one query if no newer label was made; else a read
    of the source notes of these batches.
    """
    end = group.batches[-1].window.end
    slack = slack_of(table, end)
    ends = {piece.label: piece.end for piece in again}
    ends |= {batch.label: batch.window.end for batch in group.batches if batch.is_revision}
    newest = ledger.reads.newest(table.name) if ends else None
    if newest is None or newest.end <= end:
        return slack
    last = max(ends.values())
    reach = last + slack_of(table, last)
    if table.source is not None and table.source.lookback is not None:  # months differ in length
        reach = max(reach, table.source.lookback.add_to(last, table.cadence.zone))
    return max(slack, _newest_stamp(ledger, table, min(ends), reach) - end)


def _newest_stamp(ledger: Ledger, table: Table, low: datetime, high: datetime) -> datetime:
    """Return the newest stamp of the items that batches with labels in `[low, high)` read; BEGINNING without items."""
    newest = BEGINNING
    for past in count(step=_PAGE):
        page = ledger.reads.source_notes(table.name, low, high, most=_PAGE, past=past)
        stamps = {item["stamp"] for _, noted in page for item in noted.get("read", ()) if "stamp" in item}
        newest = max((newest, *map(datetime.fromisoformat, stamps)))
        if len(page) < _PAGE:
            break
    return newest


def windows_read(group: Group, again: Sequence[Slice]) -> list[Window]:
    """Return the windows to read from the source, oldest first: those read again, and the group's own."""
    return sorted([Window(piece.label, piece.end) for piece in again] + [batch.window for batch in group.batches])


def filter_changed_slices(
    manifests: Sequence[Manifest], again: Sequence[Slice], folder: str | None = None
) -> tuple[Manifest, ...]:
    """Return the slices without those that LOOKBACK read again and whose digest is the same as before.

    If rows may be quarantined, the table's `folder` is given: a slice with other quarantined rows has changed as well.
    """
    before = {piece.label: piece for piece in again}
    return tuple(it for it in manifests if it.label not in before or _differs(folder, it, before[it.label]))


def _differs(folder: str | None, manifest: Manifest, before: Slice) -> bool:
    if manifest.digest is None or manifest.digest != before.digest:
        return True
    return folder is not None and manifest.aside_digest != quarantine_digest_of(folder, before)


def quarantine_digest_of(folder: str, piece: Slice) -> str:
    """Return the digest of a slice's quarantined rows. Empty if there are none, or if its manifest is damaged."""
    try:
        return read_manifest(folder, piece.slice_path).aside_digest
    except WaterclockError:
        return ""
