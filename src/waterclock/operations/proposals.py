"""Proposed actions on batches: the exact batches, their order and their cost.

A proposal is shown to a user first. Its digest covers each of its batches, so that the user's decision applies to
exactly these.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from waterclock.batches.ledger_snapshot import FOLLOW
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Kind
from waterclock.flow.graph import late_tables, other_part
from waterclock.flow.open_windows import open_windows_table
from waterclock.ledger.ledger import Ledger
from waterclock.operations.backfilling import find_prerequisite_batches, missing_labels
from waterclock.operations.held_batches import find_held_labels, releasable_labels
from waterclock.operations.held_restatements import RELEASE_OF_RESTATEMENT, select_held
from waterclock.operations.pausing import TablesToPause, due_of, pause, resume, to_pause, to_resume
from waterclock.operations.project_opening import OpenedProject, no_ledger_error, one_table, select_batches
from waterclock.operations.replaying import find_replayable_labels
from waterclock.operations.required_reasons import need_reason, need_reason_of_release
from waterclock.operations.restating import Asking, build_requests, done_labels, labels_of_sources, require_at_most
from waterclock.operations.retrying import (
    find_batches_to_retry,
    find_blocked_batches,
    find_partial_batches,
    plan_of_readers,
)
from waterclock.operations.skipping import find_other_windows, skip
from waterclock.operations.withdrawing import find_shortened_windows, find_withdrawable
from waterclock.permissions.users_and_roles import Person, Right, require_right
from waterclock.planner.estimate import Estimate, cost_of
from waterclock.selection import parse_labels
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

Windows = Mapping[str, tuple[Window, ...]]


class _AffectedBatches(NamedTuple):
    """The requested batches, the other batches that will run, and the restate requests to record in the ledger."""

    requested: Windows
    following: Windows
    asking: Asking | None = None
    of_tables: TablesToPause | None = None


class Verb(StrEnum):
    """The actions on batches that a user can request."""

    RETRY = "retry"
    RECOMPUTE = "recompute"
    RECOLLECT = "recollect"
    REPLAY = "replay"
    RELEASE = "release"
    BACKFILL = "backfill"
    SKIP = "skip"
    WITHDRAW = "withdraw"
    PAUSE = "pause"
    RESUME = "resume"


def right_of(verb: Verb) -> Right:
    """Return the right that a person needs for an action."""
    return Right.RELEASE if verb in {Verb.RELEASE, Verb.WITHDRAW} else Right.RUN


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed action and its consequences.

    `requested`: the requested batches. `following`: other batches that will run: missing inputs, and readers of the
    requested batches, including readers that run only if the rows differ. Both are by table, upstream first and oldest
    first. `steps`: the position of each table in the order. `may_differ`: whether existing rows are made again.
    `command`: the equivalent command line without the reason. `asking`: the restate requests for the ledger, by verb
    and table. `of_tables`: the tables to pause or resume; `requested` are then their due batches.
    """

    verb: Verb
    requested: Windows
    following: Windows
    steps: Mapping[str, int]
    cost: Estimate
    command: str
    may_differ: bool = False
    asking: Asking = field(default_factory=dict)
    of_tables: TablesToPause | None = None

    @property
    def is_possible(self) -> bool:
        """Whether the action would change anything."""
        return self.count > 0 if self.of_tables is None else self.of_tables.has_changes

    @property
    def count(self) -> int:
        """The number of requested batches."""
        return sum(map(len, self.requested.values()))

    @property
    def all(self) -> dict[str, tuple[Window, ...]]:
        """The requested and the following batches together, by table, upstream first."""
        return {
            name: tuple(sorted({*self.requested.get(name, ()), *self.following.get(name, ())})) for name in self.steps
        }

    @property
    def digest(self) -> str:
        """A hash that identifies the verb and exactly these batches, or for a pause or resume these tables."""
        if self.of_tables is not None:
            names = ["*"] if self.of_tables.is_of_all else sorted(self.of_tables.names)
            return sha256("\n".join([self.verb, *names]).encode()).hexdigest()[:16]
        labels = [
            f"{name}@{window.label}"
            for of in (self.requested, self.following)
            for name in sorted(of)
            for window in of[name]
        ]
        return sha256("\n".join([self.verb, *labels]).encode()).hexdigest()[:16]


def propose(at: OpenedProject, verb: str, selection: str, labels: str | None, most: int | None = None) -> Proposal:
    """Compute what an action would do, without doing it. Raises E510 to E519; E525 above `most` batches, E910."""
    try:
        wanted = Verb(verb)
    except ValueError:
        fix = did_you_mean(verb, list(Verb), otherwise=f"name one of {', '.join(Verb)}")
        raise WaterclockError("E910", f"{verb!r} is not an action on batches", fix=fix) from None
    requested, following, requests, of_tables = _FINDERS[wanted](at, selection, labels, most)
    made = {} if wanted in _MAKES_NOTHING else requested
    both = {
        name: len({*made.get(name, ()), *following.get(name, ())})
        for name in _upstream_first(at.flow, {*requested, *following})
    }
    # batches that a rule held are made already, and cost nothing more
    is_made = wanted is Verb.RELEASE and not requests
    work = {name: len(following.get(name, ())) for name in both} if is_made else both
    of = (f"{selection}@{labels}",) if wanted is Verb.RELEASE and labels else (selection, labels)
    words = ["waterclock", wanted.value, *filter(None, of), *_REQUEST_OPTIONS.get(wanted, ())]
    return Proposal(
        verb=wanted,
        requested=requested,
        following=following,
        steps=_number_steps(at.flow, both),
        cost=cost_of(work, at.snapshot),
        command=shlex.join(words),
        may_differ=wanted not in _MAKES_NOTHING
        and any(_is_covered(at, name, window.start) for name, windows in requested.items() for window in windows),
        asking=requests or {},
        of_tables=of_tables,
    )


def decide(at: OpenedProject, proposal: Proposal, *, by: Person, why: str) -> None:
    """Record a person's decision for a proposal in the ledger. A runner carries it out when it plans next.

    Raises E940 without the right, E412 before the first run, E413 to skip a done batch, E903 without a reason.
    """
    require_right(by, right_of(proposal.verb), f"{proposal.verb} batches", at.project.access)
    who = by.name
    if at.ledger is None:
        raise no_ledger_error()
    if need := _REASON_CHECKS.get(proposal.verb):
        need(why)
    if proposal.of_tables is not None:
        carry = pause if proposal.verb is Verb.PAUSE else resume
        carry(at.ledger, proposal.of_tables, who=who, why=why)
        return
    labels = {name: tuple(window.start for window in windows) for name, windows in proposal.requested.items()}
    decisions = at.ledger.decisions
    simple = {Verb.BACKFILL: decisions.request_backfill, Verb.RELEASE: decisions.request_release}
    if proposal.verb in simple and not proposal.asking:
        for name, found in labels.items():
            simple[proposal.verb](name, found, who=who, why=why)
    elif proposal.verb is Verb.RETRY:
        for name, found in labels.items():
            late, speed_table = late_tables(at.flow, name), open_windows_table(at.flow, name)
            states = None if speed_table is None else speed_table.name
            decisions.retry(name, found, late_tables=late, open_windows=states, who=who, why=why)
    elif proposal.verb is Verb.SKIP:
        for name, windows in proposal.requested.items():
            skip(at.ledger, at.flow.tables[name], windows, who=who, why=why)
    elif proposal.verb is Verb.WITHDRAW:
        _withdraw(at, at.ledger, labels, who=who, why=why)
    else:
        for (verb, name), labels_to_request in proposal.asking.items():
            shown_verb = str(Verb.REPLAY) if proposal.verb is Verb.REPLAY and verb == Verb.RECOMPUTE else ""
            shown_verb = RELEASE_OF_RESTATEMENT if proposal.verb is Verb.RELEASE else shown_verb
            is_retry = verb != FOLLOW
            decisions.request_restate(
                name, sorted(labels_to_request), verb, who=who, why=why, command=shown_verb, is_retry=is_retry
            )


def find_publishes(flow: Flow, proposal: Proposal) -> dict[str, str]:
    """Return the publishes among the batches, with their destinations: delivered rows may have been read already."""
    return {name: str(flow.tables[name].destination) for name in proposal.all if flow.tables[name].kind is Kind.PUBLISH}


def _retry(at: OpenedProject, selection: str, labels: str | None, most: int | None) -> _AffectedBatches:
    cleared = find_batches_to_retry(at, selection, labels)
    blocked = find_blocked_batches(plan_of_readers(at, cleared), cleared)
    made = {name: {*cleared.get(name, ()), *blocked.get(name, ())} for name in {*cleared, *blocked}}
    partial = find_partial_batches(at, made)
    older = _find_older_parts(at, cleared)
    with_rows = {
        name: {
            *(label for label in cleared.get(name, ()) if _is_covered(at, name, label)),
            *partial.get(name, ()),
            *older.get(name, ()),
        }
        for name in {*cleared, *partial, *older}
    }
    # these batches have earlier rows, which readers may have used
    dependents = _restate(at, Verb.RECOMPUTE, with_rows, most).following
    following = {
        name: {
            *blocked.get(name, ()),
            *partial.get(name, ()),
            *older.get(name, ()),
            *_to_labels(dependents.get(name, ())),
        }
        for name in {*blocked, *partial, *older, *dependents}
    }
    others = {name: of_table - cleared.get(name, frozenset()) for name, of_table in following.items()}
    return _AffectedBatches(_to_windows(at.flow, cleared), _to_windows(at.flow, others))


def _find_older_parts(at: OpenedProject, found: Mapping[str, frozenset[datetime]]) -> dict[str, frozenset[datetime]]:
    """Return the labels of `found` that the other table of APART has, made by older code: they are made again, too."""
    older: dict[str, frozenset[datetime]] = {}
    for name, labels in found.items():
        other = other_part(at.flow, name)
        if other is not None and at.ledger is not None:
            made = at.ledger.past.made_labels(other, min(labels), at.now)
            code = at.flow.tables[other].fingerprint
            older[other] = labels.intersection(label for label, of_label in made if of_label != code)
    return older


def _backfill(at: OpenedProject, selection: str, labels: str | None, most: int | None) -> _AffectedBatches:
    missing = missing_labels(at, selection, labels, most)
    return _AffectedBatches(_to_windows(at.flow, missing), _to_windows(at.flow, find_prerequisite_batches(at, missing)))


def _recompute(at: OpenedProject, selection: str, labels: str | None, most: int | None) -> _AffectedBatches:
    return _restate(at, Verb.RECOMPUTE, done_labels(at, selection, labels, most), most)


def _recollect(at: OpenedProject, selection: str, labels: str | None, most: int | None) -> _AffectedBatches:
    return _restate(at, Verb.RECOLLECT, labels_of_sources(at, selection, labels, most), most)


def _replay(at: OpenedProject, selection: str, labels: str | None, most: int | None) -> _AffectedBatches:
    return _restate(at, Verb.RECOMPUTE, find_replayable_labels(at, selection, labels), most)


def _release(at: OpenedProject, selection: str, labels: str | None, _: int | None) -> _AffectedBatches:
    """Find held batches, and the batches that wait for them. The next run makes the held rows visible unchanged.

    Batches that cannot be released any more are left out: they must be made again. If no rule holds a batch of the
    selection, find the labels that a limit of ON RESTATE holds: the next run makes them again.
    """
    found = find_held_labels(at, selection, labels)
    if not found:
        return _release_restatements(at, selection, labels)
    plan = plan_of_readers(at, found)
    of_tables = {name: releasable_labels(plan, name).intersection(of) for name, of in found.items()}
    held = {name: of_table for name, of_table in of_tables.items() if of_table}
    freed = find_blocked_batches(plan, held)
    others = {name: {*of_table} - held.get(name, frozenset()) for name, of_table in freed.items()}
    return _AffectedBatches(_to_windows(at.flow, held), _to_windows(at.flow, others))


def _release_restatements(at: OpenedProject, selection: str, labels: str | None) -> _AffectedBatches:
    """Find the labels that a limit of ON RESTATE holds, and the batches that may have to be made again after them."""
    selected, by_table = select_batches(at.flow, [selection], labels)
    held = {name: select_held(at, name, by_table.get(name)) for name in selected.tables}
    found = {name: it.labels for name, it in held.items() if it is not None}
    if not found:
        return _AffectedBatches({}, {})
    ripple = at.planner.ripple(at.snapshot, at.now, found)
    return _AffectedBatches(ripple.requested, ripple.following, {(FOLLOW, name): of for name, of in found.items()})


def _restate(
    at: OpenedProject, verb: Verb, found: Mapping[str, Iterable[datetime]], most: int | None
) -> _AffectedBatches:
    wanted = {name: tuple(labels) for name, labels in found.items() if labels}
    if at.ledger is None or not wanted:
        return _AffectedBatches({}, {})
    requests, snapshot = build_requests(at, at.ledger, verb, wanted, most)
    ripple = at.planner.ripple(snapshot, at.now, wanted)
    return _AffectedBatches(ripple.requested, ripple.following, requests)


def _skip(at: OpenedProject, selection: str, labels: str | None, most: int | None) -> _AffectedBatches:
    name, behind = one_table(at.flow, selection)
    selected = behind or parse_labels(labels or "")
    table = at.flow.tables[name]
    start = at.planner.starts(at.snapshot, at.now)[name]
    low, high = selected.limit_to(table, start, table.cadence.last_due(at.now))
    require_at_most(most, table.cadence.count(low, high))
    windows = tuple(table.cadence.windows(low, high))
    done = [] if at.ledger is None else [cell for cell in at.ledger.past.grid([name], low, high) if cell.current_claim]
    if done:
        raise WaterclockError(
            "E413",
            f"{name}@{label_of(done[0].label)} cannot be skipped",
            where=f"{name}@{label_of(done[0].label)}",
            why="it is done, and other tables may have read its rows",
            fix=f"`waterclock recompute {name}@{label_of(done[0].label)}` makes it again",
        )
    both = {name: windows, **find_other_windows(at.flow, at.ledger, table, windows)}
    labels_of = {each: _to_labels(of_table) for each, of_table in both.items()}
    freed = find_blocked_batches(plan_of_readers(at, both), labels_of)
    return _AffectedBatches(_to_windows(at.flow, labels_of), _to_windows(at.flow, freed))


def _find_withdrawal(at: OpenedProject, selection: str, labels: str | None, _: int | None) -> _AffectedBatches:
    return _AffectedBatches(_to_windows(at.flow, find_withdrawable(at, selection, labels)), {})


def _withdraw(
    at: OpenedProject, ledger: Ledger, labels: Mapping[str, Collection[datetime]], *, who: str, why: str
) -> None:
    """Withdraw requests.

    Also withdraw the requests to recompute older states (FOLLOW) that were made only because of these.
    """
    for name, found in labels.items():
        is_of_late_rows = at.flow.tables[name].late_rows is not None
        shortened = find_shortened_windows(at, ledger, name, found)
        ledger.decisions.withdraw(name, found, is_of_late_rows=is_of_late_rows, shortened=shortened, who=who, why=why)
    for name, followed in at.planner.find_labels_to_follow(ledger.reads.snapshot(at.flow), at.now).items():
        ledger.decisions.end_following(name, followed, who=who)


def _pause(at: OpenedProject, selection: str, labels: str | None, _: int | None) -> _AffectedBatches:
    of = to_pause(at, selection, labels)
    return _AffectedBatches(_to_windows(at.flow, due_of(at, of)), {}, None, of)


def _resume(at: OpenedProject, selection: str, labels: str | None, _: int | None) -> _AffectedBatches:
    of = to_resume(at, selection, labels)
    return _AffectedBatches(_to_windows(at.flow, due_of(at, of)), {}, None, of)


_FINDERS = {
    Verb.RETRY: _retry,
    Verb.RECOMPUTE: _recompute,
    Verb.RECOLLECT: _recollect,
    Verb.REPLAY: _replay,
    Verb.RELEASE: _release,
    Verb.BACKFILL: _backfill,
    Verb.SKIP: _skip,
    Verb.WITHDRAW: _find_withdrawal,
    Verb.PAUSE: _pause,
    Verb.RESUME: _resume,
}
_MAKES_NOTHING = frozenset({Verb.SKIP, Verb.WITHDRAW, Verb.PAUSE, Verb.RESUME})
_REASON_CHECKS = {Verb.SKIP: need_reason, Verb.RELEASE: need_reason_of_release}


# without this option, `waterclock VERB` runs the batches itself; from the pages, a runner does
_REQUEST_OPTIONS = dict.fromkeys((Verb.RETRY, Verb.RECOMPUTE, Verb.RECOLLECT, Verb.REPLAY), ("--no-run",))


def _to_windows(flow: Flow, found: Mapping[str, Iterable[datetime]]) -> dict[str, tuple[Window, ...]]:
    names = [name for name in _upstream_first(flow, found) if found[name]]
    return {name: tuple(map(flow.tables[name].cadence.window_of, sorted(found[name]))) for name in names}


def _to_labels(windows: Iterable[Window]) -> frozenset[datetime]:
    return frozenset(window.start for window in windows)


def _is_covered(at: OpenedProject, name: str, label: datetime) -> bool:
    return at.snapshot.of(name).covered.covers_instant(label)


def _upstream_first(flow: Flow, names: Iterable[str]) -> list[str]:
    wanted = set(names)
    return [name for name in flow.order if name in wanted]


def _number_steps(flow: Flow, names: Iterable[str]) -> dict[str, int]:
    """Number the tables by their order of execution: each is a step after all tables that it reads, even indirectly."""
    wanted = set(names)
    depth: dict[str, int] = {}
    for name in flow.order:
        before = max((depth[read.table] for read in flow.tables[name].reads if read.table in depth), default=0)
        depth[name] = before + (name in wanted)
    return {name: depth[name] for name in flow.order if name in wanted}
