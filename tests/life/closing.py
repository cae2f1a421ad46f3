"""Where the books of windows are closed (CLOSE WHEN), and which rows are late, by docs/howto/close-the-books.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tests.life.books import MAYBE, YES, Book, Closed, Unexpected
from tests.life.declarations import Declared
from tests.life.part import SKIPPED, Read
from tests.life.parts import Closes, Partial
from tests.life.reading import Reading
from tests.life.rows import Row, Rows


class Closing(Reading):
    """The books that a life's tables close."""

    def close(self, name: str, seen: Mapping[int, Closed] | None) -> None:
        """Close the windows of a table, in order, whose condition is true now; or take over the ticks of the engine.

        Raises  Unexpected if a tick of the engine is not allowed
        """
        table, before = self.tables[name], 0
        if not table.has(Closes):
            return
        is_open = False
        for label in self.due(name):
            known, found = self.closed.get((name, label)), None if seen is None else seen.get(label)
            found = found and replace(found, tick=found.first)
            if known is not None:
                before = max(before, known.first)
            elif self.books[name].status.get(label) == SKIPPED or is_open:
                if found is not None:
                    raise Unexpected(f"{name}@{label} is closed at {found}, and not in order")
            else:
                allowed = self._closings(table, label, before)
                chosen = allowed[0] if seen is None else found
                if chosen not in allowed:
                    raise Unexpected(f"{name}@{label} is closed at {chosen}, not {' or '.join(map(str, allowed))}")
                if chosen is None:
                    is_open = True
                    self.checked[name, label] = self._settled_until(table, label, YES)
                else:
                    self.closed[name, label] = chosen
                    before = max(before, chosen.first)
        for of, label in [*self.closed]:
            if of == name:
                self._open_again(table, label, seen)

    def _closings(self, table: Declared, label: int, before: int) -> list[Closed | None]:
        """Return where an open window may be closed now, the likeliest option first; None: it may stay open."""
        u, found, likeliest = self._until(table)[0], list[Closed | None](), None
        first = max(label + table.size, self.checked.get((table.name, label), 0) + u.size, before)
        sure = self._settled_until(table, label, YES)
        for tick in range(first, self._settled_until(table, label, MAYBE) + 1, u.size):
            now, then = (self._at(table, label, tick, books) for books in (self.books, self.before))
            found += [it for it in (now, then) if it is not None]
            likeliest = likeliest or (now if tick <= sure else None)
            if now and then and tick <= sure:
                return [likeliest, *found]
        return [likeliest, *found, None]

    def _at(self, table: Declared, label: int, tick: int, books: Mapping[str, Book]) -> Closed | None:
        """Return how a boundary closes a window, judged by older books; None if it does not."""
        if self._holds(table, label, tick, books):
            return Closed(tick, tick)
        part = table.part(Partial)
        is_last = isinstance(part, Partial) and part.is_over(label + table.size, tick)
        return Closed(tick, tick, is_partial=True) if is_last else None

    def _until(self, table: Declared) -> tuple[Declared, Read]:
        read = next(it for it in table.reads if it.kind == "UNTIL")
        return self.tables[read.table], read

    def _settled_until(self, table: Declared, label: int, least: int) -> int:
        """Return the newest boundary before which all slices that a window reads are settled."""
        u, read = self._until(table)
        first = max(label - read.days, self.start(u.name))
        end = first
        while end + u.size <= self.today and self._settled(u, end) >= least:
            end += u.size
        return end

    def _holds(self, table: Declared, label: int, tick: int, books: Mapping[str, Book]) -> bool:
        """Return whether the condition is true for the rows before a tick; in older books slices may be missing."""
        u, read = self._until(table)
        part = table.part(Closes)
        assert isinstance(part, Closes)
        slices = self.books[u.name].slices(label - read.days, tick - u.size)
        slices |= books[u.name].slices(label - read.days, tick - u.size) if u.name in books else {}
        rows = tuple(row for each in slices.values() for row in each)
        return part.holds(rows, label + table.size)

    def closable(self, name: str) -> tuple[int, list[int]] | None:
        """Return the window that may be closed by hand, and at which boundaries; None if there is none."""
        table, part = self.tables[name], self.tables[name].part(Closes)
        assert isinstance(part, Closes)
        if not part.by_hand:
            return None
        before = 0
        for label in self.due(name):
            if (known := self.closed.get((name, label))) is not None:
                before = max(before, known.first)
            elif self.books[name].status.get(label) != SKIPPED:
                ticks = {self._settled_until(table, label, least) for least in (YES, MAYBE)}
                legal = sorted(max(tick, before) for tick in ticks if tick >= label + table.size)
                return (label, legal) if legal else None
        return None

    def first_open(self, name: str) -> int | None:
        """Return the oldest ended window that is neither closed nor skipped."""
        labels = (label for label in self.due(name) if (name, label) not in self.closed)
        return next((label for label in labels if self.books[name].status.get(label) is None), None)

    def first_not_made(self, name: str) -> int:
        """Return the first label of a table that is waiting or not due."""
        labels = (label for label in self.due(name) if self.books[name].status.get(label) is None)
        is_state = self.tables[name].mode == "REPLACE" or self.tables[name].is_snapshot
        return self.next_label(name) if is_state else next(labels, self.next_label(name))

    # late rows

    def late(self, name: str, made_late: Collection[int] = ()) -> dict[int, list[tuple[Row, str]]]:
        """Return the rows that are too late for their windows, or too early, by slice of the table read by UNTIL.

        `made_late`: the slices whose late rows are known.  Raises  Unexpected if a row should have reopened its window
        """
        table, found = self.tables[name], dict[int, list[tuple[Row, str]]]()
        part = table.part(Closes)
        assert isinstance(part, Closes)
        u, read = self._until(table)
        for slice_, made in self.books[u.name].shown.items():
            for row in made.stay:
                label = table.window_of(row.day)
                if label < self.start(name):
                    continue
                closed = self.closed.get((name, label))
                if slice_ < label - read.days:
                    found.setdefault(slice_, []).append((Row(*row[:3]), "early"))
                elif self._is_late(table, label, slice_, closed):
                    if slice_ in made_late and slice_ < label + table.size + part.lateness:
                        raise Unexpected(f"{name}@{label} is closed at {closed}, but not reopened by a row of {slice_}")
                    found.setdefault(slice_, []).append((Row(*row[:3]), "late"))
        return {slice_: sorted(rows) for slice_, rows in found.items()}

    def _is_late(self, table: Declared, label: int, slice_: int, closed: Closed | None) -> bool:
        return closed is not None and slice_ >= closed.tick and self.books[table.name].status.get(label) != SKIPPED

    def _open_again(self, table: Declared, label: int, seen: Mapping[int, Closed] | None) -> None:
        """Add late rows to a closed window: all of them if it is requested again, or those within MAX LATENESS."""
        part, known = table.part(Closes), self.closed[table.name, label]
        assert isinstance(part, Closes)
        u, _ = self._until(table)
        ends = [self._late_ends(books, u, table, label, known.tick) for books in (self.books, self.before)]
        ticks = [known.tick]
        if self.books[table.name].asked.get(label) == "recompute" and part.has_time:
            ticks = [max(it, default=known.tick) for it in ends]
        elif part.lateness and self.books[table.name].status.get(label) != SKIPPED:
            # late rows are known once the earlier windows are closed: until then they reopen no window
            within = {it for each in ends for it in each if it - u.size < label + table.size + part.lateness}
            ticks = [max(within, default=known.tick), known.tick, *within]
        legal = [replace(known, tick=tick) for tick in ticks]
        found = legal[0] if seen is None else seen.get(label)
        if found is None or found not in legal:
            raise Unexpected(f"{table.name}@{label} is closed at {found}, not {legal}")
        self.closed[table.name, label] = found

    def ticks_between(self, name: str, label: int) -> list[int]:
        """Return the ticks at which a window's books were closed in this run before late rows reopened it."""
        now, before = self.closed.get((name, label)), self.closed_before.get((name, label))
        if now is None:
            return []
        u, _ = self._until(self.tables[name])
        ticks = {*self._late_ends(self.books, u, self.tables[name], label, now.first), now.first}
        return sorted(tick for tick in ticks if (before.tick if before else 0) < tick < now.tick)

    @staticmethod
    def _late_ends(books: Mapping[str, Book], u: Declared, table: Declared, label: int, tick: int) -> list[int]:
        """Return the ends of the slices from a tick on that have rows of a window."""
        shown = books[u.name].shown if u.name in books else {}
        return [at + u.size for at, made in shown.items() if at >= tick and _has(table, label, made.stay)]


def _has(table: Declared, label: int, rows: Rows) -> bool:
    return any(table.window_of(row.day) == label for row in rows)
