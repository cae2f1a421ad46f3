"""A row shows the file it came from, also if it is quarantined, archived or made again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tiny import Tiny, day, described, evening, labels
from waterclock.batches.ledger_snapshot import RECOMPUTE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT, amount INT ELSE QUARANTINE, file AS (_source.file), n AS (_source.row))
  FROM land.acme.orders EVERY DAY START '2020-01-01' BY ARRIVAL TIME;
TRANSFORM shop.files PARTITIONED AS SELECT file, count(*) AS orders FROM shop.orders GROUP BY file;
COLLECT shop.timed PARTITIONED (id BIGINT, amount INT, at TIMESTAMP)
  FROM land.acme.timed EVERY DAY START '2020-01-01' BY DATA TIME at EXPECT amount > 0 AS positive ELSE QUARANTINE;
COLLECT shop.parts PARTITIONED (id BIGINT, file AS (_source.file), n AS (_source.row))
  FROM land.acme.parts EVERY DAY START '2020-01-01' BY ARRIVAL TIME;
"""
NOON, NIGHT = "acme_orders_2020_01_01_12_00_00.csv.gz", "acme_orders_2020_01_01_23_59_59.csv.gz"
TIMED = "acme_timed_2020_01_01_23_59_59.csv.gz"


def test_rows_in_the_table_and_in_the_quarantine_contain_their_source_file(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.land("orders", day(1, 12), "id,amount\n1,10\n2,x\n")
    tiny.land("orders", evening(1), "id,amount\n3,7\n4,y\n")
    rows = "1,5,2020-01-01T08:00:00Z\n2,-5,2020-01-01T09:00:00Z\n3,-6,2020-01-01T10:00:00Z\n"
    tiny.land("timed", evening(1), f"id,amount,at\n{rows}")
    folder = tmp_path / "landing" / "new" / "acme" / "parts"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([7, 8], pa.int64())}), folder / "acme_parts_2020_01_01_23_59_59.parquet")
    tiny.declare(FLOW)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, file, n FROM shop.orders ORDER BY id") == [(1, NOON, 2), (3, NIGHT, 2)]
    assert tiny.rows("SELECT file, orders FROM shop.files ORDER BY file") == [(NOON, 1), (NIGHT, 1)]
    aside = "SELECT timelabel, get_json_object(row, '$.id'), file, file_row FROM {}_quarantine ORDER BY ALL"
    label = labels(1)[0]
    assert tiny.rows(aside.format("shop.orders")) == [(label, "2", NOON, 3), (label, "4", NIGHT, 3)]
    assert tiny.rows(aside.format("shop.timed")) == [(label, "2", TIMED, 3), (label, "3", TIMED, 4)]
    parquet = "acme_parts_2020_01_01_23_59_59.parquet"
    assert tiny.rows("SELECT id, file, n FROM shop.parts ORDER BY id") == [(7, parquet, 1), (8, parquet, 2)]

    # the files are in the archive by now, or are not read at all: names and content are unchanged
    runs = tiny.runs_of("shop.files")
    tiny.declare(FLOW.replace("amount > 0", "amount > -6"))
    with tiny.ledger() as ledger:
        for name in ("shop.orders", "shop.timed"):
            ledger.decisions.request_restate(name, [day(1)], RECOMPUTE, who="ann")
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, file, n FROM shop.orders ORDER BY id") == [(1, NOON, 2), (3, NIGHT, 2)]
    assert tiny.runs_of("shop.files") == runs
    assert tiny.rows("SELECT id FROM shop.timed ORDER BY id") == [(1,), (2,)]
    assert tiny.rows(aside.format("shop.timed")) == [(label, "3", TIMED, 4)]
