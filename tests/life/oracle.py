"""The expected content of a life's tables from raw input and the documented rules, without planner, ledger or engine.

Where the rules leave room (a batch that may run now or after a retry of its inputs; late rows that a held batch has
read), the oracle lists all allowed options and picks the one that the engine shows. It then keeps to that choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import product
from typing import Any

from tests.life.books import (
    MAYBE,
    NO,
    TROUBLED,
    YES,
    Book,
    Option,
    Seen,
    Unexpected,
    describe_option,
    other_name,
    put,
    short,
)
from tests.life.declarations import Declared
from tests.life.part import BY_LABEL, DONE, FOLDS, HELD, SKIPPED
from tests.life.parts import OverTable, Retain
from tests.life.rows import Row, Rows, person_of
from tests.life.transforms import Transforms

SETTLED = frozenset({DONE, SKIPPED})


class Oracle(Transforms):
    """The tables of a life in topological order, its sources, and the current day: earlier windows are due."""

    # a run

    def begin(self) -> None:
        """Start a run: record the state before it."""
        self.before = {
            name: Book(dict(it.status), dict(it.shown), dict(it.held), dict(it.asked))
            for name, it in self.books.items()
        }
        self.closed_before = dict(self.closed)

    def options(self, name: str) -> dict[int, list[Option]]:
        """Return the possible outcomes of each due label of a table in a run now, the likeliest first."""
        table = self.tables[name]
        if table.kind == "PUBLISH":
            return {}
        if table.is_snapshot:
            return self._snapshot(table)
        if table.is_by_file:
            return self._collect_files(table)
        if table.is_form:
            return self._form(table)
        return self._collect(table) if table.kind == "COLLECT" else self._transform(table)

    def take(self, name: str, options: Mapping[int, list[Option]], seen: Seen | None) -> None:
        """Take over the state of a table in the engine or, without one, the likeliest outcome.

        Raises  Unexpected if the state is not one of the allowed outcomes
        """
        table, book = self.tables[name], self.books[name]
        is_new = [label for label in options if table.is_by_file and book.status.get(label) != DONE]
        files = {label: self.files_of(table, label) for label in is_new}
        self._take(name, options, seen)
        if seen is not None and table.has(OverTable) and (broken := self.broken_over_table(name)):
            raise Unexpected(f"{name} shows {broken}, which its rule OVER TABLE refuses")
        for label in is_new:
            if book.status.get(label) == DONE:
                self.taken[name] |= {file.name for file in files[label]}

    def broken_over_table(self, name: str) -> list[int]:
        """Return the visible values of a table that its rule OVER TABLE refuses."""
        found = self.visible(name)
        rows = [row for each in found.values() for row in each] if isinstance(found, dict) else found
        return [row.v for row in rows if OverTable().verdict((Row(row.k, row.v, row.at),)) != DONE]

    def _take(self, name: str, options: Mapping[int, list[Option]], seen: Seen | None) -> None:
        table, book = self.tables[name], self.books[name]
        if seen is None:
            for label, each in options.items():
                book.take(label, each[0])
                latest = [it.table for it in table.reads_at(label) if it.kind == "LATEST"]
                if latest and (label in book.shown or label in book.held) and (name, label) not in self.ticks:
                    self.ticks[name, label] = {of: self._newest_ticks(of)[0] for of in latest}
            return
        legal = {label: [it for it in each if it.status == seen.status.get(label)] for label, each in options.items()}
        for label, each in legal.items():
            if not each:
                allowed = " or ".join(sorted({str(it.status) for it in options[label]}))
                raise Unexpected(
                    f"{name}@{label} is {seen.status.get(label)}, not {allowed}; now {seen.rows}\n"
                    f"before {book.option(label)}\nallowed {options[label]}"
                )
        is_sealed = table.has(Retain) or table.is_form or (table.mode in FOLDS and not table.is_snapshot)
        by_label = seen.slices if is_sealed else seen.rows if table.mode in BY_LABEL else None
        if isinstance(by_label, Mapping):
            self._take_labels(name, legal, by_label)
            if self.visible(name) != seen.rows:
                raise Unexpected(f"{name} has {seen.rows}, but its slices give {self.visible(name)}")
            return
        for chosen in product(*legal.values()):
            for label, option in zip(legal, chosen, strict=True):
                book.take(label, option)
            if self.visible(name) == seen.rows:
                return
        raise Unexpected(f"{name} has {short(seen.rows)}; one allowed state is {short(self.visible(name))}")

    def _take_labels(self, name: str, legal: Mapping[int, list[Option]], by_label: Mapping[int, Rows]) -> None:
        book = self.books[name]
        stray = set(by_label) - {*legal, *book.shown}
        if stray:
            raise Unexpected(f"{name} has rows of {sorted(stray)}, which are not its labels")
        for label, each in legal.items():
            rows = by_label.get(label, ())
            fits = [it for it in each if (it.shown.stay if it.shown else ()) == rows]
            if not fits:
                told = " or\n  ".join(map(describe_option, each))
                raise Unexpected(f"{name}@{label} has {short(rows)}, allowed\n  {told}\nbefore {book.option(label)}")
            book.take(label, fits[0])

    def renamed(self, old: str, new: str) -> None:
        """Apply a table's new name to the recorded inputs of other tables."""
        self.starts.clear()
        self.ticks = {
            (new if name == old else name, label): {new if of == old else of: tick for of, tick in picked.items()}
            for (name, label), picked in self.ticks.items()
        }
        for book in self.books.values():
            for kept in (book.shown, book.held):
                for label, made in kept.items():
                    inputs = tuple((other_name(read, old, new), of, rows) for read, of, rows in made.inputs)
                    kept[label] = replace(made, inputs=inputs)
        self.closed = {(new if name == old else name, label): it for (name, label), it in self.closed.items()}
        self.checked = {(new if name == old else name, label): it for (name, label), it in self.checked.items()}
        self.erased = {
            key: frozenset(new if name == old else name for name in tables) for key, tables in self.erased.items()
        }
        if old in self.dropped:
            self.dropped[new] = self.dropped.pop(old)

    def erase(self, key: int, tables: AbstractSet[str]) -> None:
        """Remove all rows of a person from some tables, also as inputs of others: no batch becomes stale."""
        self.erased[key] = frozenset(tables)

        def without(rows: Any) -> Any:
            return tuple(row for row in rows if person_of(row.k) != key)

        for name in tables & self.source.keys():
            self.source[name] = [*without(self.source[name])]
        for name in tables & self.files.keys():
            self.files[name] = [file._replace(rows=without(file.rows)) for file in self.files[name]]
        for name, book in self.books.items():
            for label, made in book.shown.items():
                inputs: Any = tuple(
                    (read, of, without(rows) if read.split(" ")[1] in tables else rows)
                    for read, of, rows in made.inputs
                )
                stay, came = (without(made.stay), without(made.came)) if name in tables else (made.stay, made.came)
                book.shown[label] = replace(made, stay=stay, came=came, inputs=inputs)

    def is_erased(self, name: str, key: int) -> bool:
        """Return whether batches of a table drop rows of a key."""
        return name in self.erased.get(person_of(key), frozenset())

    # decisions of people

    def ask(self, name: str, label: int, verb: str) -> None:
        """Request a label: `recompute`, `recollect`, `retry`, `release`."""
        book = self.books[name]
        if verb == "retry":
            book.held.pop(label, None)
            book.asked.pop(label, None)  # a request to release it
            if label not in book.shown:
                self.ticks.pop((name, label), None)  # LATEST keeps only the tick of a done batch
                book.status.pop(label)
                return
        book.asked[label] = verb

    def looked(self, name: str) -> None:
        """Forget changes of windows that show the content of the source; the next look finds the others."""
        if not self.tables[name].is_by_data_time:
            return
        came: dict[int, list[Row]] = {}
        for row in self.source[name]:
            came.setdefault(self.tables[name].window_of(row.day), []).append(row)
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
        """Forget facts without a trace in tables: failures, held rows, skips and all requests."""
        for book in self.books.values():
            for label, status in [*book.status.items()]:
                if status != DONE:
                    put(book.status, label, DONE if label in book.shown else None)
            book.held.clear()
            book.asked.clear()
        self.ticks = {(name, label): it for (name, label), it in self.ticks.items() if label in self.books[name].shown}
        self.closed = {key: it for key, it in self.closed.items() if key[1] in self.books[key[0]].shown}
        self.checked.clear()

    def reset(self, name: str) -> None:
        """Forget the whole state of a table."""
        self.books[name] = Book()
        self.taken[name] = set()  # files are collected again, from the archive
        self.dropped.pop(name, None)
        self.ticks = {key: it for key, it in self.ticks.items() if key[0] != name}
        self.closed = {key: it for key, it in self.closed.items() if key[0] != name}
        self.checked = {key: it for key, it in self.checked.items() if key[0] != name}

    def released(self, name: str, label: int) -> None:
        """Mark late rows that a released batch had read: the next batch's LOOKBACK finds them, or a batch of their own.

        The next batch reads the released window, too, even if its LOOKBACK does not reach it.
        """
        table, book = self.tables[name], self.books[name]
        book.late |= {window for window in self._looked_back(table, label) if window in book.shown}
        if table.lookback_days:
            book.late.add(label)

    def troubles(self) -> list[tuple[str, int, str]]:
        """Return the labels that failed or are held."""
        return [
            (name, label, status)
            for name, book in self.books.items()
            for label, status in sorted(book.status.items())
            if status in TROUBLED and not self.is_gone(name, label)
        ]

    # windows dropped by `maintain`

    def droppable(self, name: str) -> tuple[int, int]:
        """Return the lowest and highest first label that `maintain` may keep, by RETAIN and the remaining readers."""
        table, book = self.tables[name], self.books[name]
        part = table.part(Retain)
        assert isinstance(part, Retain)
        known = self.dropped.get(name, 0)
        if not book.shown:
            return known, known
        kept = max(book.shown) + table.size - part.days
        most = least = kept
        for reader in self.tables.values():
            if reader.kind == "PUBLISH":
                if reader.of == name:
                    least = 0
                    most = min([most, *(label for label in self.due(name) if book.status.get(label) not in SETTLED)])
                continue
            for label in (*self.due(reader.name), self.next_label(reader.name)):
                first = self._first_read(reader, label, name)
                to_do = self._to_do(reader, label) if first is not None else NO
                if first is not None and to_do != NO:
                    least = min(least, first)
                    most = min(most, first) if to_do == YES else most

        def from_label(first: int) -> int:
            """Return the first label that is kept; windows without rows leave no rows to drop."""
            has_rows = any(made.stay for label, made in book.shown.items() if known <= label < first)
            return max(known, first) if has_rows else known

        return from_label(least), from_label(most)

    def _to_do(self, reader: Declared, label: int) -> int:
        option = self.books[reader.name].option(label)
        if reader.mode == "REPLACE":
            return MAYBE
        if option.shown is None:
            return NO if option.status == SKIPPED else MAYBE if option.status == HELD else YES
        if option.asked:
            return MAYBE if option.asked == "release" else YES
        return NO if self._inputs(reader, label)[0] == option.shown.inputs else MAYBE

    def _first_read(self, reader: Declared, label: int, of: str) -> int | None:
        """Return the first label of a table that a label of a reader reads, if it reads any."""
        found = []
        for read in self._reads(reader, label):
            if read.table == of and read.kind != "LATEST":
                first, last = self.span(reader, read, label)
                found += [first] if first <= last else []
        return min(found, default=None)
