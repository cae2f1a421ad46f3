"""What looks and bookkeeping cost where a thousand hourly tables have years behind them; and flows of many tables.

    python bench/scale.py [--tables 1000] [--hours 720 8760] [--databases SQLite PostgreSQL] [--flows 1000 3000]

A batch keeps all of its detail for ever: three years of a thousand tables (--hours 26280) are 26 million rows in each
of six tables, 31 GB in SQLite; TMPDIR chooses the disk. Histories are made one after the other (scale_history.py) and
measured in CPU: commands are processes of their own, bookkeeping and snapshots are of this process; what the server
takes stands in a line of its own. The figures of the longest history are held against those of the shortest.
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
from waterclock.operations.opening import open_project
from waterclock.planner.plan import Group
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest

END = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 2 * HOUR  # of all that is done
SOME = 20  # old labels that are made anew
LOOKS = 5  # of which the mean is told
Timed = dict[str, tuple[float, float]]  # CPU seconds by what was done: of this process, and of the server


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
    """Make a project with a history, its ledger in a database of that kind; give the size of that in bytes."""
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
    """Return what is measured in this process, in this order: each gives what it cost, by a count of the server's."""
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
    """CPU of this process and of the server, over the stretches in which it is entered."""

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
        """Return milliseconds for each."""
        return 1000 * self._ours / count, 1000 * self._server / count


def told(found: Sequence[Timed]) -> Iterator[list[str]]:
    """Give a row for each figure, and one below it of the server's part where there is a server."""
    for name in found[0]:
        for part, who in ((0, ""), (1, "… of the server")):
            values = [each[name][part] for each in found]
            if part == 0 or any(values):
                yield [who or name, *(f"{value:.2f}" for value in values), ratio(values[-1], values[0])]


def flows(counts: Sequence[int], rounds: int) -> Iterator[list[str]]:
    """Give a row for each size of a flow: to check it, to plan it with nothing and with an hour due."""
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
    """Run a command so often, and once before: the first look after a change compiles the flow."""
    command = [sys.executable, "-m", "waterclock", *words]
    return [cost_of_process(command) for _ in range(rounds + 1)][1:]


if __name__ == "__main__":
    main()
