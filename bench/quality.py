"""Measures twenty row rules, against a plain copy and a hand-written write that splits rows in one pass.

Transforms copy a table of some million rows, one slice each: without rules, with twenty rules that warn, with twenty
that quarantine (one row in a thousand, and none), and with twenty after a shuffle. By hand: the write alone, and a mask
with `partitionBy` and a count by mask. Great Expectations validates the same rows and writes nothing. It is left out
unless it is installed (`pip install great_expectations`).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from big_slice import make_source
from measure import Cost, cost_of, grid, interleaved, middle, ratio
from product import Project, warm_spark

from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HEADER = """\
[project]
name = "quality"

[defaults]
start = "2013-01-01"

[env.dev]
storage = ".waterclock"
connections.landing = { path = "new" }
"""
COLUMNS = ("id", "customer", "amount", "page", "country", "at", "kind", "token")
RULES = [
    *(f"{name} IS NOT NULL" for name in COLUMNS),
    "customer >= 0", "customer < 100003", "amount > -10000", "amount < 10000", "kind BETWEEN 0 AND 6", "id >= 0",
    "country IN ('de', 'fr', 'us', 'in', 'br')", "kind IN (0, 1, 2, 3, 4, 5, 6)", "page RLIKE '^page--?[0-9]+$'",
    "token RLIKE '^[0-9a-f]{40}$'", "length(token) = 40",
]  # fmt: skip
SOME, NONE = "id % 1000 != 7", "id >= -1"
ROWS, SHUFFLED = "SELECT * FROM raw.events", "SELECT * FROM raw.events DISTRIBUTE BY customer"


def _expects(otherwise: str, last: str) -> str:
    said = (f"{rule} AS r{at} ELSE {otherwise}" for at, rule in enumerate([*RULES, last]))
    return f"EXPECT {', '.join(said)} "


TABLES = {
    "a copy": ("mart.bare", "", ROWS),
    "20 rules, WARN": ("mart.warned", _expects("WARN", NONE), ROWS),
    "20 rules, QUARANTINE, none quarantined": ("mart.held", _expects("QUARANTINE", NONE), ROWS),
    "20 rules, QUARANTINE, 1 in 1,000": ("mart.aside", _expects("QUARANTINE", SOME), ROWS),
    "20 rules, DROP, 1 in 1,000": ("mart.dropped", _expects("DROP", SOME), ROWS),
    "a copy, shuffled": ("mart.shuffled", "", SHUFFLED),
    "20 rules, QUARANTINE, shuffled": ("mart.aside_shuffled", _expects("QUARANTINE", SOME), SHUFFLED),
}


def flow() -> str:
    said = [f"TRANSFORM {name} PARTITIONED {rules}AS {query};" for name, rules, query in TABLES.values()]
    collect = "COLLECT raw.events PARTITIONED FROM landing.web.events EVERY DAY BY ARRIVAL TIME;"
    return "\n".join(["CREATE CONNECTION landing TYPE files;", collect, *said])


def ours(project: Project, spark: SparkSession, name: str, index: int) -> Cost:
    now = START + (index + 1) * DAY
    run = Runner(project.work, only=[TABLES[name][0]])

    def work() -> None:
        if failed := run.run_once(now).failed:
            sys.exit("\n".join(report.error.render() for report in failed if report.error))

    return cost_of(work, spark)


def written(spark: SparkSession, folder: Path, source: Path, index: int) -> Cost:
    rows = spark.read.parquet(str(source))
    return cost_of(lambda: rows.write.parquet(str(folder / f"plain{index}")), spark)


def parted(spark: SparkSession, folder: Path, source: Path, index: int) -> Cost:
    """Split rows as a careful engineer does by hand: a mask column, one write, and a count of the result by mask."""
    bits = " | ".join(f"CASE WHEN {rule} THEN 0L ELSE {1 << at}L END" for at, rule in enumerate([*RULES, SOME]))

    def work() -> None:
        rows = spark.read.parquet(str(source)).selectExpr("*", f"{bits} AS mask").selectExpr("*", "mask != 0 AS bad")
        where = str(folder / f"parted{index}")
        rows.write.partitionBy("bad").parquet(where)
        spark.read.parquet(where).groupBy("mask").count().collect()

    return cost_of(work, spark)


def great_expectations(spark: SparkSession, source: Path, index: int, *, result_format: str) -> Cost:
    """Validate the rows with twenty expectations of Great Expectations. Nothing is written."""
    import great_expectations as gx
    import great_expectations.expectations as gxe

    del index
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark(name="spark").add_dataframe_asset(name="events")
    batch = asset.add_batch_definition_whole_dataframe("all")
    rules = [
        *(gxe.ExpectColumnValuesToNotBeNull(column=name) for name in COLUMNS),
        gxe.ExpectColumnValuesToBeBetween(column="customer", min_value=0),
        gxe.ExpectColumnValuesToBeBetween(column="customer", max_value=100003, strict_max=True),
        gxe.ExpectColumnValuesToBeBetween(column="amount", min_value=-10000, strict_min=True),
        gxe.ExpectColumnValuesToBeBetween(column="amount", max_value=10000, strict_max=True),
        gxe.ExpectColumnValuesToBeBetween(column="kind", min_value=0, max_value=6),
        gxe.ExpectColumnValuesToBeBetween(column="id", min_value=0),
        gxe.ExpectColumnValuesToBeInSet(column="country", value_set=["de", "fr", "us", "in", "br"]),
        gxe.ExpectColumnValuesToBeInSet(column="kind", value_set=[0, 1, 2, 3, 4, 5, 6]),
        gxe.ExpectColumnValuesToMatchRegex(column="page", regex="^page--?[0-9]+$"),
        gxe.ExpectColumnValuesToMatchRegex(column="token", regex="^[0-9a-f]{40}$"),
        gxe.ExpectColumnValueLengthsToEqual(column="token", value=40),
        gxe.ExpectColumnValuesToBeBetween(column="id", min_value=-1),
    ]
    suite = context.suites.add(gx.ExpectationSuite(name="rules", expectations=rules))
    definition = gx.ValidationDefinition(data=batch, suite=suite, name="rules")

    def work() -> None:
        rows = spark.read.parquet(str(source))
        found = context.validation_definitions.add(definition).run(
            batch_parameters={"dataframe": rows}, result_format=result_format
        )
        rows.unpersist()
        if not found.success:
            sys.exit(f"{found}")

    return cost_of(work, spark)


def collect(project: Project, folder: Path, source: Path, days: int) -> None:
    landing = folder / "new" / "web" / "events"
    landing.mkdir(parents=True)
    for index in range(days):
        end = START + (index + 1) * DAY - timedelta(seconds=1)
        os.link(source, landing / f"web_events_{end:%Y_%m_%d_%H_%M_%S}.parquet")
    for index in range(days):
        now = START + (index + 1) * DAY
        apply_flow(project.work, now)
        if failed := Runner(project.work, only=["raw.events"]).run_once(now).failed:
            sys.exit(f"{failed[0].error}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="slices measured (3)")
    parser.add_argument("--minutes", type=float, default=8, help="begin no round after these (8)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        folder = Path(name)
        source = make_source(spark, folder, asked.rows)
        (folder / "ours" / "flows").mkdir(parents=True)
        (folder / "ours" / "waterclock.toml").write_text(HEADER, encoding="utf-8")
        (folder / "ours" / "flows" / "quality.dpl").write_text(flow(), encoding="utf-8")
        project = Project(spark, folder / "ours", 1)
        collect(project, folder / "ours", source, asked.rounds + 1)
        sides: dict[str, Callable[[int], Cost]] = {side: partial(ours, project, spark, side) for side in TABLES}
        sides["by hand: the write"] = partial(written, spark, folder, source)
        sides["by hand: 20 rules, rows split"] = partial(parted, spark, folder, source)
        if find_spec("great_expectations"):
            for told, form in (("with counts", "SUMMARY"), ("yes or no", "BOOLEAN_ONLY")):
                side = f"Great Expectations: 20, {told}, nothing written"
                sides[side] = partial(great_expectations, spark, source, result_format=form)
        found = interleaved(sides, asked.rounds, warm=1, minutes=asked.minutes)
        project.close()
    middles = {side: middle(costs) for side, costs in found.items()}
    bare, shuffled, hand = (
        middles[side].cpu for side in ("a copy", "a copy, shuffled", "by hand: 20 rules, rows split")
    )
    print(f"{asked.rows:,} rows per slice; medians of {len(found['a copy'])} slices, after one to warm up.\n")
    rows = [
        [side, f"{cost.cpu:.1f}", f"{cost.wall:.1f}",
         ratio(cost.cpu, shuffled if "shuffled" in side else bare), ratio(cost.cpu, hand), cost.jobs]
        for side, cost in middles.items()
    ]  # fmt: skip
    print(grid(["", "CPU s", "wall s", "CPU / copy", "CPU / by hand", "jobs"], rows))


if __name__ == "__main__":
    main()
