"""Finds the earlier windows that a collect with LOOKBACK reads again, and those whose rows changed.

For a source that reports changed windows itself (CHANGED), see `change_scans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, LOOK_AGAIN
from waterclock.batches.records import Slice
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.ledger.ledger import Ledger
from waterclock.planner.plan import Group
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.timelabel.window import Window


def find_revisited_slices(ledger: Ledger, table: Table, group: Group) -> tuple[Slice, ...]:
    """Return the done slices of the windows that are entirely within the LOOKBACK before the group, oldest first.

    A window that begins before the LOOKBACK is not included. Nor are windows that RETAIN or `drop` removed: a late row
    would restore all their rows.
    """
    if table.source is None or table.source.lookback is None or group.is_made_of_kept or group.verb == LOOK_AGAIN:
        return ()
    first = group.batches[0].window.start
    own = {batch.label for batch in group.batches}
    begin = table.cadence.ceil(table.source.lookback.subtract_from(first, table.cadence.zone))
    dropped = ledger.keeping.drop_boundary(table.name, by=FOREVER) or BEGINNING
    known = ledger.reads.slices(table.name, max(begin, dropped), group.batches[-1].window.end)
    return tuple(piece for piece in known if piece.label not in own)


def slack_of(table: Table, end: datetime) -> timedelta:
    """Return how long after a window's end its rows may arrive: the DELAY plus the LOOKBACK of the table."""
    lookback = None if table.source is None else table.source.lookback
    late = end - lookback.subtract_from(end, table.cadence.zone) if lookback else timedelta(0)
    return table.cadence.delay + late


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
