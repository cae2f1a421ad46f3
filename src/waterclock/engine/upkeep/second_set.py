"""Sets up a second set of all tables next to the live ones: with its own ledger and lake, starting from one cut.

The cut consists of the collected slices. They are read in place, or linked into the new set if the table's changed mode
gives other rows from them. Transforms start empty and are made by an ordinary run, which claims nothing in the
project's own ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter

from waterclock.batches.ledger_snapshot import Closing, LedgerSnapshot
from waterclock.engine.run_context import RunContext
from waterclock.engine.runner import Runner
from waterclock.engine.upkeep.seeded_tables import bring, build_commit_record
from waterclock.filesystem import entry_path
from waterclock.flow.choices import Kind, Mode
from waterclock.flow.declarations import Flow, Table
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.signatures import Difference
from waterclock.ledger.read.whole_set import Current
from waterclock.planner.closings import until_reads
from waterclock.planner.open_windows import requested_open_labels
from waterclock.planner.plan import Plan, Status
from waterclock.storage.lake import Lake

# below the storage: everything that a rebuild stores before its tables are moved in
PLACE = "rebuild"
_ALL = 1 << 30
_LATEST = "LATEST("


@dataclass(frozen=True, slots=True)
class SetLake(Lake):
    """A lake next to another, in which some tables are those of the other."""

    live: Lake
    live_tables: frozenset[str]

    def folder(self, table: str) -> str:
        """Return the absolute folder of a table: here, or the live one."""
        return self.live.folder(table) if table in self.live_tables else Lake.folder(self, table)


@dataclass(frozen=True, slots=True)
class Cut:
    """The start of a rebuild of all tables: the live content of each table of the flow.

    `differing` has the changes of declarations. `collected` are the current slices of each COLLECT. `kept` are, by
    transform, the labels with inputs that RETAIN has dropped: they stay as they are.
    """

    flow: Flow
    now: datetime
    differing: Mapping[str, Sequence[Difference]]
    collected: Mapping[str, Sequence[Current]]
    held: Mapping[str, Sequence[Current]]
    kept: dict[str, frozenset[datetime]] = field(default_factory=dict)

    @property
    def transforms(self) -> tuple[str, ...]:
        """The tables that are made again, upstream first."""
        return tuple(name for name in self.flow.order if self.flow.tables[name].kind is Kind.TRANSFORM)

    @property
    def recut_collects(self) -> tuple[str, ...]:
        """The collected tables whose slices now mean other rows."""
        return tuple(name for name in self.collected if name in self.differing)

    def has_other_windows(self, name: str) -> bool:
        """Return whether a table's slices are of other windows than its current ones."""
        return any(what in {"cadence", "zone"} for what, _, _ in self.differing.get(name, ()))

    def is_recut(self, name: str) -> bool:
        """Return whether the labels of a table now mean something else, so that none of its rows are kept."""
        return name in self.differing


def cut_of(work: RunContext, now: datetime) -> Cut:
    """Return the current content of all tables, for the flow without its publishes."""
    keeping = work.ledger.keeping
    tables = {name: table for name, table in work.flow.tables.items() if table.kind is not Kind.PUBLISH}
    flow = replace(work.flow, tables=tables, order=tuple(name for name in work.flow.order if name in tables))
    held = {name: keeping.current_of(name) for name in flow.order}
    return Cut(
        flow=flow,
        now=now,
        differing={name: found for name, found in keeping.differences(work.flow).items() if name in tables},
        collected={name: held[name] for name in flow.order if tables[name].kind is Kind.COLLECT and held[name]},
        held={name: held[name] for name in flow.order if tables[name].kind is Kind.TRANSFORM},
    )


def beside(live: RunContext, cut: Cut, ledger: Ledger) -> RunContext:
    """Return a run context for the second set. Its ledger has the collected slices, and nothing made from them."""
    lives_on = frozenset(cut.collected) - set(cut.recut_collects)
    lake = SetLake(str(entry_path(live.lake.root, PLACE)), live.lake, lives_on)
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
        if not cut.is_recut(name):
            dropped = snapshot.of(name).dropped_before
            ledger.keeping.seed_past(name, dropped_before=dropped, skipped=live.ledger.keeping.skipped_windows(name))
            if cut.flow.tables[name].closes is not None:  # new ticks would lose rows or duplicate them
                ledger.decisions.close_books(name, _read_closings(live, cut.flow.tables[name]), who=live.settings.who)
    for name in lives_on:
        record = live.ledger.reads.table(name)
        found = build_commit_record(work, cut.flow.tables[name], cut.collected[name])
        states = None if cut.flow.tables[name].mode is Mode.APPEND else live.ledger.reads.versions(name)
        ledger.keeping.seed([found], head_version=record.head_version, states=states)
    return work


def _read_closings(live: RunContext, table: Table) -> list[tuple[datetime, Closing]]:
    """Return the closing ticks of the live set, oldest first. Old windows have them only in their inputs."""
    names = {str(read) for read in until_reads(table)}
    found: dict[datetime, Closing] = {}
    for label, reads in live.ledger.keeping.inputs_by_label(table.name).items():
        ends = [read.high for read in reads if read.read in names]
        found |= {label: Closing(max(ends))} if ends else {}
    found |= {label: it for label, it in live.ledger.reads.closings(table.name).items() if it.tick is not None}
    return sorted(found.items(), key=itemgetter(0))


def look_ahead(live: RunContext, cut: Cut, work: RunContext, brought: Mapping[str, Sequence[Current]]) -> Plan:
    """Return the plan of everything to make, as if all collected slices existed. `brought` are cut into new windows."""
    for name, current in brought.items():
        if current:
            work.ledger.keeping.seed([build_commit_record(work, cut.flow.tables[name], current)], head_version=0)
    runner = _SetRunner(work, cut, _find_latest_ticks(live, cut))
    return runner.plan(cut.now)


def keep_what_cannot_be_made(live: RunContext, cut: Cut, work: RunContext) -> None:
    """Link the labels with inputs that RETAIN has dropped into the new set: they cannot be made again."""
    plan = _SetRunner(work, cut, _find_latest_ticks(live, cut)).plan(cut.now)
    expired: dict[str, set[datetime]] = {}
    for batch in plan.batches:
        if batch.status is Status.EXPIRED:
            expired.setdefault(batch.table, set()).add(batch.label)
    for name, labels in expired.items():
        pieces = [each for each in cut.held[name] if each.result.label in labels]
        if pieces and not cut.is_recut(name):
            cut.kept[name] = frozenset(each.result.label for each in pieces)
            bring(live, work, cut.flow.tables[name], pieces)


class _SetRunner(Runner):
    """Makes the transforms of the second set. LATEST keeps the ticks that it chose at first."""

    def __init__(
        self, work: RunContext, cut: Cut, picked: Mapping[str, Mapping[datetime, Mapping[str, datetime]]]
    ) -> None:
        force = _stored_states(cut)
        super().__init__(work, only=cut.transforms, force=force)
        self._states = requested_open_labels(work.flow, force)
        self._beside, self._picked = work, picked

    def snapshot(self) -> LedgerSnapshot:
        """Return the past of the second set, with the live LATEST ticks. Linked projects do not affect it."""
        known = self._beside.ledger.reads.snapshot(self._beside.flow, asking=self._states)
        tables = dict(known.tables)
        for name, picked in self._picked.items():
            tables[name] = replace(known.of(name), latest={**picked, **known.of(name).latest})
        return replace(known, tables=tables)


def runner_beside(live: RunContext, cut: Cut, work: RunContext) -> Runner:
    """Return the runner that makes the second set."""
    return _SetRunner(work, cut, _find_latest_ticks(live, cut))


def _stored_states(cut: Cut) -> Mapping[str, frozenset[datetime]]:
    """Return the existing states of REPLACE transforms: older ones are made again too, even if no reader needs them."""
    return {
        name: frozenset(each.result.label for each in current)
        for name, current in cut.held.items()
        if cut.flow.tables[name].mode is Mode.REPLACE and not cut.is_recut(name)
    }


def _find_latest_ticks(live: RunContext, cut: Cut) -> Mapping[str, Mapping[datetime, Mapping[str, datetime]]]:
    """Return by table and label the ticks that LATEST has chosen, if they are still boundaries."""
    found: dict[str, dict[datetime, dict[str, datetime]]] = {}
    for name, table in cut.flow.tables.items():
        if cut.is_recut(name) or not any(str(read).startswith(_LATEST) for read in table.reads):
            continue
        for label, reads in live.ledger.keeping.inputs_by_label(name).items():
            for read in reads:
                if read.read.startswith(_LATEST) and _is_boundary(cut.flow.tables, read.table, read.high):
                    found.setdefault(name, {}).setdefault(label, {})[read.table] = read.high
    return found


def _is_boundary(tables: Mapping[str, Table], name: str, tick: datetime) -> bool:
    return name in tables and tables[name].cadence.floor(tick) == tick
