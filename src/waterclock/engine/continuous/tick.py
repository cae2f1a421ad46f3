"""Computes one tick: the rows so far of all open windows of tables with CONTINUOUS, by the queries of their batches.

Correctness of batches never depends on a tick. A tick reads the version of each `spd_` table first, then the ledger,
then the sources, and commits a table only on the version that it read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.connectors.interface import Item
from waterclock.engine.batch.bound_inputs import BoundInputs
from waterclock.engine.batch.expectations import find_blocking_rows, row_rule_measures
from waterclock.engine.batch.make import make
from waterclock.engine.batch.results import MadeSlices
from waterclock.engine.collect.open_items import OpenItems, find_labels_to_keep, find_open_items
from waterclock.engine.continuous.appends import (
    AFTER,
    can_append,
    find_row_slice,
    has_same_columns,
    has_whole_items,
    identity_of_pins,
    is_undamaged,
    join_items,
    merge_small_parts,
)
from waterclock.engine.continuous.open_labels import (
    OpenLabels,
    find_open_labels,
    find_windows_to_compute,
    held_labels,
    newest_state,
)
from waterclock.engine.continuous.table_reads import COLD_SECONDS, TableReads, read_or_explain, record_checks
from waterclock.engine.reads.pin import OpenSlices, PinnedRead, pin
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.user_functions import register_functions
from waterclock.faults import fault
from waterclock.flow.declarations import Read, Table
from waterclock.flow.enums import Kind
from waterclock.flow.open_windows import continuous_tables, open_table_of
from waterclock.planner.input_binding import bind
from waterclock.planner.plan import Batch, BoundRead, Group, ReadScope, Status
from waterclock.planner.planning import Planner
from waterclock.storage.commit.speed_tables import (
    SpeedState,
    commit_state,
    new_slice_number,
    read_hidden_labels,
    read_slices,
    read_state,
    record_hidden_labels,
    remove_old_slices,
)
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.writer import WrittenSlices, write_slices
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_INSTANT = timedelta(microseconds=1)
_CLEAN_SECONDS = 60.0
_RECORD_SECONDS = 10.0
_READ = "read"
"""The entry in the notes of a slice that identifies the data that it was made from."""
_READS_HELD = "it reads a window that a rule holds"


@dataclass(slots=True)
class TickRows:
    """The open labels of a table as a tick has them so far: those that keep their slices, and new slices.

    `blocked` are open labels that are not shown, with the reason: a rule, or a blocked input.
    """

    base: SpeedState
    kept: dict[datetime, Manifest] = field(default_factory=dict)
    made: dict[datetime, Manifest] = field(default_factory=dict)
    blocked: dict[datetime, str] = field(default_factory=dict)
    schema: StructType | None = None

    @property
    def labels(self) -> dict[datetime, Manifest]:
        """All open labels with rows."""
        return dict(sorted({**self.kept, **self.made}.items()))

    @property
    def is_changed(self) -> bool:
        """Whether the rows differ from those of the tick before."""
        return bool(self.made) or self.kept.keys() != self.base.slices.keys()


def run_tick(
    work: RunContext, due: Collection[str] | None = None, reads: TableReads[TickRows] | None = None
) -> int | None:
    """Compute and commit one tick of all tables with CONTINUOUS, and return its number.

    `due` are the collects whose sources are read; None: all. Others keep their rows, and so do tables whose source
    cannot be read or whose query fails, which `reads` reports. `reads` is that of all ticks of a run; None for a single
    tick. Return None if nothing has changed, or if another runner committed a tick in the meantime, which is then the
    newest one.

    Cost: for each table one Spark query over its windows so far. Labels whose inputs are unchanged are not computed
    again. Sources that do not answer, and slow queries, delay it, as `TableReads` describes.
    """
    reads = TableReads(work.listener.on_message, most_seconds=COLD_SECONDS) if reads is None else reads
    reads.start_tick(is_cold=not work.sessions.is_open)
    tables = continuous_tables(work.flow)
    folders = {table.name: work.lake.folder(open_table_of(table.name)) for table in tables}
    rows = {table.name: TickRows(read_state(folders[table.name])) for table in tables}
    fault("speed.pinned")
    now, number = work.real_now(), new_slice_number()
    snapshot = work.ledger.reads.snapshot(work.flow)
    ticking = _Tick(work, now, number, snapshot, Planner(work.flow).starts(snapshot, now), folders, rows)
    for table in tables:
        is_collect = table.kind is Kind.COLLECT
        found = None
        if not is_collect or due is None or table.name in due:
            make_rows = ticking.read if is_collect else ticking.transform
            found = reads.read(
                table.name, partial(read_or_explain, work, table, make_rows), now, is_query=not is_collect
            )
        rows[table.name] = found or (ticking.keep(table) if is_collect else ticking.keep_computed(table))
        record_hidden_labels(folders[table.name], rows[table.name].blocked)
    if not any(each.is_changed for each in rows.values()):
        _end_tick(work, reads, now)
        return None
    tick = max(each.base.tick for each in rows.values()) + 1
    if not reads.outages.current.keys() <= reads.recorded:
        # before the commit, which would show that all sources were read
        record_checks(work, reads, now, is_committed=False)
    fault("speed.made")
    for table in tables:
        own = rows[table.name]
        if own.base.version < 0 and own.schema is None:
            continue  # it has had no rows yet, and so no columns
        state = commit_state(
            folders[table.name], own.base, own.kept, own.made, tick=tick, table=open_table_of(table.name),
            project=work.flow.project, code=table.fingerprint, schema=own.schema,
        )  # fmt: skip
        if state is None:
            return None
        fault("speed.committed")
    for table in tables:
        if work.is_time_for(f"open windows of {table.name}", _CLEAN_SECONDS):
            remove_old_slices(folders[table.name])
    _end_tick(work, reads, now)
    return tick


def _end_tick(work: RunContext, reads: TableReads[TickRows], now: datetime) -> None:
    """Record from time to time that the sources were read, as a tick without new rows commits nothing."""
    reads.end_tick()
    if work.is_time_for("record of ticks", _RECORD_SECONDS) or reads.recorded != reads.outages.current.keys():
        record_checks(work, reads, now)


@dataclass(frozen=True, slots=True)
class _Tick:
    """The facts of one tick, and the rows of each table so far. `number` is part of the paths of its slices."""

    work: RunContext
    now: datetime
    number: int
    snapshot: LedgerSnapshot
    starts: Mapping[str, datetime]
    folders: Mapping[str, str]
    rows: Mapping[str, TickRows]

    def keep(self, table: Table) -> TickRows:
        """Return the rows of a collect whose source is not read: those of the tick before, without labels that end."""
        own, known = TickRows(self.rows[table.name].base), self._known_slices(table)
        start, facts = self.starts[table.name], self.snapshot.of(table.name)
        labels = find_open_labels(table, start, facts, known.keys(), self.now)
        opened = {window.start for window in labels.made}
        hidden = read_hidden_labels(self.folders[table.name]).items()
        own.blocked = {label: reason for label, reason in hidden if label in opened}
        items = {label: _items_of(known[label]) for label in known if label in opened or label in labels.kept}
        kept = find_labels_to_keep(self.work, table, labels.made, items, start, facts.covered)
        own.kept = {label: known[label] for label in sorted(kept)}
        return own

    def read(self, table: Table) -> TickRows:
        """Read the windows of a collect that are not due yet. Windows that are due in the meantime keep their rows."""
        own, known = TickRows(self.rows[table.name].base), self._known_slices(table)
        start, facts = self.starts[table.name], self.snapshot.of(table.name)
        labels = find_open_labels(table, start, facts, known.keys(), self.now)
        opened, folder = {window.start for window in labels.made}, self.folders[table.name]
        known = {label: each for label, each in known.items() if label not in opened or is_undamaged(folder, each)}
        items = find_open_items(self.work, table, labels.made, known, start, facts.covered, self.now)
        if items is not None:
            known = {label: each for label, each in known.items() if items.can_keep(label, _items_of(each))}
        own.kept = {label: known[label] for label in labels.kept if label in known}
        windows, appended = list(labels.made), {}
        if items is not None:
            unchanged = {label for label in items.by_label if _is_unchanged(items.to_dicts(label), known.get(label))}
            own.kept |= {label: known[label] for label in unchanged if label in known}
            windows = [window for window in windows if window.start not in unchanged]
            appended = self._find_new_items(table, items, known, windows)
        if windows and not self._read_windows(table, own, known, windows, items, appended):
            self._read_windows(table, own, known, windows, items, {})
        return own

    def _find_new_items(
        self, table: Table, items: OpenItems, known: Mapping[datetime, Manifest], windows: Sequence[Window]
    ) -> dict[datetime, tuple[Item, ...]]:
        """Return the items whose rows can be appended to those of the tick before, by label."""
        if not can_append(table):
            return {}
        found = {}
        for label in (window.start for window in windows if window.start in known):
            new = items.after(label, _items_of(known[label]))
            if new is not None and has_whole_items(table, new):
                found[label] = new
        return found

    def _read_windows(
        self,
        table: Table,
        own: TickRows,
        known: Mapping[datetime, Manifest],
        windows: Sequence[Window],
        items: OpenItems | None,
        appended: Mapping[datetime, tuple[Item, ...]],
    ) -> bool:
        """Read windows of a collect; of labels in `appended`, these items alone. False if their columns differ.

        The columns of these items can be a reason to hold a label that the columns of all its items are not.
        """
        batches = tuple(Batch(table.name, window, Status.READY, "open") for window in windows)
        owned = {} if items is None else {**items.by_label, **appended}
        own_labels = {batch.label for batch in batches}
        owned = {label: each for label, each in owned.items() if label in own_labels}
        to = {label: known[label] for label in appended}
        with self._make_slices(table, batches, BoundInputs(dict.fromkeys(own_labels, ()), owned=owned)) as made:
            if not has_same_columns(made, to) or made.notes.holds.keys() & to.keys():
                return False
            notes = {}
            for label in own_labels:
                read = made.notes.source.get(label, {}).get("items")
                if label in appended:
                    read = join_items(_items_of(known[label]), read or ())
                notes[label] = {_READ: _identity_of_items(read)}
            written = self._write(table, made, notes, to)
            made.notes.before_commit()
            clock = self.work.real_now()
            for window in windows:
                if clock >= table.cadence.due_at(window):
                    own.kept |= {window.start: known[window.start]} if window.start in known else {}
                    continue
                self._take(table, own, window.start, written, made, known.get(window.start))
            own.schema = made.schema
        return True

    def transform(self, table: Table) -> TickRows:
        """Compute the windows of a transform that overlap open labels of its inputs, and those not done since."""
        own, known = TickRows(self.rows[table.name].base), self._known_slices(table)
        labels = self._windows_to_compute(table, known.keys())
        own.kept = {label: known[label] for label in labels.kept}
        for window in labels.made:
            batch = Batch(table.name, window, Status.READY, "open", self._bind(table, window))
            if self._reads_held_label(batch):
                own.blocked[window.start] = _READS_HELD
                continue
            pins = self._pin(batch)
            notes = {_READ: identity_of_pins(table, pins)}
            before = known.get(window.start)
            before = before if before is not None and is_undamaged(self.folders[table.name], before) else None
            if before is not None and before.source.get(_READ) == notes[_READ]:
                own.kept[window.start] = before
                continue
            rows = find_row_slice(table, window.start, pins)
            new = None
            if rows is not None:
                notes |= rows.to_notes()
                new = None if before is None else rows.find_new_pins(pins, before)
            if new is None or not self._compute_window(table, own, batch, new, notes, before):
                self._compute_window(table, own, batch, pins, notes)
        return own

    def _compute_window(
        self,
        table: Table,
        own: TickRows,
        batch: Batch,
        pins: tuple[PinnedRead, ...],
        notes: Mapping[str, Any],
        before: Manifest | None = None,
    ) -> bool:
        """Compute a window of a transform, and append its rows to those `before`. False if their columns differ."""
        to = {} if before is None else {batch.label: before}
        with self._make_slices(table, (batch,), BoundInputs({batch.label: pins})) as made:
            if not has_same_columns(made, to):
                return False
            written = self._write(table, made, {batch.label: notes}, to)
            self._take(table, own, batch.label, written, made, None)
            own.schema = made.schema
        return True

    def keep_computed(self, table: Table) -> TickRows:
        """Return the rows of a transform whose query fails: those of the tick before, without labels that end."""
        own, known = TickRows(self.rows[table.name].base), self._known_slices(table)
        labels = self._windows_to_compute(table, known.keys())
        hidden = read_hidden_labels(self.folders[table.name])
        own.kept = {label: known[label] for label in labels.kept}
        for window in labels.made:
            batch = Batch(table.name, window, Status.READY, "open", self._bind(table, window))
            if self._reads_held_label(batch):
                own.blocked[window.start] = _READS_HELD
            elif window.start in known:
                own.kept[window.start] = known[window.start]
            elif window.start in hidden and hidden[window.start] != _READS_HELD:
                own.blocked[window.start] = hidden[window.start]
        return own

    def _windows_to_compute(self, table: Table, known: Collection[datetime]) -> OpenLabels:
        opened = [name for name in dict.fromkeys(read.table for read in table.reads) if name in self.rows]
        inputs = [
            (self.work.flow.tables[name].cadence, {*self.rows[name].labels, *self.rows[name].blocked})
            for name in opened
        ]
        facts = self.snapshot.of(table.name)
        return find_windows_to_compute(table, self.starts[table.name], facts, known, self.now, inputs)

    def _known_slices(self, table: Table) -> dict[datetime, Manifest]:
        """Return the slices of the tick before, if the current code made them."""
        base = self.rows[table.name].base
        return read_slices(self.folders[table.name], base) if base.code == table.fingerprint else {}

    @contextmanager
    def _make_slices(self, table: Table, batches: tuple[Batch, ...], bound: BoundInputs) -> Iterator[MadeSlices]:
        """Build rows by the steps of a batch, in a Spark session of their own that is released after the block."""
        work = self.work
        spark = work.sessions.own()
        close: Callable[[], None] | None = None
        try:
            register_functions(spark, work.root, work.flow, table.expressions, work.keys)
            made = make(work, spark, table, Group(table.name, batches), bound, self.now)
            close = made.notes.close
            yield made
        finally:
            if close is not None:
                close()
            work.sessions.release(spark)

    def _write(
        self,
        table: Table,
        made: MadeSlices,
        notes: Mapping[datetime, Mapping[str, Any]],
        to: Mapping[datetime, Manifest],
    ) -> dict[datetime, WrittenSlices]:
        """Write and seal the rows of a tick as those of a batch, measured only by the rules of rows.

        The rows of labels in `to` are appended to these slices.
        """
        found: dict[datetime, WrittenSlices] = {}
        folder, lake = self.folders[table.name], self.work.lake
        notes = {at: {**each, AFTER: to[at].slice_path} if at in to else each for at, each in notes.items()}
        for part in made.parts:
            written = write_slices(
                part.frame,
                folder=folder,
                claim=self.number,
                labels=part.labels,
                lake=lake,
                measures=row_rule_measures(table, part.absent),
                code=table.fingerprint,
                source=notes,
                name=open_table_of(table.name),
                may_be_empty=part.may_be_empty,
                through=part.through,
                appended_to={
                    label: merge_small_parts(part.frame.sparkSession, folder, lake, to[label])
                    for label in part.labels
                    if label in to
                },
            )
            found |= dict.fromkeys(part.labels, written)
        return found

    def _take(
        self,
        table: Table,
        own: TickRows,
        label: datetime,
        written: Mapping[datetime, WrittenSlices],
        made: MadeSlices,
        known: Manifest | None,
    ) -> None:
        """Take the new rows of a label, unless they equal the known ones, or a rule would fail or hold the batch."""
        of_label = written[label]
        manifest = next(each for each in of_label.manifests if each.label == label)
        broken = find_blocking_rows(
            made.parts[0].frame.sparkSession, table, self.folders[table.name], manifest,
            of_label.measures.get(label, {}), of_label.filter_counts.get(label),
        )  # fmt: skip
        broken += [made.notes.holds[label]] if label in made.notes.holds else []
        if broken:
            own.blocked[label] = broken[0]
            self.work.report_once(f"open rows of {table.name}@{label_of(label)} are not shown: {broken[0]}")
        elif known is not None and known.digest is not None and known.digest == manifest.digest:
            own.kept[label] = known
        else:
            own.made[label] = manifest

    def _bind(self, table: Table, window: Window) -> tuple[BoundRead, ...]:
        """Bind the inputs of an open window: slices of the window, and the newest states made of regular tables."""
        return tuple(self._bind_read(table, read, window) for read in table.reads_for_window(window))

    def _bind_read(self, table: Table, read: Read, window: Window) -> BoundRead:
        flow, u = self.work.flow, self.work.flow.tables[read.table]
        if u.is_partitioned:
            [bound] = bind(table, window, flow, self.starts, reads=[read])
            return bound
        end = newest_state(u.cadence, self.snapshot.of(u.name), min(window.end, self.now))
        if end is None:
            return BoundRead(read, ReadScope.STATE, self.starts[u.name], self.starts[u.name])
        [bound] = bind(table, Window(end - _INSTANT, end), flow, self.starts, reads=[read])
        return bound

    def _reads_held_label(self, batch: Batch) -> bool:
        """Return whether an input with open windows has a held or blocked label in the interval that a window reads."""
        return any(
            bound.low <= label < bound.high
            for bound in batch.reads
            if bound.read.table in self.rows
            for label in {*held_labels(self.snapshot.of(bound.read.table)), *self.rows[bound.read.table].blocked}
        )

    def _pin(self, batch: Batch) -> tuple[PinnedRead, ...]:
        work = self.work
        pins = pin(work.ledger, work.lake, work.flow, [batch])[batch.label]
        return tuple(replace(each, opened=self._open_slices(each)) for each in pins)

    def _open_slices(self, pinned: PinnedRead) -> OpenSlices | None:
        name, bound = pinned.read.table, pinned.bound
        found = self.rows[name].labels if name in self.rows else {}
        manifests = tuple(each for label, each in found.items() if bound.low <= label < bound.high)
        return OpenSlices(self.folders[name], manifests) if manifests else None


def _is_unchanged(items: Sequence[Mapping[str, Any]], known: Manifest | None) -> bool:
    """Return whether a label has the same items as in the tick before. Without items, there were and are no rows."""
    return not items if known is None else known.source.get(_READ) == _identity_of_items(items)


def _identity_of_items(items: Iterable[Mapping[str, Any]] | None) -> str | None:
    """Return a text that identifies the items that a label was read from; None for a source without items."""
    if items is None:
        return None
    return json.dumps(sorted(items, key=lambda item: str(item.get("name"))), sort_keys=True)


def _items_of(known: Manifest) -> list[Mapping[str, Any]]:
    """Return the items that a slice of a tick was read from; none for a source without items."""
    found: list[Mapping[str, Any]] = json.loads(known.source.get(_READ) or "[]")
    return found
