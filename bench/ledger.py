"""Measures the ledger: claim and record per batch, opening, and snapshots of many tables.

    python bench/ledger.py [--batches 500] [--rounds 5]

Wall and CPU milliseconds of this process, as medians over rounds, for a SQLite file in a temporary folder (TMPDIR
chooses the disk), and for a PostgreSQL server on loopback, whose own CPU is not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from measure import grid

from tests.postgres import server
from waterclock.batches.records import BatchResult, ClaimRequest
from waterclock.flow.declarations import Flow, Place, Read, Table
from waterclock.flow.enums import Kind, Mode, TableType
from waterclock.ledger.ledger import Ledger
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import parse_period

START = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
DIGEST = "1000:123456789012:210987654321"
KINDS = ("SQLite", "PostgreSQL")
KIND = [KINDS[0]]  # the kind that is being measured


def declare(name: str, *reads: str, mode: Mode = Mode.APPEND) -> Table:
    return Table(
        name=name,
        kind=Kind.TRANSFORM,
        type=TableType.PARTITIONED if mode is Mode.APPEND else TableType.REGULAR,
        mode=mode,
        cadence=Cadence(parse_period("DAY")),
        place=Place("bench.dpl", 1, 1),
        start=START,
        reads=tuple(map(Read, reads)),
        fingerprint=f"code of {name}",
    )


def declared(*tables: Table) -> Flow:
    order = tuple(each.name for each in tables)
    return Flow(project="bench", tables={each.name: each for each in tables}, order=order, fingerprint="flow")


@contextmanager
def place() -> Iterator[str]:
    """Return the URL of a new ledger of the kind that is being measured."""
    if KIND[0] == "PostgreSQL":
        yield server().ledger_url()
        return
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/ledger.db"


@contextmanager
def opened(*tables: Table) -> Iterator[tuple[Ledger, Flow]]:
    with place() as url:
        ledger = Ledger.open(url)
        flow = declared(*tables)
        ledger.declared.apply(flow, who="bench", now=START, runner="bench")
        try:
            yield ledger, flow
        finally:
            ledger.close()


def batch(ledger: Ledger, name: str, labels: list[datetime], reads: list[tuple[str, datetime, datetime]]) -> None:
    pins = ledger.reads.pins(reads) if reads else []
    inputs = tuple(pin.input(pin.table, "slices") for pin in pins)
    request = ClaimRequest(
        name, tuple(labels), f"code of {name}", "flow", "bench", "bench", START, 60, -1, dict.fromkeys(labels, inputs)
    )
    claim = ledger.claims.take(request)
    results = [
        BatchResult(
            label, label + DAY, 1, 1000, 50_000, DIGEST, f"_stage/{label:%Y%m%d}", timings={"make": 0.1, "seal": 0.2}
        )
        for label in labels
    ]
    ledger.claims.record_done(claim, results)


def timed(work: Callable[[], object], count: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1000 / count, (time.process_time() - cpu) * 1000 / count


def per_batch(count: int, inputs: int, group: int, mode: Mode) -> Callable[[], tuple[float, float]]:
    """Measure claim and record of `count` labels, in claims of `group` labels, each with `inputs` input tables."""

    def measure() -> tuple[float, float]:
        sources = [declare(f"s.t{n}") for n in range(inputs)]
        with opened(*sources, declare("x.y", *(each.name for each in sources), mode=mode)) as (ledger, _):
            for source in sources:
                batch(ledger, source.name, [START + n * DAY for n in range(count + 1)], [])

            def work() -> None:
                for first in range(0, count, group):
                    labels = [START + n * DAY for n in range(first, first + group)]
                    reads = [(each.name, labels[0], labels[-1] + DAY) for each in sources]
                    batch(ledger, "x.y", labels, reads)

            work_one = [START + count * DAY]
            batch(ledger, "x.y", work_one, [])  # the first batch of a process compiles the statements
            return timed(work, count)

    return measure


def snapshots(tables: int, labels: int, stale: int) -> Callable[[], tuple[float, float]]:
    """Measure a snapshot of a chain of `tables`. The last `stale` labels of the first table were restated."""

    def measure() -> tuple[float, float]:
        chain = [declare("t0.x"), *(declare(f"t{n}.x", f"t{n - 1}.x") for n in range(1, tables))]
        with opened(*chain) as (ledger, flow):
            days = [START + n * DAY for n in range(labels)]
            for n, each in enumerate(chain):
                batch(ledger, each.name, days, [(f"t{n - 1}.x", days[0], days[-1] + DAY)] if n else [])
            if stale:
                ledger.decisions.request_restate("t0.x", days[-stale:], "recompute", who="bench")
            ledger.reads.snapshot(flow)
            return timed(lambda: [ledger.reads.snapshot(flow) for _ in range(5)], 5)

    return measure


def opening(*, new: bool) -> Callable[[], tuple[float, float]]:
    """Measure opening a ledger, without the time of imports."""

    def measure() -> tuple[float, float]:
        with place() as url:
            if not new:
                Ledger.open(url).close()
            return timed(lambda: Ledger.open(url).close(), 1)

    return measure


def importing() -> tuple[float, float]:
    """Measure a process that only opens an existing ledger, minus a process that does nothing."""
    with place() as url:
        Ledger.open(url).close()
        code = f"from waterclock.ledger.ledger import Ledger; Ledger.open({url!r}).close()"
        empty, full = _process("pass"), _process(code)
        return full[0] - empty[0], full[1] - empty[1]


def _process(code: str) -> tuple[float, float]:
    before = os.times()
    wall = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return (time.perf_counter() - wall) * 1000, cpu * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    count = asked.batches
    rows: list[tuple[str, str, Callable[[], tuple[float, float]]]] = [
        ("claim + record, no inputs", "batch", per_batch(count, 0, 1, Mode.APPEND)),
        ("claim + record, 3 inputs (pins with it)", "batch", per_batch(count, 3, 1, Mode.APPEND)),
        ("claim + record, REPLACE, 3 inputs (pins with it)", "batch", per_batch(count, 3, 1, Mode.REPLACE)),
        ("claim + record, 24 labels per claim, 3 inputs", "batch", per_batch(count // 24 * 24, 3, 24, Mode.APPEND)),
        ("snapshot, 10 tables x 10 labels", "snapshot", snapshots(10, 10, 0)),
        ("snapshot, 200 tables x 10 labels", "snapshot", snapshots(200, 10, 0)),
        ("snapshot, 1,000 tables x 10 labels", "snapshot", snapshots(1000, 10, 0)),
        ("snapshot, 1,000 tables, one label restated", "snapshot", snapshots(1000, 10, 1)),
        ("open a new ledger", "call", opening(new=True)),
        ("open an existing ledger", "call", opening(new=False)),
        ("import and open, whole process", "call", importing),
    ]
    measured: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(asked.rounds):
        for kind in KINDS:
            KIND[0] = kind
            for name, _per, measure in rows:
                measured.setdefault((kind, name), []).append(measure())
    print(f"The ledger: {count} batches, medians of {asked.rounds} rounds.\n")
    lines = []
    for name, per, _measure in rows:
        line = [name, per]
        for kind in KINDS:
            walls, cpus = zip(*measured[kind, name], strict=True)
            line += [f"{statistics.median(walls):.2f}", f"{statistics.median(cpus):.2f}"]
        lines.append(tuple(line))
    heads = [f"{what}, {kind}" for kind in KINDS for what in ("wall ms", "CPU ms")]
    print(grid(("what", "per", *heads), lines))


if __name__ == "__main__":
    main()
