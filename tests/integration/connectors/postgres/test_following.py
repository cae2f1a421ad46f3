"""A table of a PostgreSQL database, followed by its log: the replica comes to what the source holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.replicas import Replicated, drop_all_slots, past_all_windows
from waterclock.connectors.postgres.connector import PostgresCollector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(PostgresCollector, "clock", past_all_windows)
    yield
    drop_all_slots()


@pytest.mark.parametrize("decoder", ["wal2json", "pgoutput"])
def test_every_kind_of_change_comes_to_what_the_source_holds(tmp_path: Path, spark: SparkSession, decoder: str) -> None:
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
        "UPDATE orders SET id = 106, big = 'b' WHERE id = 6"
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
