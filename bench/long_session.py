"""Measures the memory of a runner: one warm session that runs hundreds of tiny batches, one after the other.

It runs the chain of ten PARTITIONED tables of bench/chain, day by day. Heap is measured after a garbage collection.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from chain import DAY, LENGTH, START, declare, put_sales
from measure import grid
from product import Project, warm_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAD = ["batches", "heap MiB", "outside the heap MiB", "JVM threads", "JVM MiB", "Python MiB"]


def memory(spark: SparkSession) -> list[str]:
    jvm = spark.sparkContext._jvm  # noqa: SLF001
    if jvm is None:
        raise SystemExit("no JVM to ask")
    process = int(jvm.java.lang.ProcessHandle.current().pid())
    jvm.java.lang.System.gc()
    beans = jvm.java.lang.management.ManagementFactory
    kept = beans.getMemoryMXBean()
    used = (kept.getHeapMemoryUsage().getUsed(), kept.getNonHeapMemoryUsage().getUsed())
    return [
        *(f"{int(size) / 2**20:.0f}" for size in used),
        str(int(beans.getThreadMXBean().getThreadCount())),
        *(f"{_resident(of):.0f}" for of in (str(process), "self")),
    ]


def _resident(process: str) -> float:
    return int(Path("/proc", process, "statm").read_text().split()[1]) * 4096 / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=40, help="days of ten batches (40)")
    parser.add_argument("--every", type=int, default=8, help="look after so many days (8)")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        put_sales(Path(name, "shop.sqlite"), asked.days)
        (Path(name) / "waterclock").mkdir()
        project = Project(spark, declare(Path(name) / "waterclock", partitioned=True), 2)
        for number in range(1, asked.days + 1):
            project.run(START + number * DAY, START + number * DAY)
            if number % asked.every == 0:
                rows.append([LENGTH * number, *memory(spark)])
        project.close()
    print(f"{LENGTH * asked.days} batches of a hundred rows in one session, two threads.\n")
    print(grid(HEAD, rows))


if __name__ == "__main__":
    main()
