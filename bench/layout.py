"""Measures the layouts SORT BY, CLUSTER BY, PARTITION BY and BUCKET BY against Delta's own, with the same rows.

    python bench/layout.py [--rows 200000] [--days 4] [--target-mb 0.5] [--rounds 2]

Rows of a day arrive in the order of time. Ours are transforms of one collected table. By hand, the same rows are
appended day by day to Delta tables: one partitioned by the label, one by the label and the country, one that `OPTIMIZE
... ZORDER BY` orders at the end, and one with liquid clustering (`CLUSTER BY` of Delta), which cannot have partitions,
and `OPTIMIZE`.

Searches read all labels through Delta's reader, so that they are those of any user: files that the scan opened, rows
that it returned before the filter, bytes that its tasks read. The join is a batch of each label: ours a transform, by
hand an append. Broadcasts are off, as for tables that are too large for them, and so are vectored reads. A file has
`--target-mb` on all sides, because a bench of the usual 64 MB (ours) or 1 GB (Delta) would take hours.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import Cost, cost_of, grid, middle, ratio
from product import Clocked, Project, warm_spark

from waterclock.storage.slices import clustering

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.engine.run_listener import GroupReport
    from waterclock.planner.plan import Group

START = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
CUSTOMERS, DEVICES = 100_000, 20_000
COLUMNS = "id BIGINT, customer BIGINT, device BIGINT, country INT, at TIMESTAMP, amount DOUBLE, page STRING"
HEADER = """\
[project]
name = "layout"

[defaults]
start = "2013-01-01"

[env.dev]
storage = ".waterclock"
connections.landing = { path = "new" }
"""
BUCKETS = "BUCKET BY (customer) INTO 4"
LAYOUTS = {
    "plain": "",
    "sorted": "SORT BY (customer)",
    "clustered": "CLUSTER BY (customer, device)",
    "partitioned": "PARTITION BY (country)",
    "bucketed": BUCKETS,
}
ACCOUNTS = "customer, count(*) AS visits, max(at) AS newest"
JOINED = "e.customer, sum(e.amount) AS amount, max(a.visits) AS visits"
PEERS = {
    "Delta": "Delta, partitioned by label",
    "countries": "Delta, partitioned by label and country",
    "zorder": "Delta, OPTIMIZE ZORDER BY (customer, device)",
    "liquid": "Delta, liquid CLUSTER BY (customer, device)",
}
SEARCHES = {
    "one customer": "customer = 4242",
    "one device": "device = 4242",
    "one country of 60": "country = 42",
    "1 % of customers": "customer BETWEEN 40000 AND 40999",
    "5 % of customers and of devices": "customer BETWEEN 40000 AND 44999 AND device BETWEEN 4000 AND 4999",
}


def build_flow() -> str:
    """Return a table of each layout, the accounts of its customers, and their join."""
    lines = [
        "CREATE CONNECTION landing TYPE files;",
        "COLLECT raw.events PARTITIONED FROM landing.web.events EVERY DAY BY ARRIVAL TIME;",
        *(
            f"TRANSFORM lay.{name} PARTITIONED {clause} AS SELECT {ACCOUNTS} FROM raw.events GROUP BY customer;"
            for name, clause in (("accounts", ""), ("accounts_bucketed", BUCKETS))
        ),
    ]
    for name, clause in LAYOUTS.items():
        accounts = "lay.accounts_bucketed" if name == "bucketed" else "lay.accounts"
        lines += [
            f"TRANSFORM lay.{name} PARTITIONED {clause} AS SELECT * FROM raw.events;",
            (
                f"TRANSFORM mart.{name} PARTITIONED AS SELECT {JOINED} "
                f"FROM lay.{name} e JOIN {accounts} a USING (customer) GROUP BY e.customer;"
            ),
        ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Scan:
    """The cost of a search: files opened, rows that the scan returned, and bytes that tasks read."""

    files: int
    rows: int
    bytes: int
    cost: Cost


class Stages:
    """Reads the metrics of Spark's stages since the last reading."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._seen = -1

    def read(self) -> tuple[int, int]:
        """Return the bytes that tasks read from files, and those that they wrote for a shuffle."""
        spark = self._spark.sparkContext
        context, gateway = spark._jsc.sc(), spark._gateway  # noqa: SLF001
        context.listenerBus().waitUntilEmpty()
        nothing, doubles = gateway.jvm.java.util.ArrayList(), gateway.new_array(gateway.jvm.double, 0)
        stages = context.statusStore().stageList(None, False, False, doubles, nothing)  # noqa: FBT003
        found = [stages.apply(at) for at in range(stages.size())]
        new = [stage for stage in found if stage.stageId() > self._seen]
        self._seen = max([self._seen, *(stage.stageId() for stage in new)])
        return sum(stage.inputBytes() for stage in new), sum(stage.shuffleWriteBytes() for stage in new)


class ClockedStages(Clocked):
    """Measures also the bytes that each group of batches shuffles."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._stages = Stages(spark)
        self.shuffled: list[int] = []

    def on_group_start(self, group: Group) -> None:
        self._stages.read()
        super().on_group_start(group)

    def on_group_finish(self, report: GroupReport) -> None:
        super().on_group_finish(report)
        self.shuffled.append(self._stages.read()[1])


def write_source(spark: SparkSession, folder: Path, rows: int, day: int) -> Path:
    """Write the rows of a day to one file, in the order of time."""
    start = int((START + day * DAY).timestamp())
    target = folder / f"source{day}"
    spark.range(day * rows, (day + 1) * rows, 1, 1).selectExpr(
        "id",
        f"pmod(xxhash64(id, 1), {CUSTOMERS}) AS customer",
        f"pmod(xxhash64(id, 2), {DEVICES}) AS device",
        "CAST(pmod(xxhash64(id, 3), 60) AS INT) AS country",
        f"timestamp_micros(({start} * 1000000L) + (id - {day * rows}) * 86400000000L div {rows}) AS at",
        "CAST(pmod(xxhash64(id, 4), 1000000) AS DOUBLE) / 100 AS amount",
        "concat('page-', pmod(xxhash64(id, 5), 5000)) AS page",
    ).write.parquet(str(target))
    return next(target.glob("*.parquet"))


class Peers:
    """The hand-written Delta tables."""

    def __init__(self, spark: SparkSession, folder: Path, project: Project) -> None:
        self._spark, self._folder, self._project = spark, folder, project
        self.stages = Stages(spark)
        self.writes: dict[str, list[Cost]] = {name: [] for name in PEERS}
        self.joins: dict[str, list[Cost]] = {name: [] for name in PEERS}
        self.shuffled: dict[str, list[int]] = {name: [] for name in PEERS}
        spark.sql(f"CREATE TABLE delta.`{self.table('liquid')}` ({COLUMNS}, timelabel STRING) USING delta "
                  "CLUSTER BY (customer, device)").collect()  # fmt: skip

    def table(self, name: str) -> str:
        return str(self._folder / name)

    def write(self, day: int) -> None:
        """Append the rows of a day to each table, join them, and compute the accounts of the day before."""
        label = f"{START + day * DAY:%Y%m%d%H%M%S}"
        raw = f"delta.`{self._project.table('raw.events')}` WHERE timelabel = '{label}'"
        self._append("accounts", f"SELECT {ACCOUNTS}, '{label}' AS timelabel FROM {raw} GROUP BY customer")
        for name in PEERS:
            self.writes[name].append(cost_of(lambda: self._append(name, f"SELECT * FROM {raw}"), self._spark))  # noqa: B023
        for name in PEERS:
            query = (
                f"SELECT {JOINED}, '{label}' AS timelabel FROM delta.`{self.table(name)}` e "
                f"JOIN delta.`{self.table('accounts')}` a USING (customer) "
                f"WHERE e.timelabel = '{label}' AND a.timelabel = '{label}' GROUP BY e.customer"
            )
            self.stages.read()
            self.joins[name].append(cost_of(lambda: self._append(f"{name}_joined", query), self._spark))  # noqa: B023
            self.shuffled[name].append(self.stages.read()[1])

    def _append(self, name: str, query: str) -> None:
        writer = self._spark.sql(query).write.format("delta").mode("append")
        columns = {"liquid": (), "countries": ("timelabel", "country")}.get(name, ("timelabel",))
        (writer.partitionBy(*columns) if columns else writer).save(self.table(name))

    def optimize(self) -> dict[str, Cost]:
        return {
            name: cost_of(lambda: self._spark.sql(f"OPTIMIZE delta.`{self.table(name)}`{by}").collect(), self._spark)  # noqa: B023
            for name, by in (("zorder", " ZORDER BY (customer, device)"), ("liquid", ""))
        }


def search(spark: SparkSession, stages: Stages, folder: str, condition: str) -> Scan:
    rows = spark.read.format("delta").load(folder).where(condition).select("customer", "device", "amount")
    stages.read()
    cost = cost_of(rows.collect, spark)
    metrics = rows._jdf.queryExecution().executedPlan().collectLeaves().apply(0).metrics()  # noqa: SLF001
    files, returned = (int(metrics.apply(name).value()) for name in ("numFiles", "numOutputRows"))
    return Scan(files, returned, stages.read()[0], cost)


def require_equal(spark: SparkSession, tables: dict[str, str], joined: dict[str, str]) -> None:
    """Require that all tables have the same rows, and all joins."""
    for folders, columns in (
        (tables, "id, customer, device, at, page"),
        (joined, "customer, round(amount, 2), visits"),
    ):
        found = {
            name: spark.read.format("delta")
            .load(folder)
            .selectExpr(f"bit_xor(xxhash64({columns}))", "count(*)")
            .first()
            for name, folder in folders.items()
        }
        if len({tuple(row or ()) for row in found.values()}) != 1:
            sys.exit(f"the tables differ: {found}")


def data_files(spark: SparkSession, folder: str) -> tuple[int, float]:
    """Return how many files a table has, and their MB."""
    row: Any = spark.sql(f"DESCRIBE DETAIL delta.`{folder}`").select("numFiles", "sizeInBytes").first()
    return row[0], row[1] / 1e6


def run_days(spark: SparkSession, folder: Path, project: Project, rows: int, days: int) -> Peers:
    landing = project.folder / "new" / "web" / "events"
    landing.mkdir(parents=True)
    peers = Peers(spark, folder / "hand", project)
    for day in range(days):
        end = START + (day + 1) * DAY
        source = write_source(spark, folder, rows, day)
        os.link(source, landing / f"web_events_{end - timedelta(seconds=1):%Y_%m_%d_%H_%M_%S}.parquet")
        project.run(end, end)
        peers.write(day)
    return peers


def print_writes(spark: SparkSession, project: Project, peers: Peers, optimized: dict[str, Cost]) -> None:
    clock = project.clock
    assert isinstance(clock, ClockedStages)
    # the first label warms up the JVM, and a clustered table has no earlier label to follow yet
    batches = list(zip(clock.batches, clock.shuffled, strict=True))
    ours = {
        name: [(batch.cost, size) for batch, size in batches if batch.table == name][1:]
        for name in (*(f"lay.{each}" for each in LAYOUTS), *(f"mart.{each}" for each in LAYOUTS))
    }
    base_write = middle(peers.writes["Delta"][1:]).cpu
    base_join = middle(peers.joins["Delta"][1:]).cpu
    rows: list[tuple[str, Cost, Cost | None, Cost, int, str]] = []
    for name, clause in LAYOUTS.items():
        write, join = (middle(cost for cost, _ in ours[f"{schema}.{name}"]) for schema in ("lay", "mart"))
        shuffled = max(size for _, size in ours[f"mart.{name}"])
        rows.append((f"`{clause}`" if clause else "ours, no layout", write, None, join, shuffled,
                     project.table(f"lay.{name}")))  # fmt: skip
    for name, title in PEERS.items():
        write, join = middle(peers.writes[name][1:]), middle(peers.joins[name][1:])
        rows.append((title, write, optimized.get(name), join, max(peers.shuffled[name]), peers.table(name)))
    shown = [
        [title, f"{write.cpu:.2f}", ratio(write.cpu, base_write), "" if upkeep is None else f"{upkeep.cpu:.1f}",
         *(f"{number:,.0f}" for number in data_files(spark, folder)), f"{join.cpu:.2f}", ratio(join.cpu, base_join),
         f"{shuffled / 1e6:.1f}"]
        for title, write, upkeep, join, shuffled, folder in rows
    ]  # fmt: skip
    head = ["", "write of a label, CPU s", "of Delta", "OPTIMIZE, CPU s", "files", "MB", "join of a label, CPU s",
            "of Delta", "MB shuffled"]  # fmt: skip
    print(grid(head, shown))


def print_searches(spark: SparkSession, tables: dict[str, str], rounds: int) -> None:
    stages = Stages(spark)
    found: dict[tuple[str, str], list[Scan]] = {}
    for index in range(rounds + 1):  # the first one warms up
        for title, condition in SEARCHES.items():
            names = list(tables)
            turn = index % len(names)
            for name in names[turn:] + names[:turn]:
                scan = search(spark, stages, tables[name], condition)
                found.setdefault((name, title), []).append(scan)
    shown = []
    for title in SEARCHES:
        for name in tables:
            scans = found[name, title][1:]
            cost, last = middle(scan.cost for scan in scans), scans[-1]
            shown.append([title if name == next(iter(tables)) else "", name, last.files, f"{last.rows:,}",
                          f"{last.bytes / 1e6:.2f}", f"{cost.cpu:.2f}"])  # fmt: skip
    print(grid(["search of all labels", "table", "files", "rows", "MB read", "CPU s"], shown))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a label (200,000)")
    parser.add_argument("--days", type=int, default=4, help="labels (4)")
    parser.add_argument("--target-mb", type=float, default=0.5, help="size of a file of a layout (0.5)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of the searches (2)")
    asked = parser.parse_args()
    target = int(asked.target_mb * (1 << 20))
    clustering.TARGET_BYTES = target
    confs = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        # several ranges of a file at once would be read by threads whose bytes Spark does not count
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
        "spark.databricks.delta.optimize.maxFileSize": str(target),
        "spark.databricks.delta.optimize.minFileSize": str(target),
    }
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name), confs) as spark:
        folder = Path(name)
        Path(folder, "ours", "flows").mkdir(parents=True)
        Path(folder, "ours", "waterclock.toml").write_text(HEADER, encoding="utf-8")
        Path(folder, "ours", "flows", "layout.dpl").write_text(build_flow(), encoding="utf-8")
        project = Project(spark, folder / "ours", 1, clock=ClockedStages)
        peers = run_days(spark, folder, project, asked.rows, asked.days)
        optimized = peers.optimize()
        tables = {f"`{clause}`" if clause else "ours": project.table(f"lay.{each}") for each, clause in LAYOUTS.items()}
        tables |= {title: peers.table(each) for each, title in PEERS.items()}
        joined = {each: project.table(f"mart.{each}") for each in LAYOUTS}
        require_equal(spark, tables, joined | {each: peers.table(f"{each}_joined") for each in PEERS})
        print(
            f"{asked.days} labels of {asked.rows:,} rows, files of {asked.target_mb:g} MB. Writes and joins are "
            f"medians of {asked.days - 1} labels, CPU of searches of {asked.rounds} rounds.\n"
        )
        print_writes(spark, project, peers, optimized)
        print()
        print_searches(spark, tables, asked.rounds)
        project.close()


if __name__ == "__main__":
    main()
