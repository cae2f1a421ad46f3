"""Sets up a second set of all tables next to the live ones, with its own ledger and lake, from one cut.

The cut has the collected slices of one moment. They are read in place, or linked into the new set if the table's
changed mode gives other rows from them. Transforms start empty and are made by an ordinary run, which claims nothing in
the project's own ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import itemgetter

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, Closing, LedgerSnapshot
from waterclock.engine.maintenance.seeded_tables import build_commit_record, seed_from_live_slices
from waterclock.engine.run_context import RunContext
from waterclock.engine.runner import Runner
from waterclock.files.filesystem import entry_path
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind, Mode, OnRestate
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.current_revisions import CurrentRevision
from waterclock.ledger.read.signatures import Difference
from waterclock.ledger.rebuild_errors import windows_lost
from waterclock.planner.closings import list_until_reads
from waterclock.planner.open_windows import requested_open_labels
from waterclock.planner.plan import Plan
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import is_sealed
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

# the folder below the storage for the files of a rebuild, before its tables replace the live ones
PLACE = "rebuild"
_ALL = 1 << 30
_INSTANT = timedelta(microseconds=1)
_LATEST = "LATEST("


@dataclass(frozen=True, slots=True)
class RebuildLake(Lake):
    """Storage of `rebuild --all`: rebuilt tables are in a folder of their own.

    The tables in `live_tables` are read in place.
    """

    live: Lake
    live_tables: frozenset[str]

    def folder(self, table: str) -> str:
        """Return the absolute folder of a table, in this storage or in the live one."""
        return self.live.folder(table) if table in self.live_tables else Lake.folder(self, table)

    @property
    def vault_root(self) -> str:
        """The live storage: rebuilt tables have the tokens that persons have already."""
        return self.live.vault_root


@dataclass(frozen=True, slots=True)
class Cut:
    """The content from which all tables are rebuilt: the live slices of each table at the moment `now`.

    `differing` has the changes of declarations. `collected` are the current slices of each COLLECT, `held` those of
    each TRANSFORM. `dropped` maps tables with a changed declaration to the instant before which their windows stay
    dropped: a user dropped them, or their slices were removed. `kept` maps transforms to labels that stay unchanged:
    they cannot be made again, since they are before START or RETAIN has dropped their inputs.
    """

    flow: Flow
    now: datetime
    differing: Mapping[str, Sequence[Difference]]
    collected: Mapping[str, Sequence[CurrentRevision]]
    held: Mapping[str, Sequence[CurrentRevision]]
    dropped: Mapping[str, datetime] = field(default_factory=dict)
    kept: dict[str, frozenset[datetime]] = field(default_factory=dict)

    @property
    def transforms(self) -> tuple[str, ...]:
        """The names of the transforms, which are all made again, upstream first."""
        return tuple(name for name in self.flow.order if self.flow.tables[name].kind is Kind.TRANSFORM)

    @property
    def redeclared_collects(self) -> tuple[str, ...]:
        """The names of the collected tables whose declaration changed."""
        return tuple(name for name in self.collected if name in self.differing)

    def has_other_windows(self, name: str) -> bool:
        """Return whether a table's existing slices have other windows than those it now declares."""
        return any(what in {"cadence", "zone"} for what, _, _ in self.differing.get(name, ()))

    def is_redeclared(self, name: str) -> bool:
        """Return whether a table's declaration changed since its rows were made. If so, none of its rows are kept."""
        return name in self.differing

    def find_kept_items_end(self, name: str) -> datetime | None:
        """Return the instant before which labels of a redeclared table keep the source items that they own, or None.

        If its windows are unchanged, all labels keep them, whether they are done or not. Otherwise only dropped
        windows keep theirs.
        """
        if not self.has_other_windows(name):
            return FOREVER
        kept = self.collected.get(name, ())
        return (kept[0].result.label if kept else FOREVER) if name in self.dropped else None


def cut_of(work: RunContext, now: datetime) -> Cut:
    """Build the cut: the current content of all tables, for the flow without its publishes.

    The cut is at `now`, or later if a label of the live tables is due later.
    """
    maintenance, snapshot = work.ledger.maintenance, work.ledger.reads.snapshot(work.flow)
    tables = {
        name: _without_waiting_rules(table, has_partial=bool(snapshot.of(name).partial))
        for name, table in work.flow.tables.items()
        if table.kind is not Kind.PUBLISH
    }
    flow = replace(work.flow, tables=tables, order=tuple(name for name in work.flow.order if name in tables))
    held: dict[str, Sequence[CurrentRevision]] = {name: maintenance.current_of(name) for name in flow.order}
    differing = {name: found for name, found in maintenance.differences(work.flow).items() if name in tables}
    # labels of the future were made before the clock was set back
    due = [each.result.end + tables[name].cadence.delay for name in flow.order for each in held[name][-1:]]
    dropped: dict[str, datetime] = {}
    for name in differing:
        table, before = tables[name], maintenance.drop_boundary(name, by=FOREVER)
        if table.retain is not None and table.kind is Kind.COLLECT:
            before = _find_removed_end(work, table, held[name], before)
        if before is not None:
            held[name] = [each for each in held[name] if each.result.label >= before]
            if table.retain is None or table.kind is Kind.COLLECT:
                dropped[name] = table.cadence.floor(before)
    return Cut(
        flow=flow,
        now=max([now, *due]),
        differing=differing,
        collected={name: held[name] for name in flow.order if tables[name].kind is Kind.COLLECT and held[name]},
        held={name: held[name] for name in flow.order if tables[name].kind is Kind.TRANSFORM},
        dropped=dropped,
    )


def _without_waiting_rules(table: Table, *, has_partial: bool) -> Table:
    """Return a copy of a table without rules that make its batches wait for a user, or run without some inputs.

    In the second set nothing is collected, and no user decides: a batch is made again at once if its inputs change.
    Batches that were made with all inputs wait for them here too, although PARTIAL AFTER is over.
    """
    is_patient = table.closes is None and not has_partial
    return replace(
        table,
        on_restate=OnRestate.RECOMPUTE,
        restate_at_most=None,
        partial_after=None if is_patient else table.partial_after,
    )


def _find_removed_end(
    work: RunContext, table: Table, current: Sequence[CurrentRevision], before: datetime | None
) -> datetime | None:
    """Return the end of the newest dropped window whose slice was removed. None if there is none.

    Later windows that RETAIN has dropped appear again until the next maintenance.
    """
    gone = (each.result for each in current if before is not None and each.result.label < before)
    folder = work.folder(table)
    return max((each.end for each in gone if not is_sealed(folder, each.slice_path)), default=None)


def second_set_context(live: RunContext, cut: Cut, ledger: Ledger) -> RunContext:
    """Build the run context of the second set. Its ledger has the collected slices, and none made from them."""
    lives_on = frozenset(cut.collected) - set(cut.redeclared_collects)
    lake = RebuildLake(str(entry_path(live.lake.root, PLACE)), live.lake, lives_on)
    work = RunContext(
        replace(live.project, flow=cut.flow),
        ledger,
        lake,
        live.sessions,
        live.connections,
        replace(live.settings, catch_up=_ALL),
        live.listener,
        past=live.ledger,
    )
    ledger.declared.apply(cut.flow, who=live.settings.who, now=cut.now, runner=live.settings.runner)
    snapshot = live.ledger.reads.snapshot(live.flow)
    starts = {
        # with other windows: the one that contains its old start
        name: cut.flow.tables[name].cadence.floor(start)
        for name in cut.flow.order
        if (start := snapshot.of(name).start) is not None
    }
    ledger.declared.set_starts(starts, who=live.settings.who)
    for name in cut.flow.order:
        is_redeclared = cut.is_redeclared(name)
        dropped = cut.dropped.get(name) if is_redeclared else snapshot.of(name).dropped_before
        skipped = () if cut.has_other_windows(name) else live.ledger.maintenance.skipped_windows(name)
        ledger.maintenance.seed_dropped_windows(name, dropped_before=dropped, skipped=skipped)
        if not is_redeclared and cut.flow.tables[name].closes is not None:  # new ticks would lose or duplicate rows
            ledger.decisions.close_books(name, _read_closings(live, cut.flow.tables[name]), who=live.settings.who)
    for name in lives_on:
        record = live.ledger.reads.table(name)
        found = build_commit_record(work, cut.flow.tables[name], cut.collected[name])
        states = None if cut.flow.tables[name].mode is Mode.APPEND else live.ledger.reads.versions(name)
        ledger.maintenance.seed([found], head_version=record.head_version, states=states)
    return work


def _read_closings(live: RunContext, table: Table) -> list[tuple[datetime, Closing]]:
    """Return the closing ticks of a live table's windows, oldest first. Those of old windows are in their inputs."""
    names = {str(read) for read in list_until_reads(table)}
    found: dict[datetime, Closing] = {}
    for label, reads in live.ledger.maintenance.inputs_by_label(table.name).items():
        ends = [read.high for read in reads if read.read in names]
        found |= {label: Closing(max(ends))} if ends else {}
    found |= {label: it for label, it in live.ledger.reads.closings(table.name).items() if it.tick is not None}
    return sorted(found.items(), key=itemgetter(0))


def plan_second_set(
    live: RunContext, cut: Cut, work: RunContext, collected: Mapping[str, Sequence[CurrentRevision]]
) -> Plan:
    """Plan all batches to make, as if all collected slices existed.

    `collected` maps collects to their slices in their new windows. Batches that stay unchanged, or wait for windows
    after the newest of the live tables, are left out. Raises E433 if live rows belong to new windows that cannot be
    made again.
    """
    for name, current in collected.items():
        if current:
            work.ledger.maintenance.seed([build_commit_record(work, cut.flow.tables[name], current)], head_version=0)
    runner = second_set_runner(live, cut, work)
    kept, plan = runner.find_unmakeable_labels(), runner.plan(cut.now)
    newest = max(
        (each.result.end for held in (*cut.collected.values(), *cut.held.values()) for each in held), default=cut.now
    )
    made = (it for it in plan.batches if it.window.end <= newest and it.label not in kept.get(it.table, ()))
    return replace(plan, batches=tuple(made))


def link_unmakeable_labels(live: RunContext, cut: Cut, work: RunContext) -> None:
    """Link the live slices of labels that cannot be made again into the rebuilt tables (the second set).

    The labels are recorded in `cut.kept`.
    """
    for name, labels in second_set_runner(live, cut, work).find_unmakeable_labels().items():
        if pieces := [each for each in cut.held[name] if each.result.label in labels]:
            cut.kept[name] = frozenset(each.result.label for each in pieces)
            seed_from_live_slices(live, work, cut.flow.tables[name], pieces)


class _SecondSetRunner(Runner):
    """Makes the transforms of the second set. LATEST reads the ticks that it chose in the live tables."""

    def __init__(
        self, work: RunContext, cut: Cut, picked: Mapping[str, Mapping[datetime, Mapping[str, datetime]]]
    ) -> None:
        force = _stored_states(cut)
        super().__init__(work, only=cut.transforms, force=force)
        self._states = requested_open_labels(work.flow, force)
        self._second_set, self._picked, self._cut = work, picked, cut

    def snapshot(self) -> LedgerSnapshot:
        """Return the second set's ledger snapshot, with the ticks that LATEST chose in the live tables.

        Linked projects are left out: nothing is collected here.
        """
        known = self._second_set.ledger.reads.snapshot(self._second_set.flow, asking=self._states)
        tables = dict(known.tables)
        for name, picked in self._picked.items():
            tables[name] = replace(known.of(name), latest={**picked, **known.of(name).latest})
        return replace(known, tables=tables)

    def find_unmakeable_labels(self) -> dict[str, frozenset[datetime]]:
        """Map each transform to its live labels that cannot be made again: before START, or without inputs (RETAIN).

        Raises E433 if live rows belong to new windows that cannot be made again.
        """
        cut, snapshot = self._cut, self.snapshot()
        starts, windows = self._planner.starts(snapshot, cut.now), dict[str, set[Window]]()
        before: dict[str, set[datetime]] = {}
        for name in cut.transforms:
            table, dropped = cut.flow.tables[name], snapshot.of(name).dropped_before or BEGINNING
            of_live = [each.result for each in cut.held[name] if each.result.label >= dropped]
            if cut.is_redeclared(name):
                if table.mode is not Mode.REPLACE:  # older states are made again only where a reader needs them
                    ends = {end for it in of_live for end in (it.label, it.end - _INSTANT)}
                    windows[name] = {table.cadence.window_of(end) for end in ends}
            else:
                before[name] = {it.label for it in of_live if it.label < starts[name]}
                windows[name] = {Window(it.label, it.end) for it in of_live if it.label >= starts[name]}
        if not any(facts.dropped_before for facts in snapshot.tables.values()):  # only open windows can be unknown
            windows = {name: of for name, of in windows.items() if cut.flow.tables[name].open_of}
        expired = self._planner.find_dropped_inputs(snapshot, cut.now, windows, self._request(self._force))
        for name in filter(cut.is_redeclared, expired):
            label, why = min(expired[name].items())
            raise windows_lost(name, f"{name}@{label_of(label)}", why)
        return {name: frozenset(before[name] | expired.get(name, {}).keys()) for name in before}


def second_set_runner(live: RunContext, cut: Cut, work: RunContext) -> _SecondSetRunner:
    """Build the runner that makes the second set."""
    return _SecondSetRunner(work, cut, _find_latest_ticks(live, cut))


def _stored_states(cut: Cut) -> Mapping[str, frozenset[datetime]]:
    """Map each REPLACE transform to its existing labels: all are made again, even if no reader needs them."""
    return {
        name: frozenset(each.result.label for each in current)
        for name, current in cut.held.items()
        if cut.flow.tables[name].mode is Mode.REPLACE and not cut.is_redeclared(name)
    }


def _find_latest_ticks(live: RunContext, cut: Cut) -> Mapping[str, Mapping[datetime, Mapping[str, datetime]]]:
    """Map tables and labels to the ticks that LATEST has chosen, if they are still boundaries of the table read."""
    found: dict[str, dict[datetime, dict[str, datetime]]] = {}
    for name, table in cut.flow.tables.items():
        if cut.is_redeclared(name) or not any(str(read).startswith(_LATEST) for read in table.reads):
            continue
        for label, reads in live.ledger.maintenance.inputs_by_label(name).items():
            for read in reads:
                if read.read.startswith(_LATEST) and _is_boundary(cut.flow.tables, read.table, read.high):
                    found.setdefault(name, {}).setdefault(label, {})[read.table] = read.high
    return found


def _is_boundary(tables: Mapping[str, Table], name: str, tick: datetime) -> bool:
    return name in tables and tables[name].cadence.floor(tick) == tick
