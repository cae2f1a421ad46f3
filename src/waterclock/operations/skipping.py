"""Skips batches, and requests windows again whose late rows only a skipped batch would have read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, LOOK_AGAIN, BatchStatus
from waterclock.engine.collect.lookback import find_next_lookback
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.graph import other_part
from waterclock.ledger.ledger import Ledger
from waterclock.planner.plan import RECOLLECT
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window


def skip(ledger: Ledger, table: Table, windows: Sequence[Window], *, who: str, why: str) -> tuple[datetime, ...]:
    """Skip batches. Return the done windows within their LOOKBACK, which are collected again because of late rows.

    One ledger transaction records the skip and the requests to collect again.

    Raises E413 for a label that is done or being made, E412 for an unknown table.
    """
    again = _find_unread_windows(ledger, table, windows)
    reasons = {
        label: f"{label_of(skipped)} was skipped, and no other batch's LOOKBACK reads late rows of this window"
        for label, skipped in again.items()
    }
    verb = LOOK_AGAIN if table.is_fold else RECOLLECT
    ledger.decisions.skip(table.name, windows, who=who, why=why, again=reasons, verb=verb)
    return tuple(again)


def find_other_windows(
    flow: Flow, ledger: Ledger | None, table: Table, windows: Sequence[Window]
) -> dict[str, tuple[Window, ...]]:
    """Map the other table of APART to those of the windows that it has not made yet. They are skipped as well.

    Its done windows stay: readers may have used their rows. Without APART, the result is empty.
    """
    other = other_part(flow, table.name)
    if other is None or not windows:
        return {}
    low, high = windows[0].start, windows[-1].end
    cells = [] if ledger is None else ledger.past.grid([other], low, high)
    there = {cell.label for cell in cells if cell.current_claim is not None or cell.status == BatchStatus.SKIPPED}
    dropped = None if ledger is None else ledger.maintenance.drop_boundary(other, by=FOREVER)
    found = tuple(each for each in windows if each.start not in there and each.start >= (dropped or BEGINNING))
    return {other: found} if found else {}


def _find_unread_windows(ledger: Ledger, table: Table, windows: Sequence[Window]) -> dict[datetime, datetime]:
    """Find done windows that are within the LOOKBACK of a batch to skip, but not within that of the next batch.

    Map them to the label to skip. Batches that are skipped, held or made already do not count as the next. A batch of
    `windows` may count as the next of an earlier one, since the windows within its own LOOKBACK are searched as well.
    Windows that RETAIN or `drop` removed are not included: a late row would restore all their rows.
    """
    if table.source is None or (lookback := table.source.lookback) is None:
        return {}
    cadence = table.cadence
    dropped = ledger.maintenance.drop_boundary(table.name, by=FOREVER) or BEGINNING
    found: dict[datetime, datetime] = {}
    following, after = BEGINNING, FOREVER
    for window in sorted(windows, reverse=True):
        first = cadence.ceil(lookback.subtract_from(window.start, cadence.zone))
        if window.end != after:  # the windows to skip after it have the same next batch
            following = find_next_lookback(ledger, table, window.end)
        after = window.start
        for piece in ledger.reads.slices(table.name, max(first, dropped), min(following, window.start)):
            found.setdefault(piece.label, window.start)
    return dict(sorted(found.items()))
