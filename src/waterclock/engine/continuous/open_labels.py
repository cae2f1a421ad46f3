"""Decides which labels of a table a tick reads or computes, and which keep the rows of an earlier tick. Pure functions.

A label leaves the table of open windows only if the ledger, read after that table, has it as done or skipped, or if it
is held. So a reader that reads the two in the same order finds each label in at least one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.ledger_snapshot import BatchStatus, LedgerSnapshot, TableFacts
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.open_windows import continuous_tables
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.window import Window


@dataclass(frozen=True, slots=True)
class OpenLabels:
    """The windows whose rows a tick makes, and the labels that keep their rows. All other labels are removed."""

    made: tuple[Window, ...] = ()
    kept: tuple[datetime, ...] = ()


def find_open_labels(
    table: Table, start: datetime, facts: TableFacts, known: Collection[datetime], now: datetime
) -> OpenLabels:
    """Return the labels of a collect: windows that have begun and are not due are read, due ones keep their rows.

    A window that is due may be read by its batch at the same time. A tick that read its source as well could find a row
    that the batch does not. `known` are the labels of the tick before. A paused table keeps its rows.
    """
    held = held_labels(facts)
    windows: list[Window] = []
    window = table.cadence.window_of(now)
    while window.start >= start and now < table.cadence.due_at(window):
        windows.append(window)
        window = table.cadence.window_of(table.cadence.previous(window.start))
    is_open = facts.paused is None
    made = tuple(each for each in reversed(windows) if is_open and _is_wanted(each.start, facts, held))
    labels = {each.start for each in made}
    return OpenLabels(made, _kept(known, facts, held, labels))


def find_windows_to_compute(
    table: Table,
    start: datetime,
    facts: TableFacts,
    known: Collection[datetime],
    now: datetime,
    inputs: Iterable[tuple[Cadence, Collection[datetime]]],
) -> OpenLabels:
    """Return the windows of a transform that overlap an open label of an input, and those of the tick before.

    `inputs` are the cadences of the inputs with open windows, and their open labels. Windows that are done, skipped or
    held are left out, and so are those before START, and new ones that have not begun. The clock may be set back.
    """
    held, found = held_labels(facts), set(known)
    for cadence, labels in inputs:
        for label in labels:
            first = table.cadence.floor(label)
            found |= {each.start for each in table.cadence.windows(first, table.cadence.ceil(cadence.next(label)))}
    found = {each for each in found if each >= start and (each <= now or each in known)}
    labels = sorted(each for each in found if _is_wanted(each, facts, held))
    if facts.paused is not None:
        return OpenLabels((), _kept(known, facts, held, ()))
    return OpenLabels(tuple(map(table.cadence.window_of, labels)))


def held_labels(facts: TableFacts) -> frozenset[datetime]:
    """Return the labels of a table that a rule holds. Their rows are shown nowhere."""
    return frozenset(label for label, trouble in facts.troubles.items() if trouble.status is BatchStatus.HELD)


def with_continuous_inputs(flow: Flow, tables: Collection[str]) -> set[str]:
    """Return tables and all tables with CONTINUOUS that they are made from."""
    found = set(tables)
    for table in reversed(continuous_tables(flow)):
        if table.name in found:
            found |= {read.table for read in table.reads if flow.tables[read.table].continuous is not None}
    return found


def reads_held_label(flow: Flow, snapshot: LedgerSnapshot, name: str, low: datetime, high: datetime) -> bool:
    """Return whether labels of a table in an interval are held and not done, or are made from such labels."""
    table, facts = flow.tables[name], snapshot.of(name)
    low, high = table.cadence.floor(low), table.cadence.ceil(high)
    if any(low <= label < high and not facts.covered.covers_instant(label) for label in held_labels(facts)):
        return True
    for read in table.reads:
        if flow.tables[read.table].continuous is not None:
            span = None if read.span is None else read.span.subtract_from(table.cadence.next(low), table.cadence.zone)
            if reads_held_label(flow, snapshot, read.table, low if span is None else min(low, span), high):
                return True
    return False


def newest_state(cadence: Cadence, facts: TableFacts, limit: datetime) -> datetime | None:
    """Return the end of the newest done window of a regular table that is over by `limit`; None if there is none."""
    for low, high in reversed(list(facts.covered)):
        end = cadence.floor(min(high, limit))
        if end > low:
            return end
    return None


def _is_wanted(label: datetime, facts: TableFacts, held: Collection[datetime]) -> bool:
    return not facts.covered.covers_instant(label) and label not in held


def _kept(
    known: Collection[datetime], facts: TableFacts, held: Collection[datetime], made: Collection[datetime]
) -> tuple[datetime, ...]:
    return tuple(sorted(label for label in known if label not in made and _is_wanted(label, facts, held)))
