"""Determines the inputs of tables that collect from another project, and why they wait, as within one flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, BatchStatus, InputFact, LedgerSnapshot
from waterclock.batches.linked_projects import LinkFacts
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Batching, Mode
from waterclock.planner.plan import Cause, Status
from waterclock.timelabel.fitting import consists_of_windows, nearest_fitting_cadence
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window


def add_links(snapshot: LedgerSnapshot, links: Mapping[str, LinkFacts]) -> LedgerSnapshot:
    """Return a snapshot with the facts of linked projects added. `links` has them by the table that collects.

    Batches whose input was restated in the other project become suspects.
    """
    if not links:
        return snapshot
    tables = dict(snapshot.tables)
    for name, link in links.items():
        facts = snapshot.of(name)
        suspects = {label: _list_other_inputs(inputs, link) for label, inputs in facts.suspects.items()}
        for label, changed in link.changed.items():
            suspects[label] = (*suspects.get(label, ()), changed)
        # inputs that are not in `changed` are the same as recorded
        tables[name] = replace(facts, suspects=suspects)
    return replace(snapshot, tables=tables, links=links)


def _list_other_inputs(inputs: tuple[InputFact, ...], link: LinkFacts) -> tuple[InputFact, ...]:
    return tuple(fact for fact in inputs if fact.table != link.upstream)


def is_by_label(table: Table) -> bool:
    """Return whether a linked table collects slices by their labels; otherwise it collects a state."""
    return table.source is not None and table.source.batching is Batching.LABELS


def linked_span(table: Table, link: LinkFacts, window: Window) -> tuple[datetime, datetime] | None:
    """Return the span that the batch of a window reads upstream; None before that table has any data."""
    if link.cadence is None or link.oldest_instant is None:
        return None
    if is_by_label(table):
        return window.start, window.end
    tick = link.cadence.floor(window.end)
    low = link.cadence.previous(tick) if link.mode is Mode.REPLACE else max(link.oldest_instant, BEGINNING)
    return low, tick


def newest_served(table: Table, link: LinkFacts) -> datetime | None:
    """Return the end of a linked table's newest window whose inputs in the other project are settled, or None."""
    spans = list(link.settled)
    if link.cadence is None or not spans:
        return None
    if is_by_label(table):
        return table.cadence.floor(spans[-1][1])
    # the last boundary of this table before the upstream table's next one
    return table.cadence.previous(table.cadence.ceil(link.cadence.next(link.cadence.floor(spans[-1][1]))))


def find_linked_wait_cause(table: Table, link: LinkFacts, window: Window) -> Cause | None:
    """Return the batch of the other project for which a batch waits, or None if all its inputs there are settled."""
    if link.problem is not None:
        return Cause(link.upstream, window, Status.WAITING, f"{link.problem.code} {link.problem.what}")
    span = linked_span(table, link, window)
    if span is None or link.cadence is None:
        what = "has no batch yet" if link.cadence else "has not run yet"
        return Cause(link.upstream, window, Status.WAITING, f"which {what}{_circle_words(link)}")
    low, high = span
    begins = link.oldest_instant
    if begins is not None and (low < begins or high <= begins):
        detail = f"which begins at {label_of(link.cadence.ceil(begins))}{_circle_words(link)}"
        return Cause(link.upstream, link.cadence.window_of(low), Status.WAITING, detail)
    gap = link.settled.first_gap(low, high)
    if gap is None:
        return None
    return _find_gap_cause(link, link.cadence.window_of(gap[0]))


def _find_gap_cause(link: LinkFacts, window: Window) -> Cause:
    past = link.past
    trouble = past.troubles.get(window.start)
    if trouble is not None:
        status = Status.HELD if trouble.status is BatchStatus.HELD else Status.FAILED
        return Cause(link.upstream, window, status, f"in its project: {trouble.error.strip().partition(chr(10))[0]}")
    if past.paused is not None and link.cadence is not None:
        return Cause(link.upstream, window, Status.PAUSED, f"in its project {past.paused.words(link.cadence.zone)}")
    if link.is_dropped:
        return Cause(link.upstream, window, Status.WAITING, "which its project no longer declares")
    if any(window.start in claim.labels for claim in past.open_claims):
        detail = "which is being made there"
    elif past.covered.covers_instant(window.start):
        detail = "which is to be made again there"
    elif link.mode is Mode.REPLACE and any(low > window.start for low, _ in past.covered):
        name = link.upstream.partition(".")[2]
        detail = f"which no table there needed: `waterclock backfill {name}@{window.label}` in its project makes it"
    else:
        detail = "which is not made there yet"
    return Cause(link.upstream, window, Status.WAITING, f"{detail}{_circle_words(link)}")


def _circle_words(link: LinkFacts) -> str:
    if not link.circle:
        return ""
    return (
        f"; it waits for {link.circle} in turn: the two projects wait for each other until one of them stops "
        "reading the other"
    )


def is_expired(table: Table, link: LinkFacts, window: Window) -> bool:
    """Return whether RETAIN of the other project has dropped inputs of a batch."""
    span, dropped = linked_span(table, link, window), link.past.dropped_before
    return span is not None and dropped is not None and span[0] < dropped and span[0] < span[1]


def find_served_spans(table: Table, link: LinkFacts) -> IntervalSet:
    """Return spans with all windows that could be made from the other project's settled data, and possibly others."""
    if link.cadence is None or link.problem is not None:
        return IntervalSet()
    cadence = table.cadence
    served = []
    for low, high in link.settled:
        last = cadence.previous(link.cadence.next(link.cadence.floor(high)))
        first = low if low == BEGINNING else cadence.floor(low)
        served += [(first, last)] if first < last else []
    return IntervalSet.from_intervals(served)


def explain_window_mismatch(table: Table, link: LinkFacts) -> tuple[str, str] | None:
    """If a linked table's windows do not fit, return the reason and a fix with the nearest cadence; else None."""
    if link.cadence is None or not is_by_label(table) or consists_of_windows(table.cadence, link.cadence):
        return None
    nearest = nearest_fitting_cadence(table.cadence, link.cadence)
    why = f"{table.name} has windows {table.cadence}, {link.upstream} {link.cadence}: a slice cannot be split"
    return why, f"write {nearest}"
