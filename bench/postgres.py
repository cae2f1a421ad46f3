"""Measures a million rows from PostgreSQL and to it, against Spark's JDBC as one writes it by hand.

The benchmark starts its own server on loopback, whose CPU is counted separately. Waterclock reads all rows as of one
moment, seals a slice with its digest and commits it under a claim. By hand, the same rows are read in parts, each as of
another moment, and replace those of the day in a Delta table. To publish, Waterclock replaces all rows in one
transaction. By hand, `overwrite` with `truncate` does, during which readers see an empty table.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import ClockOfServer, Cost, cost_of, grid, interleaved, middle, ratio
from product import Project, warm_spark

from tests.postgres import server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "org.postgresql:postgresql:42.7.8"
START = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HEADER = """\
[project]
name = "big"

[defaults]
start = "2013-01-01"

[env.dev]
storage = ".waterclock"
publish = true
connections.ops = {{ type = "postgres", url = "{url}", schema = "{schema}" }}
"""
FLOW = """\
CREATE CONNECTION ops TYPE postgres;

COLLECT raw.events FROM ops.events{parts} EVERY DAY;
PUBLISH raw.events TO ops.copied;
"""


def fill(schema: str, rows: int) -> None:
    server().run(f"CREATE SCHEMA {schema}")
    server().run(
        f"CREATE TABLE {schema}.events AS SELECT id, id % 100003 AS customer,"
        " (id * 7919 % 1000000 / 100.0)::numeric(12,2) AS amount, 'page-' || id % 5000 AS page,"
        " (ARRAY['de','fr','us','in','br'])[id % 5 + 1] AS country,"
        " '2013-01-01Z'::timestamptz + id % 86400 * interval '1 second' AS at, (id % 7)::int AS kind,"
        " md5(id::text) AS token"
        f" FROM generate_series(0, {rows - 1}::bigint) AS id"
    )
    server().run(f"ALTER TABLE {schema}.events ADD PRIMARY KEY (id); ANALYZE {schema}.events")


def ours(spark: SparkSession, folder: Path, schema: str) -> Project:
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(HEADER.format(url=server().url, schema=schema), encoding="utf-8")
    (folder / "flows" / "big.dpl").write_text(FLOW.format(parts=" OPTIONS (partitions 2)"), encoding="utf-8")
    return Project(spark, folder, 1)


def options(schema: str, table: str) -> dict[str, str]:
    at = server()
    return {
        "url": f"jdbc:postgresql://127.0.0.1:{at.port}/postgres",
        "user": "postgres",
        "driver": "org.postgresql.Driver",
        "dbtable": f"{schema}.{table}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    schema = server().fresh_schema()
    fill(schema, asked.rows)
    clock = ClockOfServer(server().folder)
    confs = {"spark.jars.packages": DRIVER}
    at_server: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name), confs) as spark:
        folder = Path(name)
        project = ours(spark, folder / "ours", schema)
        steps: dict[str, list[Cost]] = {"collect": [], "publish": []}

        def by_us(index: int) -> Cost:
            before = len(project.clock.batches)
            end = START + (index + 1) * DAY
            cost = cost_of(lambda: project.run(end, end), spark)
            for batch in project.clock.batches[before:]:
                steps["collect" if batch.table == "raw.events" else "publish"].append(batch.cost)
            return cost

        def read_by_hand(index: int) -> Cost:
            parted = {"partitionColumn": "id", "lowerBound": "0", "upperBound": str(asked.rows), "numPartitions": "2"}

            def read() -> None:
                rows = (
                    spark.read.format("jdbc").options(**options(schema, "events"), **parted, fetchsize="10000").load()
                )
                label = f"{START + index * DAY:%Y%m%d%H%M%S}"
                labelled = rows.selectExpr("*", f"'{label}' AS timelabel")
                labelled.write.format("delta").mode("overwrite").save(str(folder / "by_hand"))

            return cost_of(read, spark)

        def write_by_hand(_: int) -> Cost:
            def write() -> None:
                rows = spark.read.format("delta").load(str(folder / "by_hand")).drop("timelabel")
                more = {"truncate": "true", "batchsize": "10000", "reWriteBatchedInserts": "true"}
                rows.write.format("jdbc").options(**options(schema, "by_hand"), **more).mode("overwrite").save()

            return cost_of(write, spark)

        def counted(side: str, work: Callable[[int], Cost]) -> Callable[[int], Cost]:
            def run(index: int) -> Cost:
                before = clock.seconds()
                cost = work(index)
                at_server.setdefault(side, []).append(clock.seconds() - before)
                return cost

            return run

        sides = {"ours": by_us, "read by hand": read_by_hand, "written by hand": write_by_hand}
        found = interleaved({side: counted(side, work) for side, work in sides.items()}, asked.rounds, warm=1)
        rows = {name: server().run(f"SELECT count(*) FROM {schema}.{name}") for name in ("copied", "by_hand")}
        assert rows == {"copied": [(asked.rows,)], "by_hand": [(asked.rows,)]}, rows
        project.close()
    mine = {step: middle(costs[1:]) for step, costs in steps.items()}
    hand = {"collect": middle(found["read by hand"]), "publish": middle(found["written by hand"])}
    print(f"{asked.rows:,} rows of eight columns; medians of {asked.rounds} rounds, after one to warm up.\n")
    lines: list[tuple[Any, ...]] = []
    for step in ("collect", "publish"):
        for side, cost in (("ours", mine[step]), ("by hand, JDBC", hand[step])):
            lines.append(
                (
                    step,
                    side,
                    f"{cost.cpu:.1f}",
                    f"{cost.wall:.1f}",
                    ratio(cost.cpu, hand[step].cpu),
                    ratio(cost.wall, hand[step].wall),
                )
            )
    print(grid(("", "side", "CPU s", "wall s", "CPU / by hand", "wall / by hand"), lines))
    both = sum(sorted(at_server["ours"][1:])[len(at_server["ours"][1:]) // 2 : len(at_server["ours"][1:]) // 2 + 1])
    print(f"\nThe server's own CPU: {both:.1f} s a round of ours, both ways; by hand"
          f" {sum(at_server['read by hand'][1:]) / asked.rounds:.1f} s to read and"
          f" {sum(at_server['written by hand'][1:]) / asked.rounds:.1f} s to write.")  # fmt: skip


if __name__ == "__main__":
    main()
