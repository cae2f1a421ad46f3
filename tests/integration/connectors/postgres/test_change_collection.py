"""A table of a PostgreSQL database, followed by its log: the replica equals the source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.postgres import asks_for_trust, drop_all_slots, needs_wal2json, server, trust
from tests.replicas import FLOW, Replicated, past_all_windows
from waterclock.connectors.postgres import change_collection
from waterclock.connectors.postgres.connector import PostgresCollector
from waterclock.engine.batch.lifecycle import run_group
from waterclock.engine.batch.releasing import group_to_release
from waterclock.engine.maintenance.replication_slots import find_unused_slots, release_slot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TEMPORAL = """
CREATE CONNECTION ops TYPE postgres;
COLLECT shop.orders (id KEY, since TIMESTAMP AS (_change.at), *) FROM ops.orders{options} EVERY MINUTE
  BY CHANGES TEMPORAL AT since;
"""

HOLDING = """
CREATE CONNECTION ops TYPE postgres;
COLLECT shop.orders (id KEY, *) FROM ops.orders EVERY MINUTE BY CHANGES MERGE
  EXPECT amount >= 0 AS counts ELSE HOLD;
"""


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(PostgresCollector, "clock", past_all_windows)
    yield
    drop_all_slots()


@pytest.mark.parametrize("decoder", [pytest.param("wal2json", marks=pytest.mark.soak), "pgoutput"])
def test_the_replica_equals_the_source_after_every_kind_of_change(
    tmp_path: Path, spark: SparkSession, decoder: str
) -> None:
    needs_wal2json()
    it = Replicated.begun(tmp_path, spark, options=f" OPTIONS (decoder '{decoder}')")
    it.sql("INSERT INTO orders SELECT n, 'n' || n, n * 1.5, repeat('x', 5000), now() FROM generate_series(1, 20) AS n")
    it.replicate()
    assert it.replica() == it.source()
    assert len(it.replica()) == 20
    it.sql(
        "UPDATE orders SET name = 'large values stay' WHERE id <= 3;"
        "DELETE FROM orders WHERE id = 5; INSERT INTO orders VALUES (5, 'again', 1.25, NULL, now());"
        "UPDATE orders SET amount = NULL, big = 'small' WHERE id = 6; UPDATE orders SET amount = 7 WHERE id = 6;"
        "DELETE FROM orders WHERE id = 7; INSERT INTO orders VALUES (21, 'twice', 1, repeat('y', 5000), now());"
        "UPDATE orders SET name = 'of this transaction' WHERE id = 21;"
        "UPDATE orders SET id = 106, big = 'b' WHERE id = 6; UPDATE orders SET name = 'moves' WHERE id IN (8, 9);"
        "UPDATE orders SET id = 208 WHERE id = 8; UPDATE orders SET id = 308 WHERE id = 208;"
        "UPDATE orders SET id = 209 WHERE id = 9; INSERT INTO orders VALUES (10, 'n', 1, repeat('z', 4000))"
        "  ON CONFLICT (id) DO UPDATE SET big = excluded.big; UPDATE orders SET id = 210 WHERE id = 10"
    )
    it.replicate()
    assert it.replica() == it.source()
    it.replicate()
    assert it.replica() == it.source()
    it.sql("TRUNCATE orders; INSERT INTO orders VALUES (1, 'after', 1, 'b', now())")
    it.sql("INSERT INTO orders VALUES (2, 'before', 1, 'b', now()); UPDATE orders SET name = 'x' WHERE id = 1")
    it.replicate()
    assert it.replica() == it.source()
    it.sql("TRUNCATE orders")
    it.replicate()
    assert it.replica() == it.source() == []
    assert len(it.slots()) == 1


@pytest.mark.parametrize(
    ("columns", "role", "is_trusted", "expected"),
    [
        ("id int PRIMARY KEY, big text", None, True, "pgoutput"),
        ("id int PRIMARY KEY, big text", "poor", True, "wal2json"),
        ("id int PRIMARY KEY, big text", "poor", False, "the server denies the right to publish"),
        ("id int PRIMARY KEY, big text, twice int GENERATED ALWAYS AS (id * 2) STORED", None, True, "wal2json"),
        (
            "id int PRIMARY KEY, big text, twice int GENERATED ALWAYS AS (id * 2) STORED",
            None,
            False,
            "has generated columns: twice",
        ),
        ("id int PRIMARY KEY, big text, price float8", "poor", True, "the server denies the right to publish"),
    ],
)
def test_wal2json_is_used_only_where_pgoutput_cannot_be(
    tmp_path: Path, spark: SparkSession, columns: str, role: str | None, is_trusted: bool, expected: str
) -> None:
    needs_wal2json()
    if not is_trusted:
        if not asks_for_trust(server()):
            pytest.skip("this server trusts every output plugin: it is older than the minor releases of late 2026")
        trust(server(), None)
    it = Replicated.begun(tmp_path, spark, columns)
    if role is not None:
        name = f"{role}_{it.schema}"
        it.sql(f"CREATE ROLE {name} LOGIN REPLICATION; GRANT USAGE ON SCHEMA {it.schema} TO {name}")
        it.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA {it.schema} TO {name}")
        toml = it.tiny.root / "waterclock.toml"
        toml.write_text(toml.read_text().replace("postgres@", f"{name}@"))
    it.sql("INSERT INTO orders (id, big) VALUES (1, 'b')")
    outcome = it.run()
    made = it.at.run("SELECT plugin FROM pg_replication_slots")
    if not outcome.failed:
        assert made == [(expected,)]
        it.sql("UPDATE orders SET big = 'c'")
        it.replicate()
        assert it.replica("id, big") == [(1, "c")]
        return
    (failed,) = outcome.failed
    assert failed.error is not None
    assert expected in failed.error.what
    assert "wal2json" in str(failed.error.fix)
    assert made == []


def test_a_wal2json_slot_continues_without_loss_once_the_server_trusts_the_plugin_again(
    tmp_path: Path, spark: SparkSession
) -> None:
    needs_wal2json()
    if not asks_for_trust(server()):
        pytest.skip("this server trusts every output plugin: it is older than the minor releases of late 2026")
    it = Replicated.begun(tmp_path, spark, flow=TEMPORAL, options=" OPTIONS (decoder 'wal2json')")
    it.sql("INSERT INTO orders VALUES (1, 'a', 1, 'b')")
    it.replicate()
    trust(it.at, None)
    for name in ("b", "c"):
        it.sql("UPDATE orders SET name = %s", name)
    (failed,) = it.run().failed
    assert failed.error is not None
    assert (failed.error.code, failed.error.what) == ("E861", "the server does not trust wal2json")
    assert "output_plugin_libraries = 'pgoutput, test_decoding, wal2json'" in str(failed.error.fix)
    assert "no change is lost" in str(failed.error.fix)
    needs_wal2json()
    it.retry()
    it.replicate()
    versions = it.tiny.rows("SELECT name FROM shop.orders ORDER BY rec_eff_time")
    assert versions == [("a",), ("b",), ("c",)]
    trust(it.at, None)
    it.declare(TEMPORAL, " OPTIONS (decoder 'pgoutput')")
    it.sql("UPDATE orders SET name = 'd'")
    it.replicate()
    assert it.at.run("SELECT plugin FROM pg_replication_slots") == [("pgoutput",)]
    assert it.tiny.rows("SELECT name FROM shop.orders WHERE rec_is_current") == [("d",)]


def test_each_change_is_a_version_from_its_commit_on(tmp_path: Path, spark: SparkSession) -> None:
    it = Replicated.begun(tmp_path, spark, flow=TEMPORAL)
    it.sql("INSERT INTO orders VALUES (1, 'a', 1, repeat('x', 5000)), (2, 'b', 1, 'small')")
    it.replicate()
    it.sql("UPDATE orders SET name = 'a2' WHERE id = 1; UPDATE orders SET name = 'a3' WHERE id = 1")
    it.sql("UPDATE orders SET name = 'a4' WHERE id = 1")
    it.sql("DELETE FROM orders WHERE id = 2")
    it.sql("INSERT INTO orders VALUES (2, 'b2', NULL, NULL)")
    it.replicate()
    it.sql("TRUNCATE orders")
    it.replicate()
    versions = it.tiny.rows(
        "SELECT id, name, amount, length(big), rec_is_current FROM shop.orders ORDER BY 1, rec_eff_time"
    )
    assert [(*row[:2], str(row[2]), *row[3:]) for row in versions] == [
        (1, "a", "1.00", 5000, False),
        (1, "a3", "1.00", 5000, False),
        (1, "a4", "1.00", 5000, False),
        (2, "b", "1.00", 5, False),
        (2, "b2", "None", None, False),
    ]
    gaps = it.tiny.rows("SELECT count(*) FROM shop.orders WHERE rec_exp_time <= rec_eff_time")
    assert gaps == [(0,)]


def test_a_lost_slot_is_reported_and_a_new_snapshot_starts_over(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Replicated.begun(tmp_path, spark)
    it.sql("INSERT INTO orders SELECT n, 'n', n, 'b' FROM generate_series(1, 5) AS n")
    it.replicate()
    monkeypatch.setattr(change_collection, "DIRECT_ROWS", 3)  # for more rows, a worker of Spark reads the slot
    it.sql("UPDATE orders SET name = 'x'")
    it.replicate()
    assert it.replica() == it.source()
    drop_all_slots()
    it.sql("DELETE FROM orders WHERE id = 1; ALTER TABLE orders ADD extra int NOT NULL DEFAULT 7")
    for _ in range(2):  # at each attempt; no change is skipped
        (failed,) = it.run().failed
        assert failed.error is not None
        assert (failed.error.code, "is gone" in failed.error.what) == ("E860", True)
        it.retry()
    it.declare(options=" OPTIONS (snapshot '2')")
    it.replicate()
    assert it.replica() == it.source()
    assert {row[0] for row in it.replica("extra")} == {7}
    it.sql("UPDATE orders SET extra = id; ALTER TABLE orders RENAME name TO title")
    (failed,) = it.run().failed
    assert failed.error is not None
    assert failed.error.code == "E863"
    assert len(it.slots()) == 1


def test_slots_of_failed_first_batches_and_of_removed_tables_are_dropped(tmp_path: Path, spark: SparkSession) -> None:
    it = Replicated.begun(tmp_path, spark)
    it.sql("INSERT INTO orders VALUES (1, NULL)")
    it.declare(FLOW.replace("(id KEY, *)", "(id KEY, name NOT NULL, *)"))
    assert [report.error is not None for report in it.run().failed] == [True]
    assert it.slots() == []
    it.sql("UPDATE orders SET name = 'there'")
    it.retry()
    it.replicate()
    assert it.replica() == it.source()
    it.sql("DELETE FROM orders")  # it has no name in the log, and the rule needs one
    it.replicate()
    assert it.replica() == []
    (slot,) = it.slots()
    with it.tiny.opened() as work:
        assert find_unused_slots(work) == []
    it.declare("CREATE CONNECTION ops TYPE postgres;")
    with it.tiny.opened() as work:
        (found,) = find_unused_slots(work)
        assert (found.name, found.table) == (slot, "shop.orders")
        release_slot(work, found)
        assert found.failed is None
        assert find_unused_slots(work) == []
    assert it.slots() == []
    assert it.at.run("SELECT pubname FROM pg_publication WHERE pubname = %s", slot) == []


@pytest.mark.soak
def test_recompute_of_an_older_label_does_not_move_the_log_position_back(tmp_path: Path, spark: SparkSession) -> None:
    it = Replicated.begun(tmp_path, spark)
    it.sql("INSERT INTO orders VALUES (1, 'a', 1, 'b'), (2, 'a', 1, 'b')")
    it.replicate()
    first = it.now - it.window
    for name in "bc":
        it.sql("UPDATE orders SET name = %s WHERE id = 1", name)
        it.replicate()
    with it.tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [first + it.window], "recompute", who="a test")
    it.sql("UPDATE orders SET name = 'd' WHERE id = 2")
    it.replicate()
    assert it.replica() == it.source()


@pytest.mark.soak
def test_a_held_batch_that_is_released_late_moves_no_position_back(tmp_path: Path, spark: SparkSession) -> None:
    it = Replicated.begun(tmp_path, spark, flow=HOLDING)
    it.sql("INSERT INTO orders VALUES (1, 'a', 1, 'b'), (2, 'a', 1, 'b')")
    it.replicate()
    it.sql("UPDATE orders SET amount = -1, name = 'held' WHERE id = 1")
    it.run()
    label = it.now - it.window
    assert "held" in it.tiny.batches().values()
    it.sql("UPDATE orders SET amount = 1, name = 'right' WHERE id = 1")
    it.sql("UPDATE orders SET name = 'b' WHERE id = 2")
    it.run()
    with it.tiny.opened() as work:
        group = group_to_release(work, work.flow.tables["shop.orders"], label, it.now, "a test")
        assert run_group(work, group, it.now).error is None
    it.sql("UPDATE orders SET name = 'c' WHERE id = 2")
    it.replicate()
    assert it.replica() == it.source()
