"""Random transactions on a real server, read from its log by both decoders, give the content of the table.

No Spark: the rows of the log are applied in plain Python, key by key, as the simplest reader would.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.postgres import needs_wal2json, server
from waterclock.connectors.arrow_values import Times
from waterclock.connectors.column_matching import CollectedColumn
from waterclock.connectors.postgres.database import PostgresDatabase
from waterclock.connectors.postgres.extract import PostgresExtract, PostgresRequestedColumn
from waterclock.connectors.postgres.log_changes import Op, position_of
from waterclock.connectors.postgres.slot_reading import (
    FollowedTable,
    LogRange,
    LogRow,
    LogScanSummary,
    batches_of,
    events_of,
    rows_in,
)
from waterclock.connectors.postgres.slots import (
    Slot,
    SlotState,
    advance,
    create_slot,
    drop,
    require_unchanged_table,
    require_whole,
    state_of,
)
from waterclock.connectors.postgres.types import PostgresColumn
from waterclock.errors import WaterclockError

OLD = datetime(2000, 1, 1, tzinfo=UTC)
NAMES = {"id": "INT", "a": "STRING", "b": "STRING", "tags": "ARRAY<STRING>", "ok": "BOOLEAN", "raw": "BINARY"}
KINDS = {"id": "int4", "a": "text", "b": "text", "tags": "text", "ok": "bool", "raw": "bytea"}
Held = dict[str, Mapping[str, str | None]]


class Followers:
    """A table with two slots, one per decoder, created at about the same time with a snapshot each."""

    def __init__(self) -> None:
        self.at = server()
        needs_wal2json()
        self.schema = self.at.fresh_schema()
        self.database = PostgresDatabase(self.at.url, "here", "here", self.schema)
        self.sql(f"CREATE SCHEMA {self.schema}")
        self.sql("CREATE TABLE t (id int PRIMARY KEY, a text, b text, tags text[], ok bool, raw bytea)")
        self.sql("ALTER TABLE t ALTER b SET STORAGE EXTERNAL")
        self.slots = {plugin: Slot(f"waterclock_{plugin}_{self.schema}", plugin) for plugin in ("wal2json", "pgoutput")}

    def sql(self, text: str) -> list[Any]:
        with closing(self.at.connect()) as connection:
            connection.execute(f"SET search_path = {self.schema}; SET TIME ZONE 'UTC'")
            with connection.transaction():
                cursor = connection.execute(text)
                return cursor.fetchall() if cursor.description else []

    def held(self, snapshot: str | None = None) -> Held:
        """Return the rows of the table, as texts."""
        with self.database.open_for_reading("t", snapshot=snapshot) as connection:
            if snapshot is not None:
                require_unchanged_table(connection, f"{self.schema}.t", "t")
            rows = connection.execute("SELECT id::text, a, b, tags::text, ok::text, raw::text FROM t").fetchall()
        found = (dict(zip(NAMES, row, strict=True)) for row in rows)
        return {row["id"]: {**row, "ok": row["ok"] and row["ok"][0]} for row in found}

    def followed(self, plugin: str) -> FollowedTable:
        wanted = tuple(
            PostgresRequestedColumn(
                CollectedColumn(n, n, NAMES[n], is_typed=False),
                PostgresColumn(n, KINDS[n], NAMES[n], is_array=n == "tags"),
            )
            for n in NAMES
        )
        extract = PostgresExtract(self.database, "t", "", wanted, Times("UTC", "seconds"))
        ((oid,),) = self.sql("SELECT 't'::regclass::oid")
        return FollowedTable(self.slots[plugin], oid, self.schema, "t", extract, ("id",))

    def read(self, plugin: str, low: int, high: int) -> list[LogRow]:
        with self.database.open_connection("t") as connection:
            followed = self.followed(plugin)
            with closing(events_of(connection, followed, high)) as events:
                return list(rows_in(events, LogRange(low, high, OLD), followed, None, LogScanSummary()))

    def end(self) -> int:
        return position_of(str(self.sql("SELECT pg_current_wal_flush_lsn()")[0][0]))


@pytest.fixture
def followers() -> Iterator[Followers]:
    made = Followers()
    yield made
    with made.database.open_connection("t") as connection:
        for slot in made.slots.values():
            assert drop(connection, slot.name)
    made.sql(f"DROP SCHEMA {made.schema} CASCADE")


def put(held: Held, rows: list[LogRow]) -> None:
    """Apply changes in order."""
    gone: Mapping[str, str | None] = {}
    for row in rows:
        if row.op is Op.TRUNCATE:
            held.clear()
        elif row.op is Op.DELETE:
            gone = held.pop(str(row.values["id"]), {})
        else:
            key = str(row.values["id"])
            before = held[key] if row.op is Op.UPDATE else gone  # an insert without all values had another key
            held[key] = {name: (before if name in row.missing else row.values)[name] for name in NAMES}


def _statement(rng: random.Random, *, may_truncate: bool) -> str:
    one, other, text = rng.randrange(12), rng.randrange(12), rng.choice(["NULL", "'x'", "'ä \"q\", \\ {'", "''"])
    big = rng.choice(["NULL", f"repeat('{rng.choice('xyz')}', {rng.choice([3, 4000])})"])
    value = f"({one}, {text}, {big}, ARRAY[{text}, 'b,c'], {rng.choice(['true', 'false', 'NULL'])}, '\\x0{one % 10}')"
    return rng.choice(
        [
            f"INSERT INTO t VALUES {value} ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a",
            f"INSERT INTO t VALUES {value} ON CONFLICT (id) DO UPDATE SET b = EXCLUDED.b, tags = NULL",
            f"UPDATE t SET a = {text} WHERE id BETWEEN {min(one, other)} AND {max(one, other)}",
            f"UPDATE t SET id = {other} WHERE id = {one} AND {other} NOT IN (SELECT id FROM t)",
            f"DELETE FROM t WHERE id = {one}",
            "TRUNCATE t" if may_truncate and rng.random() < 0.2 else f"DELETE FROM t WHERE id > {one + 6}",
        ]
    )


@contextmanager
def writers(followers: Followers, seed: int, transactions: int, count: int = 3) -> Iterator[threading.Event]:
    """Change the table in several sessions at once, and roll some of their transactions back.

    The event allows them to truncate the table too.
    """
    truncating = threading.Event()

    def write(number: int) -> None:
        import psycopg

        rng = random.Random(seed * 100 + number)
        with closing(followers.at.connect()) as connection:
            connection.execute(f"SET search_path = {followers.schema}")
            for _ in range(transactions):
                try:
                    with connection.transaction(force_rollback=rng.random() < 0.2):
                        for _ in range(rng.randrange(1, 6)):
                            connection.execute(_statement(rng, may_truncate=truncating.is_set()))
                except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
                    pass

    threads = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield truncating
    finally:
        for thread in threads:
            thread.join()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(2))
def test_snapshot_and_log_of_both_decoders_come_to_the_table(followers: Followers, seed: int) -> None:
    held: dict[str, Held] = {}
    low: dict[str, int] = {}
    with writers(followers, seed, 40) as truncating:
        for plugin, slot in followers.slots.items():
            table = f'"{followers.schema}".t'
            with create_slot(followers.database, "t", slot, table) as start:
                held[plugin], low[plugin] = followers.held(start.snapshot), start.position
        truncating.set()  # not before: TRUNCATE empties the table for older snapshots too
        middle = followers.end()  # within transactions
        for plugin in followers.slots:
            put(held[plugin], followers.read(plugin, low[plugin], max(middle, low[plugin])))
            low[plugin] = max(middle, low[plugin])
    high = followers.end()
    rows = {plugin: followers.read(plugin, low[plugin], high) for plugin in followers.slots}
    for plugin in followers.slots:
        assert rows[plugin] == followers.read(plugin, low[plugin], high)  # reading does not move the slot
        put(held[plugin], rows[plugin])
        assert held[plugin] == followers.held()
        list(batches_of(rows[plugin], followers.followed(plugin).extract))
    common = max(low.values())
    told = {
        plugin: [(row.op, row.begin, row.seq, row.missing) for row in rows[plugin] if row.begin.committed_at >= common]
        for plugin in rows
    }
    assert told["wal2json"] == told["pgoutput"]


def test_a_range_ends_before_the_first_commit_at_or_after_the_windows_end(followers: Followers) -> None:
    slot = followers.slots["pgoutput"]
    with create_slot(followers.database, "t", slot, f'"{followers.schema}".t') as start:
        low = start.position
    followers.sql("INSERT INTO t VALUES (1)")
    ((until,),) = followers.sql("SELECT clock_timestamp()")
    followers.sql("INSERT INTO t VALUES (2)")
    followed, seen = followers.followed("pgoutput"), LogScanSummary()
    with followers.database.open_connection("t") as connection:
        with closing(events_of(connection, followed, followers.end())) as events:
            first = list(rows_in(events, LogRange(low, followers.end(), OLD), followed, until, seen))
        assert [row.values["id"] for row in first] == ["1"]
        rest = followers.read("pgoutput", seen.high, followers.end())
        assert [row.values["id"] for row in rest] == ["2"]
        advance(connection, slot, seen.high)
        assert followers.read("pgoutput", seen.high, followers.end()) == rest
        state = state_of(connection, slot)
        require_whole(state, slot, seen.high, "t")
        with pytest.raises(WaterclockError, match="was advanced") as refused:
            require_whole(state, slot, low - 1, "t")
        assert refused.value.code == "E860"


def test_a_missing_slot_or_one_that_lost_its_log_is_reported() -> None:
    slot = Slot("s", "pgoutput")
    with pytest.raises(WaterclockError, match="is gone"):
        require_whole(None, slot, 5, "t")
    with pytest.raises(WaterclockError, match="lost its log"):
        require_whole(SlotState(5, "lost", held=0), slot, 5, "t")


def test_a_snapshot_that_a_truncate_has_emptied_is_refused(followers: Followers) -> None:
    followers.sql("INSERT INTO t VALUES (1)")
    with create_slot(followers.database, "t", followers.slots["pgoutput"], f'"{followers.schema}".t') as start:
        followers.sql("TRUNCATE t")
        with pytest.raises(WaterclockError, match="emptied or rewritten"):
            followers.held(start.snapshot)


def test_a_quiet_table_holds_no_log_back_while_others_are_busy(followers: Followers) -> None:
    slot = followers.slots["pgoutput"]
    with create_slot(followers.database, "t", slot, f'"{followers.schema}".t') as start:
        pass
    followers.sql("CREATE TABLE busy (x text)")
    restarts = []
    for _ in range(3):
        followers.sql("INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 500)")
        followers.at.run("CHECKPOINT")
        with followers.database.open_connection("t") as connection:
            advance(connection, slot, followers.end())
            state = state_of(connection, slot)
        assert state is not None
        restarts.append(state)
    assert restarts[-1].confirmed > start.position
    assert restarts[-1].held < 1 << 20


def test_a_key_update_lists_the_columns_missing_from_the_log(followers: Followers) -> None:
    slot = followers.slots["wal2json"]
    with create_slot(followers.database, "t", slot, "t") as start:
        low = start.position
    followers.sql("INSERT INTO t VALUES (1, 'a', repeat('x', 5000))")
    followers.sql("UPDATE t SET id = 2")
    followers.sql("ALTER TABLE t REPLICA IDENTITY FULL")
    followers.sql("UPDATE t SET id = 3")
    rows = followers.read("wal2json", low, followers.end())
    assert [row.op for row in rows] == [Op.INSERT, Op.DELETE, Op.INSERT, Op.DELETE, Op.INSERT]
    assert [row.missing for row in rows if row.op is Op.INSERT] == [(), ("b",), ()]
    assert rows[-1].values["b"] == "x" * 5000
    held: Held = {}
    put(held, rows)
    assert held == followers.held()
