"""Measures the CPU of a tick of CONTINUOUS against a micro-batch of Structured Streaming, with files as source.

Both sides get the same files in the same session, one after the other: a CSV file with `--rows` clicks for each tick.
Waterclock appends the rows to the open window and computes counts by user, each into its `spd_` table. By hand, a query
with foreachBatch appends the rows to a Delta table, by transaction ids, and replaces the counts of the window. Both
sides show the same counts at the end. The medians of the first and the last third of the ticks show how costs grow.

    python bench/stream.py --rows 500 --ticks 10 --warm 3
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from measure import Cost, cost_of, grid, middle, ratio
from product import warm_spark

from tests.tiny import Tiny, day
from waterclock.engine.continuous.tick import run_tick
from waterclock.engine.query.query import query
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLOW = """
COLLECT web.clicks PARTITIONED (id BIGINT, user STRING) FROM land.acme.clicks
  EVERY DAY BY ARRIVAL TIME CONTINUOUS 1 SECOND;
TRANSFORM web.per_user PARTITIONED CONTINUOUS AS SELECT user, count(*) AS n FROM web.clicks GROUP BY user;
"""
USERS = 50
LABEL = "20200101000000"


def clicks(tick: int, rows: int) -> str:
    """Return a CSV file with the clicks of a tick."""
    first = tick * rows
    return "id,user\n" + "".join(f"{id_},u{id_ * 7919 % USERS}\n" for id_ in range(first, first + rows))


@contextmanager
def ticking(spark: SparkSession, folder: Path, rows: int) -> Iterator[tuple[Callable[[int], Cost], Callable[[], int]]]:
    """Yield a function that measures a tick, and one that counts the clicks that the view shows."""
    tiny = Tiny(folder, spark)
    tiny.declare(FLOW)
    now = [day(1)]
    with patch.object(RunContext, "real_now", lambda _: now[0]), tiny.opened() as work:
        apply_flow(work, now[0])

        def tick(number: int) -> Cost:
            tiny.land("clicks", day(1) + timedelta(seconds=10 * number), clicks(number, rows))
            now[0] = day(1) + timedelta(seconds=10 * number + 5)
            return cost_of(lambda: run_tick(work), spark)

        yield tick, lambda: int(query(work, "SELECT sum(n) FROM web.per_user_view", limit=1).rows[0][0])


@contextmanager
def streaming(
    spark: SparkSession, folder: Path, rows: int
) -> Iterator[tuple[Callable[[int], Cost], Callable[[], int]]]:
    """Yield the same for a query of Structured Streaming, which stays active between two micro-batches."""
    from pyspark.sql import functions as F  # noqa: N812

    source, raw, counts = folder / "new", str(folder / "clicks"), str(folder / "per_user")
    source.mkdir(parents=True)

    def write(batch: DataFrame, number: int) -> None:
        (
            batch.withColumn("timelabel", F.lit(LABEL)).write.format("delta").mode("append").partitionBy("timelabel")
            .option("txnAppId", "clicks").option("txnVersion", number).save(raw)
        )  # fmt: skip
        window = spark.read.format("delta").load(raw).where(F.col("timelabel") == LABEL)
        (
            window.groupBy("timelabel", "user").agg(F.count("*").alias("n")).write.format("delta").mode("overwrite")
            .partitionBy("timelabel").option("replaceWhere", f"timelabel = '{LABEL}'")
            .option("txnAppId", "per_user").option("txnVersion", number).save(counts)
        )  # fmt: skip

    stream = spark.readStream.schema("id BIGINT, user STRING").option("header", value=True).csv(str(source))
    running = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint")).start()

    def tick(number: int) -> Cost:
        part = folder / f"{number}.csv"
        part.write_text(clicks(number, rows))
        part.rename(source / part.name)
        return cost_of(running.processAllAvailable, spark)

    try:
        yield tick, lambda: int(spark.read.format("delta").load(counts).agg(F.sum("n")).collect()[0][0])
    finally:
        running.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500, help="clicks of a tick")
    parser.add_argument("--ticks", type=int, default=10)
    parser.add_argument("--warm", type=int, default=3, help="first ticks that do not count")
    asked = parser.parse_args()
    found: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        for side, opened in (("Waterclock", ticking), ("Structured Streaming", streaming)):
            with opened(spark, Path(name) / side.replace(" ", "_"), asked.rows) as (tick, count):
                costs = [tick(number) for number in range(asked.warm + asked.ticks)]
                shown = count()
            if shown != asked.rows * (asked.warm + asked.ticks):
                raise SystemExit(f"{side} shows {shown} clicks")
            found[side] = costs[asked.warm :]
    middles = {side: middle(costs) for side, costs in found.items()}
    third = max(asked.ticks // 3, 1)
    rows = [
        (side, f"{it.cpu:.2f}", f"{it.wall:.2f}", it.jobs, *(f"{middle(costs).cpu:.2f}" for costs in ends))
        for side, it in middles.items()
        for ends in [(found[side][:third], found[side][-third:])]
    ]
    names = (
        f"{asked.ticks} ticks of {asked.rows} clicks, medians",
        "CPU s",
        "wall s",
        "jobs",
        "first third",
        "last third",
    )
    print(grid(names, rows))
    ours, theirs = middles.values()
    print(f"\nCPU of a tick: {ratio(ours.cpu, theirs.cpu)}")


if __name__ == "__main__":
    main()
