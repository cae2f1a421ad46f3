"""Finds the open windows of tables with CONTINUOUS that a query shows, and returns their rows.

The tables of open windows are read first, then the ledger, then the tables themselves. A label leaves the table of open
windows only after the ledger has it as done. So each label is found in one of them, and is shown from one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.engine.continuous.open_labels import reads_held_label, with_continuous_inputs
from waterclock.engine.query.view_rows import union_with_closed
from waterclock.engine.query.views import find_viewed_table
from waterclock.engine.reads.hidden import add_hidden_columns
from waterclock.engine.run_context import RunContext
from waterclock.faults import fault
from waterclock.flow.declarations import Flow
from waterclock.flow.open_windows import IS_CLOSED, open_table_of
from waterclock.storage.commit.speed_tables import SpeedState, TickHistory, read_history
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_ATTEMPTS = 20  # each takes some milliseconds, and ticks are seconds apart


@dataclass(frozen=True, slots=True)
class ShownLabels:
    """The slices of the open windows of a table that a view shows, and the windows that it shows from the table."""

    opened: tuple[Manifest, ...]
    done: IntervalSet


SpeedWindows = Mapping[str, ShownLabels]
"""What the view of each table with CONTINUOUS shows."""


@dataclass(frozen=True, slots=True)
class _OpenLabel:
    table: str
    label: datetime
    end: datetime


def find_speed_windows(work: RunContext, names: Iterable[str]) -> SpeedWindows:
    """Return by table the open windows to show of the views in `names` of tables with CONTINUOUS, all as of one tick.

    A window that is done in one table and not in another is shown as of the tick in both, so that their rows agree.
    If a tick is committed while the ledger is read, both are read again. Cost: some small files for each table, and a
    snapshot of the ledger.
    """
    viewed = (find_viewed_table(work.flow, name) for name in names)
    tables = [table for table in viewed if table is not None and work.flow.tables[table].continuous is not None]
    if not tables:
        return {}
    tables.sort(key=work.flow.order.index, reverse=True)  # a tick commits inputs first: so each has what a reader has
    inputs = with_continuous_inputs(work.flow, tables)
    folders = {name: work.lake.folder(open_table_of(name)) for name in tables}
    histories = {name: read_history(folder) for name, folder in folders.items()}
    for _ in range(_MOST_ATTEMPTS):
        fault("view.pinned")
        snapshot = work.ledger.reads.snapshot(work.flow, tables=inputs)
        pinned, histories = histories, {name: read_history(folder) for name, folder in folders.items()}
        if pinned == histories:
            break
    states = choose_common_tick(pinned)
    shown = choose_open_labels(work.flow, states, snapshot)
    return {
        name: ShownLabels(
            tuple(read_manifest(folders[name], states[name].slices[label]) for label in shown[name]),
            snapshot.of(name).covered,
        )
        for name in tables
    }


def choose_common_tick(histories: Mapping[str, TickHistory]) -> dict[str, SpeedState]:
    """Return the states of tables at the newest tick that all of them have.

    A table without a state at that tick had no rows yet. If no tick is common to all, which takes twenty crashes
    between two commits of one tick, each state is the table's newest one.
    """
    ticks = sorted({state.tick for each in histories.values() for state in each.states}, reverse=True)
    for tick in ticks:
        found = {name: history.at(tick) for name, history in histories.items()}
        known = {name: state for name, state in found.items() if state is not None}
        if len(known) == len(histories):
            return known
    return {name: history.states[0] if history.states else SpeedState() for name, history in histories.items()}


def choose_open_labels(
    flow: Flow, states: Mapping[str, SpeedState], snapshot: LedgerSnapshot
) -> dict[str, Sequence[datetime]]:
    """Return the labels of each table that are shown from its open windows: those not done, and those that agree.

    A done label is shown from there too if it overlaps such a label of another table. Held labels are not shown, and
    neither are labels that read a held one of a table with CONTINUOUS. `snapshot` has these inputs, too.
    """
    opened: set[_OpenLabel] = set()
    done: set[_OpenLabel] = set()
    for name, state in states.items():
        facts, cadence = snapshot.of(name), flow.tables[name].cadence
        for label in state.slices:
            each = _OpenLabel(name, label, cadence.next(label))
            if facts.covered.covers_instant(label):
                done.add(each)
            elif not reads_held_label(flow, snapshot, name, label, each.end):
                opened.add(each)
    while late := {each for each in done if any(each.label < it.end and it.label < each.end for it in opened)}:
        opened |= late
        done -= late
    return {name: sorted(each.label for each in opened if each.table == name) for name in states}


def frame_of_speed_view(
    work: RunContext,
    spark: SparkSession,
    table: str,
    shown: ShownLabels,
    closed: Callable[[], DataFrame],
) -> DataFrame:
    """Return the rows of a view: those of open windows, and those of windows that were done from the table itself.

    The table is read after the ledger, so it may have labels that were not done yet.
    """
    from pyspark.sql import functions as F  # noqa: N812

    def read_done() -> DataFrame:
        spans = [f"timelabel >= '{label_of(low)}' AND timelabel < '{label_of(high)}'" for low, high in shown.done]
        return closed().where(" OR ".join(spans) or "FALSE")

    opened = None
    if shown.opened:
        rows = frame_of_slices(spark, work.lake.folder(open_table_of(table)), shown.opened)
        opened = add_hidden_columns(rows, work.flow.tables[table]).withColumn(IS_CLOSED, F.expr("FALSE"))
    return union_with_closed(work, table, opened, [label_of(each.label) for each in shown.opened], read_done)
