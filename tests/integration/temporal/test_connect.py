"""The library over Spark Connect, with a server and a separate process, because a process can only be one of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORK = """
from pathlib import Path

from pyspark.sql import SparkSession
from waterclock.temporal import (
    Counts, FrameStatistics, compute_temporal, denorm_temporal, denorm_transactional, format_attribute,
    measure_temporal,
    nulls_are_values, union_sources, valid_at, OPEN,
)
from waterclock.engine.spark.user_functions import register_functions
from waterclock.flow.declarations import Flow

spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").config(
    "spark.sql.shuffle.partitions", "1").config("spark.sql.session.timeZone", "UTC").getOrCreate()
raw = spark.sql("SELECT c, timestamp_seconds(86400 * d) AS t, a, g FROM VALUES "
                "('p', 1, ' x', false), ('p', 3, 'y', false), ('q', 1, 'z', false), ('q', 2, null, true), "
                "(null, 1, 'w', false) v(c, d, a, g)")
raw = raw.withColumn("a", format_attribute("a", "upper"))
counts = Counts()
made = compute_temporal(union_sources(nulls_are_values(raw, "a")), "c", time="t", delete_when="g", counts=counts)
shown = made.selectExpr("c", "unix_date(date(rec_eff_time))", "a", "rec_is_current")
print(sorted(tuple(row) for row in shown.collect()))
print(sorted(counts.get.items()), counts.numbers() == measure_temporal(made, "c"))
child = spark.sql("SELECT 'k' AS k, 'p' AS c, timestamp_seconds(0) AS rec_eff_time, "
                  "timestamp'9999-12-31 00:00:00Z' AS rec_exp_time, true AS rec_is_current")
for numbers in (PLANS,):
    facts = spark.sql("SELECT c, timestamp_seconds(86400 * d) AS at FROM VALUES ('p', 2), ('p', 3), ('q', 2) v(c, d)")
    found = Counts()
    told = denorm_transactional(facts, "c", "at", made, "c", "then", numbers=numbers, counts=found)
    print(sorted(tuple(row)[2] or "-" for row in told.collect()), found.get["matched"])
    print(denorm_temporal(child, "c", made, "c", exact=True, numbers=numbers).count())
left = Counts()
print(compute_temporal(raw.where("c IS NULL"), "c", time="t", counts=left, delete_when="g").count(), left.get["no_key"])
print(valid_at(made, OPEN).count(), type(spark).__module__)
register_functions(spark, Path(), Flow(project="x", tables={}), ["format_attribute('x')"])
print(*spark.sql("SELECT format_attribute('  a \\t b', 'upper', '?'), format_attribute('', 'lower', '?')").first())
spark.stop()
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "plans",
    ["None", "counts.numbers()", "FrameStatistics(10**6, 10**5, 2, 0)", "FrameStatistics(10**6, 10**5, 5000, 10)"],
    ids=["unknown numbers", "few versions", "many versions", "keys of many"],
)
@pytest.mark.soak
def test_all_functions_work_over_connect(plans: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WORK.replace("PLANS", plans)],
        capture_output=True,
        check=False,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counted = {
        "rows": 5,
        "no_key": 1,
        "no_time": 0,
        "bad_time": 0,
        "versions": 3,
        "keys": 2,
        "most_versions": 2,
        "long_keys": 0,
    }
    by_plan = "['-', 'X', 'Y'] 2\n3\n"
    assert done.stdout == (
        "[('p', 1, 'X', False), ('p', 3, 'Y', True), ('q', 1, 'Z', False)]\n"
        f"{sorted(counted.items())} True\n{by_plan}0 1\n0 pyspark.sql.connect.session\nA B ?\n"
    )
