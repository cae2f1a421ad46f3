"""Decisions of people in a life: retry, release, skip, restate, close books, change code, and pause."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.life.books import Closed, Option, Unexpected
from tests.life.editing import Editing
from tests.life.part import BY_LABEL, DONE, HELD, SKIPPED
from tests.life.parts import Bucketed, Closes, Clustered, Sorted
from tests.life.people import Apart, Persons
from waterclock.errors import WaterclockError
from waterclock.flow.apart import apart_of

VERBS = ("retry", "release", "skip")


@dataclass
class Deciding(Editing):
    """A life's flow, its sources, and the people who run it."""

    paused: set[str] = field(default_factory=set)

    def decide(self) -> None:
        """Decide about a label that failed or is held."""
        if troubles := self.oracle.troubles():
            name = self.pick([name for name, _, _ in troubles], *VERBS)
            self._decide(*self.random.choice([it for it in troubles if it[0] == name]))

    def _decide(self, name: str, label: int, status: str) -> None:
        book = self.oracle.books[name]
        # a form's rows of then never change, so most retries would fail again
        skips = 4 if self.forms else 1
        verbs = ["retry", "retry"] + ["release"] * 3 * (status == HELD) + ["skip"] * skips * (label not in book.shown)
        verb = self._verb(verbs, name)
        if self.flow[name].is_by_file:
            files = self.oracle.files_of(self.flow[name], label) if verb == "retry" else []
            for file in files if self.random.random() < 0.7 else ():
                rows = [row._replace(v=row.v + row.v % 2) for row in file.rows]
                self.put_file(name, file._replace(rows=tuple(rows)))
        elif verb == "retry" and self.flow[name].kind == "COLLECT" and self.random.random() < 0.7:
            window_of = self.flow[name].window_of
            rows = [row for row in self.oracle.source[name] if window_of(row.day) == label]
            for row in [row for row in rows if row.v % 20 in {7, 9}]:
                self._put(name, row._replace(v=row.v + 1))
        self._ask(verb, name, label)

    def _verb(self, verbs: list[str], name: str) -> str:
        """Choose a verb: often one that the table's declarations have not met yet."""
        if self.random.random() < 0.85:
            verbs = [verb for verb in verbs if self.gain(verb, name)] or verbs
        return self.random.choice(verbs)

    def ask(self) -> None:
        """Request a label that is done or skipped."""
        if self.random.random() < 0.3 and self.take_back():
            return
        done = [
            (name, label)
            for name, book in self.oracle.books.items()
            for label, status in book.status.items()
            if status == DONE and (self.flow[name].mode != "REPLACE" or self.flow[name].is_form)
            if not self.oracle.is_gone(name, label)
        ]
        if done:
            name, label = self._label(done, "recompute", "recollect", "skip refused")
            if self.random.random() < (0.4 if self.gain("skip refused", name) else 0.1):
                self._skip_done(name, label)
                return
            is_source = self.flow[name].is_by_data_time or self.flow[name].is_form or self.flow[name].answers
            self._ask(self._verb(["recompute", *["recollect"] * bool(is_source)], name), name, label)

    def _label(self, found: list[tuple[str, int]], *whats: str) -> tuple[str, int]:
        name = self.pick([name for name, _ in found], *whats)
        return self.random.choice(sorted(it for it in found if it[0] == name))

    def take_back(self, *, is_new: bool = False) -> bool:
        """Undo a skip; return whether there was one. `is_new`: only of a table that has not met this yet."""
        skipped = [
            (name, label)
            for name, book in self.oracle.books.items()
            for label, status in book.status.items()
            if status == SKIPPED and not self.oracle.is_gone(name, label)
            if not is_new or self.gain("skip taken back", name)
        ]
        if skipped:
            name, label = self._label(skipped, "skip taken back")
            self._say(name, "skip taken back", label)
            self._ask("retry", name, label)
        return bool(skipped)

    def _skip_done(self, name: str, label: int) -> None:
        """Verify that a batch that is done cannot be skipped."""
        self._say(name, "skip refused", label)
        if self.world is None:
            return
        with self.world.tiny.ledger() as ledger:
            try:
                ledger.decisions.skip(name, [self._window(name, label)], who="ann", why="lost")
            except WaterclockError as error:
                if error.code == "E413":
                    return
                raise
        raise Unexpected(f"{name}@{label} was skipped although it is done")

    def _ask(self, verb: str, name: str, label: int) -> None:
        self._say(name, verb, label)
        if self.world is not None:
            with self.world.tiny.ledger() as ledger:
                decisions, at = ledger.decisions, [self.moment(label)]
                if verb == "retry":
                    decisions.retry(name, at, who="ann")
                elif verb == "release":
                    decisions.request_release(name, at, who="ann", why="known")
                elif verb == "skip":
                    decisions.skip(name, [self._window(name, label)], who="ann", why="lost")
                else:
                    decisions.request_restate(name, at, verb, who="ann")
        if verb == "skip":
            self.oracle.skip(name, label)
        else:
            self.oracle.ask(name, label, verb)

    def damage(self) -> None:
        """Damage the file of a collected label and give it up: it is done and empty until it is read again."""
        found = [
            (name, label)
            for name, table in self.flow.items()
            for label, made in self.oracle.books[name].shown.items()
            if table.kind == "COLLECT" and table.mode in BY_LABEL and not table.is_snapshot and name not in self.paused
            if made.stay and label >= self.oracle.dropped.get(name, 0)
            if self.oracle.books[name].option(label) == Option(DONE, made)
        ]
        if found:
            name, label = self._label(found, "given up")
            self._damage(name, label)
            self._give_up(name, label)

    def damage_made(self) -> None:
        """Damage the file of a transform's label, and recompute it or give it up, although its inputs are there.

        A run before it makes all batches that can be made, and one after it makes the label.
        """
        found = [(name, label) for name, it in self.flow.items() for label in self.oracle.remakable(it)]
        if not found:
            return
        name, label = self._label(found, "damaged, recompute", "given up")
        self._damage(name, label)
        if self._verb(["damaged, recompute", "given up"], name) == "given up":
            self._give_up(name, label)
        else:
            self._say(name, "damaged, recompute", label)
            self._ask("recompute", name, label)

    def _damage(self, name: str, label: int) -> None:
        self.known.clear()  # its previous content is lost
        if self.world is not None:
            self.world.declare()
            self.world.damage(name, label)

    def _give_up(self, name: str, label: int) -> None:
        self._say(name, "given up", label)
        if self.world is not None:
            self.world.give_up(name, label, self.oracle.today)
        self.oracle.ask(name, label, "give up")

    def close_books(self) -> None:
        """Close the books of a window by hand, or skip the window."""
        closing = [name for name, table in self.flow.items() if table.has(Closes) and name not in self.paused]
        if not closing:
            return
        name = self.pick(closing, "closed by hand")
        found = self.oracle.closable(name)
        if found is None:
            if (label := self.oracle.first_open(name)) and self.random.random() < 0.5:
                self._ask("skip", name, label)
            return
        label, ticks = found
        self._say(name, "closed by hand", label)
        tick = ticks[0]
        if self.world is not None:
            self.world.declare()
            tick = self.world.close(name, label, self.oracle.today)
            if tick not in ticks:
                raise Unexpected(f"{name}@{label} was closed by hand at {tick}, not {ticks}")
        self.oracle.closed[name, label] = Closed(tick, tick)

    def code(self) -> None:
        """Change the query of a transform."""
        queried = [name for name, table in self.flow.items() if table.kind == "TRANSFORM" and not table.answers]
        names = [name for name in queried if not self.flow[name].has(Persons)]
        if not names:
            return
        name = self.pick(names, "code changed")
        self.flow[name].code += 1
        if self.flow[name].has(Apart):
            self.flow[apart_of(name)].code += 1
        self._say(name, "code changed")

    def sort_otherwise(self) -> None:
        """Change the order of a table's files, which causes no batch to be made again."""
        names = [name for name, table in self.flow.items() if table.has(Sorted, Clustered, Bucketed)]
        if not names:
            return
        table = self.flow[name := self.pick(names, "sorted otherwise")]
        table.parts = [
            it.drawn(self.random, table) if isinstance(it, Sorted | Clustered | Bucketed) else it for it in table.parts
        ]
        self._say(name, "sorted otherwise")

    def pause(self) -> None:
        """Pause a table, or resume it."""
        name = self.pick(self.flow, "pause", "resume")
        verb = "resume" if name in self.paused else "pause"
        self._say(name, verb)
        self.paused ^= {name}
        self.oracle.paused ^= {name}
        if self.world is not None:
            with self.world.tiny.ledger() as ledger:
                if verb == "pause":
                    ledger.decisions.pause_tables([name], who="ann", why="repairs")
                else:
                    ledger.decisions.resume_tables([name], who="ann")
