"""What does it cost to keep a FLAT table up? Versions with what they refer to, where 1 % of the keys change a day.

Accounts refer to branches, a tenth as many, in two roles; both keep all their versions, the accounts of five rows to a
key. `flat.accounts` is `FLAT(dim.accounts)` of all versions. Days take turns: one takes over what still holds of the
day before, as it is by itself, the other makes all rows again. After the last one the table is held against all of it
made again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from chain import DAY, HEADER, START
from measure import Cost, grid, middle, ratio
from product import Project, warm_spark

from waterclock.engine.reads import carry_over

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_OF_A_KEY = 5
FLOW = """\
CREATE CONNECTION landing TYPE files;
COLLECT dim.branches (branch BIGINT KEY, town STRING, boss STRING, at TIMESTAMP)
  FROM landing.bank.branches EVERY DAY BY ARRIVAL TIME TEMPORAL AT at;
COLLECT dim.accounts (id BIGINT KEY, branch BIGINT REFERENCES dim.branches ROLE home,
    former BIGINT REFERENCES dim.branches ROLE former, name STRING, amount DOUBLE, at TIMESTAMP)
  FROM landing.bank.accounts EVERY DAY BY ARRIVAL TIME TEMPORAL AT at;
TRANSFORM flat.accounts AS SELECT * FROM FLAT(dim.accounts);
"""
WHOLE = carry_over.Limits(least=2**62)


def land(spark: SparkSession, folder: Path, number: int, keys: int, share: float) -> None:
    """Let the files of a day arrive: of the first one all history, of another a row for a share of the keys."""
    branches = max(keys // 10, 10)
    ids = spark.range(0, keys * ROWS_OF_A_KEY) if number == 0 else spark.range(number, keys, round(1 / share))
    day = f"id div {keys} * 100 + abs(hash(id)) % 50" if number == 0 else f"1000 + {number}"
    accounts = ids.selectExpr(
        f"id % {keys} AS id",
        f"cast(abs(hash(id, {number})) % {branches} AS BIGINT) AS branch",
        f"cast(abs(hash(id, {number}, 1)) % {branches} AS BIGINT) AS former",
        f"concat('name-', abs(hash(id, {number}, 2)) % 100000) AS name",
        f"cast(abs(hash(id, {number}, 3)) % 1000000 AS double) / 100 AS amount",
        f"timestamp'2008-01-01 00:00:00Z' + make_dt_interval(cast({day} AS INT)) AS at",
    )
    some = spark.range(0, branches * 8) if number == 0 else spark.range(number, branches, round(1 / share))
    told = some.selectExpr(
        f"id % {branches} AS branch",
        f"concat('town-', abs(hash(id, {number})) % 500) AS town",
        f"concat('boss-', abs(hash(id, {number}, 1)) % 5000) AS boss",
        "timestamp'2008-01-01 00:00:00Z' + make_dt_interval(cast("
        + (f"id div {branches} * 60" if number == 0 else f"1000 + {number}")
        + " AS INT)) AS at",
    )
    stamp = f"{START + (number + 1) * DAY - timedelta(seconds=1):%Y_%m_%d_%H_%M_%S}"
    for source, rows in (("accounts", accounts), ("branches", told)):
        place, scratch = folder / "data" / "bank" / source, folder / "scratch"
        place.mkdir(parents=True, exist_ok=True)
        rows.coalesce(1).write.mode("overwrite").parquet(str(scratch))
        next(scratch.glob("part-*.parquet")).rename(place / f"bank_{source}_{stamp}.parquet")


def declare(folder: Path) -> Path:
    (folder / "flows").mkdir(parents=True)
    header = HEADER.replace('connections.shop = { path = "../shop.sqlite" }', 'connections.landing = { path = "data" }')
    (folder / "waterclock.toml").write_text(header, encoding="utf-8")
    (folder / "flows" / "flat.dpl").write_text(FLOW, encoding="utf-8")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=300_000, help="accounts (300,000)")
    parser.add_argument("--share", type=float, default=0.01, help="of them that change a day (0.01)")
    parser.add_argument("--rounds", type=int, default=3, help="days of each side (3)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        project = Project(spark, declare(Path(name, "project")), 1)
        sides = {"kept up": carry_over.LIMITS, "made whole": WHOLE}
        found: dict[str, list[Cost]] = {side: [] for side in sides}
        for number in range(1 + len(sides) * (asked.rounds + 1)):
            side = list(sides)[number % len(sides)]
            carry_over.LIMITS = sides[side]
            land(spark, project.folder, number, asked.keys, asked.share)
            project.clock.batches.clear()
            project.run(START + (number + 1) * DAY, START + (number + 1) * DAY)
            cost = next(batch.cost for batch in project.clock.batches if batch.table == "flat.accounts")
            if number > len(sides):  # the first day is made whole by either, and one of each warms up
                found[side].append(cost)
        rows = spark.read.format("delta").load(project.table("flat.accounts")).count()
        middles = {side: middle(costs) for side, costs in found.items()}
        whole = middles["made whole"]
        lines = [
            [
                side,
                f"{cost.cpu:.2f}",
                f"{cost.wall:.2f}",
                ratio(cost.cpu, whole.cpu),
                ratio(cost.wall, whole.wall),
                cost.jobs,
            ]
            for side, cost in middles.items()
        ]
        print(f"A day of a FLAT table of {rows:,} rows, in which {asked.share:.0%} of {asked.keys:,} keys change:\n")
        print(grid(["", "CPU s", "wall s", "CPU of whole", "wall of whole", "jobs"], lines))
        require_right(project)


def require_right(project: Project) -> None:
    """Hold what was kept up against all rows made again: the digests tell."""
    ledger = project.work.ledger
    before = ledger.newest("flat.accounts")
    carry_over.LIMITS = WHOLE
    if before is None:
        sys.exit("flat.accounts has no batch")
    ledger.request_restate("flat.accounts", [before.label], "recompute", who="the benchmark")
    project.run(before.end, before.end)
    after = ledger.newest("flat.accounts")
    if after is None or after.claim == before.claim or after.digest != before.digest:
        sys.exit(f"kept up {before.digest}, made whole {after.digest if after else None}")


if __name__ == "__main__":
    main()
