"""LOOKBACK ... CHANGED loses no change of its source, and finds none twice, with any order of looks and kills.

The source is a SQLite database that rows are written to, some of them late: their transaction began before the look.
Runners look, claim, read and commit concurrently in any order, and are killed between any two steps; ledger, look and
claims are those of the engine. The oracle remembers the content at each instant.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import DAY, SOMEWHERE, Desk, day, desk, result
from tests.unit.engine.fakes import collect, group
from waterclock.batches.records import Claim
from waterclock.connectors.interface import Setting
from waterclock.connectors.sqlite.connector import CONNECTOR
from waterclock.engine.collect.change_scans import NEVER, ChangeScan, scan_past_windows
from waterclock.flow.declarations import Table, Unit
from waterclock.flow.lookback_changes import Changed
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.timelabel.duration import Duration

DAYS, BACK, SLACK, RUNNERS = 7, 3, 100, 3
BEGUN = datetime(2020, 6, 1, tzinfo=UTC)
ACTS = ("insert", "update", "slow", "land", *["begin"] * 2, *["step"] * 8, "kill")
Rows = dict[int, int]  # id, version


@dataclass
class Attempt:
    """The work of one runner: the steps of a batch in order."""

    steps: Iterator[None]
    claim: Claim | None = None


@dataclass
class World:
    """A source, a ledger, the content of tables, and the oracle's record of it."""

    folder: Path
    desk: Desk = field(default_factory=desk)
    now: int = 0
    writes: int = 0
    rows: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # day, version, changed
    slow: list[tuple[int, int, int, int]] = field(default_factory=list)  # id, day, version, changed
    written: dict[int, int] = field(default_factory=dict)  # by day, the number of the newest write
    held: dict[int, Rows] = field(default_factory=dict)
    made_by: dict[int, int] = field(default_factory=dict)
    looked: dict[int, int] = field(default_factory=dict)  # by day, up to which write a committed look covers it
    runners: dict[int, Attempt] = field(default_factory=dict)
    table: Table = field(init=False)
    work: Any = field(init=False)

    def __post_init__(self) -> None:
        path = self.folder / "shop.sqlite"
        self.database = sqlite3.connect(path)
        self.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT, changed TEXT)")
        self.database.commit()
        unit = Unit("shop", "orders", None, {"change_slack": SLACK}, SOMEWHERE)
        plain = collect("shop.orders", lookback=Duration(BACK, "DAY"))
        assert plain.source is not None
        self.table = replace(plain, source=replace(plain.source, unit=unit, changed=Changed("changed")))
        self.desk.apply(self.table)
        collector = CONNECTOR.collector(Setting("shop", {"path": str(path)}, self.folder, self.folder))
        connections = SimpleNamespace(resolve_unit=lambda found: found, collector=lambda _: collector)
        ledger = self.desk.ledger
        self.work = SimpleNamespace(ledger=ledger, connections=connections, real_now=ledger.now)

    def put(self, key: int, of: int, version: int, changed: int) -> None:
        self.writes += 1
        self.written[of] = self.writes
        self.rows[key] = (of, version, changed)
        texts = (f"{day(of) + timedelta(hours=5):%Y-%m-%d %H:%M:%S}", f"{BEGUN + timedelta(seconds=changed):%F %T}")
        self.database.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", (key, *texts))
        self.database.commit()

    def there(self, of: int) -> Rows:
        return {key: version for key, (at, version, _) in self.rows.items() if at == of}

    def batch(self, attempt: Attempt, label: int) -> Iterator[None]:
        """Perform the steps of a batch; at each `yield` other runners may act, or the runner may be killed."""
        while True:
            self.desk.clock.pass_by(milliseconds=1)
            look, at = self.look(label)
            yield
            try:
                attempt.claim = self.desk.claim(
                    "shop.orders",
                    *sorted([label, *map(number, look.again)]),
                    restates="changed" if look.again or label in self.held else None,
                    seen=look.scanned_claims,
                )
            except ClaimRefused as refused:
                if refused.code == "E828":
                    continue
                return  # another runner has claimed it
            break
        past, seen = (
            [number(piece) for piece in look.again],
            {of: self.made_by[number_of(of)] for of in look.scanned_claims},
        )
        assert seen == look.scanned_claims, "no runner has made a past window since the look"
        yield
        read = {of: self.there(of) for of in (label, *past)}
        yield
        self.commit(attempt, label, look, read, at)

    def look(self, label: int) -> tuple[ChangeScan, int]:
        done = {of for of in self.held if label - BACK <= of < label}
        look = scan_past_windows(self.work, self.table, group("shop.orders", label), _no_spark)
        for piece in look.again:
            of, why = number(piece), look.notes[piece.label]["changed"]
            assert of in done
            if why == NEVER:
                assert of not in self.looked
            else:
                assert self.written.get(of, 0) > self.looked[of], "the change was found and collected before"
        missed = {of for of in done - {number(piece) for piece in look.again} if not self.holds(of)}
        assert not missed
        return look, self.writes

    def holds(self, of: int) -> bool:
        """Return whether the collected rows of a day are as new as its source."""
        return all(self.held[of].get(key, -1) >= version for key, version in self.there(of).items())

    def commit(self, attempt: Attempt, label: int, look: ChangeScan, read: dict[int, Rows], at: int) -> None:
        assert attempt.claim is not None
        committed = {of: rows for of, rows in read.items() if of == label or rows != self.held[of]}
        self.desk.ledger.claims.record_done(
            attempt.claim,
            [
                result(of, digest=f"{len(rows)}:{hash(frozenset(rows.items()))}:1", source=look.notes.get(day(of), {}))
                for of, rows in committed.items()
            ],
        )
        for of, rows in committed.items():
            self.held[of], self.made_by[of] = rows, attempt.claim.number
        note = look.notes[day(label)]["looked"]
        spans = [(low, high) for low, high in note["past"]["windows"]]
        covered = {of for of in range(DAYS) if any(low <= day(of).isoformat() < high for low, high in spans)}
        for of in (label, *covered):
            self.looked[of] = max(at, self.looked.get(of, 0))

    def begin(self, runner: int, label: int) -> None:
        if runner not in self.runners:
            attempt = Attempt(iter(()))
            attempt.steps = self.batch(attempt, label)
            self.runners[runner] = attempt

    def step(self, runner: int) -> None:
        if runner in self.runners and next(self.runners[runner].steps, "ended") == "ended":
            del self.runners[runner]

    def kill(self, runner: int) -> None:
        """Kill a runner, and settle its claim as lost."""
        attempt = self.runners.pop(runner, None)
        if attempt is not None and attempt.claim is not None:
            self.desk.ledger.claims.close_lost(attempt.claim, why="killed")

    def act(self, what: str, which: int, of: int) -> None:
        self.now += 2 * SLACK if which % 10 == 9 else which % 2  # some changes have the same second
        while self.slow and self.now - self.slow[0][3] >= SLACK:
            self.put(*self.slow.pop(0))
        if what == "insert":
            self.put(len(self.rows) + len(self.slow), of, 0, self.now)
        elif what == "update" and self.rows:
            key = sorted(self.rows)[which % len(self.rows)]
            at, version, changed = self.rows[key]
            self.now = max(self.now, changed + 1)  # but not two of one row
            self.put(key, at, version + 1, self.now)
        elif what == "slow":
            self.slow.append((1000 + self.writes + len(self.slow) * 100, of, 0, self.now))
        elif what == "land" and self.slow:
            self.put(*self.slow.pop(which % len(self.slow)))
        elif what == "begin":
            self.begin(which % RUNNERS, of)
        elif what == "step":
            self.step(which % RUNNERS)
        elif what == "kill":
            self.kill(which % RUNNERS)

    def finish(self) -> None:
        """Collect the days that are not done, and look once more at the days before the last."""
        for of in (*(of for of in range(DAYS) if of not in self.held), DAYS):
            self.begin(0, of)
            while 0 in self.runners:
                self.step(0)


def number(piece: Any) -> int:
    return number_of(piece.label)


def number_of(label: datetime) -> int:
    return (label - day(0)) // DAY


def _no_spark() -> Any:
    raise AssertionError("a database is queried without Spark")


@pytest.mark.parametrize("seed", range(30))
def test_no_change_is_lost_and_none_is_found_twice(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    world = World(tmp_path)
    with closing(world.database), closing(world.desk.ledger):
        for _ in range(150):
            acts = ACTS if chance.random() < 0.95 else ("kill",)
            world.act(chance.choice(acts), chance.randrange(50), chance.randrange(DAYS))
        for runner in list(world.runners):
            world.kill(runner)
        while world.slow:
            world.act("land", 0, 0)
        world.finish()
        look, _ = world.look(DAYS)
        assert not look.again
        assert all(world.holds(of) for of in range(DAYS - BACK, DAYS))
