"""Rebuilds every table next to the live ones, from the slices collected up to one moment, then replaces all at once.

From that moment, the cut, no batch of the project is claimed, so that the live content equals the cut. Data that
arrives in the meantime is collected afterwards. If the rebuild is killed before the move, the old tables stay, and the
next rebuild starts over and removes the leftovers. If it is killed during the move, `query` reads the old tables until
a runner finishes the move.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from waterclock.engine.collect.collect_result import RELEASED
from waterclock.engine.damage import reporting_damage
from waterclock.engine.lease_renewal import Heartbeat
from waterclock.engine.maintenance.rebuild_checks import require_complete_rebuild, require_rebuildable_declarations
from waterclock.engine.maintenance.rebuild_lock import (
    RebuildLock,
    is_left,
    require_no_other_rebuild,
    wait_for_running_batches,
)
from waterclock.engine.maintenance.rewindowing import pieces_of, results_of, seal_in_new_windows
from waterclock.engine.maintenance.second_set import (
    PLACE,
    Cut,
    cut_of,
    link_unmakeable_labels,
    plan_second_set,
    second_set_context,
    second_set_runner,
)
from waterclock.engine.maintenance.seeded_tables import seed_from_live_slices
from waterclock.engine.maintenance.table_set_move import (
    finish_move,
    list_changed_publishes,
    prepare,
    unlink,
    write_moves,
)
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_outcome import RunOutcome
from waterclock.errors import WaterclockError, causes_of
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, is_folder, remove_folder
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.current_revisions import CurrentRevision
from waterclock.permissions.ownership import make_private_folder
from waterclock.planner.estimate import Estimate, estimate
from waterclock.planner.plan import Plan
from waterclock.storage.slices.manifest import read_manifest

_FULL_DISK_NUMBERS = frozenset({errno.ENOSPC, errno.EDQUOT})
# texts of errors for a full disk, of Java and system libraries, of SQLite, and of this project
_FULL_DISK_TEXTS = ("No space left on device", "database or disk is full", "the disk is full")

_MOST_RUNS = 3  # a failure for a transient reason is retried


@dataclass(frozen=True, slots=True)
class RebuildForecast:
    """The forecast of a rebuild: the cut, the batches to make, their cost, and the current size of their tables."""

    cut: Cut
    plan: Plan
    cost: Estimate
    bytes: int


@dataclass(frozen=True, slots=True)
class RebuildAllResult:
    """The result of a rebuild of all tables: the replaced tables, the batches and rows made, and the labels kept.

    `carried_on`: it made nothing itself, and only finished the move of a killed rebuild.
    """

    tables: tuple[str, ...]
    batches: int = 0
    rows: int = 0
    kept: int = 0
    carried_on: bool = False


def forecast_rebuild(work: RunContext, now: datetime) -> RebuildForecast:
    """Plan a rebuild of all tables, and estimate its cost. Changes nothing.

    Raises E431 or E432 for declarations that it cannot apply, E644 if another rebuild is running.
    """
    require_no_other_rebuild(work)
    cut = cut_of(work, now)
    require_rebuildable_declarations(work, cut)
    with Ledger.open("sqlite://") as ledger:
        plan = plan_second_set(work, cut, second_set_context(work, cut, ledger), _find_future_slices(work, cut))
    snapshot = work.ledger.reads.snapshot(work.flow)
    weight = sum(each.result.bytes for name in cut.transforms for each in cut.held[name])
    return RebuildForecast(cut, plan, estimate(plan, snapshot), weight)


def finish_killed_rebuild(work: RunContext) -> tuple[str, ...]:
    """Finish the move of a killed rebuild to its new tables, or release the lock if the move had not started.

    Return the tables that were replaced. Cost: a ledger query if there is no such rebuild.
    """
    known = work.ledger.maintenance.current_rebuilding()
    if known is None or known.is_done or not (is_left(known) or known.has_expired(work.real_now())):
        return ()
    if known.is_moving:
        try:
            return finish_move(work)
        except Exception:
            now = work.ledger.maintenance.current_rebuilding()
            if now is not None and now.is_moving and now.token == known.token:
                raise
            return ()  # another runner has finished it in the meantime
    if work.ledger.maintenance.end_rebuilding(known.token, who=work.settings.who, why=f"{known.runner} has ended"):
        work.listener.on_message(
            f"the rebuild of all tables by {known.runner} was given up: the old tables stay in use"
        )
    return ()


@reporting_damage
def rebuild_all(work: RunContext, now: datetime) -> RebuildAllResult:
    """Rebuild every table from the slices collected up to `now`, and replace the live tables by the new ones.

    If an earlier rebuild was killed during its move, that move is finished instead. The old set stays if an error is
    raised: E407 if a reset or a rebuild of one table has not ended, E431 or E432 for declarations that it cannot apply,
    E433 if a batch failed that is done in the live set, E644 if another rebuild is running, E645 if the disk is full.
    """
    require_no_other_rebuild(work)
    if tables := finish_killed_rebuild(work):
        return RebuildAllResult(tables, carried_on=True)
    token = uuid.uuid4().hex
    settings = work.settings
    work.ledger.maintenance.begin_rebuilding(
        token, runner=settings.runner, who=settings.who, lease_seconds=settings.lease
    )
    linked: list[tuple[str, int]] = []
    try:
        with RebuildLock(work, token), Heartbeat(work):
            return _remake_tables(work, token, now, linked)
    except Exception as raised:
        error = full_disk_error(work, raised)
        if not _give_up(work, token, linked, why=str(raised)) and error is not None:
            error.fix = "free disk space, then `waterclock rebuild --all` finishes the move of the tables"
        if error is not None:
            raise error from raised
        raise


def _give_up(work: RunContext, token: str, linked: Sequence[tuple[str, int]], *, why: str) -> bool:
    """Remove this rebuild's files, and release its lock. Return False if it has begun its move, or lost the lock."""
    known = work.ledger.maintenance.current_rebuilding()
    if known is None or known.token != token or known.is_moving or known.is_done:
        return False
    with suppress(Exception):  # the next rebuild removes leftovers
        unlink(work, linked)
        remove_leftovers(work, token)
    # Only then: if the ledger is on the same full disk, nothing can be written before there is space.
    with suppress(WaterclockError):  # the next runner releases the lock of one that has ended
        work.ledger.maintenance.end_rebuilding(token, who=work.settings.who, why=why)
    return True


def _remake_tables(work: RunContext, token: str, now: datetime, linked: list[tuple[str, int]]) -> RebuildAllResult:
    remove_leftovers(work, token)
    wait_for_running_batches(work)
    cut = cut_of(work, now)
    require_rebuildable_declarations(work, cut)
    fault("rebuild.cut")
    path = work.project.work_folder / PLACE
    make_private_folder(path)
    with Ledger.open(f"sqlite:///{path / 'ledger.db'}") as ledger:
        other = second_set_context(work, cut, ledger)
        _seed_collected(work, cut, other)
        link_unmakeable_labels(work, cut, other)
        outcome = _run_second_set(work, cut, other)
        require_complete_rebuild(work, cut, other, outcome)
        fault("rebuild.made")
        moves = prepare(work, cut, other, linked)
    changed = work.ledger.maintenance.differences(work.flow)
    moves += list_changed_publishes(work, changed)
    write_moves(work, token, moves, _list_changed_publishes(work, cut))
    work.ledger.maintenance.begin_moving(token)
    fault("rebuild.moving")
    names = tuple(name for name in finish_move(work) if name in cut.flow.tables)
    remove_leftovers(work, token)
    fault("rebuild.cleaned")
    return RebuildAllResult(names, outcome.done, outcome.rows, sum(map(len, cut.kept.values())))


def _find_future_slices(work: RunContext, cut: Cut) -> dict[str, Sequence[CurrentRevision]]:
    """Map each collect whose declaration changed to the slices that it will have in the second set."""
    tables = cut.flow.tables
    return {
        name: results_of(pieces_of(work, tables[name], cut.collected[name]))
        if cut.has_other_windows(name)
        else cut.collected[name]
        for name in cut.redeclared_collects
    }


def _seed_collected(work: RunContext, cut: Cut, other: RunContext) -> None:
    """Add the collected slices of changed tables to the second set: by links, or cut into their new windows."""
    for name in cut.redeclared_collects:
        table, current = cut.flow.tables[name], cut.collected[name]
        if cut.has_other_windows(name):
            seal_in_new_windows(work, other, table, current)
        else:
            seed_from_live_slices(work, other, table, current)


def remove_leftovers(work: RunContext, token: str) -> None:
    """Remove files of failed and finished rebuilds, unless a rebuild with another `token` has begun."""
    known = work.ledger.maintenance.current_rebuilding()
    if known is None or known.token != token:
        return
    for place in (entry_path(work.lake.root, PLACE), work.project.work_folder / PLACE):
        if is_folder(place):
            remove_folder(place)


def _run_second_set(work: RunContext, cut: Cut, other: RunContext) -> RunOutcome:
    total = RunOutcome()
    runs, released = 0, set[tuple[str, datetime]]()
    while runs < _MOST_RUNS:
        outcome = second_set_runner(work, cut, other).run_once(cut.now)
        total.done += outcome.done
        total.rows += outcome.rows
        total.failed, total.plan, total.unsettled = outcome.failed, outcome.plan, outcome.unsettled
        again = {
            of: release
            for of, release in find_earlier_releases(cut, other, outcome.failed).items()
            if of not in released
        }
        for (name, label), release in again.items():
            other.ledger.decisions.request_release(name, [label], who=release["by"], why=release["why"])
        if again:
            released |= again.keys()
            continue
        runs += 1
        if not any(report.error is not None and report.error.transient for report in outcome.failed):
            break
    return total


def find_earlier_releases(
    cut: Cut, other: RunContext, failed: Sequence[GroupReport]
) -> dict[tuple[str, datetime], Mapping[str, str]]:
    """Find batches that a rule holds again although a user has released the same rows in the live tables.

    Maps table and label to the user and the reason. Held batches with other rows are left out: no user has reviewed
    those.
    """
    found: dict[tuple[str, datetime], Mapping[str, str]] = {}
    for report in failed:
        name = report.group.table
        labels = {batch.label for batch in report.group.batches} if report.is_held else set[datetime]()
        for result in (each.result for each in cut.held[name] if each.result.label in labels):
            release, claim = result.measures.get(RELEASED), other.ledger.reads.held_claim(name, result.label)
            if release is None or claim is None or result.digest is None:
                continue
            folder = other.folder(cut.flow.tables[name])
            if read_manifest(folder, other.lake.slice_path(result.label, claim)).digest == result.digest:
                found[name, result.label] = release
    return found


def _list_changed_publishes(work: RunContext, cut: Cut) -> list[str]:
    """Return the publishes whose table has a changed declaration."""
    return [
        name
        for name, table in work.flow.tables.items()
        if table.kind is Kind.PUBLISH and any(cut.is_redeclared(read.table) for read in table.reads)
    ]


def full_disk_error(work: RunContext, raised: BaseException) -> WaterclockError | None:
    """Return the error for a full disk if that is the cause of an exception, or else None."""
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
    is_reported = any(words in str(raised) for words in _FULL_DISK_TEXTS)
    return is_reported or (isinstance(raised, OSError) and raised.errno in _FULL_DISK_NUMBERS)
