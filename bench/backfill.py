"""Measures a backfill of a year of daily files, against one Spark job over the whole year for each table.

365 CSV files are collected into a table. Four transforms read it window by window: row by row, grouped, ranked, and to
one row a day. By hand, each table is one read and one idempotent write of a Delta table partitioned by day. Both sides
use one warm session and one thread. The results are compared.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from measure import Cost, cost_of, grid, ratio
from product import Project, warm_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
COUNTRIES = "AT BE CH DE ES FR IT NL PL PT".split()
HEADER = """\
[project]
name = "backfill"

[defaults]
start = "2013-01-01"

[env.dev]
storage = ".waterclock"
connections.landing = { path = "../new" }
"""
FLOW = """\
CREATE CONNECTION landing TYPE files;

COLLECT raw.sales PARTITIONED (id BIGINT, country STRING, amount DOUBLE, sold_at TIMESTAMP)
  FROM landing.shop.sales EVERY DAY BY ARRIVAL TIME;

TRANSFORM clean.sales PARTITIONED
AS SELECT id, country, amount * 1.2 AS amount, sold_at FROM raw.sales WHERE amount > 1;

TRANSFORM marts.by_country PARTITIONED
AS SELECT country, count(*) AS sales, sum(amount) AS amount, WINDOW_START() AS day FROM raw.sales GROUP BY country;

TRANSFORM marts.best PARTITIONED
AS SELECT * FROM (
     SELECT id, country, amount, row_number() OVER (PARTITION BY country ORDER BY amount DESC, id) AS place
     FROM raw.sales
   ) WHERE place <= 3;

TRANSFORM marts.totals PARTITIONED
AS SELECT count(*) AS sales, max(amount) AS best FROM raw.sales;
"""
TABLES = ("raw.sales", "clean.sales", "marts.by_country", "marts.best", "marts.totals")


def put_files(folder: Path, days: int, rows: int) -> None:
    folder.mkdir(parents=True)
    chance = random.Random(1)
    for day in range(days):
        at = START + day * DAY
        lines = ["id,country,amount,sold_at"]
        lines += [
            f"{day * rows + row},{chance.choice(COUNTRIES)},{chance.randint(0, 99_999) / 100},"
            f"{at + timedelta(seconds=86_399 * row // rows):%Y-%m-%d %H:%M:%S}"
            for row in range(rows)
        ]
        Path(folder, f"shop_sales_{at:%Y_%m_%d}_23_59_59.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def declare(folder: Path) -> Path:
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(HEADER, encoding="utf-8")
    (folder / "flows" / "sales.dpl").write_text(FLOW, encoding="utf-8")
    return folder


def by_hand(spark: SparkSession, files: Path | str, work: Path) -> dict[str, Callable[[], None]]:
    from pyspark.sql import functions as sql
    from pyspark.sql.window import Window

    types = "id BIGINT, country STRING, amount DOUBLE, sold_at TIMESTAMP"

    def write(name: str, rows: DataFrame) -> None:
        writer = rows.write.format("delta").partitionBy("timelabel").mode("overwrite")
        writer.option("partitionOverwriteMode", "dynamic").save(str(work / name))

    def raw() -> DataFrame:
        return spark.read.format("delta").load(str(work / "raw.sales"))

    def collect() -> None:
        rows = spark.read.schema(types).option("header", "true").csv(str(files))
        stamp = sql.regexp_extract(sql.col("_metadata.file_name"), r"(\d{4}_\d\d_\d\d)_23_59_59", 1)
        label = sql.concat(sql.regexp_replace(stamp, "_", ""), sql.lit("000000"))
        write("raw.sales", rows.withColumn("timelabel", label))

    def clean() -> None:
        rows = raw().where("amount > 1").selectExpr("id", "country", "amount * 1.2 AS amount", "sold_at", "timelabel")
        write("clean.sales", rows)

    def by_country() -> None:
        rows = (
            raw().groupBy("timelabel", "country").agg(sql.count("*").alias("sales"), sql.sum("amount").alias("amount"))
        )
        write("marts.by_country", rows.withColumn("day", sql.to_timestamp("timelabel", "yyyyMMddHHmmss")))

    def best() -> None:
        places = Window.partitionBy("timelabel", "country").orderBy(sql.col("amount").desc(), "id")
        rows = raw().select("timelabel", "id", "country", "amount", sql.row_number().over(places).alias("place"))
        write("marts.best", rows.where("place <= 3"))

    def totals() -> None:
        write(
            "marts.totals",
            raw().groupBy("timelabel").agg(sql.count("*").alias("sales"), sql.max("amount").alias("best")),
        )

    return dict(zip(TABLES, (collect, clean, by_country, best, totals), strict=True))


def digest(spark: SparkSession, folder: str) -> tuple[int, int, int]:
    from pyspark.sql import functions as sql

    rows = spark.read.format("delta").load(folder)
    hashed = sql.xxhash64(*(sql.round(name, 6) if kind == "double" else name for name, kind in sorted(rows.dtypes)))
    found = rows.agg(
        sql.count("*"), sql.sum(sql.shiftright(hashed, 32)), sql.sum(hashed.bitwiseAND(4294967295))
    ).collect()[0]
    return found[0], found[1], found[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=365, help="daily files (365)")
    parser.add_argument("--rows", type=int, default=1000, help="rows of a file (1000)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        # a few days on both sides, to warm up the JVM
        run(spark, Path(name, "warm"), 5, 100, ours_first=True)
        first, second = (run(spark, Path(name, f"year{way}"), asked.days, asked.rows, ours_first=way) for way in (1, 0))
        found = {
            table: tuple(one + other for one, other in zip(first[table], second[table], strict=True))
            for table in TABLES
        }
    rows = []
    for table in TABLES:
        ours, peer = found[table]
        rows.append(
            [table, f"{ours.cpu:.1f}", f"{peer.cpu:.1f}", ratio(ours.cpu, peer.cpu), f"{ours.wall:.1f}",
             f"{peer.wall:.1f}", ratio(ours.wall, peer.wall), ours.jobs, peer.jobs]
        )  # fmt: skip
    print(
        f"{asked.days} days of {asked.rows:,} rows; sum of two rounds, the sides in turn first; one thread; "
        "the results were compared and are equal.\n"
    )
    print(
        grid(
            [
                "table",
                "CPU s ours",
                "CPU s by hand",
                "CPU",
                "wall s ours",
                "wall s by hand",
                "wall",
                "jobs ours",
                "jobs by hand",
            ],
            rows,
        )
    )


def run(spark: SparkSession, folder: Path, days: int, rows: int, *, ours_first: bool) -> dict[str, tuple[Cost, Cost]]:
    """Run all days with Waterclock and by hand, and return the cost of each table for both."""
    files = folder / "new" / "shop" / "sales"
    put_files(files, days, rows)
    project = Project(spark, declare(folder / "waterclock"), 1)
    until = START + days * DAY
    peers: dict[str, Cost] = {}

    def do_by_hand() -> None:
        peers.update({table: cost_of(work, spark) for table, work in by_hand(spark, files, folder / "hand").items()})

    if not ours_first:
        do_by_hand()
    whole = cost_of(lambda: project.run(until, until), spark)
    if ours_first:
        files = project.work.lake.root + "/archive/landing/shop/sales"  # Waterclock has moved them there
        do_by_hand()
    ours = {table: Cost() for table in TABLES}
    for batch in project.clock.batches:
        ours[batch.table] += batch.cost
    print(f"{days} days: planning {(whole - sum(ours.values(), Cost())).cpu:.1f} s of CPU", file=sys.stderr)
    for table in TABLES:
        mine, peer = digest(spark, project.table(table)), digest(spark, str(folder / "hand" / table))
        if mine != peer:
            sys.exit(f"{table}: {mine} is not {peer}")
    project.close()
    return {table: (ours[table], peers[table]) for table in TABLES}


if __name__ == "__main__":
    main()
