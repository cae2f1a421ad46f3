"""Resolves the references of a label, by docs/explain/consistency.md, and computes the result of its query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.life.books import GONE, MAYBE, NO, YES, Book, Closed, Inputs, Made, Option
from tests.life.declarations import Declared
from tests.life.form_book import FormBook
from tests.life.part import BY_LABEL, DONE, FAILED, HELD, SKIPPED, Known, Read
from tests.life.parts import ByTime, Closes, Deletes, Demands, KeyPast, Refers, Report, Retain
from tests.life.people import Tokens, Value, masked
from tests.life.rows import (
    DAY,
    File,
    Row,
    Rows,
    Slices,
    Version,
    in_effect,
    instant,
    versions,
    versions_of_snapshots,
    winners,
)


@dataclass
class Reading:
    """The tables of a life in topological order, its sources, and the current day: earlier windows are due."""

    tables: dict[str, Declared]
    today: int = 1
    source: dict[str, list[Row]] = field(default_factory=dict)
    forms: dict[str, FormBook] = field(default_factory=dict)
    """The changes of forms, by their names."""
    files: dict[str, list[File]] = field(default_factory=dict)
    """All files that ever landed, by table that collects files."""
    taken: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    """The names of the files that a label has collected, by table."""
    touched: dict[str, set[int]] = field(default_factory=dict)
    """The days of rows that were added or changed since the last look, as CHANGED BY finds them, by source."""
    books: dict[str, Book] = field(default_factory=dict)
    ticks: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    """The ticks that LATEST has picked by table read, by table and label."""
    before: dict[str, Book] = field(default_factory=dict)
    """The books at the start of the run: a batch of the run may precede the restatement of its inputs."""

    dropped: dict[str, int] = field(default_factory=dict)
    """The first label that `maintain` has kept by RETAIN, by table."""

    closed: dict[tuple[str, int], Closed] = field(default_factory=dict)
    """Where CLOSE WHEN closed the books of a window, by table and label."""
    closed_before: dict[tuple[str, int], Closed] = field(default_factory=dict)
    """`closed` at the start of the run."""
    checked: dict[tuple[str, int], int] = field(default_factory=dict)
    """The boundary up to which the books of a window were certainly left open, by table and label."""

    starts: dict[str, int] = field(default_factory=dict)
    """The first label of each table that was requested; cleared when START or names change."""

    erased: dict[int, frozenset[str]] = field(default_factory=dict)
    """The tables that take no row of an erased person, by the person's key."""
    paused: set[str] = field(default_factory=set)
    is_begun_earlier: bool = False
    """Whether START of a source was moved back: done batches may then read labels that do not exist yet."""
    partly: str = ""
    """The table with PARTIAL AFTER that is evaluated without inputs that are not settled."""

    committed_with: Slices = field(default_factory=dict)
    """Slices of other labels in the commit of the one that is evaluated."""
    is_unruled: bool = False
    """Whether a label is evaluated as if its table had no rule OVER TABLE."""

    is_rebuilding: bool = False
    """Whether all tables are being rebuilt: released rows are released again if they are unchanged."""

    def __post_init__(self) -> None:
        for name in self.tables:
            self.books.setdefault(name, Book())
            self.source.setdefault(name, [])
            self.touched.setdefault(name, set())
            self.files.setdefault(name, [])
            self.taken.setdefault(name, set())
            if self.tables[name].is_form:
                self.forms.setdefault(self.tables[name].source, FormBook())

    def start(self, name: str) -> int:
        """Return the first label of a table."""
        if name not in self.starts:
            self.starts[name] = self._find_start(name)
        return self.starts[name]

    def begin_earlier(self, name: str) -> None:
        """Move START of a source back by a window."""
        table = self.tables[name]
        table.start -= table.size
        self.is_begun_earlier = True
        self.starts.clear()

    def _find_start(self, name: str) -> int:
        table = self.tables[name]
        if table.kind == "COLLECT":
            return table.start
        even, odd = table.size + 1, 1
        read = [{it for it in self._reads(table, at) if it.table != name} for at in (even, odd)]
        # LATEST and the first snapshot stand for all earlier days; they set a bound only if no other input does
        bounds = {it for each in read for it in each if not self._is_before_all(it)} or read[0] | read[1]
        starts = [max((self._first(table, it) for it in each & bounds), default=0) for each in read]
        # the first label from which on all inputs of each label's query exist; a query of snapshots sets no bound
        first = min(filter(None, starts), default=1)
        labels = range(first, max(starts) + 1, table.size)
        late = [label for label in labels if label < starts[table.is_odd(label)]]
        return max(late) + table.size if late else first

    def _is_before_all(self, read: Read) -> bool:
        return read.kind == "LATEST" or self.tables[read.table].is_snapshot

    def _first(self, table: Declared, read: Read) -> int:
        """Return the first label of a table at which one of its inputs exists."""
        u, start = self.tables[read.table], self.start(read.table)
        if u.mode == "PARTITIONED" and not u.is_snapshot and read.kind not in {"HISTORY", "LATEST"}:
            return table.first_from(start)  # its slices exist; for PREVIOUS, the next label reads the first ones
        if read.kind == "PREVIOUS":
            return table.first_from(start)  # empty there: the next label reads the rows of the first window
        return table.window_of(start + u.size - 1)  # the first window that ends at or after the first state

    def due(self, name: str) -> range:
        """Return the due labels of a table."""
        table = self.tables[name]
        behind = 0 if table.has(Closes) else self._until_days(table)
        first = max(self.start(name), self.dropped.get(name, 0))
        return range(first, self.today - behind - table.size + 1, table.size)

    def next_label(self, name: str) -> int:
        """Return the first label of a table that is not due."""
        due = self.due(name)
        return due[-1] + due.step if due else due.start

    def delivered(self, publish: Declared) -> list[list[tuple[int, Value]]]:
        """Return the possible deliveries of a publish, masked, the likeliest first.

        A label of a state of many labels is due when the inputs of all their queries are, whichever query made it.
        Delivered rows stay after they were dropped here; behind a view `maintain` drops them too, one call later.
        """
        of, found = publish.of, []
        last = self.dropped.get(of, 0) if publish.way == "behind a view" else 0
        open_ = next((label for label in self.due(of) if self.books[of].status.get(label) is None), self.today)
        for late in sorted({*range(self._days_behind(of) + 1), max(self.today - open_, 0)}):
            state = self.visible(of, self.today - 1 - late, dropped=True)
            if not isinstance(state, dict):
                found.append(sorted((row.k, masked(publish.decision, row.v)) for row in state))
                continue
            for first in range(last + 1):
                kept = {label: rows for label, rows in state.items() if label >= first}
                by_key = winners(kept, self.today, by_time=False, deletes=False)
                rows = by_key if publish.way == "MERGE" else [row for each in kept.values() for row in each]
                found.append(sorted((row.k, masked(publish.decision, row.v)) for row in rows))
        return found

    def is_newest_open(self, name: str) -> bool:
        """Return whether the newest due label waits for its source: no delivery happens until it is made."""
        due = self.due(name)
        return bool(due) and self.books[name].status.get(due[-1]) is None

    def _days_behind(self, name: str) -> int:
        """Return the days by which UNTIL delays a table, itself and through the inputs of all its queries."""
        table = self.tables[name]
        own = 0 if table.has(Closes) else self._until_days(table)
        return own + max((self._days_behind(it.table) for it in table.all_reads if it.table != name), default=0)

    @staticmethod
    def _until_days(table: Declared) -> int:
        return max((read.days for read in table.all_reads if read.kind == "UNTIL"), default=0)

    def _reads(self, table: Declared, label: int) -> tuple[Read, ...]:
        reads = table.reads_at(label)
        parents = tuple(
            Read("PLAIN", part.parent)
            for read in reads
            if read.kind == "FLAT" and isinstance(part := self.tables[read.table].part(Refers), Refers)
        )
        key = table.part(KeyPast)
        own = (Read("OWN", table.name, key.days),) if isinstance(key, KeyPast) else ()
        demand = table.part(Demands)
        asked = (Read("PLAIN", demand.parent),) if isinstance(demand, Demands) else ()
        picked = self.ticks.get((table.name, label), {})
        reads = tuple(replace(it, days=picked.get(it.table, 0)) if it.kind == "LATEST" else it for it in reads)
        return reads + parents + own + asked

    def visible(
        self, name: str, until: int = 1 << 20, *, dropped: bool = False
    ) -> Rows | tuple[Version, ...] | dict[int, Rows]:
        """Return the result of `SELECT * FROM name` at the end of a day: the labels kept by RETAIN, or a state."""
        table, book = self.tables[name], self.books[name]
        last = table.ends_by(until + 1)
        if table.mode in BY_LABEL and not table.is_snapshot:
            newest = max(book.shown, default=0)
            first = 0 if dropped else max(self.dropped.get(name, 0), self._kept_from(table, min(newest, last)))
            return {label: rows for label, rows in book.slices(first, last).items() if rows}
        if table.mode == "REPLACE":
            return book.shown[max(book.shown)].stay if book.shown else ()
        return self._fold(table, last)

    def _fold(self, table: Declared, until: int) -> Rows | tuple[Version, ...]:
        book = self.books[table.name]
        if table.is_snapshot:  # the snapshot that stands for the day is part of the state
            until = min((label for label in book.shown if label >= until), default=until)
        slices = book.slices(0, until)
        if table.mode == "MERGE":
            return winners(slices, until, by_time=table.has(ByTime), deletes=table.has(Deletes))
        if table.is_snapshot:
            return versions_of_snapshots(slices, until, table.size)
        return versions(slices, until, deletes=table.has(Deletes))

    def _judged(self, table: Declared, label: int, came: Rows, past: Slices, inputs: Inputs = ()) -> tuple[str, Made]:
        stay, known = came, Known(label, self._keys(table, label), self._is_read_whole(table))
        # the key is checked last, after other rules have removed rows; all rules see tokens
        for part in sorted(table.parts, key=lambda part: (not isinstance(part, Tokens), bool(part.of_key))):
            stay = part.stay(stay, past, known)
        made = Made(tuple(sorted(stay)), tuple(sorted(came)), inputs, table.code, self.partly == table.name)
        verdicts = {
            part.verdict(self._table_with(table, label, made.stay) if part.is_of_table else made.stay)
            for part in table.parts
            if not (part.is_of_table and self.is_unruled)
        }
        if table.mode == "MERGE" and not table.has(ByTime) and len({row.k for row in made.stay}) < len(made.stay):
            verdicts.add(FAILED)  # of two rows of a key neither is the last
        return next((it for it in (FAILED, HELD) if it in verdicts), DONE), made

    def _is_read_whole(self, table: Declared) -> bool:
        """Return whether a table of late rows, which arrive too late for their windows, has all columns of a table."""
        closing = [(it, part) for it in self.tables.values() if isinstance(part := it.part(Closes), Closes)]
        return any(
            part.has_time and any(read.kind == "UNTIL" and read.table == table.name for read in it.reads)
            for it, part in closing
        )

    def _table_with(self, table: Declared, label: int, rows: Rows) -> Rows:
        """Return the rows of a table including a batch; for a table by label, only those of the batch.

        Its other labels have no rows that break the rule, since such rows were never visible. Nor are those of a label
        that RETAIN does not keep.
        """
        if table.mode in BY_LABEL:
            newest = max(label, *self.books[table.name].shown, 0)
            return rows if label >= self._kept_from(table, newest) else ()
        slices = self.books[table.name].slices(0, 1 << 20) | self.committed_with | {label: rows}
        last = max(slices)
        if table.mode == "MERGE":
            return winners(slices, last, by_time=table.has(ByTime), deletes=table.has(Deletes))
        return tuple(Row(it.k, it.v, it.at) for it in versions(slices, last, deletes=table.has(Deletes)))

    def _keys(self, table: Declared, label: int) -> frozenset[int]:
        demand = table.part(Demands)
        if not isinstance(demand, Demands):
            return frozenset()
        pieces, _ = self._read(table, Read("PLAIN", demand.parent), label)
        return frozenset(row.k for _, rows in pieces for row in rows)

    def _outcome(self, status: str, made: Made, before: Option) -> Option:
        """Return the outcome of a batch; if it is refused, the earlier rows stay."""
        is_again = self.is_rebuilding and before.shown is not None and before.shown.stay == made.stay
        if status == DONE or (status == HELD and is_again):
            return Option(DONE, made)
        return Option(status, before.shown, made if status == HELD else None)

    def _past(self, table: Declared, label: int) -> Slices:
        part = table.part(KeyPast)
        if not isinstance(part, KeyPast):
            return {}
        return self.books[table.name].slices(*self.span(table, Read("OWN", table.name, part.days), label))

    def _inputs(self, table: Declared, label: int) -> tuple[Inputs, int, Rows]:
        """Return the inputs of a label, how far they are settled, and the result of its query."""
        if table.is_form:
            return (), YES, self.rows_of_form(table, label)
        inputs: list[tuple[str, int, Rows | tuple[Version, ...]]] = []
        is_partial = self.partly == table.name
        settled, read_rows = YES, []
        own = table.reads_at(label)
        for place, read in enumerate(self._reads(table, label)):
            pieces, sure = self._read(table, read, label)
            settled = min(settled, sure)
            inputs += [(f"{read.kind} {read.table}", of, rows) for of, rows in pieces]
            if place < len(own):
                flat = [Row(*row[:3]) for _, rows in pieces for row in rows]
                read_rows.append(self._flat(table, read, flat, label) if read.kind == "FLAT" else tuple(flat))
        closed = self.closed.get((table.name, label))
        is_partial = is_partial or (closed is not None and closed.is_partial)
        first, *more = read_rows
        return tuple(inputs), settled, table.made_of(first, tuple(more), is_partial=is_partial)

    def rows_of_form(self, table: Declared, label: int) -> Rows:
        """Return the rows of a form as of the end of a window."""
        return self.forms[table.source].rows_before(instant((label + table.size - 1) * DAY, table.hours))

    def _flat(self, table: Declared, read: Read, rows: Iterable[Row], label: int) -> Rows:
        part = self.tables[read.table].part(Refers)
        assert isinstance(part, Refers)
        parents = [it for _, piece in self._read(table, Read("PLAIN", part.parent), label)[0] for it in piece]
        found = []
        for row in rows:
            parent = in_effect((it for it in parents if isinstance(it, Version)), row.k, row.at)
            found.append(Row(row.k, row.v + (parent.v if parent else 0), row.at))
        return tuple(found)

    def _read(
        self, table: Declared, read: Read, label: int
    ) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        """Return the value of a reference at a label: slices by label, or one state; and whether they are settled."""
        u = self.tables[read.table]
        start = self.start(u.name)
        if read.kind == "LATEST":
            return self._latest(u, read.days)
        if read.kind == "UNTIL" and table.has(Closes) and (table.name, label) not in self.closed:
            return [], NO
        if self.partly not in {"", u.name}:
            return self._without(table, u, read, label)
        if u.mode in BY_LABEL and not u.is_snapshot:
            return self._labels(u, *self.span(table, read, label))
        at = u.ends_by(label if read.kind == "PREVIOUS" else label + table.size)
        if at < start and (read.kind == "PREVIOUS" or not u.is_snapshot):
            return [], YES
        return self._state(u, at)

    def _without(
        self, table: Declared, u: Declared, read: Read, label: int
    ) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        """Return a reference's value without unsettled inputs: other slices, or the newest complete earlier state."""
        if u.mode == "PARTITIONED" and not u.is_snapshot:
            first, last = self.span(table, read, label)
            pieces, settled = self._labels(u, first, last)
            is_there = YES if settled != GONE else GONE
            return [(of, rows) for of, rows in pieces if self._settled(u, of) == YES], is_there
        if u.mode == "APPEND" and not u.is_snapshot:
            return self._state_before_a_gap(table, u, read, label)
        first = self.start(u.name) + u.size - (0 if read.kind == "PREVIOUS" else table.size)
        # without a state it waits, except before the table's first label
        for at in range(label, min(label, first) - 1, -u.size):
            self.partly, without = "", self.partly
            pieces, settled = self._read(table, read, at)
            self.partly = without
            if settled == YES or (settled == GONE and at == label):
                return pieces, settled
        return [], NO

    def _state_before_a_gap(
        self, table: Declared, u: Declared, read: Read, label: int
    ) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        """Return the rows of a regular table before its first label that is not settled; without any it waits.

        RETAIN bounds them as it bounds the whole read.
        """
        low, last = self.span(table, read, label)
        self.partly, without = "", self.partly
        found = [self._labels(u, low, end) for end in range(last, low - 1, -u.size)] or [([], YES)]
        self.partly = without
        return next(((pieces, settled) for pieces, settled in found if settled in {YES, GONE}), ([], NO))

    def span(self, table: Declared, read: Read, label: int) -> tuple[int, int]:
        """Return the first and last label that a reference to a table by label covers at a label of `table`."""
        u, end = self.tables[read.table], label + table.size
        start, is_regular = self.start(u.name), u.mode == "APPEND"
        begins, ends = {
            "OWN": (end - read.days, label),
            "PLAIN": (start if is_regular else label, end),
            "FLAT": (label, end),
            "HISTORY": (start, end),
            "PREVIOUS": (start if is_regular else label - table.size, label),
            "PAST": (end - read.days, end),
            "UNTIL": (label - read.days, end + read.days),
        }[read.kind]
        if read.kind == "UNTIL" and table.has(Closes):
            closed = self.closed.get((table.name, label))
            ends = closed.tick if closed else end
        last = u.ends_by(ends)
        return max(begins, start, self._kept_from(u, last)), last

    def _latest(self, u: Declared, tick: int) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        """Return the slice that ends at a tick, or for a regular table its state there."""
        if not tick:
            return [], NO
        if u.mode not in BY_LABEL or u.is_snapshot:
            return self._state(u, tick - u.size)
        last = tick - u.size
        first = max(self.start(u.name), self._kept_from(u, last)) if u.mode == "APPEND" else last
        return self._labels(u, first, last)

    @staticmethod
    def _kept_from(u: Declared, last: int) -> int:
        """Return the first label that a read up to a label finds, as bounded by RETAIN."""
        part = u.part(Retain)
        return last + u.size - part.days if isinstance(part, Retain) else 0

    def is_gone(self, name: str, label: int) -> bool:
        """Return whether a label was dropped, or cannot be made again because one of its inputs was."""
        if label < self.dropped.get(name, 0):
            return True
        table = self.tables[name]
        return table.kind == "TRANSFORM" and self._inputs(table, label)[1] == GONE

    def _labels(self, u: Declared, first: int, last: int) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        book = self.books[u.name]
        settled = min((self._settled(u, label) for label in range(first, last + 1, u.size)), default=YES)
        if first <= last and first < self.dropped.get(u.name, 0):
            settled = GONE
        return list(book.slices(first, last).items()), settled

    def _settled(self, u: Declared, label: int) -> int:
        option = self.books[u.name].option(label)
        if option.status in {DONE, SKIPPED} and not option.asked:
            waits = self._reads_more(u, label, option) or (u.name in self.paused and self._is_stale(u, label, option))
            return MAYBE if waits or self._reads_unsettled(u, label, option) else YES
        return MAYBE if option.shown is not None or option.status == SKIPPED else NO

    def _reads_more(self, u: Declared, label: int, option: Option) -> bool:
        """Return whether a done batch is requested because a source starts earlier, and waits for the new labels."""
        if not self.is_begun_earlier or u.kind != "TRANSFORM" or u.mode == "REPLACE" or u.has(Report):
            return False
        return option.shown is not None and not option.shown.is_partial and self._inputs(u, label)[1] == NO

    def _reads_unsettled(self, u: Declared, label: int, option: Option) -> bool:
        """Return whether a done batch has an input that is about to change: then neither is settled."""
        if u.kind != "TRANSFORM" or u.mode == "REPLACE" or u.has(Report) or option.status != DONE:
            return False
        books = self.books.values()
        if not any(label in book.asked or book.status.get(label) != DONE for book in books for label in book.shown):
            return False
        return option.shown is not None and not option.shown.is_partial and self._inputs(u, label)[1] == MAYBE

    def _is_stale(self, u: Declared, label: int, option: Option) -> bool:
        """Return whether a batch of a paused table would follow a change of its inputs."""
        if u.kind != "TRANSFORM" or u.mode == "REPLACE" or option.shown is None or u.has(Report):
            return False
        return not option.shown.is_partial and self._inputs(u, label)[0] != option.shown.inputs

    def _state(self, u: Declared, at: int) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        book = self.books[u.name]
        if u.is_snapshot:
            stands = min((label for label in book.shown if label >= at), default=None)
            if u.mode == "TEMPORAL":
                return [(0, self._fold(u, at))], YES if stands is not None else NO
            return ([(0, book.shown[stands].stay)], YES) if stands is not None else ([], NO)
        if u.is_form:
            return self._state_of_form(u, at)
        if u.mode == "REPLACE":
            inputs, settled, rows = self._inputs(u, at)
            made = book.shown.get(at)
            if made is not None and made.inputs == inputs:
                return [(0, made.stay)], settled
            return [(0, self._judged(u, at, rows, {}, inputs)[1].stay)], settled
        labels = range(self.start(u.name), at + 1, u.size)
        settled = min((self._settled(u, label) for label in labels), default=YES)
        return [(0, self._fold(u, at))], settled

    def _state_of_form(self, u: Declared, at: int) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        """Return the rows of a form at a label: readers wait while it is held, and run without a skipped one."""
        option = self.books[u.name].option(at)
        if option.shown is not None:
            return [(0, option.shown.stay)], YES if option.status == DONE and not option.asked else MAYBE
        if option.status == SKIPPED:
            return [(0, ())], YES
        verdict, made = self._judged(u, at, self.rows_of_form(u, at), {})
        is_made = option.status is None and verdict == DONE and u.name not in self.paused
        return [(0, made.stay)], YES if is_made else NO
