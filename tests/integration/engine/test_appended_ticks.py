"""Random histories of ticks that append new rows: each view has the rows that the raw files require, whatever happens.

Ticks are killed and overtaken, files of slices are damaged, windows close, a rule holds some, and a joined table
changes. The oracle knows the files that were landed, the states of the joined table and the documented rules alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.integration.engine.test_continuous import Stream
from tests.tiny import Tiny, day
from waterclock.engine.continuous.tick import run_tick
from waterclock.engine.runner import Runner
from waterclock.faults import inject_faults
from waterclock.storage.commit.speed_tables import read_slices, read_state
from waterclock.storage.slices.appended import newest_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT web.clicks PARTITIONED (id BIGINT, user STRING NOT NULL ELSE QUARANTINE) FROM land.acme.clicks
  EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS;
COLLECT web.users (user STRING KEY, name STRING) FROM shop.users EVERY HOUR;
TRANSFORM web.named PARTITIONED EVERY HOUR CONTINUOUS
  AS SELECT c.id, u.name FROM web.clicks c LEFT JOIN web.users u USING (user) WHERE c.id % 7 <> 0;
TRANSFORM web.doubled PARTITIONED EVERY HOUR CONTINUOUS EXPECT (id > 0) ELSE HOLD
  AS SELECT id * 2 AS id, name FROM web.named;
TRANSFORM web.counts PARTITIONED EVERY HOUR CONTINUOUS AS SELECT name, count(*) AS n FROM web.doubled GROUP BY name;
"""
TABLES = ("clicks", "named", "doubled")
VIEWS = {"clicks": "id, user", "named": "id, name", "doubled": "id, name", "counts": "name, n"}
POINTS = ("speed.pinned", "written", "seal", "speed.merged", "speed.made", "speed.looked", "speed.committed")
HOUR = timedelta(hours=1)
Row = tuple[Any, ...]


class KilledError(BaseException):
    """Ends a tick at once."""


@dataclass
class Life:
    """A history: the clicks of each hour, and the users as of the end of each hour that is over."""

    stream: Stream
    draw: Random
    now: datetime = day(1) + timedelta(minutes=1)
    clicks: dict[datetime, list[tuple[int, str]]] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=lambda: {"a": "anna", "b": "bert"})
    users_at: dict[datetime, dict[str, str]] = field(default_factory=dict)
    ids: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    @property
    def hour(self) -> datetime:
        return self.now.replace(minute=0, second=0)

    def land(self) -> None:
        rows = []
        for _ in range(self.draw.choice([0, 1, 1, 3])):
            self.ids += 1
            rows.append((-self.ids if self.draw.random() < 0.01 else self.ids, self.draw.choice(["a", "b", "c", ""])))
        self.now += timedelta(seconds=self.draw.randint(1, 60))
        self.stream.click(self.now, *rows)
        self.clicks.setdefault(self.hour, []).extend(rows)

    def tick(self) -> None:
        self.now += timedelta(seconds=self.draw.randint(1, 60))
        self.ends["tick" if self.stream.tick(self.now) is not None else "no new rows"] += 1

    def kill(self) -> None:
        point, count = self.draw.choice(POINTS), self.draw.randint(1, 5)

        def strike(name: str) -> None:
            nonlocal count
            count -= name == point
            if not count:
                count = -1
                raise KilledError

        try:
            with inject_faults(strike):
                self.tick()
        except KilledError:
            self.ends["killed"] += 1

    def overtake(self) -> None:
        """Run a tick of another runner, with a file more, while one is about to commit."""
        others: list[int | None] = []

        def strike(name: str) -> None:
            if name == "speed.made" and not others:
                others.append(None)
                self.land()
                self.stream.now = self.now
                with self.stream.opened() as work:
                    others[0] = run_tick(work)

        with inject_faults(strike):
            self.tick()
        self.ends["overtaken"] += len(others)

    def damage(self) -> None:
        with self.stream.opened() as work:
            folder = work.lake.folder(f"web.spd_{self.draw.choice(TABLES)}")
            files = [file for each in read_slices(folder, read_state(folder)).values() for file in each.files]
        if files:
            path = Path(folder, self.draw.choice(files).path)
            path.write_bytes(path.read_bytes()[:-1])
            self.ends["damaged"] += 1
        self.land()  # a tick without new rows would keep the damaged file

    def close_hour(self) -> None:
        self.users_at[self.hour] = dict(self.users)
        self.now = self.hour + HOUR + timedelta(seconds=30)
        self.land()
        self.stream.now = self.now + timedelta(seconds=1)
        with self.stream.opened() as work:
            outcome = Runner(work).run_once(self.stream.now)
        assert {each.group.table for each in outcome.failed} <= {"web.doubled"}
        self.ends["held"] += len(outcome.failed)

    def rename(self) -> None:
        user = self.draw.choice(["a", "b"])
        self.users[user] = self.draw.choice(["anna", "bert", "cora"])
        self.stream.tiny.shop(f"UPDATE users SET name = '{self.users[user]}' WHERE user = '{user}'")

    def expected(self) -> dict[str, Counter[Row]]:
        found: dict[str, Counter[Row]] = {name: Counter() for name in VIEWS}
        for hour, clicks in self.clicks.items():
            users = self.users_at.get(hour) or self.users_at.get(hour - HOUR) or {}
            rows = [(id_, user) for id_, user in clicks if user]
            named = [(id_, users.get(user)) for id_, user in rows if id_ % 7]
            doubled = [(id_ * 2, name) for id_, name in named]
            found["clicks"].update(rows)
            found["named"].update(named)
            if all(id_ > 0 for id_, _ in doubled):
                found["doubled"].update(doubled)
                found["counts"].update(Counter(name for _, name in doubled).items())
        return found

    def check(self) -> None:
        for name, rows in self.expected().items():
            assert Counter(self.stream.rows(f"SELECT {VIEWS[name]} FROM web.{name}_view")) == rows, name


STEPS = ("land", "land", "land", "nothing", "kill", "kill", "overtake", "damage", "rename", "close_hour")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 40))])
def test_each_view_has_the_rows_that_the_files_require(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    draw = Random(seed)
    life = Life(Stream(Tiny(tmp_path, spark)), draw)
    life.stream.tiny.declare(FLOW)
    life.stream.tiny.source("users", "user TEXT, name TEXT", list(life.users.items()))
    taken: list[int] = []

    def count(manifest: Any) -> Any:
        taken.append(1)
        return newest(manifest)

    newest = newest_part
    most, least = draw.choice([(2, 2), (3, 2), (5, 3)])
    with (
        patch("waterclock.storage.slices.appended.MOST_PARTS", most),
        patch("waterclock.storage.slices.appended._LEAST_MERGED", least),
        patch("waterclock.engine.continuous.appends.newest_part", count),
    ):
        life.close_hour()
        for _ in range(12 if seed == 0 else 30):
            step = draw.choice(STEPS)
            if step != "nothing":
                getattr(life, step)()
            life.tick()
            life.check()
    assert taken, life.ends
