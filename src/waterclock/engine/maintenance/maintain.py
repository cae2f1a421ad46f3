"""Finds obsolete files of each table and removes them, and compacts small ones, without changing any result.

All of them are found first, so that a dry run shows the files that would be removed. Tables with an open claim are
skipped. Versions and slices that a running batch of another table reads are kept. Steps are independent: one that
fails, or conflicts with another commit, does not stop the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.engine.batch.label_tables import drop_label_tables, find_dropped_labels
from waterclock.engine.batch.other_engines import enter_in_catalog
from waterclock.engine.damage import find_log_error, find_log_errors
from waterclock.engine.maintenance.ledger_rebuild import RETAINED
from waterclock.engine.maintenance.unneeded_slices import (
    RetentionFacts,
    find_replacement_times,
    find_retention_start,
    inputs_of,
    is_held_or_claimed,
    is_read,
    may_delete_slice,
)
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, is_folder, remove_folder
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.planner.planning import Planner
from waterclock.storage import symlink_manifests
from waterclock.storage.file_maintenance import (
    JoinableFiles,
    drop_windows,
    droppable,
    find_joinable_files,
    keep_versions,
    oldest_readable,
    optimize,
    unneeded_files,
    vacuum,
)
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.slices.inventory import (
    OldState,
    SliceFolder,
    list_old_states,
    list_slice_folders,
    remove,
    size_of,
)
from waterclock.timelabel.label import label_of

OPTIMIZED = "optimize"
KEPT = "keep"
VACUUMED = "vacuum"


@dataclass(slots=True)
class CountAndBytes:
    """A number of items, and their total bytes."""

    count: int = 0
    bytes: int = 0


@dataclass(slots=True)
class TableMaintenance:
    """The maintenance of one table, planned or done.

    `dropped`: files of windows before `drop_before` (RETAIN). `joined`: small files to compact. `unneeded`: files that
    no kept version contains. `slices`: sealed slices that nothing needs. `left_behind`: files of failed claims.
    `manifests`: the number of symlink manifests that are outdated, or no longer maintained. `states`: states of a MERGE
    or TEMPORAL table that were made again for a query of the past. `labels`: label tables behind a destination's view
    whose windows RETAIN has dropped from the published table. `is_busy`: a claim is open, or the table is being reset
    or rebuilt, so nothing was searched. `failed` has the error messages of failed steps.
    """

    table: str
    drop_before: datetime | None = None
    dropped: CountAndBytes = field(default_factory=CountAndBytes)
    joined: CountAndBytes = field(default_factory=CountAndBytes)
    unneeded: CountAndBytes = field(default_factory=CountAndBytes)
    slices: CountAndBytes = field(default_factory=CountAndBytes)
    left_behind: CountAndBytes = field(default_factory=CountAndBytes)
    states: CountAndBytes = field(default_factory=CountAndBytes)
    manifests: int = 0
    labels: tuple[str, ...] = ()
    is_busy: bool = False
    failed: list[str] = field(default_factory=list)
    slice_folders: list[SliceFolder] = field(default_factory=list)
    small: JoinableFiles = field(default_factory=JoinableFiles)
    old_states: list[OldState] = field(default_factory=list)

    @property
    def freed_bytes(self) -> int:
        """The number of bytes that are freed, now or by the next maintenance."""
        return sum(each.bytes for each in (self.unneeded, self.slices, self.left_behind, self.states))

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is to be done for the table, and nothing to be reported about it."""
        amounts = (self.dropped, self.joined, self.unneeded, self.slices, self.left_behind, self.states)
        return not (
            any(amount.count for amount in amounts) or self.manifests or self.labels or self.is_busy or self.failed
        )


def find_maintenance(work: RunContext, tables: Sequence[str], now: datetime) -> list[TableMaintenance]:
    """Find the maintenance that each table needs at `now`. Changes nothing, and starts no JVM."""
    busy = {claim.request.table for claim in work.ledger.claims.open()} | work.ledger.maintenance.holds().keys()
    busy |= set(tables) if is_rebuilding(work) else set()
    needed = _find_oldest_needed(work, now)
    older = find_log_errors(work)
    return [
        TableMaintenance(name, failed=[f"{older[name].what}: {older[name].fix}"])
        if name in older
        else _find_table_maintenance(work, work.flow.tables[name], now, needed.get(name, FOREVER), is_busy=name in busy)
        for name in tables
    ]


def maintain_table(work: RunContext, found: TableMaintenance, now: datetime) -> None:
    """Carry out the maintenance in `found`, as far as it is still allowed. Updates `found`."""
    table = work.flow.tables[found.table]
    folder = work.folder(table)
    found.is_busy = any(claim.request.table == table.name for claim in work.ledger.claims.open())
    found.is_busy = found.is_busy or table.name in work.ledger.maintenance.holds() or is_rebuilding(work)
    if found.is_busy or find_log_error(work, table.name):
        return
    if table.kind is not Kind.PUBLISH and table_exists(folder):
        _run_step(found, "keeping versions", lambda: _keep_versions(work, table))
        if found.drop_before is not None and found.dropped.count:
            before = found.drop_before
            _run_step(found, "dropping windows", lambda: _drop_windows(work, table, before))
        if found.joined.count:
            _run_step(found, "joining files", lambda: _optimize(work, table, found.small))
        _run_step(found, "writing the symlink manifest", lambda: _repair_manifest(table, folder))
        if problem := enter_in_catalog(work, table):
            found.failed.append(problem)
        if found.unneeded.count:
            _run_step(found, "removing unneeded files", lambda: _vacuum(work, table, now))
    if found.labels:
        _run_step(found, "dropping labels behind the view", lambda: drop_label_tables(work, table, found.labels))
    still_open = work.ledger.claims.open()
    numbers, read = {claim.number for claim in still_open}, inputs_of(still_open, table.name)
    held = frozenset(
        work.ledger.reads.held_labels(table.name).values()
    )  # after the claims: an ended one may now be held
    for leaf in found.slice_folders:
        if leaf.claim in numbers or is_held_or_claimed(leaf, held, still_open, table.name):
            continue
        if not is_read(table, leaf, read):
            remove(folder, leaf)
    for state in found.old_states if not read else ():
        remove_folder(state.folder)


def is_rebuilding(work: RunContext) -> bool:
    """Return whether a rebuild of all tables runs. It reads the existing files, so none may be removed meanwhile."""
    known = work.ledger.maintenance.current_rebuilding()
    return known is not None and known.is_blocking(work.real_now())


def _find_table_maintenance(
    work: RunContext, table: Table, now: datetime, needed: datetime, *, is_busy: bool
) -> TableMaintenance:
    found, folder = TableMaintenance(table.name, is_busy=is_busy), work.folder(table)
    if is_busy or not is_folder(entry_path(folder)):
        return found
    if table.kind is Kind.PUBLISH:
        _run_step(found, "checking the destination", lambda: _find_labels_kept_by_destination(work, table, found))
    if table.kind is not Kind.PUBLISH and table_exists(folder):
        found.drop_before = _find_drop_boundary(work, table, now, needed)
        if found.drop_before is not None:
            found.dropped = CountAndBytes(*droppable(folder, label_of(found.drop_before)))
        if table.mode is not Mode.REPLACE:  # the next state has files of its own
            found.small = find_joinable_files(folder)
            found.joined = CountAndBytes(found.small.files, found.small.bytes)
        found.manifests = _stale_manifests(table, folder)
        unneeded = unneeded_files(folder, retention_hours(work, find_retention_start(table, now)))
        found.unneeded = CountAndBytes(len(unneeded), sum(file.size for file in unneeded))
    found.old_states = list_old_states(work.lake.history(table.name), find_retention_start(table, now))
    found.states = CountAndBytes(len(found.old_states), sum(state.bytes for state in found.old_states))
    known = replace(_collect_retention_facts(work, table, now), needed=needed)
    for leaf in list_slice_folders(folder):
        if may_delete_slice(table, leaf, known):
            found.slice_folders.append(leaf)
            amount = found.slices if leaf.is_sealed else found.left_behind
            amount.count += 1
            amount.bytes += size_of(folder, leaf)
    return found


def _collect_retention_facts(work: RunContext, table: Table, now: datetime) -> RetentionFacts:
    folder, since = work.folder(table), find_retention_start(table, now)
    committed = work.ledger.reads.committed_slices(table.name)
    revisions = [(row.label, row.claim, row.recorded_at) for row in committed]
    if table.kind is Kind.PUBLISH:  # a publish has no versions that give the order of its revisions
        revisions.sort(key=lambda row: (row[2], row[1]))
    live: set[str] = set()
    if table.kind is not Kind.PUBLISH and table_exists(folder):
        with open_table(folder) as shown:
            live = {path.rpartition("/")[0] for path in shown.files}
    replaced = find_replacement_times(revisions, work.ledger.maintenance.list_emptying_claims(table.name))
    return RetentionFacts(
        claims=work.ledger.maintenance.known_claims(table.name),
        current={piece.label: piece.claim for piece in work.ledger.reads.slices(table.name, BEGINNING, FOREVER)},
        kept_since=since,
        now=now,
        replaced=replaced,
        made={(label, claim): at for label, claim, at in revisions},
        dropped_before=work.ledger.maintenance.drop_boundary(table.name, by=since),
        live=live,
        held=frozenset(work.ledger.reads.held_labels(table.name).values()),
    )


def _find_drop_boundary(work: RunContext, table: Table, now: datetime, needed: datetime) -> datetime | None:
    """Return the instant before which RETAIN drops windows, or None. Unfinished batches and kept versions limit it.

    Windows that were dropped before are dropped again if the table still contains them: an earlier drop was killed.
    """
    if table.mode is not Mode.APPEND:
        return None
    known = work.ledger.maintenance.drop_boundary(table.name, by=FOREVER)
    is_shown = known is not None and droppable(work.folder(table), label_of(known))[0] > 0
    record = work.ledger.reads.table(table.name)
    if table.retain is None or record.head_label is None:
        return known if is_shown else None
    zone = table.cadence.zone
    tick = min(table.cadence.next(record.head_label), find_retention_start(table, now))
    before = table.cadence.floor(min(table.retain.subtract_from(tick, zone), needed))
    if known is None or before > known:
        return before
    return known if is_shown else None


def _find_oldest_needed(work: RunContext, now: datetime) -> dict[str, datetime]:
    """Map each table to the oldest instant that a batch which is not done yet may read."""
    if all(table.retain is None and table.keep_versions is None for table in work.flow.tables.values()):
        return {}
    return Planner(work.flow).oldest_needed(work.ledger.reads.snapshot(work.flow), now)


def _run_step(found: TableMaintenance, step: str, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as raised:  # noqa: BLE001 - a failed step does not stop the others
        found.failed.append(f"{step}: {to_error(raised, where=found.table).what}")


def _identity(work: RunContext, table: Table, kind: str, newest: str = "") -> Identity:
    return Identity(work.flow.project, table.name, kind, (), newest, 0, "")


def _keep_versions(work: RunContext, table: Table) -> None:
    if table.keep_versions is not None:
        some_day = work.real_now()
        days = math.ceil((some_day - table.keep_versions.subtract_from(some_day, "UTC")) / timedelta(days=1))
        keep_versions(work.folder(table), days, _identity(work, table, KEPT))


def _drop_windows(work: RunContext, table: Table, before: datetime) -> None:
    if before != work.ledger.maintenance.drop_boundary(table.name, by=FOREVER):
        work.ledger.maintenance.begin_drop(table.name, before, who=work.settings.who)
    version = drop_windows(work.folder(table), label_of(before), _identity(work, table, RETAINED, before.isoformat()))
    if version is not None:
        work.ledger.maintenance.move_head(table.name, version)


def _optimize(work: RunContext, table: Table, small: JoinableFiles) -> None:
    version = optimize(work.sessions.own(), work.folder(table), small.labels, _identity(work, table, OPTIMIZED))
    if version is not None:
        work.ledger.maintenance.move_head(table.name, version)


def _vacuum(work: RunContext, table: Table, now: datetime) -> None:
    if table.is_fold:
        oldest = oldest_readable(work.folder(table), find_retention_start(table, now))
        work.ledger.maintenance.forget_versions(table.name, oldest)
    # queried after versions were forgotten: a batch that is bound from now on finds none of them
    read = {each.version for each in inputs_of(work.ledger.claims.open(), table.name)}
    hours = retention_hours(work, find_retention_start(table, now))
    vacuum(work.folder(table), hours, _identity(work, table, VACUUMED), keeping=read)


def _stale_manifests(table: Table, folder: str) -> int:
    if table.manifest is None:
        return int(symlink_manifests.is_kept(folder))
    try:
        return len(symlink_manifests.find_stale_symlink_manifests(folder))
    except WaterclockError:
        return 1  # the error is reported when the step is tried


def _repair_manifest(table: Table, folder: str) -> None:
    """Update outdated symlink manifests. Remove those that are no longer maintained: they would name old files."""
    if table.manifest is not None:
        symlink_manifests.restore_links(folder)
    elif symlink_manifests.is_kept(folder):
        symlink_manifests.remove(folder)


def _find_labels_kept_by_destination(work: RunContext, table: Table, found: TableMaintenance) -> None:
    """Find label tables that a destination still has although the published table has dropped their windows."""
    before = work.ledger.maintenance.drop_boundary(table.reads[0].table, by=FOREVER)
    if before is not None:
        found.labels = find_dropped_labels(work, table, before)


def retention_hours(work: RunContext, since: datetime) -> int:
    """Return for how many hours versions since an instant are kept. Delta measures ages of files by the real clock."""
    return max(0, math.ceil((work.real_now() - since) / timedelta(hours=1)))
