"""Finds the tick as of which a query reads several tables, and the instant at which their content was known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.engine.query.views import add_view_tables
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger import Ledger
from waterclock.planner.as_of_errors import (
    can_be_partial,
    no_common_tick_error,
    unknown_windows_error,
    unmade_windows_error,
)
from waterclock.planner.known_states import Conflict, KnownStates, current_history
from waterclock.planner.open_windows import VisibleWindows
from waterclock.planner.planning import Planner
from waterclock.planner.query_ticks import LATEST, Ticks, read_tick
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of

# A history query reads further into the past than it must, to save more queries: by this factor, and at least this far.
_FURTHER = 8
_LEAST = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class RequestedTick:
    """The instant that a user asks for: `tick` as text (see `query_ticks.read_tick`), and `known_at` (None: now).

    Only rows that were committed by `known_at` count. With `is_partial`, missing windows are left out, and reported.
    """

    tick: str
    known_at: datetime | None = None
    zone: str = "UTC"
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class MissingLabels:
    """Consecutive labels of a table that are missing from an answer, from the first to the last."""

    table: str
    first: datetime
    last: datetime
    labels: int


@dataclass(frozen=True, slots=True)
class ResolvedTick:
    """The tick as of which all tables are read, and its limitations.

    `known_at`: only revisions recorded by then count; None: all. `has_pending_restatements`: some batches were
    not made again yet after their inputs were restated, so `known_at` is the last instant at which all agreed.
    `behind`: these batches, by table. `missing`: the labels left out. `awaited`: for the newest tick, the missing
    labels that prevent a newer one, although later labels are made. `shown_open`: the open windows to show, for
    each table that is queried by its view.
    """

    tick: datetime
    known_at: datetime | None = None
    has_pending_restatements: bool = False
    behind: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    missing: tuple[MissingLabels, ...] = ()
    awaited: tuple[MissingLabels, ...] = ()
    shown_open: Mapping[str, VisibleWindows] = field(default_factory=dict)


def list_limitations(moment: ResolvedTick) -> list[str]:
    """Return the limitations of an answer as text: batches not made again after a restatement, and missing labels."""
    texts = []
    if moment.has_pending_restatements and moment.known_at is not None:
        batches = ", ".join(
            f"{name}@{label_of(labels[0])}{f' and {len(labels) - 1} more' if len(labels) > 1 else ''}"
            for name, labels in moment.behind.items()
        )
        texts.append(
            f"as of {label_of(moment.tick)} the answer is as known at {moment.known_at:%Y-%m-%d %H:%M:%SZ}: "
            f"inputs were restated since, and {batches} was not made again; `waterclock recompute` makes it "
            "again"
        )
    texts += [f"without {gap.table}@{label_of(gap.first)}..{label_of(gap.last)}: not made" for gap in moment.missing]
    return texts


def require_tick(flow: Flow, requested: RequestedTick) -> None:
    """Check the tick of a query that reads no table. Raises E106, E511 or E512, as `read_tick` does."""
    read_tick(requested.tick, flow, requested.zone)


def resolve_tick(work: RunContext, tables: Collection[str], requested: RequestedTick) -> ResolvedTick:
    """Resolve the tick and the ledger instant at which a query reads its tables. See `MomentFinder.moment`."""
    return MomentFinder(Planner(work.flow), work.ledger, work.real_now()).moment(tables, requested)


@dataclass(frozen=True, slots=True)
class MomentFinder:
    """Resolves the ticks at which tables can be read together, from one ledger. `now` is the time of its clock."""

    planner: Planner
    ledger: Ledger
    now: datetime

    def moment(self, tables: Collection[str], requested: RequestedTick) -> ResolvedTick:
        """Find the newest moment at which all tables have their content as of a tick, and all their inputs agree.

        The moment's `known_at` is now (None), or the given one. If inputs were restated and some batches were not made
        again yet, it is the last instant before that. All tables share one instant.

        Raises E521 for a tick in the future or before a table's first window, E522 if a window before the tick is not
        made, or was not by then, E518 if RETAIN dropped it, E523 if there is no such tick or instant, and the errors
        of `read_tick`.

        Cost: one snapshot of the ledger. If inputs disagree, or `known_at` is given, also a query of the commits since
        (`ledger.reads.history`). If that does not go back far enough, it is repeated over eight times the span.
        """
        snapshot = self.ledger.reads.snapshot(self.planner.flow)
        ticks, tables = add_view_tables(self.planner.flow, self.ledger, self.planner.ticks(snapshot, self.now), tables)
        wanted_tick = read_tick(requested.tick, self.planner.flow, requested.zone)
        search = _Search(self, ticks, tuple(tables), requested)
        if requested.known_at is not None:
            states = search.known_states(wanted_tick or FOREVER, requested.known_at)
            tick = wanted_tick or ticks.newest_agreed_tick(
                tables, states, requested.known_at, is_partial=requested.is_partial
            )
        else:
            modes = {name: node.table.mode for name, node in self.planner.graph.nodes.items()}
            states = KnownStates(ticks.graph, snapshot, current_history(snapshot, modes, self.now), ticks.starts)
            tick = wanted_tick or ticks.latest(tables, is_partial=requested.is_partial)
            if wanted_tick is None:
                return replace(search.moment(tick, states), awaited=search.find_awaited_gaps())
        return search.moment(tick, states)


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for the tick, and the known-at instant, that answer one request."""

    questions: MomentFinder
    ticks: Ticks
    tables: tuple[str, ...]
    requested: RequestedTick

    def known_states(self, tick: datetime, since: datetime) -> KnownStates:
        """Return the states of tables before a tick, as known at any instant since `since`."""
        requested = dict.fromkeys(self.tables, tick)
        history = self.questions.ledger.reads.history(self.questions.planner.flow, requested, since)
        return KnownStates(self.ticks.graph, self.ticks.snapshot, history, self.ticks.starts)

    def moment(self, tick: datetime, states: KnownStates) -> ResolvedTick:
        """Find the newest instant at which all inputs as of a tick agree, going back restatement by restatement."""
        missing = self.ticks.find_missing_windows(self.tables, tick)
        if any(not self._can_be_missing(name) for name in missing):
            is_newest = self.requested.known_at is not None and self.requested.tick.strip().lower() == LATEST
            raise unmade_windows_error(
                self.ticks, missing, tick, is_partial=self.requested.is_partial, is_newest_known=is_newest
            )
        needs, at = self.ticks.find_kept_intervals(self.tables, tick), self.requested.known_at
        left_out = states.find_missing_windows(needs, at)
        self._require_known_labels(left_out, tick, states)
        conflicts = first = states.conflicts(needs, at)
        while conflicts:
            at = states.find_instant_before_conflicts(conflicts, at)
            if at < states.history.since:
                states = self.known_states(tick, self._history_start(at))
            absent = states.find_missing_windows(needs, at)
            if absent != left_out:
                raise no_common_tick_error(
                    self.ticks, self._sort_conflicts(first), _find_new_gaps(absent, left_out), tick
                )
            conflicts = states.conflicts(needs, at)
        return ResolvedTick(
            tick,
            at,
            has_pending_restatements=bool(first),
            behind=_group_by_table(self._sort_conflicts(first)),
            missing=self._gaps(_merge_spans(missing, left_out)),
            shown_open={
                name: openings.find_visible_windows(tick, states.find_covered_windows(name, at), as_they_were=True)
                for name, openings in self.ticks.opened.items()
            },
        )

    def find_awaited_gaps(self) -> tuple[MissingLabels, ...]:
        """Return missing labels that prevent newer ticks although later labels exist. Empty if gaps are allowed."""
        if self.requested.is_partial:
            return ()
        found = self.ticks.find_awaited_windows(self.tables)
        return self._gaps({name: IntervalSet.from_intervals([gap]) for name, gap in found.items()})

    def _require_known_labels(self, left_out: Mapping[str, IntervalSet], tick: datetime, states: KnownStates) -> None:
        """Raise an error if labels in `left_out` were not made yet at the requested `known_at`."""
        for name, gaps in left_out.items():
            if self.requested.known_at is not None and not self._can_be_missing(name):
                node = self.ticks.graph.nodes[name]
                first = states.first_record_time(name, node.table.cadence.floor(next(iter(gaps))[0]))
                raise unknown_windows_error(node, gaps, tick, self.requested.known_at, first)

    def _can_be_missing(self, name: str) -> bool:
        return self.requested.is_partial and can_be_partial(self.ticks.graph.nodes[name])

    def _history_start(self, at: datetime) -> datetime:
        """Return a start for the next history query, well before the instant `at`."""
        passed = max(self.questions.now - at, _LEAST)
        return max(BEGINNING, at - _FURTHER * passed)

    def _sort_conflicts(self, conflicts: Collection[Conflict]) -> list[Conflict]:
        nodes = self.ticks.graph.nodes
        return sorted(conflicts, key=lambda each: (nodes[each.table].rank, each.label))

    def _gaps(self, missing: Mapping[str, IntervalSet]) -> tuple[MissingLabels, ...]:
        found = []
        for name, gaps in missing.items():
            cadence = self.ticks.graph.nodes[name].table.cadence
            found += [MissingLabels(name, low, cadence.previous(high), cadence.count(low, high)) for low, high in gaps]
        return tuple(found)


def _find_new_gaps(missing: Mapping[str, IntervalSet], left_out: Mapping[str, IntervalSet]) -> dict[str, IntervalSet]:
    """Return the missing windows by table that are not in `left_out`."""
    found = {name: gaps - left_out.get(name, IntervalSet()) for name, gaps in missing.items()}
    return {name: gaps for name, gaps in found.items() if gaps}


def _group_by_table(conflicts: Collection[Conflict]) -> dict[str, tuple[datetime, ...]]:
    found: dict[str, dict[datetime, None]] = {}
    for conflict in conflicts:
        found.setdefault(conflict.table, {})[conflict.label] = None
    return {name: tuple(labels) for name, labels in found.items()}


def _merge_spans(some: Mapping[str, IntervalSet], others: Mapping[str, IntervalSet]) -> dict[str, IntervalSet]:
    return {name: some.get(name, IntervalSet()) | others.get(name, IntervalSet()) for name in (*some, *others)}
