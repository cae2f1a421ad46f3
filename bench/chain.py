"""Measures a chain of ten tiny tables, each of which reads the one before, against the same chain by hand.

It runs once with PARTITIONED tables, in which each day is a slice, and once with REPLACE tables, for a hundred rows a
day from SQLite. By hand, each table is read from Delta and written with `replaceWhere` (a) or by append (b). REPLACE
tables are overwritten, in (a) with a transaction id. One thread and one warm session on each side.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from measure import Cost, cost_of, grid, interleaved, middle, ratio
from product import Project, warm_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
ROWS = 100
LENGTH = 10
HEADER = """\
[project]
name = "chain"

[defaults]
start = "2013-01-01"

[env.dev]
storage = ".waterclock"
connections.shop = { path = "../shop.sqlite" }
"""
COLLECT = """\
COLLECT chain.t0 PARTITIONED (id BIGINT, amount DOUBLE, country STRING, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at;"""


def put_sales(path: Path, days: int) -> None:
    with closing(sqlite3.connect(path)) as shop, shop:
        shop.execute("CREATE TABLE sales (id INTEGER, amount REAL, country TEXT, at TIMESTAMP)")
        shop.executemany(
            "INSERT INTO sales VALUES (?, ?, ?, ?)",
            (
                (
                    day * ROWS + row,
                    row * 1.5,
                    "abcdefghij"[row % 10] * 2,
                    f"{START + day * DAY + row * timedelta(minutes=9):%Y-%m-%d %H:%M:%S}",
                )
                for day in range(days)
                for row in range(ROWS)
            ),
        )


def declare(folder: Path, *, partitioned: bool) -> Path:
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(HEADER, encoding="utf-8")
    kind = " PARTITIONED" if partitioned else ""
    parts = [
        "CREATE CONNECTION shop TYPE sqlite;",
        COLLECT,
        *(
            f"TRANSFORM chain.t{number}{kind}\n"
            f"AS SELECT id, amount + 1 AS amount, country, at FROM chain.t{number - 1};"
            for number in range(1, LENGTH)
        ),
    ]
    (folder / "flows" / "chain.dpl").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return folder


def ours(spark: SparkSession, folder: Path) -> tuple[Callable[[int], Cost], Project]:
    project = Project(spark, folder, 1)
    return lambda index: cost_of(
        lambda: project.run(START + (index + 1) * DAY, START + (index + 1) * DAY), spark
    ), project


def by_hand(
    spark: SparkSession, shop: Path, work: Path, *, partitioned: bool, idempotent: bool
) -> Callable[[int], Cost]:
    types = {"id": pa.int64(), "amount": pa.float64(), "country": pa.string(), "at": pa.string()}

    def write(number: int, label: str, rows: DataFrame) -> None:
        from pyspark.sql import functions as sql

        path = str(work / f"t{number}")
        is_slice = partitioned or number == 0
        if is_slice:
            writer = rows.withColumn("timelabel", sql.lit(label)).write.format("delta").partitionBy("timelabel")
            if idempotent:
                writer.mode("overwrite").option("replaceWhere", f"timelabel = '{label}'").save(path)
            else:
                writer.mode("append").save(path)
            return
        writer = rows.write.format("delta").mode("overwrite")
        if idempotent:
            writer = writer.option("txnAppId", f"t{number}").option("txnVersion", label[:12])
        writer.save(path)

    def day(index: int) -> None:
        from pyspark.sql import functions as sql

        start = START + index * DAY
        label = f"{start:%Y%m%d%H%M%S}"
        with closing(sqlite3.connect(shop)) as database:
            found = database.execute(
                "SELECT id, amount, country, at FROM sales WHERE at >= ? AND at < ?",
                [f"{start:%Y-%m-%d %H:%M:%S}", f"{start + DAY:%Y-%m-%d %H:%M:%S}"],
            ).fetchall()
        arrays = [pa.array([row[at] for row in found], kind) for at, kind in enumerate(types.values())]
        rows = spark.createDataFrame(pa.table(arrays, list(types))).withColumn("at", sql.to_timestamp("at"))
        write(0, label, rows)
        for number in range(1, LENGTH):
            before = spark.read.format("delta").load(str(work / f"t{number - 1}"))
            if partitioned or number == 1:
                before = before.where(sql.col("timelabel") == label)
            write(number, label, before.select("id", (sql.col("amount") + 1).alias("amount"), "country", "at"))

    return lambda index: cost_of(lambda: day(index), spark)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=8, help="days measured (8)")
    parser.add_argument("--warm", type=int, default=2, help="days before them (2)")
    parser.add_argument("--minutes", type=float, default=5, help="begin no day of a chain after these (5)")
    parser.add_argument("--steps", action="store_true", help="print where our batches spend their time")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        shop = Path(name, "shop.sqlite")
        put_sales(shop, asked.days + asked.warm)
        for kind in ("PARTITIONED", "REPLACE"):
            folder, partitioned = Path(name, kind), kind == "PARTITIONED"
            (folder / "waterclock").mkdir(parents=True)
            (folder / "shop.sqlite").symlink_to(shop)
            mine, project = ours(spark, declare(folder / "waterclock", partitioned=partitioned))
            found = interleaved(
                {
                    "ours": mine,
                    "a": by_hand(spark, shop, folder / "a", partitioned=partitioned, idempotent=True),
                    "b": by_hand(spark, shop, folder / "b", partitioned=partitioned, idempotent=False),
                },
                asked.days,
                warm=asked.warm,
                minutes=asked.minutes,
            )
            _require_equal(spark, project, folder)
            middles = {each: middle(costs) for each, costs in found.items()}
            rows.append(_row(kind, middles))
            if asked.steps:
                _print_steps(project, kind)
            project.close()
    print(f"A day of the chain, ten batches; medians of {len(found['ours'])} days, after {asked.warm} to warm up.\n")
    head = [
        "chain of",
        *(f"{unit} {each}" for unit in ("CPU s", "wall s") for each in ("ours", "(a)", "(b)", "ours/(a)", "ours/(b)")),
    ]
    print(grid([*head, "jobs ours, (a), (b)"], rows))


def _row(kind: str, middles: dict[str, Cost]) -> list[str]:
    row = [kind]
    for unit in ("cpu", "wall"):
        a, b, c = (getattr(middles[each], unit) for each in ("ours", "a", "b"))
        row += [f"{a:.2f}", f"{b:.2f}", f"{c:.2f}", ratio(a, b), ratio(a, c)]
    return [*row, ", ".join(str(middles[each].jobs) for each in ("ours", "a", "b"))]


def _print_steps(project: Project, kind: str) -> None:
    steps: dict[str, list[float]] = {}
    for batch in project.clock.batches[len(project.clock.batches) // 2 :]:
        for step, taken in {**batch.steps, "whole": batch.cost.wall, "cpu": batch.cost.cpu}.items():
            steps.setdefault(step, []).append(taken)
    for step, seconds in steps.items():
        print(f"{kind} {step:8} {1000 * sorted(seconds)[len(seconds) // 2]:7.1f} ms", file=sys.stderr)


def _require_equal(spark: SparkSession, project: Project, folder: Path) -> None:
    last = LENGTH - 1
    found = [
        sorted(map(str, spark.read.format("delta").load(path).select("id", "amount", "country", "at").collect()))
        for path in (project.table(f"chain.t{last}"), str(folder / "a" / f"t{last}"), str(folder / "b" / f"t{last}"))
    ]
    if not found[0] == found[1] == found[2]:
        sys.exit("the three chains end differently")


if __name__ == "__main__":
    main()
