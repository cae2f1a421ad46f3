"""Maintenance in parallel with batches: the second one to commit loses cleanly, and the result is as without it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.maintenance.maintain import find_maintenance, maintain_table
from waterclock.storage import file_maintenance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]

FLOW = """
COLLECT shop.notes (id INT, at TIMESTAMP) FROM shop.notes EVERY DAY BY DATA TIME at LOOKBACK 1 DAY APPEND;
COLLECT shop.items (id INT KEY, at TIMESTAMP) FROM shop.notes EVERY DAY BY DATA TIME at MERGE ORDER BY at;
TRANSFORM marts.notes PARTITIONED KEEP VERSIONS 7 DAYS AS SELECT count(*) AS n FROM shop.notes;
"""


def lived(root: Path, spark: SparkSession, *, maintained: bool) -> list[list[object]]:
    tiny = Tiny(root, spark)
    tiny.declare(FLOW)
    tiny.source("notes", "id INT, at TEXT")
    stop = threading.Event()
    failed: list[str] = []
    joined: list[int] = []

    def maintain() -> None:
        while not stop.is_set():
            with tiny.opened() as work:
                now = work.real_now()
                for found in find_maintenance(work, [record.name for record in work.ledger.reads.tables()], now):
                    maintain_table(work, found, now)
                    failed.extend(found.failed)
                    joined.append(found.joined.count)

    keeper = threading.Thread(target=maintain)
    if maintained:
        keeper.start()
    try:
        for of_day in range(1, 9):
            for key in (of_day, of_day - 1, 1):
                tiny.shop(f"INSERT INTO notes VALUES ({key}, '2020-01-{max(1, of_day - key % 2):02d} 10:00:{key:02d}')")
            outcome = tiny.run(day(of_day + 1))
            assert not outcome.failed, described(outcome)
    finally:
        stop.set()
        if maintained:
            keeper.join()
    assert any(joined) is maintained
    assert all("conflict" in said.lower() or "concurrent" in said.lower() for said in failed), failed
    return [
        [tuple(row) for row in tiny.rows(f"SELECT * FROM {name} ORDER BY ALL")]
        for name in ("shop.notes", "shop.items", "marts.notes")
    ]


def test_continuous_maintenance_does_not_change_the_results_of_a_flow(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_maintenance, "_MANY_IN_TABLE", 3)
    alone = lived(tmp_path / "alone", spark, maintained=False)
    assert lived(tmp_path / "maintained", spark, maintained=True) == alone
