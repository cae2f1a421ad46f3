"""BUCKET BY in whole runs: transforms with SHUFFLE NONE group and join tables in buckets (PT-51, PT-27)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.maintenance.maintain import find_maintenance
from waterclock.ledger.ledger import Ledger

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
COLLECT = "COLLECT {}.{} PARTITIONED (id BIGINT, v BIGINT, at TIMESTAMP) FROM shop.{} EVERY DAY BY DATA TIME at {};\n"
TRANSFORM = "TRANSFORM {0}.{1} PARTITIONED {2} AS SELECT {3} GROUP BY ALL;\n"
SUMS = "id, sum(v) AS v FROM {0}.facts"
JOINED = "f.id, sum(f.v * o.v) AS v FROM {0}.facts f JOIN {0}.others o USING (id)"


def flow(schema: str, buckets: str, none: str) -> str:
    return "".join(
        (
            *(COLLECT.format(schema, name, name, buckets) for name in ("facts", "others")),
            TRANSFORM.format(schema, "sums", none, SUMS.format(schema)),
            TRANSFORM.format(schema, "joined", none, JOINED.format(schema)),
        )
    )


def fill(tiny: Tiny, *days: int) -> None:
    for name, step in (("facts", 1), ("others", 3)):
        rows = [
            (None if key == 5 else key % 40, key, f"2020-01-{number:02d} 08:00:00")
            for number in days
            for key in range(0, 120, step)
        ]
        tiny.source(name, "id INTEGER, v INTEGER, at TEXT", rows)


def run(tiny: Tiny, number: int) -> None:
    outcome = tiny.run(day(number))
    assert not outcome.failed, described(outcome)


def restate(ledger: Ledger) -> None:
    for schema in ("raw", "plain"):
        ledger.decisions.request_restate(f"{schema}.facts", [day(2)], "recollect", who="a test")


def test_transforms_of_tables_in_buckets_have_no_exchange_and_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, 1, 2, 3)
    tiny.declare(flow("raw", "BUCKET BY (id) INTO 8", "SHUFFLE NONE") + flow("plain", "", ""))
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        run(tiny, 4)
        with tiny.ledger() as ledger:
            restate(ledger)
        tiny.shop("UPDATE facts SET v = v + 5000 WHERE at LIKE '2020-01-02%' AND v % 3 = 0")
        run(tiny, 4)
        for name in ("facts", "others", "sums", "joined"):
            rows = [tiny.rows(f"SELECT * FROM {schema}.{name} ORDER BY ALL") for schema in ("raw", "plain")]
            assert rows[0] == rows[1]
            assert rows[0]
        digests = tiny.digests()
        assert all(digests[table.replace("raw.", "plain."), label] == each for (table, label), each in digests.items())
        with tiny.opened() as work:  # a bucket is small, and stays a separate file
            [found] = find_maintenance(work, ["raw.facts"], day(4))
            assert found.small.files == 0
        # another number of buckets applies from the next label on, and a group by another column is refused
        fill(tiny, 1, 2, 3, 4)
        tiny.shop("UPDATE facts SET v = v + 5000 WHERE at LIKE '2020-01-02%' AND v % 3 = 0")
        other = "TRANSFORM raw.by_v PARTITIONED SHUFFLE NONE AS SELECT v, count(*) AS n FROM raw.facts GROUP BY v;\n"
        tiny.declare(flow("raw", "BUCKET BY (id) INTO 4", "SHUFFLE NONE") + other)
        outcome = tiny.run(day(5))
        assert {report.error.code for report in outcome.failed if report.error is not None} == {"E775"}
        for report in outcome.failed:
            assert report.group.table == "raw.by_v"
            assert report.error is not None
            assert "; raw.facts is in buckets by id" in str(report.error.why)
        sums = "SELECT id, sum(v) AS v FROM raw.facts GROUP BY timelabel, id ORDER BY ALL"
        assert tiny.rows("SELECT id, v FROM raw.sums ORDER BY ALL") == tiny.rows(sums)
        shown = {str(each.tableName) for each in spark.sql("SHOW TABLES IN default").collect()}
        assert not [name for name in shown if "buckets" in name]
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", str(before))
