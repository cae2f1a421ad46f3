"""What a life's tables must hold: raw input and the documented rules alone, without planner, ledger or engine.

Where the rules leave room (a batch that may run now or after what troubles its inputs; late rows that a held batch has
read), the oracle offers all that is allowed, and takes what it sees. What it has taken holds from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from tests.life.declarations import (
    BY_LABEL,
    DONE,
    FAILED,
    FOLDS,
    HELD,
    SKIPPED,
    ByTime,
    Changed,
    Declared,
    Deletes,
    Demands,
    KeyPast,
    Known,
    Read,
    Refers,
    Report,
)
from tests.life.rows import Row, Rows, Slices, Version, in_effect, versions, versions_of_snapshots, winners

TROUBLED = frozenset({HELD, FAILED})
Inputs = tuple[tuple[str, int, Rows | tuple[Version, ...]], ...]
YES, MAYBE, NO = 2, 1, 0
"""Whether what is read is settled; MAYBE: rows are there, but the label was tried again in vain."""


@dataclass(frozen=True)
class Made:
    """Rows of a label, as they came and as they stayed, what it was made of, and by which code."""

    stay: Rows
    came: Rows
    inputs: Inputs = ()
    code: int = 0


@dataclass(frozen=True)
class Option:
    """What a label may have come to: its status, the rows that readers see (None: none yet), and what is held."""

    status: str | None
    shown: Made | None
    held: Made | None = None
    asked: str | None = None


@dataclass
class Book:
    """What is known of a table's labels. `late`: windows whose late rows a held batch has read, `Oracle.released`."""

    status: dict[int, str] = field(default_factory=dict)
    shown: dict[int, Made] = field(default_factory=dict)
    held: dict[int, Made] = field(default_factory=dict)
    asked: dict[int, str] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)

    def option(self, label: int) -> Option:
        return Option(self.status.get(label), self.shown.get(label), self.held.get(label), self.asked.get(label))

    def take(self, label: int, option: Option) -> None:
        _put(self.status, label, option.status)
        _put(self.shown, label, option.shown)
        _put(self.held, label, option.held)
        _put(self.asked, label, option.asked)

    def slices(self, first: int, last: int) -> Slices:
        return {label: made.stay for label, made in sorted(self.shown.items()) if first <= label <= last}


@dataclass(frozen=True)
class Seen:
    """What the engine shows of a table: the status of each label, and its rows, by label or as a whole.

    `slices`: of MERGE and TEMPORAL tables what is sealed for each label. `ticks`: by label and table read the day that
    begins at the tick which LATEST picked.
    """

    status: Mapping[int, str]
    rows: Mapping[int, Rows] | tuple[Row, ...] | tuple[Version, ...]
    slices: Mapping[int, Rows] = field(default_factory=dict)
    ticks: Mapping[int, Mapping[str, int]] = field(default_factory=dict)


class Unexpected(AssertionError):
    """What is seen of a table is nothing that the rules allow."""


@dataclass
class Oracle:
    """The tables of a life in topological order, its sources, and the day on which it is: earlier windows are due."""

    tables: dict[str, Declared]
    today: int = 1
    source: dict[str, list[Row]] = field(default_factory=dict)
    touched: dict[str, set[int]] = field(default_factory=dict)
    """By source, the days of rows that were added or changed since the last look, as CHANGED BY finds them."""
    books: dict[str, Book] = field(default_factory=dict)
    ticks: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    """By table and label the ticks that LATEST has picked, by table read."""
    before: dict[str, Book] = field(default_factory=dict)
    """The books as they were when the run began: in it a batch may go before what it reads is restated."""

    def __post_init__(self) -> None:
        for name in self.tables:
            self.books.setdefault(name, Book())
            self.source.setdefault(name, [])
            self.touched.setdefault(name, set())

    def start(self, name: str) -> int:
        """Return the first label of a table."""
        table = self.tables[name]
        if table.kind == "COLLECT":
            return table.start
        read = [{it.table for it in self._reads(table, at) if it.kind != "LATEST"} - {name} for at in (0, 1)]
        # beside other tables, in whichever query, the first snapshot stands for all days before
        bounds = {it for each in read for it in each if not self.tables[it].is_snapshot} or read[0] | read[1]
        starts = [max((self.start(it) for it in each & bounds), default=1) for each in read]
        # the first label from which on all that the query of each label reads is there
        late = [label for label in range(1, max(starts) + 1) if label < starts[label % 2]]
        return max(late) + 1 if late else 1

    def due(self, name: str) -> range:
        """Return the labels of a table that are due."""
        behind = max((read.days for read in self.tables[name].all_reads if read.kind == "UNTIL"), default=0)
        return range(self.start(name), self.today - behind)

    def delivered(self, of: str) -> list[list[tuple[int, int]]]:
        """Return what a publish of a table may have delivered, the likeliest first.

        Of a state that many labels make, a label is due when the inputs of all their queries are, whichever made it.
        """
        states = [self.visible(of, self.today - 1 - late) for late in range(self._days_behind(of) + 1)]
        rows = [[row for each in it.values() for row in each] if isinstance(it, dict) else it for it in states]
        return [sorted((row.k, row.v) for row in it) for it in rows]

    def _days_behind(self, name: str) -> int:
        """Return by how many days UNTIL holds up a table, itself and by all that any of its queries reads."""
        reads = self.tables[name].all_reads
        own = max((read.days for read in reads if read.kind == "UNTIL"), default=0)
        return own + max((self._days_behind(read.table) for read in reads if read.table != name), default=0)

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

    # a run

    def begin(self) -> None:
        """Begin a run: know what stood before it."""
        self.before = {
            name: Book(dict(it.status), dict(it.shown), dict(it.held), dict(it.asked))
            for name, it in self.books.items()
        }

    def options(self, name: str) -> dict[int, list[Option]]:
        """Return what each due label of a table may have come to by a run of now, the likeliest first."""
        table = self.tables[name]
        if table.kind == "PUBLISH":
            return {}
        if table.is_snapshot:
            return self._snapshot(table)
        return self._collect(table) if table.kind == "COLLECT" else self._transform(table)

    def take(self, name: str, options: Mapping[int, list[Option]], seen: Seen | None) -> None:
        """Go on with what is seen of a table, or, where nothing is, with what is likeliest.

        Raises  Unexpected where what is seen is nothing that is allowed
        """
        table, book = self.tables[name], self.books[name]
        if seen is None:
            for label, each in options.items():
                book.take(label, each[0])
                latest = [it.table for it in table.reads_at(label) if it.kind == "LATEST"]
                if latest and label in book.shown and (name, label) not in self.ticks:
                    self.ticks[name, label] = {of: self._newest_ticks(of)[0] for of in latest}
            return
        legal = {label: [it for it in each if it.status == seen.status.get(label)] for label, each in options.items()}
        for label, each in legal.items():
            if not each:
                allowed = sorted({str(it.status) for it in options[label]})
                raise Unexpected(f"{name}@{label} is {seen.status.get(label)}, not {' or '.join(allowed)}")
        is_fold = table.mode in FOLDS and not table.is_snapshot
        by_label = seen.slices if is_fold else seen.rows if table.mode in BY_LABEL else None
        if isinstance(by_label, Mapping):
            self._take_labels(name, legal, by_label)
            if self.visible(name) != seen.rows:
                raise Unexpected(f"{name} has {seen.rows}, its slices make {self.visible(name)}")
            return
        for chosen in product(*legal.values()):
            for label, option in zip(legal, chosen, strict=True):
                book.take(label, option)
            if self.visible(name) == seen.rows:
                return
        raise Unexpected(f"{name} has {_short(seen.rows)}, allowed for one {_short(self.visible(name))}")

    def _take_labels(self, name: str, legal: Mapping[int, list[Option]], by_label: Mapping[int, Rows]) -> None:
        book = self.books[name]
        stray = set(by_label) - {*legal, *book.shown}
        if stray:
            raise Unexpected(f"{name} has rows of {sorted(stray)}, which are no labels of it")
        for label, each in legal.items():
            rows = by_label.get(label, ())
            fits = [it for it in each if (it.shown.stay if it.shown else ()) == rows]
            if not fits:
                told = " or\n  ".join(map(_told, each))
                raise Unexpected(f"{name}@{label} has {_short(rows)}, allowed\n  {told}\nbefore {book.option(label)}")
            book.take(label, fits[0])

    def renamed(self, old: str, new: str) -> None:
        """Follow a table's new name in what others were made of."""
        self.ticks = {
            (new if name == old else name, label): {new if of == old else of: tick for of, tick in picked.items()}
            for (name, label), picked in self.ticks.items()
        }
        for book in self.books.values():
            for kept in (book.shown, book.held):
                for label, made in kept.items():
                    inputs = tuple((_other_name(read, old, new), of, rows) for read, of, rows in made.inputs)
                    kept[label] = replace(made, inputs=inputs)

    def visible(self, name: str, until: int = 1 << 20) -> Rows | tuple[Version, ...] | dict[int, Rows]:
        """Return what `SELECT * FROM name` gives: of tables by label the rows of each label."""
        table, book = self.tables[name], self.books[name]
        if table.mode in BY_LABEL and not table.is_snapshot:
            return {label: rows for label, rows in book.slices(0, until).items() if rows}
        if table.mode == "REPLACE":
            return book.shown[max(book.shown)].stay if book.shown else ()
        return self._fold(table, until)

    def _fold(self, table: Declared, until: int) -> Rows | tuple[Version, ...]:
        slices = self.books[table.name].slices(0, until)
        if table.mode == "MERGE":
            return winners(slices, until, by_time=table.has(ByTime), deletes=table.has(Deletes))
        if table.is_snapshot:
            return versions_of_snapshots(slices, until)
        return versions(slices, until, deletes=table.has(Deletes))

    def _judged(self, table: Declared, label: int, came: Rows, past: Slices, inputs: Inputs = ()) -> tuple[str, Made]:
        stay, known = came, Known(label, self._keys(table, label))
        # the key is asked last: rows that another rule takes out have no say
        for part in sorted(table.parts, key=lambda part: bool(part.of_key)):
            stay = part.stay(stay, past, known)
        made = Made(tuple(sorted(stay)), tuple(sorted(came)), inputs, table.code)
        verdicts = {part.verdict(made.stay) for part in table.parts}
        if table.mode == "MERGE" and not table.has(ByTime) and len({row.k for row in made.stay}) < len(made.stay):
            verdicts.add(FAILED)  # of two rows of a key none is the last
        return next((it for it in (FAILED, HELD) if it in verdicts), DONE), made

    def _keys(self, table: Declared, label: int) -> frozenset[int]:
        demand = table.part(Demands)
        if not isinstance(demand, Demands):
            return frozenset()
        pieces, _ = self._read(Read("PLAIN", demand.parent), label)
        return frozenset(row.k for _, rows in pieces for row in rows)

    def _outcome(self, status: str, made: Made, before: Option) -> Option:
        """Return what a batch came to; of one that is refused the rows before stay."""
        if status == DONE:
            return Option(DONE, made)
        return Option(status, before.shown, made if status == HELD else None)

    # collects

    def _collect(self, table: Declared) -> dict[int, list[Option]]:
        book, found = self.books[table.name], {}
        came: dict[int, Rows] = {}
        for row in self.source[table.name]:
            came[row.day] = (*came.get(row.day, ()), row)
        is_behind = False  # an earlier label of a table in order is troubled
        new: list[int] = []
        for label in self.due(table.name):
            before = book.option(label)
            options = [before]
            if before.status is None or before.asked in {"retry", "recollect"}:
                status, rows = self._judged(table, label, came.get(label, ()), {})
                if before.asked != "recollect":
                    status = self._worst(status, self._again(table, label, came).values())
                made = self._outcome(status, rows, before)
                options = [made, before] if is_behind and before.status is None else [made]
                if before.status is None or before.asked == "retry":
                    new.append(label)
                if made.status in TROUBLED and made.shown is None:
                    is_behind = is_behind or table.is_sequential
            elif before.asked == "recompute":
                options = [Option(DONE, before.shown)]
            elif before.asked == "release":
                options = [Option(DONE, before.held)]
            if before.status in TROUBLED and before.shown is None and options[0].status in TROUBLED:
                is_behind = is_behind or table.is_sequential
            found[label] = options
        if table.lookback_days:
            self._look_back(table, new, found, came)
        return found

    def _look_back(
        self, table: Declared, new: Iterable[int], found: dict[int, list[Option]], came: Mapping[int, Rows]
    ) -> None:
        """Let windows before new batches be read again: of batches that are shown surely, of others not."""
        book = self.books[table.name]
        surely: dict[int, Option] = {}
        perhaps: dict[int, Option] = {}
        reach: set[int] = set()
        for label in new:
            is_shown = all(it.status == DONE for it in found[label])
            (surely if is_shown else perhaps).update(self._again(table, label, came))
            reach |= set(range(label - table.lookback_days, label)) if is_shown else set()
        for label, asked in book.asked.items():
            if asked == "recollect":  # asked for again for itself, a batch looks back too
                perhaps |= self._again(table, label, came)
        perhaps |= self._changed(table, book.late, came)
        for window, again in (perhaps | surely).items():
            found[window] = [again] if window in surely else [book.option(window), again]
        book.late -= reach

    def _again(self, table: Declared, label: int, came: Mapping[int, Rows]) -> dict[int, Option]:
        """Return what the windows come to that a batch of this label finds changed."""
        windows = set(range(label - table.lookback_days, label))
        return self._changed(table, windows & self.touched[table.name] if table.has(Changed) else windows, came)

    def _changed(self, table: Declared, windows: Iterable[int], came: Mapping[int, Rows]) -> dict[int, Option]:
        found = {window: self._window_again(table, window, came) for window in windows}
        return {window: again for window, again in found.items() if again}

    def _window_again(self, table: Declared, window: int, came: Mapping[int, Rows]) -> Option | None:
        """Return what a window that is done comes to where it is read again; None where it is as it was."""
        before = self.books[table.name].option(window)
        if before.status != DONE or before.asked or before.shown is None:
            return None
        rows = self._read_again(table, before.shown, came.get(window, ()))
        status, made = self._judged(table, window, rows, {})
        return None if made.stay == before.shown.stay else self._outcome(status, made, before)

    @staticmethod
    def _worst(own: str, windows: Iterable[Option]) -> str:
        """Return what becomes of a batch: a window that it reads again, and that breaks a rule, stops it as well."""
        every = {own, *(it.status for it in windows)}
        return next((it for it in (FAILED, HELD) if it in every), DONE)

    @staticmethod
    def _read_again(table: Declared, shown: Made | None, came: Rows) -> Rows:
        """Return what a window holds that LOOKBACK reads again; folds keep rows that the source has replaced."""
        if table.mode not in FOLDS or shown is None:
            return came
        known = {(row.k, row.at): row for row in shown.came}
        return tuple((known | {(row.k, row.at): row for row in came}).values())

    def _snapshot(self, table: Declared) -> dict[int, list[Option]]:
        """Take the source as it is now, for the newest window alone."""
        book, newest = self.books[table.name], self.today - 1
        found = {label: [book.option(label)] for label in book.status}
        if newest >= table.start and newest not in book.status:
            _, made = self._judged(table, newest, tuple(self.source[table.name]), {})
            found[newest] = [Option(DONE, made)]
        for label, asked in book.asked.items():
            if asked == "recompute":
                found[label] = [Option(DONE, book.shown[label])]
        return found

    # transforms

    def _transform(self, table: Declared) -> dict[int, list[Option]]:
        if table.mode == "REPLACE":
            return self._replace(table)
        book, found = self.books[table.name], {}
        known = {label: book.option(label) for label in self.due(table.name)}
        is_behind = False
        for label, before in known.items():
            found[label] = self._label(table, label, before, is_behind=is_behind)
            book.take(label, found[label][0])  # what later labels read of their own past
            if table.is_sequential and any(it.status in TROUBLED | {None} for it in found[label]):
                is_behind = True
        for label, before in known.items():
            book.take(label, before)
        return found

    def _label(self, table: Declared, label: int, before: Option, *, is_behind: bool) -> list[Option]:
        """Return what a label may have come to; of a LATEST whose tick is not known at each that it may have picked."""
        of = next((it.table for it in table.reads_at(label) if it.kind == "LATEST"), "")
        key = table.name, label
        if not of or self.ticks.get(key):
            return self._label_at(table, label, before, is_behind=is_behind)
        found: list[Option] = []
        for tick in self._newest_ticks(of) or (0,):
            self.ticks[key] = {of: tick}
            found += self._label_at(table, label, before, is_behind=is_behind)
        del self.ticks[key]
        return list(dict.fromkeys(found))

    def _newest_ticks(self, of: str) -> list[int]:
        """Return the ticks that LATEST may pick in a run, newest first: older ones while newer labels are restated."""
        u, found = self.tables[of], []
        is_by_label = u.mode in {"PARTITIONED", "REPLACE"}
        for label in self.due(of):
            is_there = self._settled(u, label) != NO or (
                u.is_snapshot and any(it >= label for it in self.books[of].shown)
            )
            if is_there:
                found.append(label + 1)
            elif not is_by_label:
                break
        return found[::-1]

    def pick(self, name: str, ticks: Mapping[int, Mapping[str, int]]) -> None:
        """Take the ticks that a table's labels are seen to have picked; they keep them from then on.

        Raises  Unexpected where another one is seen, or one at which nothing is settled
        """
        for label, picked in ticks.items():
            known = self.ticks.setdefault((name, label), dict(picked))
            if known != picked:
                raise Unexpected(f"{name}@{label} has LATEST at {picked}, and had it at {known}")

    def _label_at(self, table: Declared, label: int, before: Option, *, is_behind: bool) -> list[Option]:
        if before.status == SKIPPED:
            return [before]
        if before.asked == "release":
            inputs, _, _ = self._inputs(table, label)
            assert before.held is not None
            shown = Option(DONE, before.held)
            return [shown] if inputs == before.held.inputs else [Option(HELD, before.shown, before.held)]
        is_new = before.status is None or before.asked == "retry"
        if before.status in TROUBLED and not before.asked:
            return [before]
        inputs, settled, rows = self._inputs(table, label)
        if settled == NO:
            # what is made of what is not there is not made; made before, it may follow what else has changed, or wait
            waits = Option(None if is_new else before.status, before.shown, before.held, before.asked)
            return [waits] if is_new else [waits, *self._made_again(table, label, before, rows, inputs)]
        if is_new:
            made = self._outcome(*self._judged(table, label, rows, self._past(table, label), inputs), before)
            waits = Option(None, before.shown, None, before.asked)
            early = self._early(table, label, before)
            return [made, *early, waits] if settled == MAYBE or is_behind else [made, *early]
        again = self._made_again(table, label, before, rows, inputs)
        return again if settled == YES and not is_behind else [*again, before]

    def _early(self, table: Declared, label: int, before: Option) -> list[Option]:
        """Return what a label came to that was made before what it reads was restated, and stays so.

        That is where restatements are only reported, and where what was made then is refused.
        """
        now, own = self.books, self.books[table.name]
        self.books = self.before | {table.name: own}
        try:
            inputs, settled, rows = self._inputs(table, label)
            if settled == NO:
                return []
            early = self._outcome(*self._judged(table, label, rows, self._past(table, label), inputs), before)
        finally:
            self.books = now
        return [early] if table.has(Report) or early.status != DONE else []

    def _made_again(self, table: Declared, label: int, before: Option, rows: Rows, inputs: Inputs) -> list[Option]:
        assert before.shown is not None
        judged = self._judged(table, label, rows, self._past(table, label), inputs)
        again = self._outcome(*judged, before)
        if before.asked == "recompute":
            return [again]
        if inputs == before.shown.inputs:
            # the code may have changed: then slices that make no difference are seen in what it makes
            return [before] if table.code == before.shown.code else [before, again]
        return [before] if table.has(Report) else [again, *self._early(table, label, before)]

    def _replace(self, table: Declared) -> dict[int, list[Option]]:
        """Make the newest label; older ones are made where another table reads them."""
        book, due = self.books[table.name], list(self.due(table.name))
        found: dict[int, list[Option]] = {}
        for label in due:
            before = book.option(label)
            inputs, settled, rows = self._inputs(table, label)
            made = self._outcome(*self._judged(table, label, rows, {}, inputs), before)
            if label != due[-1]:
                found[label] = [before, made] if settled else [before]
            elif settled == YES:
                is_same = before.shown is not None and before.shown.inputs == inputs and not before.asked
                by_other_code = before.shown is not None and before.shown.code != table.code
                found[label] = [before, *[made] * by_other_code] if is_same else [made]
            else:
                found[label] = [before, made] if settled == MAYBE or before.shown else [before]
        return found

    def _past(self, table: Declared, label: int) -> Slices:
        part = table.part(KeyPast)
        if not isinstance(part, KeyPast):
            return {}
        return self.books[table.name].slices(max(label + 1 - part.days, self.start(table.name)), label - 1)

    def _inputs(self, table: Declared, label: int) -> tuple[Inputs, int, Rows]:
        """Return what a label reads, how far that is settled, and what its query makes of it."""
        inputs: list[tuple[str, int, Rows | tuple[Version, ...]]] = []
        settled, read_rows = YES, []
        own = table.reads_at(label)
        for place, read in enumerate(self._reads(table, label)):
            pieces, sure = self._read(read, label)
            settled = min(settled, sure)
            inputs += [(f"{read.kind} {read.table}", of, rows) for of, rows in pieces]
            if place < len(own):
                flat = [Row(*row[:3]) for _, rows in pieces for row in rows]
                read_rows.append(self._flat(read, flat, label) if read.kind == "FLAT" else tuple(flat))
        first, *more = read_rows
        return tuple(inputs), settled, table.made_of(first, tuple(more))

    def _flat(self, read: Read, rows: Iterable[Row], label: int) -> Rows:
        part = self.tables[read.table].part(Refers)
        assert isinstance(part, Refers)
        parents = self._fold(self.tables[part.parent], label)
        found = []
        for row in rows:
            parent = in_effect((it for it in parents if isinstance(it, Version)), row.k, row.at)
            found.append(Row(row.k, row.v + (parent.v if parent else 0), row.at))
        return tuple(found)

    def _read(self, read: Read, label: int) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        """Return what a reference means at a label: pieces by label, or one state; and whether they are settled."""
        u = self.tables[read.table]
        start = self.start(u.name)
        if read.kind == "LATEST":
            return self._latest(u, read.days)
        if read.kind == "OWN":
            return self._labels(u, max(label + 1 - read.days, start), label - 1)
        if u.mode in BY_LABEL and not u.is_snapshot:
            is_regular = u.mode == "APPEND"
            first, last = {
                "PLAIN": (start if is_regular else label, label),
                "FLAT": (label, label),
                "HISTORY": (start, label),
                "PREVIOUS": (start if is_regular else label - 1, label - 1),
                "PAST": (label + 1 - read.days, label),
                "UNTIL": (label - read.days, label + read.days),
            }[read.kind]
            return self._labels(u, max(first, start), last)
        at = label - 1 if read.kind == "PREVIOUS" else label
        if at < start and (read.kind == "PREVIOUS" or not u.is_snapshot):
            return [], YES
        return self._state(u, at)

    def _latest(self, u: Declared, tick: int) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        """Return the slice that ends at a tick, or of a regular table its state there."""
        if not tick:
            return [], NO
        if u.mode not in BY_LABEL or u.is_snapshot:
            return self._state(u, tick - 1)
        return self._labels(u, self.start(u.name) if u.mode == "APPEND" else tick - 1, tick - 1)

    def _labels(self, u: Declared, first: int, last: int) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        book = self.books[u.name]
        settled = min((self._settled(u, label) for label in range(first, last + 1)), default=YES)
        return list(book.slices(first, last).items()), settled

    def _settled(self, u: Declared, label: int) -> int:
        option = self.books[u.name].option(label)
        if option.status in {DONE, SKIPPED} and not option.asked:
            return YES
        return MAYBE if option.shown is not None or option.status == SKIPPED else NO

    def _state(self, u: Declared, at: int) -> tuple[list[tuple[int, Rows | tuple[Version, ...]]], int]:
        book = self.books[u.name]
        if u.is_snapshot:
            stands = min((label for label in book.shown if label >= at), default=None)
            if u.mode == "TEMPORAL":
                return [(0, self._fold(u, at))], YES if stands is not None else NO
            return ([(0, book.shown[stands].stay)], YES) if stands is not None else ([], NO)
        if u.mode == "REPLACE":
            inputs, settled, rows = self._inputs(u, at)
            made = book.shown.get(at)
            if made is not None and made.inputs == inputs:
                return [(0, made.stay)], settled
            return [(0, self._judged(u, at, rows, {}, inputs)[1].stay)], settled
        settled = min((self._settled(u, label) for label in range(self.start(u.name), at + 1)), default=YES)
        return [(0, self._fold(u, at))], settled

    # what people do

    def ask(self, name: str, label: int, verb: str) -> None:
        """Ask for a label: `recompute`, `recollect`, `retry`, `release`."""
        book = self.books[name]
        if verb == "retry":
            book.held.pop(label, None)
            if label not in book.shown:
                book.status.pop(label)
                return
        book.asked[label] = verb

    def looked(self, name: str) -> None:
        """Forget the changes of windows that are shown as the source has them; others are found by the next look."""
        came: dict[int, list[Row]] = {}
        for row in self.source[name]:
            came.setdefault(row.day, []).append(row)
        book = self.books[name]
        for window in list(self.touched[name]):
            shown = book.shown.get(window)
            if shown is not None and shown.came == tuple(sorted(came.get(window, []))):
                self.touched[name].discard(window)

    def skip(self, name: str, label: int) -> None:
        book = self.books[name]
        book.status[label] = SKIPPED
        book.held.pop(label, None)
        book.asked.pop(label, None)

    def forget(self) -> None:
        """Forget what left no trace in tables: failures, what is held, skips, and all that was asked for."""
        for book in self.books.values():
            for label, status in [*book.status.items()]:
                if status != DONE:
                    _put(book.status, label, DONE if label in book.shown else None)
            book.held.clear()
            book.asked.clear()
        self.ticks = {(name, label): it for (name, label), it in self.ticks.items() if label in self.books[name].shown}

    def reset(self, name: str) -> None:
        """Forget all of a table."""
        self.books[name] = Book()
        self.ticks = {key: it for key, it in self.ticks.items() if key[0] != name}

    def released(self, name: str, label: int) -> None:
        """After a release late rows that the batch had read come by the next batch's LOOKBACK, or by themselves."""
        table, book = self.tables[name], self.books[name]
        book.late |= {window for window in range(label - table.lookback_days, label) if window in book.shown}

    def troubles(self) -> list[tuple[str, int, str]]:
        """Return the labels that failed or are held."""
        return [
            (name, label, status)
            for name, book in self.books.items()
            for label, status in sorted(book.status.items())
            if status in TROUBLED
        ]


def _put(into: dict[int, Any], label: int, value: Any) -> None:
    if value is None:
        into.pop(label, None)
    else:
        into[label] = value


def _other_name(read: str, old: str, new: str) -> str:
    kind, name = read.split(" ")
    return f"{kind} {new if name == old else name}"


def _told(option: Option) -> str:
    if option.shown is None:
        return "no rows"
    of = option.shown
    read = "".join(f"\n    {read} {label or ''} {_short(rows)}" for read, label, rows in of.inputs)
    return f"{_short(of.stay)}, code {of.code}, made of{read}"


def _short(rows: Iterable[object]) -> str:
    text = ", ".join(str(tuple(it)) if isinstance(it, tuple) else str(it) for it in rows)
    return f"[{text[:600]}]"
