"""Measures wall time and CPU of work in this process and its JVM, or of a process, and formats Markdown tables."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from flights_by_hand import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds, and the number of Spark jobs if they were counted. CPU is user and system, of Python and the JVM."""

    wall: float = 0.0
    cpu: float = 0.0
    jobs: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu, self.jobs + other.jobs)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.cpu - other.cpu, self.jobs - other.jobs)


def now(spark: SparkSession | None = None) -> Cost:
    """Read the clocks. The difference of two readings is a cost."""
    return Cost(time.perf_counter(), cpu_seconds(), 0 if spark is None else jobs_so_far(spark))


def jobs_so_far(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())  # noqa: SLF001


def cost_of(work: Callable[[], object], spark: SparkSession | None = None) -> Cost:
    before = now(spark)
    work()
    return now(spark) - before


def cost_of_process(command: Sequence[str]) -> Cost:
    return run_process(command)[1]


def run_process(command: Sequence[str], *, folder: Path | None = None, codes: Sequence[int] = (0,)) -> tuple[str, Cost]:
    """Run a command. Return its output and its cost. Any exit code that is not in `codes` ends this process."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(command)} gave {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout, Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def interleaved(
    variants: Mapping[str, Callable[[int], Cost]], rounds: int, *, warm: int = 0, minutes: float = 60
) -> dict[str, list[Cost]]:
    """Run every variant once per round, in turns: A B C, B C A, C A B. The first `warm` rounds do not count.

    No round starts after `minutes`, so that a busy machine ends with fewer rounds instead of none.
    """
    begun = time.perf_counter()
    names = list(variants)
    found: dict[str, list[Cost]] = {name: [] for name in names}
    for index in range(warm + rounds):
        if index > warm and time.perf_counter() - begun > 60 * minutes:
            break
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            cost = variants[name](index)
            if index >= warm:
                found[name].append(cost)
    return found


def middle(costs: Iterable[Cost]) -> Cost:
    """Return the medians of wall time, CPU and jobs."""
    kept = list(costs)
    return Cost(
        median(cost.wall for cost in kept), median(cost.cpu for cost in kept), int(median(cost.jobs for cost in kept))
    )


class ClockOfServer:
    """Reads the CPU time of a PostgreSQL server's processes, which the cost of this process does not include."""

    def __init__(self, folder: Path) -> None:
        self._pid = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])

    def seconds(self) -> float:
        """Return the user and system seconds of all processes of the server, including those that have ended."""
        total = 0.0
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self._pid or path.parent.name == str(self._pid):
                total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return total


def ratio(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2f}×" if theirs > 0 else "–"


def grid(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table, the first column aligned left and the others right."""
    texts = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[at]) for row in texts) for at in range(len(head))]
    lines = [
        "| "
        + " | ".join(
            cell.ljust(w) if at == 0 else cell.rjust(w) for at, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in texts
    ]
    rule = "|" + "|".join("-" * (w + 1) + ("-" if at == 0 else ":") for at, w in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
