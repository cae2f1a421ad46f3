"""Rebuilds every table from one cut of the stage, next to the live ones, and moves all of them in at once.

From the cut on no batch of the project is claimed, so that the live content equals the cut. Data that arrives in the
meantime is collected afterwards. If the rebuild is killed before the move, the old set stays, and the next rebuild
starts over and removes the leftovers. If it is killed during the move, `query` reads the old set until a runner
finishes the move.
"""

from __future__ import annotations

import errno
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from waterclock.batches.rebuilding import Rebuilding
from waterclock.engine.damage import telling_damage
from waterclock.engine.heartbeat import Heartbeat
from waterclock.engine.left_claims import left_claims
from waterclock.engine.progress import GroupReport
from waterclock.engine.runner import RunOutcome
from waterclock.engine.runner_name import has_ended
from waterclock.engine.upkeep.move_set import carry_on, prepare, publishes_declared_anew, unlink, write_down
from waterclock.engine.upkeep.recut import pieces_of, recut, results_of, why_not
from waterclock.engine.upkeep.repair import missing_column_error
from waterclock.engine.upkeep.second_set import (
    PLACE,
    Cut,
    beside,
    bring,
    cut_of,
    keep_what_cannot_be_made,
    look_ahead,
    runner_beside,
)
from waterclock.engine.workplace import Workplace
from waterclock.errors import WaterclockError, causes_of, raise_all
from waterclock.faults import fault
from waterclock.filesystem import at, is_folder, remove_folder
from waterclock.flow.choices import Kind, Mode
from waterclock.flow.declarations import Table
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.signatures import Difference
from waterclock.ledger.read.whole_set import Current
from waterclock.ledger.refusals import already_claimed_error
from waterclock.ledger.refused_rebuilds import cannot_follow, cannot_sort, not_whole
from waterclock.ledger.write.rebuilding import at_work
from waterclock.ownership import make_private_folder
from waterclock.planner.estimate import Estimate, estimate
from waterclock.planner.plan import Plan
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of

_LOOK_SECONDS = 0.5
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
# of Java and system libraries; of SQLite; of our own errors
_SAID_OF_FULL = ("No space left on device", "database or disk is full", "the disk is full")
_MOST_RUNS = 3  # a failure for a transient reason is retried


@dataclass(frozen=True, slots=True)
class Prospect:
    """The forecast of a rebuild: the batches it makes, their cost, and the current size of the tables it makes."""

    cut: Cut
    plan: Plan
    cost: Estimate
    bytes: int


@dataclass(frozen=True, slots=True)
class RemadeAll:
    """The result of a rebuild of all tables: the tables moved in, the batches and rows made, and the labels kept.

    `carried_on`: it only finished the move of a killed rebuild, and made nothing itself.
    """

    tables: tuple[str, ...]
    batches: int = 0
    rows: int = 0
    kept: int = 0
    carried_on: bool = False


def prospect(work: Workplace, now: datetime) -> Prospect:
    """Return the batches that a rebuild would make, and their cost. Changes nothing.

    Raises  E431, E432 for declarations that it cannot apply, all of them together; E644 where another rebuild is
            running
    """
    refuse_at_work(work)
    cut = cut_of(work, now)
    refuse_impossible(work, cut)
    with Ledger.open("sqlite://") as ledger:
        plan = look_ahead(work, cut, beside(work, cut, ledger), _ahead(work, cut))
    snapshot = work.ledger.reads.snapshot(work.flow)
    weight = sum(each.result.bytes for name in cut.transforms for each in cut.held[name])
    return Prospect(cut, plan, estimate(plan, snapshot), weight)


def refuse_at_work(work: Workplace) -> None:
    """Raise an error if another rebuild is running. Raises  E644."""
    known = work.ledger.keeping.current_rebuilding()
    if known is not None and not is_left(known) and known.is_blocking(work.real_now()):
        raise at_work(known)


def is_left(known: Rebuilding) -> bool:
    """Return whether the owner of the rebuild lock is certainly gone."""
    return has_ended(known.runner)


def carry_on_left(work: Workplace) -> tuple[str, ...]:
    """Finish the move of a killed rebuild, or release the lock of one that had not started its move.

    Returns the tables that were moved in. Cost: a ledger query if there is no such rebuild.
    """
    known = work.ledger.keeping.current_rebuilding()
    if known is None or known.is_done or not (is_left(known) or known.until < work.real_now()):
        return ()
    if known.is_moving:
        try:
            return carry_on(work)
        except Exception:
            now = work.ledger.keeping.current_rebuilding()
            if now is not None and now.is_moving and now.token == known.token:
                raise
            return ()  # another runner has finished it in the meantime
    if work.ledger.keeping.end_rebuilding(known.token, who=work.settings.who, why=f"{known.runner} has ended"):
        work.listener.on_message(
            f"the rebuild of all tables by {known.runner} was given up: the old tables stay in use"
        )
    return ()


@telling_damage
def rebuild_all(work: Workplace, now: datetime) -> RemadeAll:
    """Rebuild every table as of the cut at `now`, and move all of them in.

    If an earlier rebuild was killed during its move, that move is finished instead.

    Raises  E431, E432 for declarations that it cannot apply, E433 where a batch failed that is done in the live set,
            E644 where another rebuild is running, E645 where the disk is full; the old set stays in these cases
    """
    refuse_at_work(work)
    if tables := carry_on_left(work):
        return RemadeAll(tables, carried_on=True)
    token = uuid.uuid4().hex
    settings = work.settings
    work.ledger.keeping.begin_rebuilding(token, runner=settings.runner, who=settings.who, lease_seconds=settings.lease)
    linked: list[tuple[str, int]] = []
    try:
        with _RebuildLock(work, token), Heartbeat(work):
            return _remake_tables(work, token, now, linked)
    except Exception as raised:
        error = _no_room(work, raised)
        if not _give_up(work, token, linked, why=str(raised)) and error is not None:
            error.fix = "free disk space, then `waterclock rebuild --all` finishes the move of the tables"
        if error is not None:
            raise error from raised
        raise


def _give_up(work: Workplace, token: str, linked: Sequence[tuple[str, int]], *, why: str) -> bool:
    """Remove the files of this rebuild, and release its lock. False if it is in its move, or has lost the lock."""
    known = work.ledger.keeping.current_rebuilding()
    if known is None or known.token != token or known.is_moving or known.is_done:
        return False
    with suppress(Exception):  # the next rebuild removes leftovers
        unlink(work, linked)
        remove_leftovers(work)
    # Only then: if the ledger is on the same full disk, nothing can be written before there is space.
    with suppress(WaterclockError):  # the next runner releases the lock of one that has ended
        work.ledger.keeping.end_rebuilding(token, who=work.settings.who, why=why)
    return True


def _remake_tables(work: Workplace, token: str, now: datetime, linked: list[tuple[str, int]]) -> RemadeAll:
    remove_leftovers(work)
    _await_quiet(work)
    cut = cut_of(work, now)
    refuse_impossible(work, cut)
    fault("rebuild.cut")
    path = work.project.work_folder / PLACE
    make_private_folder(path)
    with Ledger.open(f"sqlite:///{path / 'ledger.db'}") as ledger:
        other = beside(work, cut, ledger)
        _bring_collected(work, cut, other)
        keep_what_cannot_be_made(work, cut, other)
        outcome = _run(work, cut, other)
        refuse_incomplete(work, cut, other, outcome)
        fault("rebuild.made")
        moves = prepare(work, cut, other, linked)
    changed = work.ledger.keeping.differences(work.flow)
    moves += publishes_declared_anew(work, changed)
    write_down(work, token, moves, _list_changed_publishes(work, cut))
    work.ledger.keeping.begin_moving(token)
    fault("rebuild.moving")
    names = tuple(name for name in carry_on(work) if name in cut.flow.tables)
    remove_leftovers(work)
    fault("rebuild.cleaned")
    return RemadeAll(names, outcome.done, outcome.rows, sum(map(len, cut.kept.values())))


def _ahead(work: Workplace, cut: Cut) -> dict[str, Sequence[Current]]:
    """Return the future slices of tables whose collected slices now mean other rows."""
    tables = cut.flow.tables
    return {
        name: results_of(pieces_of(work, tables[name], cut.collected[name]))
        if cut.has_other_windows(name)
        else cut.collected[name]
        for name in cut.recut_collects
    }


def _bring_collected(work: Workplace, cut: Cut, other: Workplace) -> None:
    """Bring the collected slices of changed tables into the second set: by links, or cut into their new windows."""
    for name in cut.recut_collects:
        table, current = cut.flow.tables[name], cut.collected[name]
        if cut.has_other_windows(name):
            recut(work, other, table, current)
        else:
            bring(work, other, table, current)


def remove_leftovers(work: Workplace) -> None:
    """Remove the leftovers of failed and of finished rebuilds."""
    for place in (at(work.lake.root, PLACE), work.project.work_folder / PLACE):
        if is_folder(place):
            remove_folder(place)


def _run(work: Workplace, cut: Cut, other: Workplace) -> RunOutcome:
    total = RunOutcome()
    for _ in range(_MOST_RUNS):
        outcome = runner_beside(work, cut, other).run_once(cut.now)
        total.done += outcome.done
        total.rows += outcome.rows
        total.failed, total.plan, total.unsettled = outcome.failed, outcome.plan, outcome.unsettled
        if not any(report.error is not None and report.error.transient for report in outcome.failed):
            break
    return total


def refuse_impossible(work: Workplace, cut: Cut) -> None:
    """Raise errors for declarations that no rebuild can apply.

    Raises  E431 for windows into which collected rows cannot be cut, E432 for another kind, for a publish whose
            destination has rows of other windows, and for keys or a time that are no column of collected rows
    """
    errors = [
        error
        for name, changes in work.ledger.keeping.differences(work.flow).items()
        if (error := _find_refusal(work, cut, work.flow.tables[name], changes)) is not None
    ]
    raise_all(errors)


def _find_refusal(work: Workplace, cut: Cut, table: Table, changes: Sequence[Difference]) -> WaterclockError | None:
    parts, where = {what for what, _, _ in changes}, str(table.place)
    is_cut = bool(parts & {"cadence", "zone"})
    if "kind" in parts:
        return cannot_follow(table.name, changes, where, why="its rows were made in another way, and stay as they are")
    if table.kind is Kind.PUBLISH and (is_cut or "type" in parts) and table.mode is not Mode.REPLACE:
        why = "its destination keeps the rows delivered for the old labels"
        return cannot_follow(table.name, changes, where, why=why, is_publish=True)
    if table.kind is Kind.COLLECT and is_cut:
        reason = why_not(work, table, cut.collected.get(table.name, ()))
        return None if reason is None else cannot_sort(table.name, changes, where, why=reason)
    return missing_column_error(work, table, (each.result for each in cut.collected.get(table.name, ())), changes)


def refuse_incomplete(work: Workplace, cut: Cut, other: Workplace, outcome: RunOutcome) -> None:
    """Raise an error if the second set is missing labels of the live one.

    Raises  E433 naming a batch that failed, or a label that was not made
    """
    for report in outcome.failed:
        _refuse_failed(work, report)
    for error in outcome.unsettled:  # neither made nor failed: its disk is full, or its store is unavailable
        raise _incomplete(error.where or "a batch", error.render(), 1) from error
    for name in cut.transforms:
        if cut.is_recut(name):
            continue
        dropped = work.ledger.reads.snapshot(work.flow, tables=[name]).of(name).dropped_before
        made = {each.result.label for each in other.ledger.keeping.current_of(name)}
        lacks = [
            each.result.label
            for each in cut.held[name]
            if each.result.label not in made and (dropped is None or each.result.label >= dropped)
        ]
        if lacks:
            raise _incomplete(f"{name}@{label_of(lacks[0])}", _why_not(outcome, name, lacks[0]), len(lacks))


def _refuse_failed(work: Workplace, report: GroupReport) -> None:
    """Raise an error for a failed batch that is done in the live set. One that has failed there too stays failed."""
    name = report.group.table
    covered = work.ledger.reads.covered_windows(name)
    spans = IntervalSet.from_windows([batch.window for batch in report.group.batches])
    if spans - covered != spans and report.error is not None:
        where = f"{name}@{label_of(report.group.batches[0].label)}"
        raise _incomplete(where, report.error.render(), 1) from report.error


def _why_not(outcome: RunOutcome, name: str, label: datetime) -> str:
    batches = outcome.plan.batches if outcome.plan else ()
    for batch in batches:
        if (batch.table, batch.label) == (name, label):
            return f"{batch.status}: {batch.reason}"
    return "the current flow does not make it"


def _incomplete(where: str, why: str, count: int) -> WaterclockError:
    return not_whole(f"{where}, and {count - 1} more" if count > 1 else where, why)


def _list_changed_publishes(work: Workplace, cut: Cut) -> list[str]:
    """Return the publishes of tables whose slices now mean other rows."""
    return [
        name
        for name, table in work.flow.tables.items()
        if table.kind is Kind.PUBLISH and any(cut.is_recut(read.table) for read in table.reads)
    ]


def _await_quiet(work: Workplace) -> None:
    """Wait for the end of batches that were running when the lock was taken, and settle abandoned claims.

    Raises  E407 for an abandoned claim of a table whose declaration has changed: only the old one can settle it
    """
    from waterclock.engine.batch.takeover import take_over

    differing = work.ledger.keeping.differences(work.flow)
    while True:
        left = left_claims(work)
        for claim in left:
            if claim.request.table in differing:
                from waterclock.batches.facts import OpenClaim

                raise already_claimed_error(
                    claim.request.table,
                    claim.request.labels[0],
                    OpenClaim(claim.number, claim.request.labels, claim.request.runner, claim.lease_until),
                )
        if left:
            found = take_over(work, left)
            if found.unsettled:
                raise found.unsettled[0]
        running = work.ledger.claims.open()
        if not running:
            return
        claim = running[0]
        work.note_once(f"waiting for {claim.request.runner}, which makes {claim.request.table}")
        threading.Event().wait(_LOOK_SECONDS)


def _no_room(work: Workplace, raised: BaseException) -> WaterclockError | None:
    """Return the error of a full disk, if that is the cause."""
    for seen in causes_of(raised):
        if _is_of_full_disk(seen):
            return WaterclockError(
                "E645",
                "there is not enough space for a second set of tables",
                where=work.lake.root,
                why=str(seen).partition("\n")[0],
                fix="free disk space, then run `waterclock rebuild --all` again; the files of this one are removed",
            )
    return None


def _is_of_full_disk(raised: BaseException) -> bool:
    is_said = any(words in str(raised) for words in _SAID_OF_FULL)
    return is_said or (isinstance(raised, OSError) and raised.errno in _NO_ROOM)


class _RebuildLock:
    """Extends the rebuild lock three times per lease, from a thread of its own."""

    def __init__(self, work: Workplace, token: str) -> None:
        self._work, self._token = work, token
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="rebuild-hold", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _beat(self) -> None:
        lease = self._work.settings.lease
        while not self._done.wait(lease / 3):
            try:
                self._work.ledger.keeping.renew_rebuilding(self._token, lease_seconds=lease)
            except WaterclockError as error:
                if not self._done.is_set() and error.code != "E644":
                    self._work.listener.on_message(f"the lock of the rebuild is not extended: {error.what}")
