"""What people do in a life: retry, release, skip, ask again, close books, change code, and pause."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.life.arriving import Arriving
from tests.life.books import Closed, Option, Unexpected
from tests.life.part import BY_LABEL, DONE, HELD, SKIPPED
from tests.life.parts import Closes
from waterclock.errors import WaterclockError


@dataclass
class Deciding(Arriving):
    """A life's flow, its sources, and the people who run it."""

    paused: set[str] = field(default_factory=set)

    def decide(self) -> None:
        """Decide on a label that failed or is held."""
        if troubles := self.oracle.troubles():
            self._decide(*self.random.choice(troubles))

    def _decide(self, name: str, label: int, status: str) -> None:
        book = self.oracle.books[name]
        verbs = ["retry", "retry"] + ["release"] * 3 * (status == HELD) + ["skip"] * (label not in book.shown)
        verb = self.random.choice(verbs)
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

    def ask(self) -> None:
        """Ask for a label that is done or skipped."""
        skipped = [
            (name, label)
            for name, book in self.oracle.books.items()
            for label, status in book.status.items()
            if status == SKIPPED and not self.oracle.is_gone(name, label)
        ]
        if skipped and self.random.random() < 0.5:
            name, label = self.random.choice(sorted(skipped))
            self._say(name, "skip taken back", label)
            self._ask("retry", name, label)
            return
        done = [
            (name, label)
            for name, book in self.oracle.books.items()
            for label, status in book.status.items()
            if status == DONE and self.flow[name].mode != "REPLACE" and not self.oracle.is_gone(name, label)
        ]
        if done:
            name, label = self.random.choice(sorted(done))
            if self.random.random() < 0.15:
                self._skip_done(name, label)
                return
            is_source = self.flow[name].is_by_data_time or self.flow[name].answers
            self._ask(self.random.choice(("recompute", "recollect")) if is_source else "recompute", name, label)

    def _skip_done(self, name: str, label: int) -> None:
        """Hold that a batch that is done is not skipped."""
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
        raise Unexpected(f"{name}@{label} is done, and was skipped")

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
        """Damage the file of a collected label, and give it up: it is done, and empty, until it is read again."""
        found = [
            (name, label)
            for name, table in self.flow.items()
            for label, made in self.oracle.books[name].shown.items()
            if table.kind == "COLLECT" and table.mode in BY_LABEL and not table.is_snapshot and name not in self.paused
            if made.stay and label >= self.oracle.dropped.get(name, 0)
            if self.oracle.books[name].option(label) == Option(DONE, made)
        ]
        if found:
            name, label = self.random.choice(sorted(found))
            self._say(name, "given up", label)
            self.known.clear()  # what it held is lost
            if self.world is not None:
                self.world.declare()
                self.world.give_up(name, label, self.oracle.today)
            self.oracle.ask(name, label, "give up")

    def close_books(self) -> None:
        """Close the books of a window by hand, or skip the window."""
        closing = [name for name, table in self.flow.items() if table.has(Closes) and name not in self.paused]
        if not closing:
            return
        name = self.random.choice(closing)
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
        names = [name for name, table in self.flow.items() if table.kind == "TRANSFORM" and not table.answers]
        if not names:
            return
        name = self.random.choice(names)
        self.flow[name].code += 1
        self._say(name, "code changed")

    def pause(self) -> None:
        """Pause a table, or resume it."""
        name = self.random.choice([*self.flow])
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
