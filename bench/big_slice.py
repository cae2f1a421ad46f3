"""Measures one slice of ten million rows, collected from a Parquet file, against three ways to write it by hand.

All read the same file (eight columns, about half a gigabyte) in one warm session of 2 GiB. Waterclock also writes its
digest, statistics and audit trail. Memory is the peak of the JVM's heap, which is garbage-collected before each run.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import Cost, cost_of, grid, interleaved, middle, ratio
from product import Project, warm_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# how the peers write: the option of Delta's writer for each way
WAYS = {"`replaceWhere`": "replaceWhere", "dynamic overwrite": "partitionOverwriteMode", "append": "append"}
START = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HEADER = """\
[project]
name = "big"

[defaults]
start = "2013-01-01"

[env.dev]
storage = ".waterclock"
connections.landing = { path = "new" }
"""
FLOW = """\
CREATE CONNECTION landing TYPE files;

COLLECT raw.events PARTITIONED FROM landing.web.events EVERY DAY BY ARRIVAL TIME;
"""


def make_source(spark: SparkSession, folder: Path, rows: int) -> Path:
    """Write the source, as one file."""
    spark.range(0, rows, 1, 2).selectExpr(
        "id",
        "id % 100003 AS customer",
        "cast(hash(id) % 1000000 AS double) / 100 AS amount",
        "concat('page-', hash(id, 1) % 5000) AS page",
        "element_at(array('de', 'fr', 'us', 'in', 'br'), cast(id % 5 + 1 AS int)) AS country",
        "timestamp_seconds(1356998400 + id % 86400) AS at",
        "cast(id % 7 AS int) AS kind",
        "sha1(cast(id AS string)) AS token",
    ).coalesce(1).write.parquet(str(folder / "source"))
    return next((folder / "source").glob("*.parquet"))


def ours(spark: SparkSession, folder: Path, source: Path) -> tuple[Callable[[int], Cost], Project]:
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(HEADER, encoding="utf-8")
    (folder / "flows" / "big.dpl").write_text(FLOW, encoding="utf-8")
    landing = folder / "new" / "web" / "events"
    landing.mkdir(parents=True)
    project = Project(spark, folder, 1)

    def day(index: int) -> Cost:
        end = START + (index + 1) * DAY
        os.link(source, landing / f"web_events_{end - timedelta(seconds=1):%Y_%m_%d_%H_%M_%S}.parquet")
        return cost_of(lambda: project.run(end, end), spark)

    return day, project


def by_hand(spark: SparkSession, folder: Path, source: Path, index: int, *, way: str) -> Cost:
    from pyspark.sql import functions as sql

    def write() -> None:
        label = f"{START + index * DAY:%Y%m%d%H%M%S}"
        rows = spark.read.parquet(str(source)).withColumn("timelabel", sql.lit(label))
        writer = rows.write.format("delta").partitionBy("timelabel")
        if way == "append":
            writer.mode("append").save(str(folder))
            return
        option = {"replaceWhere": f"timelabel = '{label}'", "partitionOverwriteMode": "dynamic"}[way]
        writer.mode("overwrite").option(way, option).save(str(folder))

    return cost_of(write, spark)


def peaked(spark: SparkSession, peaks: list[float], work: Callable[[int], Cost], index: int) -> Cost:
    """Run the work on a garbage-collected heap, and append the peak of the heap in MiB to `peaks`."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    factory = jvm.java.lang.management.ManagementFactory
    jvm.java.lang.System.gc()
    pools = [pool for pool in factory.getMemoryPoolMXBeans() if pool.getType().toString().startswith("Heap")]
    for pool in pools:
        pool.resetPeakUsage()
    cost = work(index)
    peaks.append(sum(pool.getPeakUsage().getUsed() for pool in pools) / 2**20)
    return cost


def data_files(table: Path) -> int:
    return sum(1 for file in table.rglob("*.parquet") if "_delta_log" not in file.parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="slices measured (3)")
    parser.add_argument("--minutes", type=float, default=6, help="begin no slice after these (6)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        folder = Path(name)
        source = make_source(spark, folder, asked.rows)
        mine, project = ours(spark, folder / "ours", source)
        hand = {side: partial(by_hand, spark, folder / way, source, way=way) for side, way in WAYS.items()}
        sides: dict[str, Callable[[int], Cost]] = {"ours": mine, **hand}
        peaks: dict[str, list[float]] = {side: [] for side in sides}
        found = interleaved(
            {side: partial(peaked, spark, peaks[side], work) for side, work in sides.items()},
            asked.rounds,
            warm=1,
            minutes=asked.minutes,
        )
        stored = spark.read.format("delta").load(project.table("raw.events")).count()
        if stored != (len(found["ours"]) + 1) * asked.rows:
            sys.exit(f"{stored:,} rows are there")
        steps = {step: seconds for step, seconds in project.clock.batches[-1].steps.items() if seconds >= 0.05}
        project.close()
        folders = {"ours": Path(project.table("raw.events")), **{side: folder / way for side, way in WAYS.items()}}
        files = {side: data_files(where) // (len(found["ours"]) + 1) for side, where in folders.items()}
        size = source.stat().st_size / 1e6
    middles = {side: middle(costs) for side, costs in found.items()}
    first, second = list(WAYS)[:2]
    print(
        f"{asked.rows:,} rows, a file of {size:.0f} MB; medians of {len(found['ours'])} slices, after one to warm up.\n"
    )
    rows = [
        [
            side,
            f"{cost.cpu:.1f}",
            f"{cost.wall:.1f}",
            ratio(cost.cpu, middles[first].cpu),
            ratio(cost.cpu, middles[second].cpu),
            ratio(cost.wall, middles[first].wall),
            cost.jobs,
            files[side],
            f"{max(peaks[side][1:]):.0f}",
        ]
        for side, cost in middles.items()
    ]
    compared = [f"CPU of {first}", f"CPU of {second}", f"wall of {first}"]
    print(grid(["", "CPU s", "wall s", *compared, "jobs", "files", "peak heap MiB"], rows))
    told = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in steps.items())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nOur last slice: {told}. Peak memory of the Python process: {most:.0f} MiB.")


if __name__ == "__main__":
    main()
