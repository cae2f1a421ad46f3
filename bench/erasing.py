"""Measures an erasure of many persons, against Delta's own DELETE and VACUUM on tables with the same rows.

    python bench/erasing.py [--rows 2000000] [--persons 1000] [--rounds 3]

Three tables: events by day, a copy of four of their columns by day, and the newest event of each customer (MERGE). One
row in a hundred belongs to the persons, in every file. By hand, `DELETE ... WHERE customer IN (...)` with a list of
values, or a MERGE with the persons that deletes its matches, because Delta's DELETE has no subquery; then `VACUUM ...
RETAIN 0 HOURS` of each table. Each round erases other persons from the remaining rows. Waterclock also
seals its slices again with new digests, removes old versions from Delta's log, and searches the bytes of all files
afterwards, which is the proof. The steps are those of the last round.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from big_slice import make_source
from measure import Cost, cost_of, grid, interleaved, middle, ratio
from product import Project, warm_spark

from waterclock.engine.erasing.erasing import erase, plan_erasure
from waterclock.engine.erasing.request import build_request
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
DAYS = 8
SECRET = "0123456789abcdef" * 4
HEADER = """\
[project]
name = "erasing"

[defaults]
start = "2013-01-01"

[env.dev]
storage = ".waterclock"
connections.landing = { path = "new" }
"""
FLOW = """\
CREATE CONNECTION landing TYPE files;
CREATE CONNECTION pii TYPE keys OPTIONS (key.1 SECRET 'pii', current '1');
COLLECT raw.events PARTITIONED (
  id BIGINT, customer BIGINT SUBJECT customer, amount DOUBLE, page STRING, country STRING, at TIMESTAMP, kind INT,
  token STRING
) FROM landing.web.events EVERY DAY BY ARRIVAL TIME;
TRANSFORM mart.spent PARTITIONED AS SELECT id, customer, amount, at FROM raw.events;
TRANSFORM mart.newest (customer BIGINT KEY, id BIGINT, page STRING, at TIMESTAMP) MERGE ORDER BY at, id
AS SELECT customer, id, page, at FROM raw.events;
"""
TABLES = ("raw.events", "mart.spent", "mart.newest")
WAYS = ("DELETE", "MERGE")
# the step that ends at each fault point
STEPS = {
    "erase.begun": "record",
    "erase.stored": "record",
    "erase.held": "rewrite: search",
    "erase.sealed": "rewrite: seal slices",
    "erase.committed": "rewrite: commit",
    "erase.recorded": "rewrite: record",
    "erase.rewritten": "rewrite: search",
    "erase.slices_purged": "remove the past",
    "erase.files_purged": "remove the past",
    "erase.log_purged": "remove the past",
    "erase.purged": "remove the past",
    "erase.originals": "originals",
    "erase.texts": "texts and exports",
    "erase.searched": "search again",
}


class Steps:
    """Adds up the seconds between fault points."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._before = time.perf_counter()

    def strike(self, point: str) -> None:
        if point in STEPS:
            self.lap(STEPS[point])

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] += now - self._before
        self._before = now


def make_project(spark: SparkSession, folder: Path, source: Path) -> Project:
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(HEADER, encoding="utf-8")
    (folder / "flows" / "events.dpl").write_text(FLOW, encoding="utf-8")
    landing = folder / "new" / "web" / "events"
    landing.mkdir(parents=True)
    project = Project(spark, folder, 1)
    for index in range(DAYS):
        end = START + (index + 1) * DAY
        os.link(source, landing / f"web_events_{end - timedelta(seconds=1):%Y_%m_%d_%H_%M_%S}.parquet")
        project.run(end, end)
    return project


def copy_tables(spark: SparkSession, project: Project, folder: Path) -> None:
    """Write the rows of our tables to tables of Delta alone, with the same partitions."""
    for name in TABLES:
        rows = spark.read.format("delta").load(project.table(name))
        writer = rows.write.format("delta")
        (writer.partitionBy("timelabel") if "timelabel" in rows.columns else writer).save(str(folder / name))


def persons_of(index: int, persons: int) -> list[str]:
    return [str(number) for number in range(index * persons, (index + 1) * persons)]


def ours(project: Project, persons: int, into: dict[str, float], index: int) -> Cost:
    steps = Steps()

    def work() -> None:
        request = build_request(project.work, "customer", persons_of(index, persons))
        plan = plan_erasure(project.work, request, continues=False)
        steps.lap("plan")
        result = erase(project.work, plan, why="bench")
        steps.lap("proof by bytes")
        if result.left:
            sys.exit("\n".join(f"{each.place}: {each.why}" for each in result.left))

    with inject_faults(steps.strike):
        cost = cost_of(work)
    into.clear()
    into.update(steps.seconds)
    return cost


def by_hand(spark: SparkSession, folder: Path, persons: int, way: str, index: int) -> Cost:
    def work() -> None:
        values = persons_of(index, persons)
        if way == "MERGE":
            spark.createDataFrame([(int(value),) for value in values], "person BIGINT").createOrReplaceTempView("gone")
        for name in TABLES:
            table = f"delta.`{folder / name}`"
            if way == "MERGE":
                spark.sql(f"MERGE INTO {table} USING gone ON customer = person WHEN MATCHED THEN DELETE")
            else:
                spark.sql(f"DELETE FROM {table} WHERE customer IN ({', '.join(values)})")
        for name in TABLES:
            spark.sql(f"VACUUM delta.`{folder / name}` RETAIN 0 HOURS")

    return cost_of(work)


def require_equal(spark: SparkSession, project: Project, folder: Path) -> int:
    """Require that all sides have the same rows, and return their number."""
    total = 0
    for name in TABLES:
        mine, *others = (
            spark.read.format("delta")
            .load(where)
            .selectExpr("count(*) AS n", "bit_xor(xxhash64(customer, id, at)) AS h", "min(customer) AS low")
            .first()
            for where in (project.table(name), *(str(folder / way / name) for way in WAYS))
        )
        if mine is None or any(mine != theirs for theirs in others):
            sys.exit(f"{name} differs: {mine} and {others}")
        total += mine["n"]
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the events (2,000,000)")
    parser.add_argument("--persons", type=int, default=1000, help="persons of one erasure, of 100,003 (1,000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=15, help="begin no round after these (15)")
    asked = parser.parse_args()
    os.environ["WATERCLOCK_SECRET_PII"] = SECRET
    confs = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
    steps: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name), confs) as spark:
        folder = Path(name)
        project = make_project(spark, folder / "ours", make_source(spark, folder, asked.rows // DAYS))
        for way in WAYS:
            copy_tables(spark, project, folder / way)
        rows = require_equal(spark, project, folder)
        sides: dict[str, Callable[[int], Cost]] = {
            way: partial(by_hand, spark, folder / way, asked.persons, way) for way in WAYS
        }
        sides["ours"] = partial(ours, project, asked.persons, steps)
        found = interleaved(sides, asked.rounds, warm=1, minutes=asked.minutes)
        require_equal(spark, project, folder)
        project.close()
    middles = {side: middle(costs) for side, costs in found.items()}
    mine = middles.pop("ours")
    proof = steps["proof by bytes"]
    print(
        f"{asked.persons:,} persons of 100,003, {rows:,} rows in {len(TABLES)} tables, {DAYS} labels. Medians of"
        f" {len(found['ours'])} rounds, after one to warm up.\n"
    )
    table = [
        [side, f"{wall:.1f}", cpu, *(ratio(wall, theirs.wall) for theirs in middles.values())]
        for side, wall, cpu in (
            *((f"{way} and VACUUM", cost.wall, f"{cost.cpu:.1f}") for way, cost in middles.items()),
            ("`erase`", mine.wall, f"{mine.cpu:.1f}"),
            ("`erase` without the proof", mine.wall - proof, ""),
        )
    ]
    print(grid(["", "wall s", "CPU s", *(f"wall of {way}" for way in middles)], table))
    print("\n" + ", ".join(f"{step} {seconds:.1f} s" for step, seconds in steps.items()) + ".")


if __name__ == "__main__":
    main()
