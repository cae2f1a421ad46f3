"""Random histories of a followed table: rows change while columns and table are altered. No Spark.

The table itself is the oracle: the collected rows equal its content, or the batch is refused with E863.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from tests.followers import Follower
from tests.postgres import drop_all_slots, needs_wal2json
from waterclock.errors import WaterclockError

LARGE = "id int PRIMARY KEY, a text, b text, c text"
SMALL = "id int PRIMARY KEY, a int, b int, c int"
STEPS = 7
OF_COLUMNS = [
    "ALTER TABLE t ALTER c SET DEFAULT '5'",
    "GRANT SELECT (a), UPDATE (b) ON t TO PUBLIC",
    "ALTER TABLE t ALTER a SET STATISTICS 50",
]
HARMLESS = [
    *OF_COLUMNS,
    "ALTER TABLE t ALTER a SET DEFAULT NULL; ALTER TABLE t ALTER b DROP DEFAULT",
    "CREATE INDEX ON t (a)",
    "ANALYZE t",
    "COMMENT ON COLUMN t.a IS 'said'",
    "VACUUM FREEZE t",
    "VACUUM FREEZE pg_attribute",
    "VACUUM FULL pg_attribute",
    "ALTER TABLE t DISABLE TRIGGER ALL",
]


@pytest.fixture(autouse=True)
def _no_slots_are_left() -> Iterator[None]:
    needs_wal2json()
    yield
    drop_all_slots()


class History:
    """Alters and changes a table that is followed."""

    def __init__(self, plugin: str, columns: str, seed: int) -> None:
        self.rng, self.fresh = random.Random(seed), itertools.count(1)
        self.is_small = columns == SMALL
        rows = "INSERT INTO t SELECT n, n, n, n FROM generate_series(1, 6) AS n"
        if not self.is_small:
            rows = "INSERT INTO t SELECT n, 'a', repeat('b', 2100), 'c' FROM generate_series(1, 6) AS n"
        self.it = Follower(plugin, columns, rows)
        self.it.sql("ALTER TABLE t REPLICA IDENTITY " + self.rng.choice(["DEFAULT", "DEFAULT", "FULL"]))

    def columns(self) -> list[str]:
        found = self.it.at.run(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 1 AND NOT attisdropped",
            f"{self.it.schema}.t",
        )
        return [name for (name,) in found]

    def change(self) -> str:
        """Return a statement that changes rows."""
        key, value = self.rng.randrange(1, 9), self.rng.randrange(9)
        if not (names := self.columns()):
            return f"DELETE FROM t WHERE id = {key}"
        name = self.rng.choice(names)
        return self.rng.choice(
            [
                f"INSERT INTO t (id, {name}) VALUES ({key}, {value}) ON CONFLICT (id) DO UPDATE SET {name} = {value}",
                f"UPDATE t SET {name} = {value} WHERE id >= {key}",
                f"UPDATE t SET id = id + 20 WHERE id = {key}",
                f"DELETE FROM t WHERE id = {key}",
                "TRUNCATE t; INSERT INTO t (id) VALUES (1)" if value == 0 else f"UPDATE t SET {name} = NULL",
            ]
        )

    def renamed(self) -> list[str]:
        """Return statements that rename columns, change rows, and usually rename the columns back."""
        names = self.columns()
        if not names:
            return []
        one, other = self.rng.choice(names), self.rng.choice(names)
        swap = [f"RENAME {one} TO swapped", f"RENAME {other} TO {one}", f"RENAME swapped TO {other}"]
        away, back = swap, swap
        if one == other:
            new = f"n{next(self.fresh)}"
            away, back = [f"RENAME {one} TO {new}"], [f"RENAME {new} TO {one}"]
        value, key = self.rng.randrange(9), self.rng.randrange(1, 9)
        name = other if one != other else away[0].split()[-1]
        changes = [f"UPDATE t SET {name} = {value} WHERE id >= {key}", f"DELETE FROM t WHERE id = {key}"]
        within = self.rng.choice([[], changes[:1], changes[1:], changes])
        alter = [f"ALTER TABLE t {each}" for each in away]
        return [*alter, *within, *([f"ALTER TABLE t {each}" for each in back] if self.rng.random() < 0.9 else [])]

    def altered(self) -> list[str]:
        """Return statements that add or drop columns, or rewrite the table."""
        names = self.columns()
        new = f"n{next(self.fresh)}"
        kind = "int" if self.is_small else "text"
        added = f"ALTER TABLE t ADD {new} {kind}"
        return self.rng.choice(
            [
                [added],
                [added, self.change(), f"ALTER TABLE t DROP {new}"],
                [added, f"UPDATE t SET {new} = 5", f"ALTER TABLE t RENAME {new} TO r{new}"],
                [f"ALTER TABLE t DROP {self.rng.choice(names)}"] if names else [],
                ["VACUUM FULL t"],
                ["CLUSTER t USING t_pkey"],
                ["ALTER TABLE t SET UNLOGGED", self.change(), "ALTER TABLE t SET LOGGED"],
                ["ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t"],
                ["TRUNCATE t", self.change()],
            ]
        )

    def do(self, statements: Sequence[str]) -> None:
        for each in statements:
            try:
                self.it.sql(each)
            # the publication of pgoutput requires the table to be logged
            except psycopg.errors.ObjectNotInPrerequisiteState:
                assert "UNLOGGED" in each

    def agrees(self) -> bool:
        held, source = self.it.held, self.it.source()
        return {
            key: {name: held[key].get(name) for name in row} for key, row in source.items() if key in held
        } == source and set(held) == set(source)

    def step(self) -> list[str]:
        """Return the next statements."""
        kind = self.rng.random()
        if kind < 0.5:
            return [self.change()]
        if kind < 0.7:
            return self.renamed()
        if kind < 0.85:
            return self.altered()
        return [self.rng.choice(HARMLESS)] if {"a", "b", "c"} <= set(self.columns()) else [self.change()]

    def read(self) -> bool:
        """Collect the new changes, and return whether the batch was refused."""
        try:
            self.it.read()
        except WaterclockError as error:
            if error.code != "E863":
                raise
            return True
        return False


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
@pytest.mark.parametrize("columns", [LARGE, SMALL], ids=["large", "small"])
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 100))])
def test_rows_of_a_table_that_is_altered_are_collected_or_refused(plugin: str, columns: str, seed: int) -> None:
    history, done = History(plugin, columns, seed), list[list[str]]()
    for _ in range(STEPS):
        done.append(history.step())
        history.do(done[-1])
        if history.rng.random() < 0.5:
            if history.read():
                return
            assert history.agrees(), done


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))])
def test_changes_that_are_harmless_stop_nothing(plugin: str, seed: int) -> None:
    history = History(plugin, LARGE, seed)
    for statement in history.rng.sample([*HARMLESS, "VACUUM FULL t", "CLUSTER t USING t_pkey", "TRUNCATE t"], 6):
        change = history.change()
        # the how-to states that this combination fails
        while statement in OF_COLUMNS and change.startswith("TRUNCATE"):
            change = history.change()
        history.do([statement, change])
        assert not history.read(), statement
        assert history.agrees(), statement


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
@pytest.mark.parametrize("statement", OF_COLUMNS)
def test_a_column_alteration_with_a_truncate_and_insert_is_refused(plugin: str, statement: str) -> None:
    """The log does not show whether a rewrite changed values, so the batch is refused."""
    history = History(plugin, LARGE, 0)
    history.do([statement, "TRUNCATE t", "INSERT INTO t (id, a) VALUES (1, 7)"])
    assert history.read()
