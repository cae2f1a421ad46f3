"""Measures the flights flow against the same tables by a hand-written script, day by day in turns.

Waterclock runs with one thread, as the script does, and separately with its default number of threads. All use the same
Spark session and confs. The weather of each hour is a batch on all sides. The script is bench/flights_by_hand.py, in
its three variants.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import flights_by_hand
from measure import Cost, cost_of, grid, interleaved, middle, ratio
from product import Project, warm_spark

from examples.flights import make_data
from waterclock.engine.run_settings import RunSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = Path(make_data.__file__).parent
HOUR = timedelta(hours=1)
CHECKED = ("marts.carrier_summary", "marts.hours_flown", "marts.plane_use")


@dataclass(slots=True)
class Side:
    """One side of the comparison: a function that runs a day, and the cost of each day by table."""

    run_day: Callable[[date], dict[str, Cost]]
    folder: Callable[[str], str]
    days: list[dict[str, Cost]] = field(default_factory=list)
    close: Callable[[], None] = lambda: None


def by_hand(spark: SparkSession, data: Path, work: Path, *, is_idempotent: bool, is_dynamic: bool = False) -> Side:
    def run_day(day: date) -> dict[str, Cost]:
        by_table: dict[str, Cost] = defaultdict(Cost)
        ways = {"is_idempotent": is_idempotent, "is_dynamic": is_dynamic}
        for timing in flights_by_hand.run(spark, data, work, [day], **ways):
            by_table[timing.table] += Cost(timing.wall, timing.cpu)
        return by_table

    return Side(run_day, lambda table: str(work / "tables" / table.replace(".", "/")))


def ours(spark: SparkSession, data: Path, folder: Path, threads: int) -> Side:
    # the others keep no versions
    shutil.copytree(FLOW / "flows", folder / "flows", ignore=shutil.ignore_patterns("history.dpl"))
    shutil.copy(FLOW / "waterclock.toml", folder)
    (folder / "data").mkdir()
    shutil.copy(data / "ops.sqlite", folder / "data")
    project = Project(spark, folder, threads)

    def run_day(day: date) -> dict[str, Cost]:
        start, end = make_data.day_start(day), make_data.day_start(day + timedelta(days=1))
        seen = len(project.clock.batches)
        project.run(start + HOUR, end)
        by_table: dict[str, Cost] = defaultdict(Cost)
        for batch in project.clock.batches[seen:]:
            by_table[batch.table] += batch.cost
        return by_table

    return Side(run_day, project.table, close=project.close)


def land(data: Path, landing: Path, day: date) -> None:
    """Copy the files of one day into our own landing folder, because a collect moves files to the archive."""
    start, end = make_data.day_start(day), make_data.day_start(day + timedelta(days=1))
    for file in (data / "new").rglob("*.csv.gz"):
        stamp = datetime.strptime(file.name[: -len(".csv.gz")][-19:], "%Y_%m_%d_%H_%M_%S").replace(tzinfo=UTC)
        if start <= stamp < end:
            target = landing / file.relative_to(data)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=10, help="days measured (10)")
    parser.add_argument("--warm", type=int, default=2, help="days before them (2)")
    parser.add_argument("--minutes", type=float, default=20, help="begin no day after these (20)")
    parser.add_argument("--one-thread", action="store_true", help="leave out ours with its default threads")
    asked = parser.parse_args()
    days = [make_data.FIRST_DAY + timedelta(days=n) for n in range(asked.warm + asked.days)]
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        folder = Path(name)
        data = folder / "source"
        make_data.put_days(data, days[0], len(days))
        default = RunSettings().threads
        sides = {
            "ours": ours(spark, data, folder / "ours", 1),
            "idempotent": by_hand(spark, data, folder / "idempotent", is_idempotent=True),
            "plain": by_hand(spark, data, folder / "plain", is_idempotent=False),
            "dynamic": by_hand(spark, data, folder / "dynamic", is_idempotent=True, is_dynamic=True),
        }
        if not asked.one_thread:
            sides["threaded"] = ours(spark, data, folder / "threaded", default)
        totals = interleaved(
            {name: partial(_day, spark, side, data, folder / name, days) for name, side in sides.items()},
            asked.days,
            warm=asked.warm,
            minutes=asked.minutes,
        )
        _require_equal(spark, sides)
        _print(sides, totals, asked.warm, default)
        for side in sides.values():
            side.close()


def _day(spark: SparkSession, side: Side, data: Path, folder: Path, days: list[date], index: int) -> Cost:
    if (folder / "waterclock.toml").exists():
        land(data, folder / "data", days[index])
    before: dict[str, Cost] = {}
    cost = cost_of(lambda: before.update(side.run_day(days[index])), spark)
    side.days.append(before)
    print(f"{days[index]} {folder.name}: {cost.wall:.1f} s, {cost.cpu:.1f} s of CPU, {cost.jobs} jobs", file=sys.stderr)
    return cost


def _require_equal(spark: SparkSession, sides: dict[str, Side]) -> None:
    """Stop if the sides have different results, because a comparison would be meaningless."""
    for table in CHECKED:
        frames = {name: spark.read.format("delta").load(side.folder(table)) for name, side in sides.items()}
        columns = [column for column in frames["plain"].columns if column != "timelabel"]
        rows = {name: sorted(map(str, frame.select(columns).collect())) for name, frame in frames.items()}
        for name, found in rows.items():
            if found != rows["plain"]:
                sys.exit(f"{table} of {name} is not that of the plain script")


def _print(sides: dict[str, Side], totals: dict[str, list[Cost]], warm: int, threads: int) -> None:
    names = [*dict.fromkeys(table for side in sides.values() for table in side.days[0])]
    by_table = {
        name: {table: middle([day.get(table, Cost()) for day in side.days[warm:]]) for table in names}
        for name, side in sides.items()
    }
    print(
        f"Days measured: {len(totals['ours'])} (medians), after {warm} to warm up. (a) `replaceWhere` and MERGE, "
        "(b) appends and overwrites. All with one thread; the results were compared and are equal.\n"
    )
    rows = [_row(table, *(by_table[name][table] for name in ("ours", "idempotent", "plain"))) for table in names]
    whole = {name: middle(costs) for name, costs in totals.items()}
    spent = {name: [sum(by_day.values(), Cost()) for by_day in side.days[warm:]] for name, side in sides.items()}
    between = [day - own for day, own in zip(totals["ours"], spent["ours"], strict=True)]
    rows.append(
        [
            "planning, between batches",
            f"{middle(between).cpu:.2f}",
            "",
            "",
            "",
            "",
            f"{middle(between).wall:.2f}",
            "",
            "",
            "",
            "",
        ]
    )
    rows.append(_row("**a day**", whole["ours"], whole["idempotent"], whole["plain"]))
    head = [
        "table",
        *(f"{unit} {name}" for unit in ("CPU s", "wall s") for name in ("ours", "(a)", "(b)", "ours/(a)", "ours/(b)")),
    ]
    print(grid(head, rows))
    jobs = ", ".join(
        f"{side} {whole[name].jobs}" for side, name in (("ours", "ours"), ("(a)", "idempotent"), ("(b)", "plain"))
    )
    print(f"\nSpark jobs per day: {jobs}.")
    third = whole["dynamic"]
    print(
        f"\n(c) is (a) with dynamic partition overwrite: {third.cpu:.2f} s of CPU, "
        f"{third.wall:.2f} s of wall time per day, {third.jobs} jobs: "
        f"ours {ratio(whole['ours'].cpu, third.cpu)} of its CPU, "
        f"{ratio(whole['ours'].wall, third.wall)} of its wall."
    )
    if "threaded" in whole:
        one = whole["threaded"]
        print(
            f"Ours with its {threads} threads: {one.cpu:.2f} s of CPU, {one.wall:.2f} s of wall time per day: wall "
            f"{ratio(one.wall, whole['idempotent'].wall)} of (a), {ratio(one.wall, whole['plain'].wall)} of (b), "
            f"{ratio(one.wall, whole['ours'].wall)} of ours with one."
        )


def _row(name: str, mine: Cost, first: Cost, second: Cost) -> list[str]:
    row = [name]
    for unit in ("cpu", "wall"):
        a, b, c = (getattr(cost, unit) for cost in (mine, first, second))
        row += [f"{a:.2f}", f"{b:.2f}", f"{c:.2f}", ratio(a, b), ratio(a, c)]
    return row


if __name__ == "__main__":
    main()
