"""The expected results of transforms, by docs/explain/consistency.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.life.books import GONE, MAYBE, NO, TROUBLED, YES, Book, Inputs, Option, Unexpected
from tests.life.closing import Closing
from tests.life.collects import Collects
from tests.life.declarations import Declared
from tests.life.part import BY_LABEL, DONE, FAILED, FOLDS, HELD, SKIPPED
from tests.life.parts import Closes, OverTable, Partial, Report
from tests.life.rows import Rows, Slices


class Transforms(Collects, Closing):
    """A life's tables that are computed from others."""

    def _transform(self, table: Declared) -> dict[int, list[Option]]:
        if table.mode == "REPLACE":
            return self._replace(table)
        unruled: Mapping[int, list[Option]] = {}
        if table.has(OverTable) and table.mode in FOLDS:
            self.is_unruled = True
            unruled = self._labels_made(table, {})
            self.is_unruled = False
        return self._labels_made(table, unruled)

    def _labels_made(self, table: Declared, unruled: Mapping[int, list[Option]]) -> dict[int, list[Option]]:
        """Return the possible outcomes of each due label; `unruled`: the outcomes without a rule OVER TABLE."""
        book, found = self.books[table.name], {}
        known = {label: book.option(label) for label in self.due(table.name)}
        is_behind = False
        for label, before in known.items():
            found[label] = self._label(table, label, before, is_behind=is_behind)
            if unruled and any(it.status == FAILED for it in found[label]):
                others = self._others(label, known, unruled)
                found[label] = self._with_others(table, label, before, found[label], others)
            book.take(label, found[label][0])  # later labels read it as their own past
            if table.is_sequential and any(it.status in TROUBLED | {None} for it in found[label]):
                is_behind = True
        for label, before in known.items():
            book.take(label, before)
        return found

    @staticmethod
    def _others(label: int, known: Mapping[int, Option], unruled: Mapping[int, list[Option]]) -> list[Slices]:
        """Return the sets of other slices with which a label may share a commit, for the check of a rule OVER TABLE.

        Labels that run again are checked together, and with the first new label; a new one with those that run again.
        Which labels share a commit is not documented.
        """
        found: list[Slices] = []
        again: Slices = {}
        is_new = known[label].shown is None
        for other, options in unruled.items():
            made = options[0].shown
            if other == label or made is None or made == known[other].shown:
                continue
            if known[other].shown is not None:
                again = again | {other: made.stay}
                found.append(again)
            elif other > label and not is_new:
                found.append(again | {other: made.stay})
                is_new = True
        return found

    def _with_others(
        self, table: Declared, label: int, before: Option, alone: list[Option], others: list[Slices]
    ) -> list[Option]:
        """Return the possible outcomes of a label that fails alone: with others in its commit it may be done."""
        done: list[Option] = []
        for self.committed_with in others:
            found = self._label(table, label, before, is_behind=False)
            done += [it for it in found if it.status == DONE and it not in (*done, *alone)]
        self.committed_with = {}
        return [*alone, *done]

    def _label(self, table: Declared, label: int, before: Option, *, is_behind: bool) -> list[Option]:
        """Return the possible outcomes of a label; if the tick of its LATEST is unknown, those at each possible one."""
        if before.asked == "give up":
            assert before.shown is not None
            return [Option(DONE, replace(before.shown, stay=(), came=()))]
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
        first_gap = 0
        for label in self.due(of):
            is_there = self._settled(u, label) != NO or (
                u.is_snapshot and any(it >= label for it in self.books[of].shown)
            )
            if not is_there:
                first_gap = label
            elif is_by_label or first_gap < max(1, self._kept_from(u, label)):
                found.append(label + u.size)
        return found[::-1]

    def pick(self, name: str, ticks: Mapping[int, Mapping[str, int]]) -> None:
        """Record the ticks that a table's labels have picked in the engine; labels keep them from then on.

        Raises  Unexpected if a label has another tick, or one whose inputs are not settled
        """
        for label, picked in ticks.items():
            known = self.ticks.setdefault((name, label), dict(picked))
            if known != picked:
                raise Unexpected(f"{name}@{label} has LATEST at {picked}, but had it at {known}")

    def _label_at(self, table: Declared, label: int, before: Option, *, is_behind: bool) -> list[Option]:
        inputs, settled, rows = self._inputs(table, label)
        is_left = before.status == SKIPPED or (before.status in TROUBLED and not before.asked)
        if is_left or settled == GONE:  # a label whose inputs were dropped keeps its rows
            return [before]
        if before.asked == "release":
            return self._released(table, label, before, inputs, settled)
        is_new = before.status is None or before.asked == "retry"
        if table.has(Partial) and not table.has(Closes):
            found = self._partial(table, label, before, settled, is_behind=is_behind)
            if found:
                return found
        if settled == NO:
            # a new label is not made without its inputs; one made before may follow other changes, or wait
            waits = Option(None if is_new else before.status, before.shown, before.held, before.asked)
            return [waits] if is_new else [waits, *self._made_again(table, label, before, rows, inputs, settled)]
        if is_new:
            made = self._outcome(*self._judged(table, label, rows, self._past(table, label), inputs), before)
            waits = Option(None, before.shown, None, before.asked)
            early = [*self._early(table, label, before, settled), *self._between(table, label, before)]
            return [made, *early, waits] if settled == MAYBE or is_behind else [made, *early]
        again = self._made_again(table, label, before, rows, inputs, settled)
        again += self._between(table, label, before)
        return again if settled == YES and not is_behind else [*again, before]

    def remakable(self, table: Declared) -> list[int]:
        """Return the labels of a transform whose rows `recompute` certainly makes again from its inputs."""
        is_by_label = table.kind == "TRANSFORM" and table.mode in BY_LABEL and not table.answers
        # a window that is requested again includes late rows, which the rules may refuse
        if not is_by_label or table.name in self.paused or table.has(Closes):
            return []
        self.closed_before = dict(self.closed)  # no run is active
        book, due = self.books[table.name], self.due(table.name)
        whole = {label: made for label, made in book.shown.items() if made.stay and not made.is_partial}
        asked = [label for label, made in whole.items() if label in due and book.option(label) == Option(DONE, made)]
        for label in asked:
            book.asked[label] = "recompute"
        options = self._transform(table)
        for label in asked:
            del book.asked[label]
        return [label for label in asked if all(it.status == DONE and it.asked is None for it in options[label])]

    def _partial(self, table: Declared, label: int, before: Option, settled: int, *, is_behind: bool) -> list[Option]:
        """Return the outcomes of a label that may be, or is, made without some inputs; empty if it is whole."""
        is_partial = before.shown is not None and before.shown.is_partial and before.asked != "retry"
        is_new = before.status is None or before.asked == "retry"
        if settled == YES:
            return [before] if is_partial and before.asked != "recompute" and table.has(Report) else []
        if is_partial and not before.asked:
            return [before]  # it follows no change until all inputs exist
        part = table.part(Partial)
        assert isinstance(part, Partial)
        if not (is_new or is_partial) or not part.is_over(label + table.size, self.today):
            return []  # a whole batch is not replaced by a partial one
        waits = Option(None if is_new else before.status, before.shown, before.held, before.asked)
        without = self._made_without(table, label, before)
        if without is None:
            return [waits]
        tried = self._made_whole(table, label, before) if settled == MAYBE else []
        has_no_columns = any(not self.books[read.table].shown for read in self._reads(table, label))
        return [without, *tried, *[waits] * (is_behind or has_no_columns)]

    def _made_without(self, table: Declared, label: int, before: Option) -> Option | None:
        """Return the outcome of a batch without unsettled inputs; None if it waits for its own past."""
        self.partly = table.name
        try:
            inputs, settled, rows = self._inputs(table, label)
            if settled != YES:
                return None
            return self._outcome(*self._judged(table, label, rows, self._past(table, label), inputs), before)
        finally:
            self.partly = ""

    def _made_whole(self, table: Declared, label: int, before: Option) -> list[Option]:
        inputs, _, rows = self._inputs(table, label)
        return [self._outcome(*self._judged(table, label, rows, self._past(table, label), inputs), before)]

    def _released(self, table: Declared, label: int, before: Option, inputs: Inputs, settled: int) -> list[Option]:
        """Return the outcomes of a label to be released: with other inputs it stays held.

        It may have been released before its inputs were restated in the same run; then it follows them. While an input
        may change, because it is held itself or to be made again, the request waits.
        """
        held, stays = before.held, Option(HELD, before.shown, before.held)
        assert held is not None
        if inputs == held.inputs:
            return [Option(DONE, held), *[before] * (settled != YES)]
        now, own = self.books, self.books[table.name]
        self.books = self.before | {table.name: own}
        try:
            is_as_held = self._inputs(table, label)[0] == held.inputs
        finally:
            self.books = now
        released = Option(DONE, held)
        if not is_as_held:
            return [stays]
        if table.has(Report):
            return [stays, released]
        again = self._made_again(table, label, released, self._inputs(table, label)[2], inputs, settled)
        return [stays, *again] if settled == YES else [stays, *again, released]

    def _early(self, table: Declared, label: int, before: Option, settled: int) -> list[Option]:
        """Return the outcomes of a label that was made before its inputs were restated, and stays so.

        This happens if restatements are only reported, if the new result is refused, or if the inputs are not settled
        (`settled`), so that it is not made again yet.
        """
        now, own = self.books, self.books[table.name]
        self.books = self.before | {table.name: own}
        try:
            inputs, was_settled, rows = self._inputs(table, label)
            if was_settled in {NO, GONE}:
                return []
            early = self._outcome(*self._judged(table, label, rows, self._past(table, label), inputs), before)
        finally:
            self.books = now
        return [early] if table.has(Report) or early.status != DONE or settled != YES else []

    def _between(self, table: Declared, label: int, before: Option) -> list[Option]:
        """Return the outcomes of a label made in this run from windows that late rows reopened later in the run.

        If the new result is refused, the earlier rows stay; a refused result stays refused.
        """
        if not self.closed:
            return []
        now, found = self._inputs(table, label), list[Option]()
        judged = self._judged(table, label, now[2], self._past(table, label), now[0])
        for option in [*self._closed_between(table, label, before), *self._read_between(table, label, before)]:
            is_left = option.status != DONE or table.has(Report)
            last = option if is_left else self._outcome(*judged, replace(option, asked=None))
            if (is_left or last.status != DONE) and last not in found:
                found.append(last)
        return found

    def _closed_between(self, table: Declared, label: int, before: Option) -> list[Option]:
        """Return the outcomes of a window at each tick at which its books were closed in this run before the last."""
        found, key = list[Option](), (table.name, label)
        for tick in self.ticks_between(*key):
            last = self.closed[key]
            self.closed[key] = replace(last, tick=tick)
            inputs, settled, rows = self._inputs(table, label)
            if settled not in {NO, GONE}:
                found.append(self._outcome(*self._judged(table, label, rows, self._past(table, label), inputs), before))
            self.closed[key] = last
        return found

    def _read_between(self, table: Declared, label: int, before: Option) -> list[Option]:
        """Return the outcomes of a label for each state, in this run, of a window that it reads."""
        found, now = list[Option](), self.books
        read = {it.table for it in self._reads(table, label)} - {table.name}
        for name, window in [key for key in self.closed if key[0] in read]:
            of = self.before[name].option(window)
            for option in self._closed_between(self.tables[name], window, of):
                book = Book(dict(now[name].status), dict(now[name].shown))
                book.take(window, option)
                self.books = now | {name: book}
                inputs, settled, rows = self._inputs(table, label)
                if option.status == DONE and settled not in {NO, GONE}:
                    found.append(
                        self._outcome(*self._judged(table, label, rows, self._past(table, label), inputs), before)
                    )
                self.books = now
        return found

    def _made_again(
        self, table: Declared, label: int, before: Option, rows: Rows, inputs: Inputs, settled: int
    ) -> list[Option]:
        assert before.shown is not None
        judged = self._judged(table, label, rows, self._past(table, label), inputs)
        again = self._outcome(*judged, before)
        if before.asked == "recompute":
            return [again]
        if inputs == before.shown.inputs and not before.shown.is_partial:
            # the code may have changed: then slices without an effect on the old code may affect the result
            return [before] if table.code == before.shown.code else [before, again]
        return [before] if table.has(Report) else [again, *self._early(table, label, before, settled)]

    def _partial_state(self, table: Declared, label: int, before: Option, settled: int) -> list[Option]:
        """Return the outcomes of the newest state if it may be made without some inputs; empty if it waits.

        Older states are not completed, as no table reads them.
        """
        part = table.part(Partial)
        if not isinstance(part, Partial) or not part.is_over(label + table.size, self.today):
            return []
        if before.shown is not None:  # a whole state stays; a partial one changes only when all inputs exist
            return [before] if before.shown.is_partial and not before.asked else []
        without = self._made_without(table, label, before)
        if without is None:
            return [before]
        tried = self._made_whole(table, label, before) if settled == MAYBE else []
        has_no_columns = any(not self.books[read.table].shown for read in self._reads(table, label))
        return [without, *tried, *[before] * has_no_columns]

    def _replace(self, table: Declared) -> dict[int, list[Option]]:
        """Make the newest label; older ones are made if another table reads them."""
        due = list(self.due(table.name))
        return {label: self.state_options(table, label, is_newest=label == due[-1]) for label in due}

    def state_options(self, table: Declared, label: int, *, is_newest: bool) -> list[Option]:
        """Return the possible outcomes of a state of a REPLACE table; `is_newest`: it is made even without readers."""
        before = self.books[table.name].option(label)
        inputs, settled, rows = self._inputs(table, label)
        made = self._outcome(*self._judged(table, label, rows, {}, inputs), before)
        if settled == GONE:
            return [before]
        if not is_newest:
            return [before, made] if settled else [before]
        if settled != YES and (partial := self._partial_state(table, label, before, settled)):
            return partial
        if settled == YES:
            is_same = before.shown is not None and before.shown.inputs == inputs and not before.asked
            is_same = is_same and before.shown is not None and not before.shown.is_partial
            by_other_code = before.shown is not None and before.shown.code != table.code
            return [before, *[made] * by_other_code] if is_same else [made]
        return [before, made] if settled == MAYBE or before.shown else [before]
