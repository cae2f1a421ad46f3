"""Measures batches without rows: days on which nothing was sold are collected, cleaned, grouped and merged.

By hand, `replaceWhere` writes no rows into the same partition, as a script does that does not check for rows first. One
thread and one warm session; the first days are for warming up.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from chain import DAY, START
from measure import Cost, cost_of, grid, interleaved, middle, ratio
from product import Project, warm_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER = """\
[project]
name = "empty"

[defaults]
start = "2013-01-01"

[env.dev]
storage = ".waterclock"
connections.shop = { path = "shop.sqlite" }
"""
FLOW = """\
CREATE CONNECTION shop TYPE sqlite;

COLLECT raw.sales PARTITIONED (id BIGINT, country STRING, amount DOUBLE, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at;

COLLECT raw.folded (id BIGINT KEY, country STRING, amount DOUBLE, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at MERGE ORDER BY at;

TRANSFORM clean.sales PARTITIONED
AS SELECT id, country, amount * 1.2 AS amount, at FROM raw.sales WHERE amount > 1;

TRANSFORM marts.by_country PARTITIONED
AS SELECT country, count(*) AS sales, sum(amount) AS amount FROM clean.sales GROUP BY country;
"""


def declare(folder: Path) -> Path:
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(HEADER, encoding="utf-8")
    (folder / "flows" / "sales.dpl").write_text(FLOW, encoding="utf-8")
    with closing(sqlite3.connect(folder / "shop.sqlite")) as shop, shop:
        shop.execute("CREATE TABLE sales (id INTEGER, country TEXT, amount REAL, at TIMESTAMP)")
        rows = [(row, "de", 7.5, f"{START:%Y-%m-%d} 12:00:00") for row in range(100)]
        shop.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", rows)
    return folder


def by_hand(spark: SparkSession, folder: Path) -> Callable[[int], Cost]:
    def write(index: int) -> None:
        label = f"{START + index * DAY:%Y%m%d%H%M%S}"
        rows = spark.createDataFrame([], "id BIGINT, country STRING, amount DOUBLE, at TIMESTAMP, timelabel STRING")
        writer = rows.write.format("delta").partitionBy("timelabel").mode("overwrite")
        writer.option("replaceWhere", f"timelabel = '{label}'").save(str(folder))

    return lambda index: cost_of(lambda: write(index), spark)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=10, help="days measured (10)")
    parser.add_argument("--warm", type=int, default=3, help="days before them, the first with rows (3)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        project = Project(spark, declare(Path(name, "ours")), 1)

        def day(index: int) -> Cost:
            end = START + (index + 1) * DAY
            return cost_of(lambda: project.run(end, end), spark)

        sides = {"ours": day, "by hand": by_hand(spark, Path(name, "by_hand"))}
        found = interleaved(sides, asked.days, warm=asked.warm)
        jobs = middle(found["ours"]).jobs
        by_table: dict[str, list[Cost]] = defaultdict(list)
        for batch in project.clock.batches:
            by_table[batch.table].append(batch.cost)
        project.close()
    theirs = middle(found["by hand"])
    rows = [_row(table, middle(costs[asked.warm :]), theirs) for table, costs in by_table.items()]
    rows.append(_row("by hand, a table", theirs, theirs))
    print(f"A batch of no rows, warm; medians of {asked.days} days. Spark jobs of ours: {jobs} per day.\n")
    print(grid(["", "CPU ms", "wall ms", "CPU / by hand"], rows))


def _row(name: str, cost: Cost, theirs: Cost) -> list[str]:
    return [name, f"{1000 * cost.cpu:.0f}", f"{1000 * cost.wall:.0f}", ratio(cost.cpu, theirs.cpu)]


if __name__ == "__main__":
    main()
