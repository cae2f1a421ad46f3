"""Determines what a branch makes: the changed tables, their labels, and the labels that were made by older code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from waterclock.batches.ledger_snapshot import verb_of_earlier_start
from waterclock.dpl.project import Project
from waterclock.engine.branching.branch_state import BranchState
from waterclock.engine.branching.table_changes import TableChanges
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind, OnRestate
from waterclock.ledger.ledger import Ledger
from waterclock.operations.formatting import count_words, local_range
from waterclock.planner.planning import Planner
from waterclock.planner.settlement import find_unsettled
from waterclock.selection import Labels
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.window import Window

NEWEST = 7
"""How many windows of each own table a branch makes if no labels are given."""
LabelsByTable = Mapping[str, Labels]


@dataclass(frozen=True, slots=True)
class BranchWork:
    """The labels that a branch makes of each own table: `spans`, and in them those that other code made (`older`).

    Of some tables a run makes only the newest window that is due. If the base has not come so far, the branch makes the
    one before: such labels are `wanted` if the base has not made them, and otherwise `followed`. `windows` are those of
    the spans; of a publish of a state its newest one. Of a REPLACE table, whose older states are made only if they are
    read, they are those that are needed, and those that the branch has made already.

    `stopped` are labels of the spans whose last attempt failed or is held, in the base or in the branch: other code or
    other inputs may make them.

    `unsettled` are borrowed tables with labels that the base was to make again. No run of the branch makes them, so the
    labels that read them wait.
    """

    spans: LabelsByTable
    older: Mapping[str, tuple[datetime, ...]]
    windows: Mapping[str, tuple[Window, ...]]
    wanted: Mapping[str, datetime]
    followed: Mapping[str, datetime]
    unsettled: tuple[str, ...] = ()
    stopped: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    cadences: Mapping[str, Cadence] = field(default_factory=dict)
    """Those of the tables in `windows`."""

    def describe_labels(self, name: str) -> str:
        """Return the labels of a table for people: `3 labels, 2026-11-01 .. 2026-11-03`, in the zone of the table."""
        windows = self.windows.get(name, ())
        if not windows:
            return "no labels"
        labels = local_range(windows[0].start, windows[-1].start, self.cadences[name])
        return f"{count_words(len(windows), 'label')}, {labels}"


def for_branch(project: Project, own: Collection[str] | None = None) -> Project:
    """Return a branch's project in which restated labels are made again without a user's decision (ON RESTATE).

    `own` are the tables that the branch makes, by default all. Borrowed tables keep ON RESTATE REPORT, by which their
    labels count as settled, as in the base.
    """
    return replace(project, flow=_without_limits(project.flow, project.flow.tables if own is None else own))


def _without_limits(flow: Flow, own: Collection[str]) -> Flow:
    tables = {
        name: replace(table, on_restate=OnRestate.RECOMPUTE, restate_at_most=None)
        if name in own and table.kind is not Kind.COLLECT
        else table
        for name, table in flow.tables.items()
    }
    return replace(flow, tables=tables)


def start_deliveries(project: Project, work: BranchWork) -> Project:
    """Return a branch's project whose publishes by label start at their first label in `work`.

    Such a publish delivers its labels in order, so it would wait for earlier ones, which the run does not deliver.
    """
    tables = {
        name: replace(table, start=work.windows[name][0].start)
        if name in work.windows and table.is_delivered_by_label
        else table
        for name, table in project.flow.tables.items()
    }
    return replace(project, flow=replace(project.flow, tables=tables))


def find_branch_work(
    flow: Flow,
    ledger: Ledger,
    state: BranchState,
    changes: TableChanges,
    labels: Mapping[str, Labels],
    selected: Sequence[str] | None = None,
) -> BranchWork:
    """Return the labels that a branch makes: those of `labels`, or the newest windows that the base has made.

    A new table without stored windows gets the newest windows for which its inputs exist; a new regular table all. A
    publish to a sandbox is such a new table.
    `selected` limits the tables. Raises E513 if no window of a table is in its range of labels.
    Cost: a query of the labels of each own table.
    """
    planner = Planner(_without_limits(flow, changes.made))
    snapshot = ledger.reads.snapshot(flow)
    starts = planner.starts(snapshot, state.tick)
    unsettled = find_unsettled(planner.graph, snapshot, {}, starts).stale
    newest = _NewestEnds(flow, ledger, state.tick, {name: snapshot.of(name).troubles for name in changes.own})
    spans, older, windows = dict[str, Labels](), dict[str, tuple[datetime, ...]](), dict[str, tuple[Window, ...]]()
    kept, wanted, followed = defaultdict[str, set[datetime]](set), dict[str, datetime](), dict[str, datetime]()
    stopped = dict[str, tuple[datetime, ...]]()
    for name in flow.order:
        if name not in changes.made or (selected is not None and name not in selected):
            continue
        table, end = flow.tables[name], newest.of(name)
        start = starts[name]
        if end is None or end <= start:
            continue
        if name in labels:
            low, high = labels[name].limit_to(table, start, table.cadence.floor(state.tick))
        else:
            low, high = _newest_windows(table, start, end, is_new=name in changes.new or table.kind is Kind.PUBLISH)
        found = tuple(table.cadence.windows(low, high))
        if not found:
            continue
        spans[name] = Labels.from_range(found[0].start, found[-1].start)
        windows[name] = found
        if tried := tuple(label for label in sorted(snapshot.of(name).troubles) if low <= label < high):
            stopped[name] = tried
        made = [] if table.kind is Kind.PUBLISH else ledger.past.made_labels(name, low, high)
        older[name] = tuple(label for label, code in made if code != table.fingerprint)
        if name not in changes.affected:
            kept[name] = {label for label, code in made if code == table.fingerprint}
        if (node := planner.graph.nodes[name]).is_newest_only:
            windows[name] = found[-1:]
        if node.is_made_if_needed or node.is_newest_only:
            last = found[-1].start
            kept[name].add(last)
            if last not in older[name]:
                (followed if last in {label for label, _ in made} else wanted)[name] = last
    windows |= _needed_windows(planner, ledger, state, windows, older, kept)
    waiting = tuple(name for name in changes.borrowed if spans and unsettled.get(name))
    cadences = {name: flow.tables[name].cadence for name in windows}
    return BranchWork(spans, older, windows, wanted, followed, waiting, stopped, cadences)


def _needed_windows(
    planner: Planner,
    ledger: Ledger,
    state: BranchState,
    windows: Mapping[str, tuple[Window, ...]],
    older: Mapping[str, tuple[datetime, ...]],
    kept: Mapping[str, set[datetime]],
) -> dict[str, tuple[Window, ...]]:
    """Return those windows of REPLACE tables whose states are needed if the labels in `older` are requested.

    The labels in `kept` are added. Cost: a snapshot of the ledger if there is such a table.
    """
    if not any(planner.graph.nodes[name].is_made_if_needed for name in windows):
        return {}
    asking = {(verb_of_earlier_start(planner.flow.tables[name]), name): labels for name, labels in older.items()}
    needed = planner.find_needed_states(ledger.reads.snapshot(planner.flow, asking=asking), state.tick)
    return {
        name: tuple(it for it in found if it.start in kept[name] or needed[name].covers_instant(it.start))
        for name, found in windows.items()
        if name in needed
    }


def _newest_windows(table: Table, start: datetime, end: datetime, *, is_new: bool) -> tuple[datetime, datetime]:
    """Return the bounds of the newest windows before `end`; of a new regular table all, since a state needs them."""
    if is_new and not (table.is_partitioned and not table.is_in_label_order):
        return start, end
    low = end
    for _ in range(NEWEST):
        if low <= start:
            break
        low = table.cadence.previous(low)
    return max(low, start), end


class _NewestEnds:
    """Finds the end of the newest window of each table that the base has made, up to the tick of the branch.

    `troubles`: the batches of the branch's own tables that failed or are held. Newer ones count as made, and the tables
    that read them come as far as their inputs.
    """

    def __init__(self, flow: Flow, ledger: Ledger, tick: datetime, troubles: Mapping[str, Iterable[datetime]]) -> None:
        self._flow, self._ledger, self._tick, self._troubles = flow, ledger, tick, troubles
        self._known = {record.name for record in ledger.reads.tables() if record.kind != Kind.PUBLISH}
        self._found: dict[str, datetime | None] = {}
        self._further = set[str]()

    def of(self, name: str) -> datetime | None:
        """Return the end of a table's newest window, for a table without windows that of its inputs; None if none."""
        if name not in self._found:
            self._found[name] = None  # a table that reads itself
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> datetime | None:
        cadence = self._flow.tables[name].cadence
        last = cadence.floor(self._tick)
        newest = self._ledger.reads.newest(name, last) if name in self._known else None
        made = None if newest is None else cadence.next(newest.label)
        tried = [cadence.next(label) for label in self._troubles.get(name, ()) if label < last]
        reads = [read.table for read in self._flow.tables[name].reads if read.table != name]
        known = [end for end in map(self.of, reads) if end is not None]
        of_inputs = min(cadence.floor(min(known)), last) if known else None
        if made is None:
            return max([*tried, *([of_inputs] if of_inputs else [])], default=None)
        if name in self._troubles and of_inputs is not None and self._further.intersection(reads):
            tried.append(of_inputs)
        further = max(tried, default=made)
        if further > made:
            self._further.add(name)
        return max(made, further)
