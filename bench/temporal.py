"""Measures temporal functions against DuckDB and Polars on the same Parquet files, with two cores, writing nothing.

Spark writes to its `noop` sink, DuckDB computes the maximum of every column, Polars collects in memory. The results are
first compared with DuckDB's. *hot*: one key has 20 % of the rows and versions. *burst*: in addition, 95 % of these are
within one hour.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import temporal_peers as peers  # before Polars, because it sets the number of its threads
from flights_by_hand import family
from measure import Cost, cost_of, grid, interleaved, middle, ratio
from product import warm_spark
from temporal_data import FIRST, SPAN, Sizes, write_all, write_even

from waterclock.temporal import (
    Counts,
    FrameStatistics,
    compute_temporal,
    denorm_temporal,
    denorm_transactional,
    format_attribute,
    measure_temporal,
)
from waterclock.temporal.plans import LIMITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work = Callable[..., Any]
# cases that are compared with another case of ours, and the highest ratio to it
OWN: Mapping[str, tuple[str, float | None]] = {
    "… deletes": ("compute_temporal", 1.3),
    "… track": ("compute_temporal", 1.3),
    "… hot": ("compute_temporal", None),
    "… hot key": ("denorm_transactional", 1.6),
    "… burst": ("denorm_transactional", 1.6),
    "… no numbers": ("denorm_transactional", None),
    "… many versions": ("denorm_transactional", None),
}


class Bench:
    """The data of one size, and the work of each side on it."""

    def __init__(self, spark: SparkSession, folder: Path, only: Sequence[str] = ()) -> None:
        self._spark = spark
        self._only = only
        self._folder = folder
        self._numbers: dict[str, FrameStatistics] = {}

    def frame(self, name: str) -> DataFrame:
        return self._spark.read.parquet(str(self._folder / f"{name}.parquet"))

    def numbers(self, kind: str) -> FrameStatistics:
        """Return the numbers that were recorded when the parent was written."""
        if kind not in self._numbers:
            self._numbers[kind] = measure_temporal(self.frame(f"parent_{kind}"), "p")
        return self._numbers[kind]

    def versions(self, kind: str = "even", **said: object) -> DataFrame:
        raw = self.frame(f"raw_{kind}")
        raw = raw if "delete_when" in said else raw.drop("gone")
        return compute_temporal(raw, "k", time="t", counts=Counts(), **said)  # type: ignore[arg-type]

    def sorted_raw(self) -> DataFrame:
        raw = self.frame("raw_even").drop("gone")
        order = [name for name in raw.columns if name not in {"k", "t"}]
        return raw.repartition("k").sortWithinPartitions("k", "t", *order)

    def facts(self, kind: str = "even", *, numbers: FrameStatistics | str | None = "recorded") -> DataFrame:
        numbers = self.numbers(kind) if isinstance(numbers, str) else numbers
        args = (self.frame(f"facts_{kind}"), "p", "at", self.frame(f"parent_{kind}"), "p", "then")
        return denorm_transactional(*args, numbers=numbers)

    def children(self, *, exact: bool) -> DataFrame:
        parent = self.frame("parent_even")
        return denorm_temporal(self.frame("child"), "p", parent, "p", "then", exact=exact, numbers=self.numbers("even"))

    def texts(self) -> DataFrame:
        return self.frame("texts").select(format_attribute("a", "upper").alias("a"))

    def sides(self) -> dict[str, dict[str, tuple[Work, float | None]]]:
        """Return the sides of each requested case."""
        return {case: sides for case, sides in self._sides().items() if not self._only or case in self._only}

    def _sides(self) -> dict[str, dict[str, tuple[Work, float | None]]]:
        """Return the sides of each case: the work, and the highest acceptable ratio of our cost to it."""
        duck, folder = partial(peers.by_duckdb, folder=self._folder), self._folder
        as_of = partial(duck, peers.AS_OF, child="facts_even", time="at", kind="even")
        return {
            "compute_temporal": {
                "ours": (sunk(self.versions), None),
                "own sort": (sunk(self.sorted_raw), 2.2),
                "DuckDB": (partial(duck, peers.VERSIONS, kind="even"), 2.7),
                "Polars": (partial(peers.polars_versions, folder, "even"), None),
            },
            "… hot": {"ours": (sunk(partial(self.versions, "hot")), None)},
            "… deletes": {"ours": (sunk(partial(self.versions, delete_when="gone")), None)},
            "… track": {"ours": (sunk(partial(self.versions, track=["name", "city"])), None)},
            "denorm_transactional": {
                "ours": (sunk(self.facts), None),
                "DuckDB": (as_of, 2.1),
                "Polars": (partial(peers.polars_as_of, folder, "facts_even", "at", "even"), None),
            },
            "… hot key": {
                "ours": (sunk(partial(self.facts, "hot")), None),
                "DuckDB": (partial(duck, peers.AS_OF, child="facts_hot", time="at", kind="hot"), None),
            },
            "… burst": {
                "ours": (sunk(partial(self.facts, "burst")), None),
                "DuckDB": (partial(duck, peers.AS_OF, child="facts_burst", time="at", kind="burst"), None),
            },
            "… no numbers": {"ours": (sunk(partial(self.facts, numbers=None)), None)},
            "… many versions": {
                "ours": (sunk(partial(self.facts, "often")), None),
                "DuckDB": (partial(duck, peers.AS_OF, child="facts_often", time="at", kind="often"), None),
            },
            "denorm_temporal": {
                "ours": (sunk(partial(self.children, exact=False)), None),
                "DuckDB": (partial(duck, peers.AS_OF, child="child", time="rec_eff_time", kind="even"), 2.4),
                "Polars": (partial(peers.polars_as_of, folder, "child", "rec_eff_time", "even"), None),
            },
            "… exact": {
                "ours": (sunk(partial(self.children, exact=True)), None),
                "DuckDB": (partial(duck, peers.EXACT), 2.5),
            },
            "format_attribute": {
                "ours": (sunk(self.texts), None),
                "DuckDB": (partial(duck, peers.TEXTS), 1.5),
                "Polars": (partial(peers.polars_texts, folder), None),
            },
        }

    def compare(self) -> None:
        """Stop if our results differ from DuckDB's in the number of rows or the values of a column."""
        ours = {
            "compute_temporal": self.versions(),
            "denorm_transactional": self.facts(),
            "… hot key": self.facts("hot"),
            "… burst": self.facts("burst"),
            "… no numbers": self.facts(numbers=None),
            "… many versions": self.facts("often"),
            "denorm_temporal": self.children(exact=False),
            "… exact": self.children(exact=True),
            "format_attribute": self.texts(),
        }
        sides = self._sides()
        for case, df in ours.items():
            if self._only and case not in self._only:
                continue
            theirs = sides["denorm_transactional" if case == "… no numbers" else case]["DuckDB"][0](aggregate="count")
            mine = counted(df)
            if {name: mine[name] for name in theirs} != theirs:
                sys.exit(f"{case}: ours {mine}, DuckDB's {theirs}")


def counted(df: DataFrame) -> dict[str, int]:
    from pyspark.sql import functions as sql

    counts = [sql.count(name).alias(name) for name in df.columns]
    row = df.agg(*counts, sql.count(sql.lit(1)).alias("rows")).collect()[0]
    return {str(name): int(value) for name, value in row.asDict().items()}


def sunk(made: Callable[[], DataFrame]) -> Work:
    return lambda: made().write.format("noop").mode("overwrite").save()


def peak(work: Work, peaks: list[float], *, is_spark: bool) -> Cost:
    """Run the work, and record the peak memory of its process (the JVM or this one) in GiB."""
    for process in family():
        with suppress(OSError):
            Path(f"/proc/{process}/clear_refs").write_text("5", encoding="ascii")
    cost = cost_of(work)
    peaks.append(max(_high_water(process) for process in (family()[1:] if is_spark else family()[:1])) / 2**20)
    return cost


def _high_water(process: int) -> int:
    with suppress(OSError, StopIteration, ValueError):
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return 0


def measured(bench: Bench, asked: argparse.Namespace) -> dict[tuple[str, str], tuple[Cost, float]]:
    """Return the median cost and the peak memory of every side of every case."""
    found: dict[tuple[str, str], tuple[Cost, float]] = {}
    for case, sides in bench.sides().items():
        peaks: dict[str, list[float]] = {side: [] for side in sides}
        is_spark = {side: side not in {"DuckDB", "Polars"} for side in sides}
        works = {side: partial(_once, work, peaks[side], is_spark[side]) for side, (work, _) in sides.items()}
        for work in [work for side, (work, _) in sides.items() if is_spark[side]] * (asked.warm - 1):
            work()
        costs = interleaved(works, asked.rounds, warm=1, minutes=asked.minutes)
        found |= {(case, side): (middle(costs[side]), max(peaks[side])) for side in sides}
        print(f"{case}: done", file=sys.stderr, flush=True)
    return found


def _once(work: Work, peaks: list[float], is_spark: bool, _index: int) -> Cost:  # noqa: FBT001 - bound above
    return peak(work, peaks, is_spark=is_spark)


def table(bench: Bench, found: Mapping[tuple[str, str], tuple[Cost, float]]) -> str:
    rows = []
    for case, sides in bench.sides().items():
        mine = found[case, "ours"][0]
        for side, (_, gate) in sides.items():
            cost, memory = found[case, side]
            beside, most = OWN.get(case, (None, None)) if side == "ours" else (None, gate)
            told = "" if side == "ours" else ratio(mine.cpu, cost.cpu)
            if beside in bench.sides():
                told = f"{ratio(cost.cpu, found[beside, 'ours'][0].cpu)} of even"
            limit = "" if most is None else f"{most}×"
            rows.append([case, side, f"{cost.cpu:.1f}", f"{cost.wall:.1f}", told, limit, f"{memory:.1f}"])
    return grid(["", "side", "CPU s", "wall s", "ours / side, CPU", "gate", "peak GiB"], rows)


def growth(spark: SparkSession, folder: Path, rows: int, rounds: int) -> str:
    """Return the cost for 1, 2 and 4 times the rows."""
    lines = []
    benches = {times: Bench(spark, folder / f"x{times}") for times in (1, 2, 4)}
    for times, bench in benches.items():
        write_all(folder / f"x{times}", Sizes(rows * times))
        bench.numbers("even")
    for name, made in (("compute_temporal", Bench.versions), ("denorm_transactional", Bench.facts)):
        works = {str(times): partial(_alone, sunk(partial(made, bench))) for times, bench in benches.items()}
        costs = {side: middle(found).cpu for side, found in interleaved(works, rounds, warm=1).items()}
        cells = [f"{costs[str(times)]:.1f}" for times in benches]
        lines.append([name, *cells, ratio(costs["4"], costs["1"]), "4.3×"])
    return grid(["", f"{rows:,} rows", "2×", "4×", "4× / 1×", "gate"], lines)


def calibration(spark: SparkSession, folder: Path, sizes: Sizes, rounds: int) -> str:
    """Return the cost of each plan by versions per key, then by size of the parents. Given counts force the plan."""
    plans: dict[str, FrameStatistics | None] = {
        "broadcast": FrameStatistics(10, 1, 2, 0),
        "hash": FrameStatistics(10**7, 10**5, 2, 0),
        "buckets": None,  # set below to the number of versions of a key
        "slices": FrameStatistics(10**7, 10**5, 5000, 10),
        "window": None,
    }
    by_key = [(f"{many} of a key", sizes.versions, many) for many in (16, 32, 64, 128, 256)]
    by_size = [(f"{versions:,}, 8 of a key", versions, 8) for versions in (10_000, 25_000, 50_000, 100_000)]
    by_both = [(f"{versions:,}, 64 of a key", versions, 64) for versions in (10_000, 25_000)]
    lines: list[list[str]] = []
    for said, versions, many in by_key + by_size + by_both:
        place = folder / f"v{versions}_{many}"
        write_even(place, versions, versions // many, sizes.facts)
        bench = Bench(spark, place)
        plans["buckets"] = FrameStatistics(10**7, 10**7 // max(many, LIMITS.bucketed), 100, 0, FIRST, FIRST + SPAN)
        works = {name: partial(_alone, sunk(partial(bench.facts, numbers=plans[name]))) for name in plans}
        if versions < sizes.versions:  # small enough for both plans
            works = {name: works[name] for name in ("broadcast", "hash")}
        costs = {name: middle(found) for name, found in interleaved(works, rounds, warm=1 if lines else 5).items()}
        lines.append([said, *(f"{costs[name].cpu:.2f}" if name in costs else "" for name in plans)])
        print(f"{said}: done", file=sys.stderr, flush=True)
    return grid(["versions", *(f"{name}, CPU s" for name in plans)], lines)


def _alone(work: Work, _index: int) -> Cost:
    return cost_of(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="raw rows; facts are twice as many (5,000,000)")
    parser.add_argument(
        "--only", nargs="*", default=(), metavar="CASE", help="some of the cases, as the table calls them"
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (3)")
    parser.add_argument("--warm", type=int, default=5, help="runs of Spark's sides before; the JVM's compiler asks (5)")
    parser.add_argument("--minutes", type=float, default=5, help="begin no round of a case after these, warm (5)")
    parser.add_argument("--no-growth", action="store_true", help="leave out 1×, 2× and 4× the rows")
    parser.add_argument("--calibrate", action="store_true", help="instead: each plan by the versions of a key")
    parser.add_argument("--memory", default="6g", help="heap of Spark (6g)")
    asked = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: peers.CORES])
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name), {"spark.driver.memory": asked.memory}) as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "16")
        folder, sizes = Path(name) / "data", Sizes(asked.rows)
        if asked.calibrate:
            print(f"{sizes.versions:,} versions unless said, {sizes.facts:,} facts; medians of {asked.rounds}.\n")
            print(calibration(spark, folder, sizes, asked.rounds))
            return
        write_all(folder, sizes)
        bench = Bench(spark, folder, asked.only)
        bench.compare()
        found = measured(bench, asked)
        print(
            f"{sizes.raw:,} raw rows of {sizes.keys:,} keys; {sizes.facts:,} facts and {sizes.children:,} versions × "
            f"{sizes.versions:,} versions of {sizes.parents:,} parents; medians of {asked.rounds} runs. The "
            "results were compared and are equal.\n"
        )
        print(table(bench, found))
        if not asked.no_growth:
            print(f"\n{growth(spark, folder, max(asked.rows // 4, 1000), asked.rounds)}")


if __name__ == "__main__":
    main()
