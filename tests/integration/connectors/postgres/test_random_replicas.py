"""Random transactions on a real server, of every kind that hides its order: the replica equals the source.

The writer records every committed state itself: a TEMPORAL replica has exactly these versions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgres import drop_all_slots, needs_wal2json, server
from tests.replicas import Replicated, past_all_windows
from waterclock.connectors.postgres import change_collection, slot_reading
from waterclock.connectors.postgres.connector import PostgresCollector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
COLUMNS = "id int PRIMARY KEY, name text, amount numeric(10,2), big text, at timestamptz"
FLOW = """
CREATE CONNECTION ops TYPE postgres;
COLLECT shop.orders (id KEY, *) FROM ops.orders{options} EVERY MINUTE BY CHANGES MERGE;
COLLECT shop.versions (id KEY, since TIMESTAMP AS (_change.at), *) FROM ops.orders{options} EVERY MINUTE
  BY CHANGES TEMPORAL AT since;
"""


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    needs_wal2json()
    at = server()
    if at.run("SHOW max_prepared_transactions") != [("20",)]:
        at.run("ALTER SYSTEM SET max_prepared_transactions = 20")
        at.stop()
        at.start()
    monkeypatch.setattr(PostgresCollector, "clock", past_all_windows)
    monkeypatch.setattr(slot_reading, "_SHORTEST_READ", 1 << 14)
    yield
    for (name,) in at.run("SELECT gid FROM pg_prepared_xacts"):
        at.run(f"ROLLBACK PREPARED '{name}'")
    drop_all_slots()


class Writer:
    """Changes the table in transactions one after the other, but for those that it leaves open for a while."""

    def __init__(self, it: Replicated, seed: int) -> None:
        self.it, self.rng = it, random.Random(seed)
        self.states: list[dict[int, Any]] = [self.state()]
        self.open: list[Any] = []
        self.prepared: list[str] = []
        self.extra = 0

    def state(self) -> dict[int, Any]:
        rows = self.it.sql("SELECT id, name, amount, md5(big) FROM orders")
        return {row[0]: tuple(row[1:]) for row in rows}

    def statement(self, low: int, high: int) -> str:
        one, other = self.rng.randrange(low, high), self.rng.randrange(low, high)
        text = self.rng.choice(["NULL", "'x'", "'ä \"q\", \\ {'", "''", f"'{self.rng.randrange(99)}'"])
        big = self.rng.choice(["NULL", f"repeat('{self.rng.choice('xyz')}', {self.rng.choice([3, 4000])})"])
        return self.rng.choice(
            [
                f"INSERT INTO orders VALUES ({one}, {text}, 1, {big}) ON CONFLICT (id) DO UPDATE SET name = {text}",
                f"INSERT INTO orders VALUES ({one}, NULL, 2, {big}) ON CONFLICT (id) DO UPDATE SET big = excluded.big",
                f"UPDATE orders SET name = {text} WHERE id BETWEEN {min(one, other)} AND {max(one, other)}",
                f"UPDATE orders SET id = {other} WHERE id = {one} AND {other} NOT IN (SELECT id FROM orders)",
                f"DELETE FROM orders WHERE id = {one}",
                f"DELETE FROM orders WHERE id = {one}; INSERT INTO orders VALUES ({one}, 'again', 3, {big})",
                f"SAVEPOINT s; UPDATE orders SET name = 'never' WHERE id >= {low}; ROLLBACK TO s",
                f"SAVEPOINT r; UPDATE orders SET amount = amount + 1 WHERE id = {one}; RELEASE r",
            ]
        )

    def transaction(self) -> None:
        """Commit some statements at once, or roll them back."""
        import psycopg

        kind = self.rng.random()
        with closing(self.it.at.connect()) as connection:
            connection.execute(f"SET search_path = {self.it.schema}; SET lock_timeout = '200ms'")
            with suppress(psycopg.errors.UniqueViolation, psycopg.errors.LockNotAvailable):
                connection.execute("BEGIN")
                for _ in range(self.rng.randrange(1, 6)):
                    connection.execute(self.statement(0, 12))
                if kind < 0.03 and not (self.open or self.prepared):
                    connection.execute("TRUNCATE orders; INSERT INTO orders VALUES (3, 'after', 0, 'b')")
                if kind < 0.8:
                    connection.execute("COMMIT")
                    self.states.append(self.state())

    def long(self) -> None:
        """Leave a transaction open, or prepared, whose keys no other one changes; or end one of these."""
        low = 100 * (1 + self.rng.randrange(3))
        if self.open or self.prepared:
            if self.open:
                connection = self.open.pop()
                connection.execute(self.rng.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
                connection.close()
            else:
                self.it.at.run(f"{self.rng.choice(['COMMIT', 'ROLLBACK'])} PREPARED '{self.prepared.pop()}'")
            self.states.append(self.state())
            return
        connection = self.it.at.connect()
        connection.execute(f"SET search_path = {self.it.schema}; BEGIN")
        for _ in range(4):
            connection.execute(self.statement(low, low + 9))
        if self.rng.random() < 0.5:
            name = f"p{self.rng.randrange(10**9)}"
            connection.execute(f"PREPARE TRANSACTION '{name}'")
            connection.close()
            self.prepared.append(name)
        else:
            self.open.append(connection)

    def alter(self) -> None:
        """Alter the table in ways that a replica can follow."""
        if self.open or self.prepared:
            return
        self.extra += 1
        self.it.sql(
            self.rng.choice(
                [
                    f"ALTER TABLE orders ADD extra{self.extra} int",
                    "ALTER TABLE orders REPLICA IDENTITY FULL",
                    "ALTER TABLE orders REPLICA IDENTITY DEFAULT",
                    "CREATE TABLE IF NOT EXISTS beside (x int); TRUNCATE beside; INSERT INTO beside VALUES (1)",
                ]
            )
        )

    def versions(self) -> dict[int, list[Any]]:
        """Return the successive values of each key; None where it did not exist."""
        found: dict[int, list[Any]] = {}
        for key in {key for state in self.states for key in state}:
            values: list[Any] = []
            for state in self.states:
                if not values or values[-1] != state.get(key):
                    values.append(state.get(key))
            found[key] = [value for value in values if value is not None]
        return found


@pytest.mark.parametrize("decoder", ["pgoutput", "wal2json"])
@pytest.mark.parametrize("seed", range(2))
def test_the_replica_equals_the_source_after_random_transactions(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, decoder: str, seed: int
) -> None:
    it = Replicated.begun(tmp_path, spark, COLUMNS, FLOW, f" OPTIONS (decoder '{decoder}')")
    it.sql("INSERT INTO orders SELECT n, 'n' || n, 1, repeat('x', 3000) FROM generate_series(1, 10) AS n")
    it.replicate()
    writer = Writer(it, seed)
    with ExitStack() as held:
        held.callback(lambda: [connection.close() for connection in writer.open])
        for window in range(6):
            for _ in range(writer.rng.randrange(3, 14)):
                writer.transaction()
                if writer.rng.random() < 0.3:
                    writer.long()
                if writer.rng.random() < 0.1:
                    writer.alter()
            monkeypatch.setattr(change_collection, "DIRECT_ROWS", [50_000, 5][window % 2])
            it.replicate()
            columns = "id, name, amount, md5(big)"
            assert it.replica(columns) == it.source(columns), window
    rows = it.tiny.rows("SELECT id, name, amount, md5(big) FROM shop.versions ORDER BY id, rec_eff_time")
    versions: dict[int, list[Any]] = {}
    for row in rows:
        of_key = versions.setdefault(row[0], [])
        if not of_key or of_key[-1] != tuple(row[1:]):
            of_key.append(tuple(row[1:]))
    expected = {
        key: [value for at, value in enumerate(values) if not at or value != values[at - 1]]
        for key, values in writer.versions().items()
    }
    assert versions == {key: values for key, values in expected.items() if values}
    assert len(it.slots()) == 2
