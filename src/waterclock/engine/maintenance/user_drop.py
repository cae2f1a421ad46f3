"""Drops the oldest windows of a table at a user's request, unless a batch still reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.engine.batch.label_tables import drop_label_tables, find_dropped_labels
from waterclock.engine.batch.other_engines import update_for_other_engines
from waterclock.engine.damage import require_log
from waterclock.engine.maintenance.ledger_rebuild import RETAINED
from waterclock.engine.maintenance.rebuild_lock import require_no_running_rebuild
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.planner.planning import Planner
from waterclock.selection import Labels
from waterclock.storage.file_maintenance import drop_windows
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.identity import Identity
from waterclock.timelabel.label import label_of


@dataclass(frozen=True, slots=True)
class WindowsToDrop:
    """The windows to drop: all of a table before an instant, with their labels and number of rows, as of `now`."""

    table: Table
    before: datetime
    labels: tuple[datetime, ...]
    rows: int
    now: datetime


def find_droppable_windows(work: RunContext, table: Table, named_labels: Labels, now: datetime) -> WindowsToDrop:
    """Find the windows to drop, given the labels that the user names. Changes nothing.

    Raises E436 for a table whose rows do not belong to windows, for labels that do not start with its oldest, for
    windows that a batch still reads, for its newest label, and while a batch, reset or rebuild of it runs. Raises E644
    during a rebuild of all tables.
    """
    require_no_running_rebuild(work, is_read_only=True)
    if table.kind is Kind.PUBLISH or table.mode is not Mode.APPEND:
        is_publish = table.kind is Kind.PUBLISH
        why = "it is a destination" if is_publish else f"its mode is {table.mode.name}"
        why = f"{why}: its rows do not belong to single windows"
        raise _drop_error(
            table,
            "has no windows to drop",
            why,
            "`waterclock skip` leaves batches out; `waterclock recompute` makes them again",
        )
    _require_no_running_work(work, table)
    low, high = named_labels.bounds(table.cadence)
    record = work.ledger.reads.table(table.name)
    pieces = work.ledger.reads.slices(
        table.name, work.ledger.maintenance.drop_boundary(table.name, by=FOREVER) or BEGINNING, FOREVER
    )
    first = pieces[0].label if pieces else None
    if first is None or high is None or record.head_label is None or high > record.head_label:
        newest = f"its newest label is {label_of(record.head_label)}" if record.head_label else "it has none"
        fix = "name the last label to drop, as in ..2020-01-31" if first else "there is nothing to drop"
        raise _drop_error(table, "keeps its newest label", newest, fix)
    if low is not None and low > first:
        raise _drop_error(
            table,
            f"can only be dropped from its oldest label on, {label_of(first)}",
            "a gap in the middle would look like windows that were never made",
            f"name ..{label_of(table.cadence.previous(high))}; `waterclock skip` leaves single batches out",
        )
    _require_unneeded_windows(work, table, first, high, now)
    gone = [piece for piece in pieces if piece.label < high]
    if not gone:
        raise _drop_error(
            table,
            "has no windows to drop",
            f"those before {label_of(high)} are dropped already",
            "nothing; if the drop was interrupted, `waterclock maintain` removes their rows",
        )
    return WindowsToDrop(table, high, tuple(piece.label for piece in gone), sum(piece.rows for piece in gone), now)


def drop(work: RunContext, found: WindowsToDrop, *, why: str) -> int:
    """Drop windows from a table, and the label tables of its destinations. Return the number of these label tables.

    A label table has the rows of one label, behind a view at a destination. The ledger first records the user and the
    reason. If the process is killed after that, the next maintenance removes the windows from the table. Raises E407,
    E436 or E644 as `find_droppable_windows`: batches or a rebuild may have started since, or a batch may have become
    due.
    """
    require_no_running_rebuild(work)
    table, folder = found.table, work.folder(found.table)
    _require_no_running_work(work, table)
    _require_unneeded_windows(work, table, found.labels[0], found.before, found.now)
    require_log(work, table.name)
    identity = Identity(work.flow.project, table.name, RETAINED, (), found.before.isoformat(), 0, "")
    # recorded before the commit: a batch or a rebuild that begins now leaves these windows out
    work.ledger.maintenance.begin_drop(table.name, found.before, who=work.settings.who, why=why)
    fault("drop.recorded")
    version = drop_windows(folder, label_of(found.before), identity) if table_exists(folder) else None
    if version is not None:
        work.ledger.maintenance.move_head(table.name, version)
    update_for_other_engines(work, table)
    count = 0
    for each in work.flow.tables.values():
        if each.kind is Kind.PUBLISH and each.reads[0].table == table.name:
            labels = find_dropped_labels(work, each, found.before)
            drop_label_tables(work, each, labels)
            count += len(labels)
    return count


def _require_no_running_work(work: RunContext, table: Table) -> None:
    """Raise E436 if a batch, reset or rebuild of the table runs: it could commit such a window after the drop."""
    if what := work.ledger.maintenance.holds().get(table.name):
        raise _drop_error(table, f"is {what}", "its rows may be committed again", "drop its windows once it has ended")
    if any(claim.request.table == table.name for claim in work.ledger.claims.open()):
        raise _drop_error(table, "is being written", "a batch of it is running", "drop its windows once it has ended")


def _require_unneeded_windows(work: RunContext, table: Table, first: datetime, high: datetime, now: datetime) -> None:
    """Raise E436 if a batch still reads windows before `high`. `first` is the table's oldest window."""
    needed = _find_oldest_needed(work, table, now)
    if high > needed:
        raise _drop_error(
            table,
            f"is still read from {label_of(needed)} on",
            "a due batch, or the next batch of a reader, needs these windows",
            f"drop no more than ..{label_of(table.cadence.previous(needed))}; RETAIN limits how far HISTORY "
            "and PAST read"
            if needed > first
            else "declare RETAIN for it, which limits how far HISTORY reads, or remove the reader",
        )


def _find_oldest_needed(work: RunContext, table: Table, now: datetime) -> datetime:
    """Return the oldest window that a due batch, or the next batch of any reader, may read."""
    later = max(each.cadence.next(each.cadence.next(now)) for each in work.flow.tables.values())
    planner, snapshot = Planner(work.flow), work.ledger.reads.snapshot(work.flow)
    return table.cadence.floor(planner.oldest_needed(snapshot, later).get(table.name, FOREVER))


def _drop_error(table: Table, what: str, why: str, fix: str) -> WaterclockError:
    return WaterclockError("E436", f"{table.name} {what}", where=table.name, why=why, fix=fix)
