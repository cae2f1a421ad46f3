"""A replica whose runner is killed at any point, with concurrent writers and restarts of the server, misses nothing."""

from __future__ import annotations

import random
import signal
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.killing import wait_for_leases
from tests.faults.test_kill import PATIENCE, said_by, started
from tests.postgres import drop_all_slots
from tests.replicas import Replicated, past_all_windows
from waterclock.connectors.postgres.connector import PostgresCollector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
POINTS = ("claimed", "written", "sealed", "audited", "before_commit", "after_commit", "committed", "recorded")
FLOW = """
CREATE CONNECTION ops TYPE postgres;
COLLECT shop.orders (id KEY, name NOT NULL, *) FROM ops.orders{options} EVERY MINUTE BY CHANGES MERGE;
"""


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(PostgresCollector, "clock", past_all_windows)
    yield
    drop_all_slots()


def _write(it: Replicated, rng: random.Random, stop: threading.Event, truncating: threading.Event) -> None:
    """Change the table in small transactions, some of them rolled back; wait for the server while it restarts."""
    import psycopg

    while not stop.is_set():
        with suppress(psycopg.Error), closing(it.at.connect()) as connection:
            connection.execute(f"SET search_path = {it.schema}")
            for _ in range(20):
                refused = suppress(psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected)
                with refused, connection.transaction(force_rollback=rng.random() < 0.2):
                    for _ in range(rng.randrange(1, 5)):
                        connection.execute(_statement(rng, may_truncate=truncating.is_set()))
                stop.wait(0.02)


def _statement(rng: random.Random, *, may_truncate: bool) -> str:
    one, other = rng.randrange(200), rng.randrange(200)
    big = f"repeat('{rng.choice('xyz')}', {rng.choice([3, 4000])})"
    return rng.choice(
        [
            f"INSERT INTO orders VALUES ({one}, 'n', {other}, {big}) ON CONFLICT (id) DO UPDATE SET name = 'again'",
            f"UPDATE orders SET amount = amount + 1 WHERE id BETWEEN {one} AND {one + 20}",
            f"UPDATE orders SET id = {one + 1000} WHERE id = {one}",
            f"DELETE FROM orders WHERE id = {one}",
            "TRUNCATE orders"
            if may_truncate and rng.random() < 0.02
            else f"UPDATE orders SET big = {big} WHERE id = {other}",
        ]
    )


@pytest.mark.parametrize("points", [POINTS[:4], POINTS[4:]], ids=["before the commit", "from the commit on"])
def test_a_killed_runner_and_a_restarted_server_leave_no_gap(
    tmp_path: Path, spark: SparkSession, points: Sequence[str]
) -> None:
    it = Replicated.begun(tmp_path, spark, flow=FLOW)
    it.sql("INSERT INTO orders SELECT n, 'n', n, repeat('x', 3000), now() FROM generate_series(1, 100) AS n")
    stop, truncating = threading.Event(), threading.Event()
    writers = [threading.Thread(target=_write, args=(it, random.Random(seed), stop, truncating)) for seed in range(3)]
    for writer in writers:
        writer.start()
    try:
        for number, point in enumerate(points):
            it.now += it.window
            words = (str(tmp_path), "runner", point, "shop.orders", it.now.isoformat())
            with started(spark, *words, module="tests.faults.killing_a_follower") as process:
                assert process.wait(PATIENCE) == -signal.SIGKILL, f"{point}: {said_by(process)}"
            wait_for_leases(it.tiny)
            if number % 2:
                it.at.stop("immediate")
                it.at.start()
            it.replicate()
            truncating.set()  # not before: a snapshot that a TRUNCATE empties is retried
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    it.replicate()
    assert it.replica() == it.source()
    it.replicate()
    assert it.replica() == it.source()
    assert len(it.slots()) == 1
