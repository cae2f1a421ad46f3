"""Measures commands and bookkeeping for a thousand hourly tables with years of history, and for flows of many tables.

    python bench/scale.py [--tables 1000] [--hours 720 8760] [--databases SQLite PostgreSQL] [--flows 1000 3000]

The ledger keeps all details of a batch forever: three years of a thousand tables (--hours 26280) are 26 million rows in
each of six tables, 31 GB in SQLite (TMPDIR chooses the disk). Histories are made one after the other by
scale_history.py. CPU is measured: commands in processes of their own, bookkeeping and snapshots in this process, and
the database server in a separate line. The longest history is compared with the shortest.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import scale_history as history
from measure import ClockOfServer, Cost, cost_of_process, grid, middle, ratio
from scale_history import HOUR

from tests.postgres import server
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger import Ledger
from waterclock.operations.project_opening import open_project
from waterclock.planner.plan import Group
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest

END = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 2 * HOUR  # end of all done hours
SOME = 20  # old labels that are made again
LOOKS = 5  # number of reads; the mean is reported
Timed = dict[str, tuple[float, float]]  # CPU seconds of this process and of the server, by kind of work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--hours", type=int, nargs="*", default=[720, 8760])
    parser.add_argument("--databases", nargs="*", default=["SQLite", "PostgreSQL"])
    parser.add_argument("--flows", type=int, nargs="*", default=[1000, 3000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    for kind in asked.databases if asked.hours else ():
        sizes, found = [], []
        for hours in asked.hours:
            with project(kind, asked.tables, hours) as (folder, url, size):
                sizes.append(size)
                found.append(measured(folder, url, hours, asked.rounds, is_server=kind == "PostgreSQL"))
        print(f"{kind}: {asked.tables:,} hourly tables, all batches done.\n")
        heads = [f"{asked.tables * hours:,}" for hours in asked.hours]
        rows = [["ledger, GB", *(f"{size / 1e9:.1f}" for size in sizes), ""], *told(found)]
        print(grid(["batches", *heads, "longest/shortest"], rows))
        print(flush=True)
    if asked.flows:
        print("Flows with two hours done; seconds of CPU per process.\n")
        print(
            grid(
                ["tables", "check", "plan", "plan, an hour due", "plan, per 1,000"],
                list(flows(asked.flows, asked.rounds)),
            )
        )


@contextmanager
def project(kind: str, tables: int, hours: int) -> Iterator[tuple[Path, str, float]]:
    """Make a project with a history, with its ledger in a kind of database. Yield its folder, URL and ledger size."""
    with tempfile.TemporaryDirectory() as root:
        schema = server().fresh_schema() if kind == "PostgreSQL" else None
        said = None if schema is None else server().ledger_url(schema)
        start = END - hours * HOUR
        folder = history.make(Path(root) / "project", tables, start, said)
        file = folder / ".waterclock" / "ledger.db"
        url = said or f"sqlite:///{file}"
        flow, clock = open_project(folder, None).flow, history.Clock(END)
        history.fill(url, flow, start, hours - 1)
        with Ledger.open(url, clock=clock) as ledger:
            history.scatter(ledger, flow, clock, start, hours - 1)
        if schema is None:
            yield folder, url, file.stat().st_size
            return
        total = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace ="
        yield folder, url, float(server().run(f"{total} '{schema}'::regnamespace")[0][0])
        server().run(f"DROP SCHEMA {schema} CASCADE")


def measured(folder: Path, url: str, hours: int, rounds: int, *, is_server: bool) -> Timed:
    clock = ClockOfServer(server().folder) if is_server else None
    seconds: Callable[[], float] = clock.seconds if clock else lambda: 0.0
    found: Timed = {}
    for name, words in commands(hours).items():
        before = seconds()
        costs = _costs([*words, "--project", str(folder)], rounds)
        found[f"{name}, s"] = middle(costs).cpu, (seconds() - before) / (rounds + 1)
    flow = open_project(folder, None).flow
    with Ledger.open(url, clock=history.Clock(END + HOUR)) as ledger:
        for name, work in looks(ledger, flow, hours).items():
            found[f"{name}, ms"] = work(seconds)
    return found


def commands(hours: int) -> dict[str, list[str]]:
    newest, old = (f"mart.spread5@{at:%Y%m%d%H}0000" for at in (END - 2 * HOUR, END - (hours - 1) * HOUR))
    now = ["--now", f"{END:%Y-%m-%dT%H:%MZ}"]
    return {
        "`status`": ["status", *now],
        "`plan`": ["plan", *now],
        "`plan`, an hour due": ["plan", "--now", f"{END + HOUR:%Y-%m-%dT%H:%MZ}"],
        "`audit` of a new label": ["audit", newest],
        "`audit` of the oldest": ["audit", old],
    }


def looks(ledger: Ledger, flow: Flow, hours: int) -> dict[str, Callable[[Callable[[], float]], tuple[float, float]]]:
    """Return the measurements in this process, in their order. Each takes a function that reads the server's CPU."""
    planner = Planner(flow)

    def ready() -> Sequence[Group]:
        return planner.ready(ledger.reads.snapshot(flow), END + HOUR, PlanRequest(clock=ledger.now()))

    def newest(seconds: Callable[[], float]) -> tuple[float, float]:
        spent, count = Spent(seconds), 0
        while groups := ready():
            with spent:
                for group in groups:
                    history.record(ledger, history.take(ledger, flow, group, END + HOUR))
            count += sum(len(group.batches) for group in groups)
        return spent.per(count)

    def old(seconds: Callable[[], float]) -> tuple[float, float]:
        spent, names = Spent(seconds), [f"raw.a{n}" for n in range(5, 5 + SOME)]
        for at, name in enumerate(names, 1):
            ledger.decisions.request_restate(name, [END - hours * at // (SOME + 2) * HOUR], "recompute", who="bench")
        groups = [group for group in ready() if group.table in names]
        with spent:
            for group in groups:
                history.record(ledger, history.take(ledger, flow, group, END + HOUR), rows=1002)
        return spent.per(len(groups))

    def looked(work: Callable[[], object]) -> Callable[[Callable[[], float]], tuple[float, float]]:
        def measure(seconds: Callable[[], float]) -> tuple[float, float]:
            spent = Spent(seconds)
            work()
            with spent:
                for _ in range(LOOKS):
                    work()
            return spent.per(LOOKS)

        return measure

    def changed() -> object:
        return ledger.reads.history(flow, {"mart.both5": END}, END - HOUR)

    return {
        "snapshot": looked(lambda: ledger.reads.snapshot(flow)),
        "bookkeeping of a batch, newest hour": newest,
        "bookkeeping of a batch, old label made again": old,
        f"snapshot, {SOME} old labels changed": looked(lambda: ledger.reads.snapshot(flow)),
        "changes of one hour": looked(changed),
        "table's newest record": looked(lambda: ledger.reads.last_recorded("mart.both5")),
    }


class Spent:
    """Adds up the CPU of this process and of the server within its `with` blocks."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._ours = self._server = 0.0

    def __enter__(self) -> None:
        self._server -= self._seconds()
        self._ours -= time.process_time()

    def __exit__(self, *_: object) -> None:
        self._ours += time.process_time()
        self._server += self._seconds()

    def per(self, count: int) -> tuple[float, float]:
        """Return the milliseconds per item of this process and of the server."""
        return 1000 * self._ours / count, 1000 * self._server / count


def told(found: Sequence[Timed]) -> Iterator[list[str]]:
    """Yield a row for each figure, followed by one for the server's part if there is a server."""
    for name in found[0]:
        for part, who in ((0, ""), (1, "… of the server")):
            values = [each[name][part] for each in found]
            if part == 0 or any(values):
                yield [who or name, *(f"{value:.2f}" for value in values), ratio(values[-1], values[0])]


def flows(counts: Sequence[int], rounds: int) -> Iterator[list[str]]:
    """Yield a row for each size of a flow: the cost of `check`, and of `plan` with nothing and with an hour due."""
    for count in counts:
        with project("SQLite", count, 3) as (folder, _, _):
            words = {
                "check": ["check"],
                "plan": ["plan", "--now", f"{END:%Y-%m-%dT%H:%MZ}"],
                "due": ["plan", "--now", f"{END + HOUR:%Y-%m-%dT%H:%MZ}"],
            }
            found = {
                name: middle(_costs([*each, "--project", str(folder)], rounds)).cpu for name, each in words.items()
            }
        yield [f"{count:,}", *(f"{cpu:.2f}" for cpu in (*found.values(), found["plan"] / count * 1000))]


def _costs(words: list[str], rounds: int) -> list[Cost]:
    """Run a command `rounds` times, after one run that does not count, because it compiles the flow."""
    command = [sys.executable, "-m", "waterclock", *words]
    return [cost_of_process(command) for _ in range(rounds + 1)][1:]


if __name__ == "__main__":
    main()
