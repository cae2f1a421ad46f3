"""Runs one life, a randomized history of a drawn flow, on the engine or only in the oracle, and checks the results."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.life.books import Seen, Unexpected
from tests.life.branching import Branching
from tests.life.deciding import VERBS
from tests.life.drawing import statements
from tests.life.favour import LIVES, Met
from tests.life.form_drawing import add_forms
from tests.life.keeping import add_apart, look_at_joined
from tests.life.part import DONE
from tests.life.parts import Closes, Demands, Refers, Report, Retain
from tests.life.people import READER, STRANGER, Apart, Granted, Persons, Value
from tests.life.tokens import add_tokens
from tests.life.world import LEASE, Strike, World, toml_of
from tests.tiny import Tiny, described
from waterclock.engine.maintenance.rebuild_all import rebuild_all
from waterclock.engine.maintenance.reset import prepare_reset, reset
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.planner.plan import Status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS, STEPS_WITH_FORMS = 9, 6
LOSSES = ("ledger lost, just exported", "ledger lost, never exported")


@dataclass
class Life(Branching):
    """One life."""

    delivered: dict[str, list[tuple[int, Value]]] = field(default_factory=dict)
    """The rows that each publish had delivered before the last run."""
    tokens: Random | None = None
    """Draws the tables with tokens; None if the life has none."""
    apart: Random | None = None
    """Draws the table with APART; None if the life has none."""

    def add_people(self) -> None:
        if self.edits is not None:
            add_forms(self.edits, self.flow)
        if self.tokens is not None:
            add_tokens(self.tokens, self.flow)
        if self.apart is not None:
            add_apart(self.apart, self.flow)

    def live(self) -> None:
        """Perform random events with runs after them, and finish all work at the end."""
        for name in self.sources:
            # files are not stamped in the future
            for number in range(1, self.oracle.today + (not self.flow[name].is_by_file)):
                self.arrive(name, number)
        self.run()
        for _ in range(STEPS if self.edits is None else STEPS_WITH_FORMS):
            self.step()
        self.settle()

    # events

    def step(self) -> None:
        happenings = (
            (self.advance, 6), (self.late, 2, "late rows"), (self.correct, 2, "corrected", "vanished"),
            (self.decide, 3, *VERBS), (self.ask, 2, "recompute", "recollect", "skip refused"),
            (self.take_back, 1, "skip taken back"),
            (self.code, 1, "code changed"), (self.sort_otherwise, 1, "sorted otherwise"),
            (self.begin_earlier, 2, "START moved back"),
            (self.pause, 1, "pause", "resume"), (self.rename, 1, "renamed"), (self.reset, 1, "reset"),
            (self.maintenance, 2, "maintain", "rebuild", "dropped windows before"), (self.lose_ledger, 1, *LOSSES),
            (self.put_back, 2, "older log put back, rebuild"), (self.close_books, 2, "closed by hand"),
            (self.erase, 2, "erased"),
            (self.damage, 1, "given up"), (self.damage_between_runs, 1, "damaged, recompute", "given up"),
        )  # fmt: skip
        weights = [weight * (1 + min(self.most_gain(*whats), 10) / 5) for _, weight, *whats in happenings]
        self.random.choices(happenings, weights)[0][0]()
        if self.forms and self.draws.random() < 0.7:
            self.edit_forms()
        if self.random.random() < 0.8:
            self.run()
            self.attend_branch()

    def damage_between_runs(self) -> None:
        self.run()
        self.damage_made()
        self.run()

    def rename(self) -> None:
        """Rename a table, also in the statements that read it."""
        if any(table.was for table in self.flow.values()) or self.paused:
            return
        names = [name for name, table in self.flow.items() if table.kind != "PUBLISH" and not table.has(Apart, Persons)]
        old = self.pick(names, "renamed")
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
        oracle = self.oracle
        of_oracle = (oracle.tables, oracle.books, oracle.source, oracle.touched, oracle.files, oracle.taken)
        for known in (*of_oracle, self.changed):
            _rename(known, old, new)
        _rename(self.brings_old, old, new)
        _rename(self.erased_rows, old, new)
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
        name = self.pick(names, "reset")
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

    def maintenance(self) -> None:
        """Maintain all tables, or rebuild one from its stage: neither changes a query result."""
        if self.random.random() < (0.8 if self.is_new("dropped windows before") else 0.5):
            self.maintain()
        elif names := self._tables_there():
            name = self.pick(names, "rebuild")
            self._say(name, "rebuild")
            if self.world is not None:
                self.world.declare()
                self.world.rebuild(name)

    def maintain(self) -> None:
        """Maintain all tables as if years had passed."""
        self._say_of_all("maintain")
        self.exported = True
        if self.world is not None:
            self.world.declare()
            self.world.maintain()
        self.known.clear()  # replaced versions are removed
        for name, table in self.flow.items():
            if table.has(Retain):
                self._drop(name)

    def _drop(self, name: str) -> None:
        """Record which windows of a table with RETAIN `maintain` has dropped."""
        least, most = self.oracle.droppable(name)
        before = most if self.world is None else self.world.kept_from(name)
        if not least <= before <= most:
            raise Unexpected(f"{name} is kept from {before}, which is not between {least} and {most}")
        if before:
            self.oracle.dropped[name] = before
            self._say(name, "dropped windows before", before)

    def lose_ledger(self) -> None:
        """Lose the ledger, just after an export or without one."""
        just, never = LOSSES
        is_exported = self.exported or self.random.random() < (
            0.7 if self.is_new(just) and not self.is_new(never) else 0.4
        )
        self._say_of_all(just if is_exported else never)
        self.exported = is_exported
        if not is_exported:  # facts without a trace in tables are lost
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
        """Copy a table's log, or restore a copy, as from an older backup, and rebuild the table."""
        names = self._tables_there()
        if copied := sorted(name for name in self.copied if name in names):
            name = self.pick(copied, "older log put back, rebuild")
            self.copied.discard(name)
            self._say(name, "older log put back, rebuild")
            if self.world is not None:
                self.world.declare()
                self.world.put_back(name)
                self.world.rebuild(name)
        elif names:
            name = self.pick(names, "older log put back, rebuild")
            self.copied.add(name)
            self.story.append(f"copied the log of {name}")
            if self.world is not None and not self.world.copy_log(name):
                self.copied.discard(name)

    def _tables_there(self) -> list[str]:
        """Return the tables that have batches with visible rows."""
        return [name for name, book in self.oracle.books.items() if self.flow[name].kind != "PUBLISH" and book.shown]

    def begin_earlier(self) -> None:
        """Move START of a collect back."""
        names = [name for name in self.sources if self.flow[name].start > 1 and not self.flow[name].is_snapshot]
        names = [name for name in names if name not in self.oracle.dropped]
        if names:
            name = self.pick(names, "START moved back")
            self.oracle.begin_earlier(name)
            self.known.clear()  # labels that were not made at that time are missing
            self._say(name, "START moved back")

    # runs

    def disturb(self) -> tuple[Strike | None, int, int]:
        """Draw a run's disturbances: a strike, the number of runners, and the step at which one is killed."""
        strike = Strike(self.random.randint(1, 40)) if self._happens("struck", 0.2) else None
        runners = 2 if self._happens("two runners", 0.1) else 1
        return strike, runners, self.random.randint(1, 60) if self._happens("killed", 0.06) else 0

    def _happens(self, what: str, chance: float) -> bool:
        """Draw whether a run is disturbed in some way: twice as often if this meets a new declaration."""
        return self.random.random() < chance * (2 if self.is_new(what) else 1)

    def run(self, *, is_last: bool = False) -> None:
        outcome, seen = self._run_world()
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
        self.look_at_forms(is_calm=not (self.oracle.troubles() or self.paused))
        look_at_joined(self.world, self.oracle)
        if self.random.random() < (0.8 if self.is_new("asked as known at") else 0.3):
            self.remember()

    def _run_world(self) -> tuple[Any, dict[str, Seen] | None]:
        """Run on the engine, disturbed or not; return the outcome and the state of all tables after it."""
        strike, runners, killed_after = self.disturb()
        self.story.append(f"run on day {self.oracle.today}")
        for what, step in (("struck", strike.after if strike else 0), ("killed", killed_after)):
            if step:
                self._say_of_all(what)
                self.story[-1] += f" at step {step}"
        if runners > 1:
            self._say_of_all("two runners")
        earlier = self._earlier_day()
        if earlier:
            self._say_of_all("clock set back")
            self.story[-1] += f" to day {earlier}, and forth"
        if self.world is None:
            return None, None
        self.world.declare()
        for name in (it for it in self.sources if not (self.flow[it].is_by_file or self.flow[it].is_form)):
            self.world.fill(name, [*self.oracle.source[name], *self.erased_rows.get(name, [])], self.changed[name])
        publishes = [name for name, it in self.flow.items() if it.kind == "PUBLISH" and it.way != "queue"]
        self.delivered = {name: self.world.delivered(name) for name in publishes}
        if earlier:
            self.world.run(earlier, None)  # it makes only batches that a run of today would make
        outcome = self.world.run(self.oracle.today, strike, runners=runners, killed_after=killed_after)
        return outcome, self.world.seen()

    def _earlier_day(self) -> int:
        """Draw a day before today, to which the clock is set back before a run; 0 for none.

        A snapshot and the tick of LATEST depend on the moment of the run.
        """
        is_now = any(it.is_snapshot or any(read.kind == "LATEST" for read in it.all_reads) for it in self.flow.values())
        if is_now or not self._happens("clock set back", 0.1):
            return 0
        return max(2, self.oracle.today - self.random.choice((1, 2, 3)))

    def _hold(self, outcome: Any, *, is_last: bool) -> None:
        """Verify a run's outcome and its deliveries against the tables."""
        assert self.world is not None
        if self.oracle.troubles() or self.paused:
            return
        assert not outcome.failed, described(outcome)
        for name, table in self.flow.items():
            if table.kind != "PUBLISH" or table.way == "queue":
                continue
            found, allowed = self.world.delivered(name), self.oracle.delivered(table)
            is_unchanged = self.oracle.is_newest_open(table.of) and found == self.delivered[name]
            if found not in allowed and not is_unchanged:
                raise Unexpected(f"{name} delivered {found}, not {allowed[0]}")
        for name, table in self.flow.items():
            part = table.part(Closes)
            if isinstance(part, Closes) and part.has_time:
                found_late = self.world.late(name)
                late = self.oracle.late(name, found_late)
                for label, rows in found_late.items():
                    if rows != late.get(label, []):
                        raise Unexpected(f"{name}_late@{label} has {rows}, not {late.get(label, [])}")
        if is_last:
            assert outcome.plan is not None
            left = [batch for batch in outcome.plan.batches if batch.status is not Status.WAITING]
            if left:  # waiting batches read UNTIL slices that are not due
                raise Unexpected(f"still due: {left}")

    def settle(self) -> None:
        """Resume, decide about all failed or held labels, and run until none remains."""
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
            if not troubles and not self.take_back(is_new=True):
                break
            self.run()
        if self.copied and self.is_new("older log put back, rebuild"):
            self.put_back()
        if self.is_new("dropped windows before"):
            self.maintain()
        self.advance()
        for name in (it for it in self.sources if self.flow[it].is_by_file):
            self.land(name, self.oracle.today - 1, is_last=True)  # no window waits for its source
        is_calm = not self.oracle.troubles()
        self.run(is_last=is_calm)
        self.attend_branch(is_last=True)
        self.ask_as_reader()
        if not self.oracle.troubles() and is_calm:
            self.ask_the_past()
            self.rebuild_all()

    def ask_as_reader(self) -> None:
        """Query each table that has a GRANT as a user with the grant, and as one without any."""
        for name, table in self.flow.items():
            part = table.part(Granted)
            if not isinstance(part, Granted) or not self.oracle.books[name].shown:
                continue
            self._say(name, "asked as a reader")
            if self.world is None:
                continue
            if self.world.seen_by(STRANGER, name) is not None:
                raise Unexpected(f"{name} is shown to {STRANGER}, who has no grant on it")
            whole, seen = self.world.seen_by("", name), self.world.seen_by(READER, name)
            assert whole is not None
            if seen is None or list(seen.columns) != part.columns(whole.columns):
                raise Unexpected(f"{name} shows {READER} {seen and seen.columns}, not {part.columns(whole.columns)}")
            found = self.oracle.visible(name)
            rows = [row for each in found.values() for row in each] if isinstance(found, dict) else found
            if seen.values() != part.seen(rows):
                raise Unexpected(f"{name} shows {READER} {seen.values()}, not {part.seen(rows)}")

    def ask_the_past(self) -> None:
        """Query as of an earlier tick at which all tables are consistent with their inputs, also as known earlier."""
        if self.world is None:
            return
        for at, tick, expected in self.known:
            self.story.append(f"asked as of day {tick}, as known at {at:%F %T}")
            for name, rows in self.world.as_of(tick, set(self.flow) - set(expected), at).items():
                if rows != expected[name]:
                    raise Unexpected(f"as of day {tick}, as known at {at}, {name} has {rows}, not {expected[name]}")
        for name in self.forms.values():
            shown = self.oracle.books[name].shown
            label = self.draws.choice([0, *shown])
            if label and self.oracle.books[name].status[label] == DONE:
                self.story.append(f"asked {name} as of its label {label}")
                rows = self.world.state_as_of(name, label + self.flow[name].size)
                if rows != shown[label].stay:
                    raise Unexpected(f"{name} has {rows} as of its label {label}, not {shown[label].stay}")
        if tick := self._tick():
            self.story.append(f"asked as of day {tick}")
            dropped = list(self.oracle.dropped)  # such a tick is refused
            for name, rows in self.world.as_of(tick, dropped).items():
                whole = self.oracle.visible(name, tick - 1)
                if rows != whole:
                    raise Unexpected(f"as of day {tick} {name} has {rows}, not {whole}")

    def _tick(self) -> int:
        """Draw a tick at which all tables are consistent with their inputs; 0 if there is none."""
        tables = [name for name, table in self.flow.items() if table.kind != "PUBLISH"]
        first = max(self.oracle.start(name) + self.flow[name].size - 1 for name in tables)
        last = min(self.oracle.first_not_made(name) for name in tables)
        drawn = self.random.randrange(first + 1, last) if first + 1 < last else 0
        is_whole = self.is_past_whole and not any(it.has(Report) for it in self.flow.values())
        return drawn if is_whole and not self.oracle.troubles() and not self.paused else 0

    def remember(self) -> None:
        """Record the content of all tables as of a tick, to query it later as known now."""
        tick = self._tick()
        if not tick:
            return
        self._say_of_all("asked as known at")
        if self.world is not None:
            names = [it.name for it in self.world.tables_with_past() if it.name not in self.oracle.dropped]
            rows = {name: self.oracle.visible(name, tick - 1) for name in names}
            self.known.append((self.world.now(), tick, rows))

    def rebuild_all(self) -> None:
        """Rebuild all tables from the collected rows: tables that match today's code and inputs stay as they are."""
        self.story.append("rebuild --all")
        for table in self.flow.values():
            if table.mode == "REPLACE" and not table.is_snapshot and table.kind == "TRANSFORM":
                shown = self.oracle.books[table.name].shown
                for label in [it for it in shown if not self.oracle.is_gone(table.name, it)]:
                    del shown[label]  # its states are made when they are read
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
        self.oracle.is_rebuilding = True
        for name, table in self.flow.items():
            if table.kind != "PUBLISH":  # `before` is the state at the previous run, which is unchanged
                self.oracle.take(name, self.oracle.options(name), seen[name] if seen else None)

    def told(self) -> str:
        """Return the flow and the story of the life, to find the cause of a failure."""
        return "\n".join([statements(self.flow), *self.story])


def lived(
    seed: int,
    root: Path | None = None,
    spark: SparkSession | None = None,
    met: Met | None = None,
    *,
    with_branch: bool = False,
    with_tokens: bool = False,
    with_apart: bool = False,
    with_forms: bool = False,
    forms_on_server: bool = False,
) -> Life:
    """Run one life; without a session only in the oracle.

    `with_tokens`: some of its tables have tokens. `with_apart`: one more table has APART. `with_forms`: its transforms
    read forms, in a file or on a server.

    Raises  Unexpected with the flow and its story
    """
    added = {"branch": with_branch, "tokens": with_tokens, "apart": with_apart, "forms": with_forms}
    chance, tokens, apart, edits = (Random(f"{what} {seed}") if is_there else None for what, is_there in added.items())
    life = Life(Random(seed), met or Met(), chance=chance, tokens=tokens, apart=apart, edits=edits)
    if root is not None and spark is not None:
        settings = RunSettings(threads=2, attempts=3, retry_wait=0.01, lease=LEASE, who="a life")
        life.breaks = Random(f"breaks {seed}")
        steward = life.steward = life.opened_forms(root, is_server=forms_on_server)
        tiny = Tiny(root, spark, toml=toml_of(life.flow, steward.options if steward else None), settings=settings)
        life.world = World(tiny, life.flow, life.hours, steward)
    try:
        with life.steward.clock() if life.steward else nullcontext():
            life.live()
    except (AssertionError, WaterclockError) as error:
        raise Unexpected(f"seed {seed}: {error}\n{life.told()}") from error
    return life


def _rename(known: dict[str, Any], old: str, new: str) -> None:
    """Rename a table's entry, and keep its position."""
    items = [(new if name == old else name, it) for name, it in known.items()]
    known.clear()
    known.update(items)


_MET = [Met()]


def met_before(seed: int) -> Met:
    """Return the pairs that the lives of lower seeds meet, by the oracle alone; each soak starts over.

    These lives have no branch, tokens or APART: which lives have them does not affect the draws of others.
    """
    while len(_MET) <= seed:
        number, met = len(_MET), _MET[-1]
        met = met.with_pairs(lived(number - 1, met=met).pairs)
        _MET.append(met if number % LIVES else met.next_soak())
    return _MET[seed]
