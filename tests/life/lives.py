"""One life of a drawn flow, on the real engine or in the oracle alone: what happens to it, and what holds then."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.life.books import Closed, Unexpected
from tests.life.drawing import Flow, Pair, drawn_flow, pairs_of, statements
from tests.life.oracle import Oracle
from tests.life.parts import DONE, HELD, SKIPPED, Closes, Demands, Refers, Report, Retain, Retire
from tests.life.rows import DAY, Row, instant
from tests.life.world import LEASE, Strike, World
from tests.tiny import Tiny, described
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.upkeep.rebuild_all import rebuild_all
from waterclock.engine.upkeep.reset import prepare_reset, reset
from waterclock.errors import WaterclockError
from waterclock.planner.plan import Status
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 9
LAST_DAY, LAST_SHORT_DAY = 12, 16


@dataclass
class Life:
    """One life. `met`: pairs that other lives have met already, of which this one meets fewer."""

    random: Random
    met: Collection[Pair] = ()
    world: World | None = None
    flow: Flow = field(init=False)
    oracle: Oracle = field(init=False)
    hours: int = field(init=False)
    longest: int = field(init=False)
    """The days of the longest window, and the hours of a day."""
    story: list[str] = field(default_factory=list)
    changed: dict[str, dict[int, str]] = field(default_factory=dict)
    pairs: set[Pair] = field(default_factory=set)
    brings_old: dict[str, bool] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    exported: bool = False
    """Whether the ledger was exported: by `maintain`, after a reset, after a new name."""
    copied: set[str] = field(default_factory=set)
    """Tables of whose logs an older copy is kept."""
    is_past_whole: bool = True
    """Whether what the past held is what is there now up to a day: nothing was left as it was on purpose."""

    known: list[tuple[datetime, int, dict[str, Any]]] = field(default_factory=list)
    """What all tables held as of a tick, and when: `--known-at` still gives it."""

    def __post_init__(self) -> None:
        self.flow = drawn_flow(self.random, self.met)
        self.hours = next(it.hours for it in self.flow.values())
        self.longest = max(it.size for it in self.flow.values())
        self.oracle = Oracle(dict(self.flow), today=self.random.choice((3, 4)) + self.longest - 1)
        self.pairs = pairs_of(self.flow)
        self.changed = {name: {} for name in self.flow}
        self.brings_old = {
            name: True for name, it in self.flow.items() if it.has(Retire) and self.random.random() < 0.5
        }

    @property
    def sources(self) -> list[str]:
        return [name for name, table in self.flow.items() if table.kind == "COLLECT"]

    def live(self) -> None:
        """Let things happen, run after them, and bring all to rest in the end."""
        for name in self.sources:
            for number in range(1, self.oracle.today + 1):
                self.arrive(name, number)
        self.run()
        for _ in range(STEPS):
            self.step()
        self.settle()

    # what happens

    def step(self) -> None:
        happenings = (
            self.advance, self.late, self.correct, self.decide, self.ask, self.code, self.begin_earlier,
            self.pause, self.rename, self.reset, self.upkeep, self.lose_ledger, self.put_back, self.close_books,
        )  # fmt: skip
        self.random.choices(happenings, (3, 2, 2, 3, 2, 1, 2, 1, 1, 1, 2, 1, 1, 2))[0]()
        if self.random.random() < 0.8:
            self.run()

    def arrive(self, name: str, number: int, most: int = 3) -> None:
        for _ in range(self.random.randint(0, most)):
            used = {row.at for row in self.oracle.source[name]}
            at = self.random.choice([it for it in range((number - 1) * DAY, number * DAY, 7) if it not in used])
            row = Row(self.random.randint(1, 4), self.random.randint(1, 400), at, int(self.random.random() < 0.15))
            self._put(name, row)

    def _put(self, name: str, row: Row) -> None:
        rows = self.oracle.source[name]
        row = row._replace(old=row.v + 1000 if self.brings_old.get(name) else None)
        is_keyed = self.flow[name].is_keyed
        rows[:] = [it for it in rows if it.at != row.at and not (is_keyed and it.k == row.k)] + [row]
        self.oracle.touched[name].add(self.flow[name].window_of(row.day))
        now = self.moment(self.oracle.today) + timedelta(minutes=len(self.changed[name]) % 60)
        self.changed[name][row.at] = f"{now:%F %T}"

    def moment(self, number: int) -> datetime:
        """Return the instant at which a day begins."""
        return instant(number * DAY - DAY, self.hours)

    def _window(self, name: str, label: int) -> Window:
        return Window(self.moment(label), self.moment(label + self.flow[name].size))

    def advance(self) -> None:
        """Let a day or two pass, or a long window."""
        for _ in range(self.random.choice((1, 1, 2, *[self.longest] * (self.longest > 1)))):
            if self.oracle.today < (LAST_DAY if self.hours == 24 else LAST_SHORT_DAY):
                for name in self.sources:
                    self.arrive(name, self.oracle.today)
                self.oracle.today += 1
        self._say("", f"it is day {self.oracle.today}")

    def late(self) -> None:
        name = self.random.choice(self.sources)
        number = max(1, self.oracle.today - self.random.choice((1, 2, 2, 3, 4)))
        self.arrive(name, number, most=2)
        self._say(name, "late rows", number)

    def correct(self) -> None:
        name = self.random.choice(self.sources)
        if rows := self.oracle.source[name]:
            row = self.random.choice(rows)
            if self.flow[name].is_snapshot and self.random.random() < 0.5:
                rows.remove(row)
                self._say(name, "vanished", row.day)
            else:
                self._put(name, row._replace(v=self.random.randint(1, 400)))
                self._say(name, "corrected", row.day)

    def decide(self) -> None:
        """Decide on a label that failed or is held."""
        if troubles := self.oracle.troubles():
            self._decide(*self.random.choice(troubles))

    def _decide(self, name: str, label: int, status: str) -> None:
        book = self.oracle.books[name]
        verbs = ["retry", "retry"] + ["release"] * 3 * (status == HELD) + ["skip"] * (label not in book.shown)
        verb = self.random.choice(verbs)
        if verb == "retry" and self.flow[name].kind == "COLLECT" and self.random.random() < 0.7:
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
            is_source = self.flow[name].kind == "COLLECT" and not self.flow[name].is_snapshot
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
        names = [name for name, table in self.flow.items() if table.kind == "TRANSFORM"]
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

    def rename(self) -> None:
        """Give a table another name, in what reads it too."""
        if any(table.was for table in self.flow.values()) or self.paused:
            return
        old = self.random.choice([name for name, table in self.flow.items() if table.kind != "PUBLISH"])
        new = f"{old}x"
        self._say(old, "renamed")
        flow = {}
        for name, table in self.flow.items():
            table.reads = tuple(replace(it, table=new) if it.table == old else it for it in table.reads)
            table.odd = tuple(replace(it, table=new) if it.table == old else it for it in table.odd)
            table.parts = [
                replace(it, parent=new) if isinstance(it, Refers | Demands) and it.parent == old else it
                for it in table.parts
            ]
            table.shapes = {new if it == old else it: mode for it, mode in table.shapes.items()}
            table.of = new if table.of == old else table.of
            flow[new if name == old else name] = table
        renamed = flow[new]
        renamed.name, renamed.was, renamed.origin = new, old, renamed.origin or old
        self.flow.clear()
        self.flow.update(flow)
        for known in (self.oracle.tables, self.oracle.books, self.oracle.source, self.oracle.touched, self.changed):
            _rename(known, old, new)
        _rename(self.brings_old, old, new)
        for _, _, rows in self.known:
            _rename(rows, old, new)
        self.copied.discard(old)
        self.oracle.renamed(old, new)
        self.exported = True
        self.run()
        renamed.was = ""

    def reset(self) -> None:
        """Start a table over."""
        names = [name for name, table in self.flow.items() if table.kind != "PUBLISH" and name not in self.paused]
        name = self.random.choice(names)
        if not self.oracle.books[name].status:
            return
        self._say(name, "reset")
        self.oracle.reset(name)
        self.exported = True
        self.is_past_whole = False
        if self.world is not None:
            self.world.declare()
            with self.world.tiny.opened() as work:
                found = prepare_reset(work, name)
                if found is not None:
                    reset(work, found, why="over")

    def upkeep(self) -> None:
        """Tidy all tables, or make one anew from its stage: neither changes an answer."""
        if self.random.random() < 0.5:
            self._say_of_all("maintain")
            self.exported = True
            if self.world is not None:
                self.world.declare()
                self.world.maintain()
            self.known.clear()  # versions that were replaced are removed
            for name, table in self.flow.items():
                if table.has(Retain):
                    self._drop(name)
        elif names := self._tables_there():
            name = self.random.choice(names)
            self._say(name, "rebuild")
            if self.world is not None:
                self.world.declare()
                self.world.rebuild(name)

    def _drop(self, name: str) -> None:
        """Take over which windows `maintain` has dropped of a table with RETAIN."""
        least, most = self.oracle.droppable(name)
        before = most if self.world is None else self.world.kept_from(name)
        if not least <= before <= most:
            raise Unexpected(f"{name} is kept from {before}, not from {least} to {most}")
        if before:
            self.oracle.dropped[name] = before
            self._say(name, "dropped windows before", before)

    def lose_ledger(self) -> None:
        """Lose the ledger, just after it was exported, or where it never was."""
        is_exported = self.exported or self.random.random() < 0.4
        self._say_of_all(f"ledger lost, {'just' if is_exported else 'never'} exported")
        self.exported = is_exported
        if not is_exported:  # what left no trace in tables is not known again
            self.paused.clear()
            self.oracle.paused.clear()
            self.oracle.forget()
            self.known.clear()
        if self.world is not None:
            self.world.declare()
            if is_exported:
                self.world.export()
            self.world.lose_ledger()

    def put_back(self) -> None:
        """Copy a table's log, or put a copy back, as from an older backup, and rebuild the table."""
        names = self._tables_there()
        if copied := [name for name in self.copied if name in names]:
            name = self.random.choice(copied)
            self.copied.discard(name)
            self._say(name, "older log put back, rebuild")
            if self.world is not None:
                self.world.declare()
                self.world.put_back(name)
                self.world.rebuild(name)
        elif names:
            name = self.random.choice(names)
            self.copied.add(name)
            self.story.append(f"copied the log of {name}")
            if self.world is not None and not self.world.copy_log(name):
                self.copied.discard(name)

    def _tables_there(self) -> list[str]:
        """Return the tables that have batches whose rows are shown."""
        return [name for name, book in self.oracle.books.items() if self.flow[name].kind != "PUBLISH" and book.shown]

    def begin_earlier(self) -> None:
        """Move START of a collect back."""
        names = [name for name in self.sources if self.flow[name].start > 1 and not self.flow[name].is_snapshot]
        names = [name for name in names if name not in self.oracle.dropped]
        if names:
            name = self.random.choice(names)
            self.flow[name].start -= self.flow[name].size
            self.known.clear()  # labels that were not made by then are missing
            self._say(name, "START moved back")

    def _say(self, name: str, what: str, label: int | None = None) -> None:
        self.story.append(f"{what} {name}{f'@{label}' if label else ''}")
        if name:
            self.pairs |= {(f"op {what}", word) for word in self.flow[name].words}

    def _say_of_all(self, what: str) -> None:
        self.story.append(what)
        self.pairs |= {(f"op {what}", word) for table in self.flow.values() for word in table.words}

    # runs

    def disturb(self) -> tuple[Strike | None, int, int]:
        """Draw what disturbs a run: a strike, how many runners work at once, and at which step one is killed."""
        strike = Strike(self.random.randint(1, 40)) if self.random.random() < 0.25 else None
        runners = 2 if self.random.random() < 0.15 else 1
        return strike, runners, self.random.randint(1, 60) if self.random.random() < 0.1 else 0

    def run(self, *, is_last: bool = False) -> None:
        strike, runners, killed_after = self.disturb()
        self.story.append(f"run on day {self.oracle.today}")
        for what, step in (("struck", strike.after if strike else 0), ("killed", killed_after)):
            if step:
                self._say_of_all(what)
                self.story[-1] += f" at step {step}"
        if runners > 1:
            self._say_of_all("two runners")
        seen = None
        outcome = None
        if self.world is not None:
            self.world.declare()
            for name in self.sources:
                self.world.fill(name, self.oracle.source[name], self.changed[name])
            outcome = self.world.run(self.oracle.today, strike, runners=runners, killed_after=killed_after)
            seen = self.world.seen()
        self.oracle.begin()
        for name in self.flow:
            if self.flow[name].kind == "PUBLISH" or name in self.paused:
                continue
            if seen:
                self.oracle.pick(name, seen[name].ticks)
            self.oracle.close(name, seen[name].closed if seen else None)
            released = [label for label, verb in self.oracle.books[name].asked.items() if verb == "release"]
            options = self.oracle.options(name)
            self.oracle.take(name, options, seen[name] if seen else None)
            self.oracle.looked(name)
            for label in released:
                self.oracle.released(name, label)
        if outcome is not None:
            self._hold(outcome, is_last=is_last)
        if self.random.random() < 0.4:
            self.remember()

    def _hold(self, outcome: Any, *, is_last: bool) -> None:
        """Hold what a run says of itself, and what was delivered, against the tables."""
        assert self.world is not None
        if self.oracle.troubles() or self.paused:
            return
        assert not outcome.failed, described(outcome)
        for name, table in self.flow.items():
            if table.kind != "PUBLISH":
                continue
            found, allowed = self.world.delivered(name), self.oracle.delivered(table)
            if found not in allowed:
                raise Unexpected(f"{name} delivered {found}, not {allowed[0]}")
        for name, table in self.flow.items():
            part = table.part(Closes)
            if isinstance(part, Closes) and part.has_time:
                late = self.oracle.late(name)
                for label, rows in self.world.late(name).items():
                    if rows != late.get(label, []):
                        raise Unexpected(f"{name}_late@{label} has {rows}, not {late.get(label, [])}")
        if is_last:
            assert outcome.plan is not None
            left = [batch for batch in outcome.plan.batches if batch.status is not Status.WAITING]
            if left:  # what waits is behind UNTIL, whose slices are not due
                raise Unexpected(f"still due: {left}")

    def settle(self) -> None:
        """Resume, decide on all labels that failed or are held, and run until none is left."""
        for name in sorted(self.paused):
            self.paused.discard(name)
            self.oracle.paused.discard(name)
            self._say(name, "resume")
            if self.world is not None:
                with self.world.tiny.ledger() as ledger:
                    ledger.decisions.resume_tables([name], who="ann")
        self.run()
        for _ in range(12):
            troubles = self.oracle.troubles()
            for name, label, status in troubles:
                self._decide(name, label, status)
            if not troubles:
                break
            self.run()
        self.advance()
        is_calm = not self.oracle.troubles()
        self.run(is_last=is_calm)
        if not self.oracle.troubles() and is_calm:
            self.ask_the_past()
            self.rebuild_all()

    def ask_the_past(self) -> None:
        """Ask as of an earlier tick, where all tables agree with what they are made of; and as known before."""
        if self.world is None:
            return
        for at, tick, expected in self.known:
            self.story.append(f"asked as of day {tick}, as known at {at:%F %T}")
            for name, rows in self.world.as_of(tick, set(self.flow) - set(expected), at).items():
                if rows != expected[name]:
                    raise Unexpected(f"as of day {tick}, as known at {at}, {name} has {rows}, not {expected[name]}")
        if tick := self._tick():
            self.story.append(f"asked as of day {tick}")
            dropped = list(self.oracle.dropped)  # such a tick is refused
            for name, rows in self.world.as_of(tick, dropped).items():
                whole = self.oracle.visible(name, tick - 1)
                if rows != whole:
                    raise Unexpected(f"as of day {tick} {name} has {rows}, not {whole}")

    def _tick(self) -> int:
        """Draw a tick at which all tables agree with what they are made of; 0 if there is none."""
        tables = [name for name, table in self.flow.items() if table.kind != "PUBLISH"]
        first = max(self.oracle.start(name) + self.flow[name].size - 1 for name in tables)
        last = min(self.oracle.first_not_made(name) for name in tables)
        drawn = self.random.randrange(first + 1, last) if first + 1 < last else 0
        is_whole = self.is_past_whole and not any(it.has(Report) for it in self.flow.values())
        return drawn if is_whole and not self.oracle.troubles() and not self.paused else 0

    def remember(self) -> None:
        """Keep what all tables hold as of a tick, to ask for it later as known now."""
        tick = self._tick()
        if not tick:
            return
        self._say_of_all("asked as known at")
        if self.world is not None:
            names = [it.name for it in self.world.tables_with_past() if it.name not in self.oracle.dropped]
            rows = {name: self.oracle.visible(name, tick - 1) for name in names}
            self.known.append((self.world.now(), tick, rows))

    def rebuild_all(self) -> None:
        """Make all tables anew of what was collected: what is made of today's code and inputs stays as it is."""
        self.story.append("rebuild --all")
        for table in self.flow.values():
            if table.mode == "REPLACE" and not table.is_snapshot and table.kind == "TRANSFORM":
                shown = self.oracle.books[table.name].shown
                for label in [it for it in shown if not self.oracle.is_gone(table.name, it)]:
                    del shown[label]  # its states are made where they are read
            elif table.kind == "TRANSFORM":
                for label, status in self.oracle.books[table.name].status.items():
                    if status == DONE and not self.oracle.is_gone(table.name, label):
                        self.oracle.books[table.name].asked[label] = "recompute"
        seen = None
        if self.world is not None:
            with self.world.tiny.opened() as work:
                try:
                    rebuild_all(work, self.moment(self.oracle.today))
                except WaterclockError as error:
                    if error.code != "E433":
                        raise
                    return
            seen = self.world.seen()
        for name, table in self.flow.items():
            if table.kind != "PUBLISH":  # `before` is that of the run before, which is as it is now
                self.oracle.take(name, self.oracle.options(name), seen[name] if seen else None)

    def told(self) -> str:
        """Return the flow and all that happened, to find out why it failed."""
        return "\n".join([statements(self.flow), *self.story])


def lived(seed: int, root: Path | None = None, spark: SparkSession | None = None, met: Collection[Pair] = ()) -> Life:
    """Live one life; without a session in the oracle alone.

    Raises  Unexpected with the flow and its story
    """
    life = Life(Random(seed), met)
    if root is not None and spark is not None:
        settings = RunSettings(threads=2, attempts=3, retry_wait=0.01, lease=LEASE, who="a life")
        life.world = World(Tiny(root, spark, settings=settings), life.flow, life.hours)
    try:
        life.live()
    except (AssertionError, WaterclockError) as error:
        raise Unexpected(f"seed {seed}: {error}\n{life.told()}") from error
    return life


def _rename(known: dict[str, Any], old: str, new: str) -> None:
    """Give what is known of a table its new name, in its place."""
    items = [(new if name == old else name, it) for name, it in known.items()]
    known.clear()
    known.update(items)


@cache
def met_before(seed: int) -> frozenset[Pair]:
    """Return the pairs that the lives of lesser seeds meet, by the oracle alone."""
    return frozenset() if seed == 0 else met_before(seed - 1) | lived(seed - 1, met=met_before(seed - 1)).pairs
