from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import SqliteDatabase, setting_of, unit_of
from waterclock.connectors.delivering import Delivery, DeliveryOutcome
from waterclock.connectors.sqlite.connector import CONNECTOR
from waterclock.connectors.sqlite.dialect import DIALECT
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode

LABEL = datetime(2013, 1, 1, tzinfo=UTC)
COLUMNS = (("id", "STRING"), ("amount", "INT"))


@pytest.fixture
def database(tmp_path: Path) -> SqliteDatabase:
    return SqliteDatabase(tmp_path)


def sealed(database: SqliteDatabase, table: pa.Table) -> Path:
    path = database.path.parent / f"part-{len(list(database.path.parent.iterdir()))}.parquet"
    pq.write_table(table, path)
    return path


def delivery(database: SqliteDatabase, rows: Sequence[tuple[str, int]], claim: int = 1, **changes: Any) -> Delivery:
    table = pa.table({"id": [key for key, _ in rows], "amount": pa.array([amount for _, amount in rows], pa.int32())})
    made = Delivery(
        project="flights",
        publish="ops.totals",
        claim=claim,
        label=LABEL,
        label_text="20130101000000",
        mode=Mode.REPLACE,
        is_from_partitioned=False,
        columns=COLUMNS,
        files=(sealed(database, table),),
    )
    return replace(made, **changes)


def deliver(database: SqliteDatabase, *deliveries: Delivery, **options: bool) -> DeliveryOutcome:
    deliverer = CONNECTOR.deliverer(database.setting)
    return deliverer.deliver(unit_of("ops", "totals", **options), deliveries)[-1].outcome


def test_a_table_with_foreign_rows_is_refused(database: SqliteDatabase) -> None:
    database.run("CREATE TABLE totals (id TEXT, amount INTEGER)")
    database.run("INSERT INTO totals VALUES ('theirs', 1)")
    with pytest.raises(WaterclockError, match="E820") as caught:
        deliver(database, delivery(database, [("a", 1)]))
    assert caught.value.where == "ops.totals@20130101000000"
    assert [row["id"] for row in database.rows()] == ["theirs"]


def test_it_may_be_adopted(database: SqliteDatabase) -> None:
    database.run("CREATE TABLE totals (id TEXT, amount INTEGER)")
    database.run("INSERT INTO totals VALUES ('theirs', 1)")
    assert deliver(database, delivery(database, [("a", 1)]), adopt=True) is DeliveryOutcome.DELIVERED
    assert [row["id"] for row in database.rows()] == ["a"]


def test_an_index_of_the_key_that_is_not_unique_does_not_serve_a_merge(database: SqliteDatabase) -> None:
    database.run("CREATE TABLE totals (id TEXT, amount INTEGER)")
    database.run("CREATE INDEX by_id ON totals (id)")
    merged = delivery(database, [("a", 1)], mode=Mode.MERGE, keys=("id",))
    assert deliver(database, merged) is DeliveryOutcome.DELIVERED
    assert [row["id"] for row in database.rows()] == ["a"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DROP TABLE totals", "the table totals is gone"),
        ("DELETE FROM totals WHERE id = 'a'", "totals holds 1 rows of 20130101000000, 2 were delivered"),
        ("DROP TABLE waterclock_deliveries", "waterclock_deliveries has no row of claim 1"),
        ("DELETE FROM waterclock_deliveries", "waterclock_deliveries has no row of claim 1"),
    ],
)
def test_manual_changes_of_delivered_tables_are_reported(database: SqliteDatabase, change: str, said: str) -> None:
    deliver(database, delivery(database, [("a", 1), ("b", 2)], mode=Mode.APPEND))
    assert lost(database) is None
    database.run(change)
    assert lost(database) == said


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.MERGE])
def test_a_manually_emptied_state_is_reported(database: SqliteDatabase, mode: Mode) -> None:
    deliver(database, delivery(database, [("a", 1)], mode=mode, keys=("id",)))
    assert lost(database) is None
    database.run("DELETE FROM totals")
    assert lost(database) == "the table totals is empty"


def test_a_missing_file_is_reported_even_with_the_create_option(tmp_path: Path) -> None:
    deliverer = CONNECTOR.deliverer(setting_of("ops", tmp_path, path="new.sqlite", create=True))
    assert deliverer.find_loss(unit_of("ops", "totals"), "flights", "ops.totals", 1) == "the file new.sqlite is gone"


def test_an_older_row_is_restored_under_its_own_label_and_never_replaces_a_newer_one(database: SqliteDatabase) -> None:
    keyed: dict[str, Any] = {"mode": Mode.MERGE, "keys": ("id",), "is_from_partitioned": True}
    labels = [f"2013010{number}000000" for number in (1, 2, 3)]
    for claim, (label, rows) in enumerate(
        zip(labels, ([("a", 1), ("b", 1)], [("a", 2), ("b", 2)], [("b", 3)]), strict=True), 1
    ):
        deliver(database, delivery(database, rows, claim, label_text=label, **keyed))
    table = pa.table(
        {"id": ["c", "a", "b"], "amount": pa.array([9, 1, 1], pa.int32()), "own": [None, labels[0], labels[0]]}
    )
    restated = delivery(database, [], 4, label_text=labels[1], files=(sealed(database, table),), **keyed)
    deliver(database, replace(restated, label_column="own"))
    assert sorted((row["id"], row["amount"], row["timelabel"]) for row in database.rows()) == [
        ("a", 1, labels[0]),
        ("b", 3, labels[2]),
        ("c", 9, labels[1]),
    ]


def lost(database: SqliteDatabase) -> str | None:
    return CONNECTOR.deliverer(database.setting).find_loss(unit_of("ops", "totals"), "flights", "ops.totals", 1)


def test_an_empty_foreign_table_is_filled(database: SqliteDatabase) -> None:
    database.run("CREATE TABLE totals (id TEXT, amount INTEGER, note TEXT DEFAULT 'theirs')")
    deliver(database, delivery(database, [("a", 1)]))
    assert database.rows() == [{"id": "a", "amount": 1, "note": "theirs"}]


def test_a_table_of_another_project_is_refused(database: SqliteDatabase) -> None:
    deliver(database, delivery(database, [("a", 1)]))
    with pytest.raises(WaterclockError) as caught:
        deliver(database, delivery(database, [("b", 1)], 2, project="trains"))
    assert caught.value.code == "E820"
    assert "flights" in caught.value.what
    assert [row["id"] for row in database.rows()] == ["a"]


def test_two_projects_may_count_the_same_claims(database: SqliteDatabase) -> None:
    deliver(database, delivery(database, [("a", 1)]))
    other = delivery(database, [("b", 1)], project="trains", publish="ops.other")
    stands = CONNECTOR.deliverer(database.setting).deliver(unit_of("ops", "other"), [other])
    assert not stands[0].is_repeat


def test_new_columns_are_added(database: SqliteDatabase) -> None:
    deliver(database, delivery(database, [("a", 1)]))
    table = pa.table({"id": ["b"], "amount": pa.array([2], pa.int32()), "late": [True]})
    wider = delivery(database, [], 2, columns=(*COLUMNS, ("late", "BOOLEAN")), files=(sealed(database, table),))
    deliver(database, wider)
    assert database.rows() == [{"id": "b", "amount": 2, "late": 1}]


def test_a_merge_keeps_columns_that_are_not_ours(database: SqliteDatabase) -> None:
    database.run("CREATE TABLE totals (id TEXT PRIMARY KEY, amount INTEGER, note TEXT)")
    deliver(database, delivery(database, [("a", 1)], mode=Mode.MERGE, keys=("id",)))
    database.run("UPDATE totals SET note = 'seen by Ann'")
    deliver(database, delivery(database, [("a", 2)], 2, mode=Mode.MERGE, keys=("id",)))
    assert database.rows() == [{"id": "a", "amount": 2, "note": "seen by Ann"}]
    indexes = database.run("SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'totals'")
    assert [name for (name,) in indexes if name.startswith("waterclock")] == []


def test_a_merge_of_a_whole_state_keeps_columns_that_are_not_ours(database: SqliteDatabase) -> None:
    database.run("CREATE TABLE totals (id TEXT PRIMARY KEY, amount INTEGER, note TEXT)")
    deliver(database, delivery(database, [("a", 1), ("b", 1)], mode=Mode.MERGE, keys=("id",)))
    database.run("UPDATE totals SET note = 'seen by Ann'")
    whole = delivery(database, [("a", 2), ("c", 2)], 2, mode=Mode.MERGE, keys=("id",), is_whole=True)
    (stands,) = CONNECTOR.deliverer(database.setting).deliver(unit_of("ops", "totals"), [whole])
    assert (stands.rows, stands.deleted) == (2, 1)
    assert sorted(database.rows(), key=lambda row: str(row["id"])) == [
        {"id": "a", "amount": 2, "note": "seen by Ann"},
        {"id": "c", "amount": 2, "note": None},
    ]


@pytest.mark.parametrize("name", ["excluded", "kept", "s", "t"])
def test_a_merge_finds_the_rows_of_a_table_that_is_called_as_a_part_of_its_sql(
    database: SqliteDatabase, name: str
) -> None:
    keyed: dict[str, Any] = {"mode": Mode.MERGE, "keys": ("id",), "publish": f"ops.{name}"}
    deliverer = CONNECTOR.deliverer(database.setting)
    deliverer.deliver(unit_of("ops", name), [delivery(database, [("a", 1), ("b", 1)], **keyed)])
    deliverer.deliver(unit_of("ops", name), [delivery(database, [("a", 2), ("c", 2)], 2, is_whole=True, **keyed)])
    assert sorted(database.run(f"SELECT id, amount FROM {name}")) == [("a", 2), ("c", 2)]
    labels = {**keyed, "publish": f"ops.{name}2", "is_from_partitioned": True}
    other = unit_of("ops", f"main.{name}2")
    deliverer.deliver(other, [delivery(database, [("a", 3)], 3, label_text="20130103000000", **labels)])
    deliverer.deliver(other, [delivery(database, [("a", 2), ("b", 2)], 4, label_text="20130102000000", **labels)])
    assert sorted(database.run(f"SELECT id, amount FROM {name}2")) == [("a", 3), ("b", 2)]


def test_a_merge_of_a_complete_state_scales_linearly_with_numeric_keys(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, steps = sqlite3.connect, 0

    def counted(*arguments: Any, **named: Any) -> sqlite3.Connection:
        def thousand_more() -> None:
            nonlocal steps
            steps += 1000

        connection: sqlite3.Connection = connect(*arguments, **named)
        connection.set_progress_handler(thousand_more, 1000)
        return connection

    monkeypatch.setattr(sqlite3, "connect", counted)

    def cost(count: int) -> int:
        nonlocal steps
        rows = [(str(number), number) for number in range(count)]
        steps = 0
        deliver(database, delivery(database, rows, count, mode=Mode.MERGE, keys=("amount",), is_whole=True))
        assert len(database.rows()) == count
        return steps

    of_few = cost(4_000)
    assert cost(16_000) < 6 * of_few, "it would be sixteen times as much if each key were searched in all of them"


def test_a_merge_finds_its_keys_however_the_declaration_spells_them(database: SqliteDatabase) -> None:
    for claim, rows in enumerate(([("a", 1), ("b", 1)], [("a", 2)]), 1):
        deliver(database, delivery(database, rows, claim, mode=Mode.MERGE, keys=("ID",), is_whole=True))
    assert database.rows() == [{"id": "a", "amount": 2}]


def test_a_merge_by_keys_alone_has_nothing_to_change(database: SqliteDatabase) -> None:
    for claim in (1, 2):
        deliver(database, delivery(database, [("a", 1)], claim, mode=Mode.MERGE, keys=("id", "amount")))
    assert database.rows() == [{"id": "a", "amount": 1}]


def test_a_merge_with_the_label_among_its_keys(database: SqliteDatabase) -> None:
    keys = {"mode": Mode.MERGE, "keys": ("timelabel", "id"), "is_from_partitioned": True}
    deliver(database, delivery(database, [("a", 1), ("b", 1)], 1, **keys))
    deliver(database, delivery(database, [("a", 2)], 2, **keys, label_text="20130102000000"))
    deliver(database, delivery(database, [("a", 3)], 3, **keys))
    assert sorted((row["id"], row["amount"], row["timelabel"]) for row in database.rows()) == [
        ("a", 2, "20130102000000"),
        ("a", 3, "20130101000000"),
    ]


def test_deliveries_by_label_are_indexed(database: SqliteDatabase) -> None:
    deliver(database, delivery(database, [("a", 1)], mode=Mode.APPEND))
    plan = database.run("EXPLAIN QUERY PLAN DELETE FROM totals WHERE timelabel = 'x'")
    assert "INDEX" in str(plan)


def test_values_of_every_type_are_kept(database: SqliteDatabase) -> None:
    values: dict[str, tuple[str, pa.DataType, object, object]] = {
        "i": ("bigint", pa.int64(), 2**62, 2**62),
        "f": ("double", pa.float64(), 0.1, 0.1),
        "m": ("decimal(12,2)", pa.decimal128(12, 2), Decimal("12.30"), 12.3),
        "w": ("decimal(38,10)", pa.decimal128(38, 10), Decimal("1234567890123456789.0123456789"),
              "1234567890123456789.0123456789"),
        "b": ("boolean", pa.bool_(), True, 1),
        "s": ("string", pa.string(), "Zoë's \"x\"", "Zoë's \"x\""),
        "y": ("binary", pa.binary(), b"\x00\xff", b"\x00\xff"),
        "d": ("date", pa.date32(), date(2013, 1, 1), "2013-01-01"),
        "t": ("timestamp", pa.timestamp("us", "UTC"), datetime(2013, 1, 1, 5, tzinfo=UTC), "2013-01-01 05:00:00"),
        "n": ("timestamp_ntz", pa.timestamp("us"), datetime(2013, 1, 1, 5, 0, 0, 250000),  # noqa: DTZ001
              "2013-01-01 05:00:00.250000"),
        "l": ("array<int>", pa.list_(pa.int32()), [1, None], "[1, null]"),
        "k": ("map<string,int>", pa.map_(pa.string(), pa.int32()), {"x": 1}, '{"x": 1}'),
        "o": ("struct<at:timestamp,x:double>",
              pa.struct([("at", pa.timestamp("us", "UTC")), ("x", pa.float64())]),
              {"at": datetime(2013, 1, 1, 5, tzinfo=UTC), "x": float("nan")},
              '{"at": "2013-01-01 05:00:00Z", "x": "NaN"}'),
    }  # fmt: skip
    table = pa.table(
        {
            name: pa.array([list(given.items()) if isinstance(given, dict) and name == "k" else given, None], kind)
            for name, (_, kind, given, _) in values.items()
        }
    )
    made = delivery(
        database,
        [],
        columns=tuple((name, kind) for name, (kind, _, _, _) in values.items()),
        files=(sealed(database, table),),
    )
    deliver(database, made)
    full, empty = database.rows()
    assert full == {name: expected for name, (_, _, _, expected) in values.items()}
    assert set(empty.values()) == {None}


@pytest.mark.parametrize(
    ("spark", "sql"),
    [
        ("INT", "INTEGER"),
        ("decimal(15,2)", "DECIMAL(15,2)"),
        ("decimal(16,2)", "TEXT"),
        ("varchar(10)", "TEXT"),
        ("timestamp", "TIMESTAMP"),
        ("array<date>", "TEXT"),
    ],
)
def test_columns_are_made_of_fitting_types(spark: str, sql: str) -> None:
    assert DIALECT.sql_type(spark) == sql


def test_a_locked_database_changes_nothing_and_is_transient(database: SqliteDatabase) -> None:
    deliver(database, delivery(database, [("a", 1)]))
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(WaterclockError) as caught:
            deliver(database, delivery(database, [("b", 1)], 2))
    assert (caught.value.code, caught.value.transient) == ("E811", True)
    assert caught.value.where == "ops.totals@20130101000000"
    assert [row["id"] for row in database.rows()] == ["a"]
    assert deliver(database, delivery(database, [("b", 1)], 2)) is DeliveryOutcome.DELIVERED


def test_a_missing_database_is_created_only_with_the_create_option(database: SqliteDatabase, tmp_path: Path) -> None:
    made = delivery(database, [("a", 1)])
    database.remove()
    with pytest.raises(WaterclockError, match="E810"):
        deliver(database, made)
    assert not database.path.exists()
    willing = setting_of("ops", tmp_path, path="ops.sqlite", create=True)
    deliverer = CONNECTOR.deliverer(willing)
    assert deliverer.last(unit_of("ops", "totals"), "flights", "ops.totals") is None
    deliverer.deliver(unit_of("ops", "totals"), [made])
    assert database.rows() == [{"id": "a", "amount": 1}]


def test_a_full_disk_changes_nothing(database: SqliteDatabase) -> None:
    deliver(database, delivery(database, [("a", 1)]))
    big = delivery(database, [("x" * 500, at) for at in range(20_000)], 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(WaterclockError) as caught:
            deliver(database, big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.code == "E821"
    assert caught.value.where == "ops.totals@20130101000000"
    assert [row["id"] for row in database.rows()] == ["a"]
    assert deliver(database, big) is DeliveryOutcome.DELIVERED
    assert len(database.rows()) == 20_000


_KILLED = """
import os, signal, sys, pickle
from waterclock.connectors.sqlite.connector import CONNECTOR
from waterclock.faults import inject_faults
unit, setting, deliveries, point = pickle.load(sys.stdin.buffer)
def strike(at):
    if at == point:
        os.kill(os.getpid(), signal.SIGKILL)
with inject_faults(strike):
    CONNECTOR.deliverer(setting).deliver(unit, deliveries)
"""


@pytest.mark.parametrize(("point", "stands"), [("deliver.rows", False), ("deliver.done", True)])
def test_a_killed_process_delivers_all_or_nothing(database: SqliteDatabase, point: str, *, stands: bool) -> None:
    import pickle

    deliver(database, delivery(database, [("a", 1)]))
    second = delivery(database, [("b", at) for at in range(5000)], 2)
    unit = unit_of("ops", "totals")
    ran = subprocess.run(
        [sys.executable, "-c", _KILLED],
        input=pickle.dumps((unit, database.setting, [second], point)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL
    deliverer = CONNECTOR.deliverer(database.setting)
    found = deliverer.find(unit, "flights", "ops.totals", 2)
    assert (found is not None) is stands
    assert len(database.rows()) == (5000 if stands else 1)
    assert deliverer.deliver(unit, [second])[0].is_repeat is stands
    assert len(database.rows()) == 5000


def test_a_replace_changes_no_rows_that_refer_to_those_it_deletes(database: SqliteDatabase) -> None:
    """SQLite enforces references only for connections that enable it, and ours does not."""
    database.run("CREATE TABLE totals (id TEXT PRIMARY KEY, amount INT)")
    deliver(database, delivery(database, [("a", 1)]))
    database.run("CREATE TABLE lines (of_total TEXT REFERENCES totals ON DELETE CASCADE)")
    database.run("INSERT INTO lines VALUES ('a')")
    deliver(database, delivery(database, [("a", 2)], claim=2))
    assert database.run("SELECT of_total FROM lines") == [("a",)]


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.MERGE])
def test_a_constraint_of_the_destination_replaces_no_rows(database: SqliteDatabase, mode: Mode) -> None:
    database.run("CREATE TABLE totals (id TEXT, amount INTEGER UNIQUE ON CONFLICT REPLACE, timelabel TEXT)")
    deliver(database, delivery(database, [("a", 1)], mode=mode, keys=("id",)))
    with pytest.raises(WaterclockError, match="UNIQUE constraint failed"):
        deliver(database, delivery(database, [("b", 1)], 2, mode=mode, keys=("id",), label_text="20130102000000"))
    assert [row["id"] for row in database.rows()] == ["a"]


@pytest.mark.parametrize(
    ("column", "why"),
    [("INTEGER PRIMARY KEY", "stores the next number instead"), ("INT NOT NULL ON CONFLICT REPLACE DEFAULT 7", "NULL")],
)
@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.MERGE])
def test_null_is_never_replaced(database: SqliteDatabase, column: str, why: str, mode: Mode) -> None:
    database.run(f"CREATE TABLE totals (id TEXT, amount {column})")
    table = pa.table({"id": ["a", "b"], "amount": pa.array([None, None], pa.int32()), "_gone": [False, True]})
    made = delivery(database, [], mode=mode, keys=("id",), files=(sealed(database, table),))
    with pytest.raises(WaterclockError, match=why):
        deliver(database, made)
    with pytest.raises(WaterclockError, match=why):
        deliver(database, replace(made, deleted_column="_gone"))
    gone = sealed(database, table.slice(1))
    assert deliver(database, replace(made, deleted_column="_gone", files=(gone,))) is DeliveryOutcome.DELIVERED
    assert not database.rows()


def test_a_time_that_no_text_can_contain_is_refused(database: SqliteDatabase) -> None:
    table = pa.table({"at": pa.array([10**18], pa.timestamp("us", "UTC"))})
    made = delivery(database, [], columns=(("at", "TIMESTAMP"),), files=(sealed(database, table),))
    with pytest.raises(WaterclockError, match="at has a time outside of the years 1 to 9999") as refused:
        deliver(database, made)
    assert refused.value.code == "E812"
