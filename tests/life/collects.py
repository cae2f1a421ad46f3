"""The expected results of collects, by docs/explain/time.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tests.life.books import TROUBLED, Made, Option
from tests.life.declarations import Declared
from tests.life.part import DONE, FAILED, FOLDS, HELD, SKIPPED
from tests.life.parts import Changed
from tests.life.reading import Reading
from tests.life.rows import File, Rows


class Collects(Reading):
    """A life's sources and the tables that collect them."""

    def _collect(self, table: Declared) -> dict[int, list[Option]]:
        book, found = self.books[table.name], {}
        came: dict[int, Rows] = {}
        for row in self.source[table.name]:
            window = table.window_of(row.day)
            came[window] = (*came.get(window, ()), row)
        is_behind = False  # an earlier label of an ordered table failed or is held
        new: list[int] = []
        for label in self.due(table.name):
            before = book.option(label)
            options = [before]
            if before.status is None or before.asked in {"retry", "recollect"}:
                status, rows = self._judged(table, label, came.get(label, ()), {})
                alone = self._outcome(status, rows, before)
                if before.asked != "recollect":
                    status = self._worst(status, self._again(table, label, came).values())
                made = self._outcome(status, rows, before)
                options = [made, before] if is_behind and before.status is None else [made]
                if before.asked == "retry" and self._may_not_look_back(table, label):
                    options.append(alone)
                elif before.status is None or before.asked == "retry":
                    new.append(label)
                if made.status in TROUBLED and made.shown is None:
                    is_behind = is_behind or table.is_sequential
            elif before.asked:
                options = [self._asked_again(table, label, before)]
            if before.status in TROUBLED and before.shown is None and options[0].status in TROUBLED:
                is_behind = is_behind or table.is_sequential
            found[label] = options
        if table.lookback_days:
            self._look_back(table, new, found, came)
        return found

    def _form(self, table: Declared) -> dict[int, list[Option]]:
        """Collect the newest state of a form; older ones are collected if another table reads them."""
        book, due = self.books[table.name], self.due(table.name)
        found: dict[int, list[Option]] = {}
        for label in due:
            before = book.option(label)
            made = self._outcome(*self._judged(table, label, self.rows_of_form(table, label), {}), before)
            if before.asked == "release":
                found[label] = [Option(DONE, before.held)]
            elif before.asked:
                found[label] = [made]
            elif before.status is None:
                found[label] = [made] if label == due[-1] else [before, made]
            else:
                found[label] = [before]
        return found

    def _asked_again(self, table: Declared, label: int, before: Option) -> Option:
        """Return the outcome of a label that is requested by a verb that does not read the source."""
        if before.asked == "release":
            return Option(DONE, before.held)
        assert before.shown is not None
        if before.asked == "give up":  # the archive still has its files, but rows of other sources are lost
            came = before.shown.came if table.is_by_file else ()
            return Option(DONE, replace(before.shown, stay=(), came=came))
        # checked again: a released batch is held again, and keeps its released rows
        status, made = self._judged(table, label, before.shown.came, {})
        return self._outcome(status, made if table.is_by_file else before.shown, before)

    def _collect_files(self, table: Declared) -> dict[int, list[Option]]:
        """Collect the files of a window by their stamps; late files go to the oldest window that is not collected."""
        book, found = self.books[table.name], {}
        is_behind = False
        for label in self.due(table.name):
            before = book.option(label)
            options = [before]
            if before.status is None or before.asked == "retry":
                came = tuple(row for file in self.files_of(table, label) for row in file.rows)
                made = self._outcome(*self._judged(table, label, came, {}), before)
                options = [made, before] if is_behind else [made]
                if not self.is_complete(table, label):
                    options = [before]
                is_behind = is_behind or options[0].status != DONE
            elif before.asked:
                options = [self._asked_again(table, label, before)]
            elif before.status in TROUBLED and before.shown is None:
                is_behind = True
            found[label] = options
        return found

    def is_complete(self, table: Declared, label: int) -> bool:
        """Return whether the folder's clock, a second after its newest stamp, has passed a window."""
        end = label + table.size
        return any(file.day >= end or (file.day == end - 1 and not file.place) for file in self.files[table.name])

    def files_of(self, table: Declared, label: int) -> list[File]:
        """Return the files of a window that is not collected yet."""
        book, name = self.books[table.name], table.name
        new = [file for file in self.files[name] if file.name not in self.taken[name]]
        open_ = [it for it in self.due(name) if book.status.get(it) not in {DONE, SKIPPED}]

        def window_of(file: File) -> int:
            own = table.window_of(file.day)
            is_open = own >= self.start(name) and book.status.get(own) not in {DONE, SKIPPED}
            return own if is_open else min(open_, default=0)  # files of a skipped window count as late, too

        return [file for file in new if window_of(file) == label]

    def _look_back(
        self, table: Declared, new: Iterable[int], found: dict[int, list[Option]], came: Mapping[int, Rows]
    ) -> None:
        """Read windows before new batches again: certainly for visible batches, possibly for others."""
        book = self.books[table.name]
        surely: dict[int, Option] = {}
        perhaps: dict[int, Option] = {}
        reach: set[int] = set()
        for label in new:
            is_shown = all(it.status == DONE for it in found[label])
            (surely if is_shown else perhaps).update(self._again(table, label, came))
            reach |= self._looked_back(table, label) if is_shown else set()
        # a batch that is requested again looks back too
        asked_again = [
            label
            for label, asked in book.asked.items()
            if asked == "recollect" or (asked == "retry" and self._may_not_look_back(table, label))
        ]
        for label in asked_again:
            perhaps |= self._again(table, label, came)
        for window in set().union(*(self._looked_back(table, label) for label in (*new, *asked_again))):
            if book.asked.get(window) == "give up":  # before a batch reads it again, or after
                status, made = self._judged(table, window, came.get(window, ()), {})
                found[window].append(self._outcome(status, made, book.option(window)))
        perhaps |= self._changed(table, book.late, came)
        for window, again in (perhaps | surely).items():
            found[window] = [again] if window in surely else [book.option(window), again]
        book.late -= reach

    def _may_not_look_back(self, table: Declared, label: int) -> bool:
        """Return whether a retry may be only for the late rows of a held window: such a retry does not look back."""
        return table.mode in FOLDS and label in self.books[table.name].shown

    def _again(self, table: Declared, label: int, came: Mapping[int, Rows]) -> dict[int, Option]:
        """Return the new outcomes of the windows that a batch of this label finds changed."""
        windows = self._looked_back(table, label)
        return self._changed(table, windows & self.touched[table.name] if table.has(Changed) else windows, came)

    @staticmethod
    def _looked_back(table: Declared, label: int) -> set[int]:
        return set(range(label - table.lookback_days, label, table.size))

    def _changed(self, table: Declared, windows: Iterable[int], came: Mapping[int, Rows]) -> dict[int, Option]:
        found = {window: self._window_again(table, window, came) for window in windows}
        return {window: again for window, again in found.items() if again}

    def _window_again(self, table: Declared, window: int, came: Mapping[int, Rows]) -> Option | None:
        """Return the outcome of a done window that is read again; None if it is unchanged.

        A held attempt at it is replaced.
        """
        before = self.books[table.name].option(window)
        if window < self.dropped.get(table.name, 0):
            return None
        if before.status not in {DONE, HELD} or before.asked or before.shown is None:
            return None
        rows = self._read_again(table, before.shown, came.get(window, ()))
        status, made = self._judged(table, window, rows, {})
        return None if made.stay == before.shown.stay else self._outcome(status, made, before)

    @staticmethod
    def _worst(own: str, windows: Iterable[Option]) -> str:
        """Return the status of a batch: if a window that it reads again fails, the batch fails as well.

        A window that is held is left out, and held on its own.
        """
        return FAILED if FAILED in {it.status for it in windows} else own

    @staticmethod
    def _read_again(table: Declared, shown: Made | None, came: Rows) -> Rows:
        """Return the rows of a window that LOOKBACK reads again; folds keep rows that the source has replaced."""
        if table.mode not in FOLDS or shown is None:
            return came
        known = {(row.k, row.at): row for row in shown.came}
        return tuple((known | {(row.k, row.at): row for row in came}).values())

    def _snapshot(self, table: Declared) -> dict[int, list[Option]]:
        """Return the current content of the source for the newest window."""
        book, newest = self.books[table.name], table.ends_by(self.today)
        found = {label: [book.option(label)] for label in book.status}
        if newest >= table.start and newest not in book.status:
            _, made = self._judged(table, newest, tuple(self.source[table.name]), {})
            found[newest] = [Option(DONE, made)]
        for label, asked in book.asked.items():
            if asked == "recompute":
                found[label] = [Option(DONE, book.shown[label])]
        return found
