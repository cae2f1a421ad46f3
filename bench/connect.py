"""Measures rows per second from each source and to each destination, against hand-written code and dlt.

    python bench/connect.py [--rows 100000] [--rounds 3] [--minutes 0.25] [--only sqlite kafka …] [--no-dlt]

Waterclock runs a batch of a day: it is claimed, collected, digested, sealed, committed and recorded, or delivered once.
By hand, Spark reads the same rows and writes a Delta table, or else the client library, Arrow and delta-rs do; a
delivery reads Parquet and writes to the destination. dlt also writes Delta tables from the sources that it supports, if
it is installed (`pip install 'dlt[deltalake,sql_database,filesystem]'`). CPU is that of Python and the JVM, without
broker, API and database. The target is 0.9 of the rows per second of the hand-written code.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import connect_peers as by_hand
from connect_rows import (
    DAY,
    DDL,
    PAGE,
    POSTGRES,
    START,
    Landing,
    Step,
    api,
    copy_in,
    fill_duckdb,
    fill_postgres,
    fill_sqlite,
    positions,
    send_day,
    serve_day,
    table_of,
)
from measure import Cost, cost_of, cpu_seconds, grid, interleaved, middle, ratio
from product import Project, warm_spark

from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
HEADER = """\
[project]
name = "connect"

[defaults]
start = "2013-01-01"

[env.dev]
storage = ".waterclock"
publish = true
connections.landing = {{ path = "new" }}
connections.out = {{ path = "out" }}
connections.lite = {{ path = "ops.sqlite" }}
connections.duck = {{ path = "ops.duckdb" }}
connections.pg = {{ url = "{postgres}", schema = "{schema}" }}
connections.bus = {{ servers = "{broker}" }}
connections.api = {{ url = "{api}" }}
"""
CONNECTIONS = {
    "landing": "files", "out": "files", "lite": "sqlite", "duck": "duckdb", "pg": "postgres", "bus": "kafka",
    "api": "rest",
}  # fmt: skip
KINDS = {
    # the share of the rows, and the COLLECT statement
    "csv.gz": (1.0, ""),
    "json": (1.0, ""),
    "parquet": (1.0, ""),
    "xml": (0.25, " OPTIONS (rows 'row')"),
    "txt": (1.0, f" OPTIONS (positions '{positions()}')"),
    "avro": (0.5, ""),
    "xlsx": (0.1, ""),
}


@dataclass(frozen=True)
class Case:
    """One source or destination: its statement, an unmeasured step `before` each day, and the code of the other sides.

    `run` replaces the way in which a day is run, which by default is a day of the past.
    """

    name: str
    rows: int
    table: str
    statement: str
    hand: str
    by_hand: Step
    dlt: Step | None = None
    before: Step = lambda _: None
    run: Step | None = None


class Bench:
    """The resources that all cases share: a folder, servers if they are needed, and dlt if it is installed."""

    def __init__(
        self, spark: SparkSession, folder: Path, rows: int, days: int, wanted: Sequence[str], *, with_dlt: bool
    ) -> None:
        self.spark = spark
        self.folder = folder
        self.rows = rows
        self.days = days
        self.wanted = wanted
        self.stack = ExitStack()
        self.beside: list[int] = []
        self.told = {"postgres": "postgresql://u@127.0.0.1/x", "schema": "x", "broker": "127.0.0.1:1"}
        self.told["api"] = "http://127.0.0.1:1"
        self.dlt = by_hand.Dlt(folder / "dlt") if with_dlt and find_spec("dlt") else None
        for name in ("out", "hand", "hand_out"):
            (folder / name).mkdir()

    def target(self, name: str) -> Path:
        return self.folder / "hand" / name.replace(" ", "_").replace(",", "")

    def cases(self) -> list[Case]:
        makers: dict[str, Callable[[], Iterator[Case]]] = {
            "files": self._files,
            "sqlite": self._sqlite,
            "postgres": self._postgres,
            "duckdb": self._duckdb,
            "rest": self._rest,
            "kafka": self._kafka,
        }
        return [case for name, make in makers.items() if not self.wanted or name in self.wanted for case in make()]

    def _files(self) -> Iterator[Case]:
        for kind, (share, said) in KINDS.items():
            rows = int(self.rows * share)
            landed = Landing(self.folder, kind, rows)
            target = self.target(kind)
            plain: Step = partial(by_hand.files_by_spark, self.spark, kind, landed.paths, target)
            if kind in {"avro", "xlsx"}:
                plain = partial(getattr(by_hand, f"{kind}_by_hand"), landed.paths, target)
            known = {"avro": "fastavro", "xlsx": "calamine"}
            dlt: Step | None = None
            if self.dlt and kind in {"csv.gz", "json", "parquet"}:
                dlt = partial(self.dlt.files, kind, str(landed.kept))
            yield Case(
                f"files, {kind}",
                rows,
                f"raw.{landed.name}",
                f"COLLECT raw.{landed.name} PARTITIONED ({DDL}) FROM landing.web.{landed.name}{said}"
                " EVERY DAY BY ARRIVAL TIME;",
                known.get(kind, "Spark"),
                plain,
                dlt,
                landed.land,
            )
        rows, kept = self.rows, self.folder / "hand_out"
        yield self._out(
            "files, csv", rows, "out.csv", "", "Arrow", lambda paths, day: by_hand.csv_out(paths, kept, day)
        )
        yield self._out(
            "files, json", rows, "out.json", " OPTIONS (format 'json')", "Spark",
            lambda paths, day: by_hand.json_out(self.spark, paths, kept, day),
        )  # fmt: skip

    def _sqlite(self) -> Iterator[Case]:
        path = self.folder / "ops.sqlite"
        fill_sqlite(path, self.rows, self.days)
        yield from self._database(
            "SQLite", "lite", "sqlite3", partial(by_hand.sqlite_by_hand, path), f"sqlite:///{path}"
        )
        yield self._out("SQLite", self.rows, "lite.copied", "", "sqlite3", partial(by_hand.sqlite_out, path))

    def _database(
        self, name: str, connection: str, hand: str, read: Callable[..., None], url: str, schema: str | None = None
    ) -> Iterator[Case]:
        held, events = (f"{schema}.{table}" if schema else table for table in ("held", "events"))
        theirs = self.dlt
        yield Case(
            f"{name}, all rows",
            self.rows,
            f"raw.{connection}_held",
            f"COLLECT raw.{connection}_held ({DDL}) FROM {connection}.held EVERY DAY;",
            hand,
            lambda _: read(f"SELECT * FROM {held}", self.target(f"{name} held"), "overwrite"),
            (lambda _: theirs.database(f"{connection}_held", url, "held", schema, None)) if theirs else None,
        )

        def a_day(day: int) -> None:
            low, high = (f"{START + at * DAY:%Y-%m-%dT%H:%M:%SZ}" for at in (day, day + 1))
            read(f"SELECT * FROM {events} WHERE at >= '{low}' AND at < '{high}'", self.target(f"{name} day"), "append")

        yield Case(
            f"{name}, a day of {self.days}",
            self.rows,
            f"raw.{connection}_day",
            f"COLLECT raw.{connection}_day PARTITIONED ({DDL}) FROM {connection}.events EVERY DAY BY DATA TIME at;",
            hand,
            a_day,
            (lambda day: theirs.database(f"{connection}_day", url, "events", schema, day)) if theirs else None,
        )

    def _postgres(self) -> Iterator[Case]:
        from tests.postgres import server

        schema = server().fresh_schema()
        connection = self.stack.enter_context(closing(server().connect()))
        connection.execute("SET TimeZone = 'UTC'")
        fill_postgres(connection, schema, self.rows, self.days)
        self.told |= {"postgres": server().url, "schema": schema}
        read = partial(by_hand.postgres_by_hand, connection)
        url = server().url.replace("postgresql:", "postgresql+psycopg:")
        yield from self._database("PostgreSQL", "pg", "COPY", read, url, schema)
        yield Case(
            "PostgreSQL, all rows in 2 parts",
            self.rows,
            "raw.pg_parts",
            f"COLLECT raw.pg_parts ({DDL}) FROM pg.held OPTIONS (partitions 2) EVERY DAY;",
            "COPY",
            lambda _: read(f"SELECT * FROM {schema}.held", self.target("pg parts"), "overwrite"),
        )
        changed = max(1, self.rows // 4)
        slot = f"by_hand_{schema}"
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'wal2json')", (slot,))

        def change(day: int) -> None:
            copy_in(connection, f"{schema}.followed", table_of(changed // 2, day))
            lowest = max(0, day - 1) * (changed // 2)
            sql = f"UPDATE {schema}.followed SET kind = kind + 1 WHERE id >= %s AND id < %s"
            connection.execute(sql, (lowest, lowest + changed // 2))
            time.sleep(60.5 - time.time() % 60)  # a change belongs to its minute by the server's clock

        declared = DDL.replace("id BIGINT", "id BIGINT KEY")
        yield Case(
            "PostgreSQL, BY CHANGES",
            changed,
            "raw.pg_changes",
            f"COLLECT raw.pg_changes ({declared}) FROM pg.followed OPTIONS (decoder 'wal2json')"
            f" EVERY MINUTE START '{datetime.now(UTC):%Y-%m-%dT%H:%MZ}' BY CHANGES MERGE;",
            "wal2json, MERGE",
            lambda _: by_hand.changes_by_hand(connection, slot, self.target("pg changes")),
            before=change,
            run=partial(self.run_changes, "raw.pg_changes"),
        )
        connection.execute(f"CREATE TABLE {schema}.by_hand ({POSTGRES}, timelabel text)")
        write = partial(by_hand.postgres_out, connection, f"{schema}.by_hand")
        yield self._out("PostgreSQL", self.rows, "pg.copied", "", "COPY", write)

    def _duckdb(self) -> Iterator[Case]:
        path = self.folder / "ops.duckdb"
        fill_duckdb(path, self.rows)
        yield Case(
            "DuckDB, all rows",
            self.rows,
            "raw.duck_held",
            f"COLLECT raw.duck_held ({DDL}) FROM duck.held EVERY DAY;",
            "duckdb",
            lambda _: by_hand.duckdb_by_hand(path, self.target("duck")),
        )
        yield self._out("DuckDB", self.rows, "duck.copied", "", "duckdb", partial(by_hand.duckdb_out, path))

    def _rest(self) -> Iterator[Case]:
        url, process = self.stack.enter_context(api())
        self.beside.append(process)
        self.told["api"] = url
        rows, theirs = max(PAGE, self.rows // 4), self.dlt
        yield Case(
            f"REST, pages of {PAGE:,}",
            rows,
            "raw.api_events",
            f"COLLECT raw.api_events PARTITIONED ({DDL}) FROM api.events OPTIONS (rows 'data', paging 'page',"
            f" page_size {PAGE}, more 'next', since 'since', until 'until') EVERY DAY BY DATA TIME at;",
            "httpx2",
            lambda day: by_hand.api_by_hand(url, self.target("api"), day),
            (lambda day: theirs.api(url, day)) if theirs else None,
            partial(serve_day, url, rows),
        )
        said = f" OPTIONS (path 'take', chunk {PAGE})"
        write = partial(by_hand.api_out, url)
        yield self._out(f"REST, {PAGE:,} per request", rows, "api.taken", said, "httpx2", write)

    def _kafka(self) -> Iterator[Case]:
        from confluent_kafka import Producer

        from tests import kafka

        kafka._PATIENCE = 600  # noqa: SLF001 - on a busy machine a broker takes minutes to start
        at = kafka.broker()
        if at.process is not None:
            self.beside.append(at.process.pid)
        self.told["broker"] = at.servers
        producer = Producer({"bootstrap.servers": at.servers, "linger.ms": 20})
        rows = max(1, self.rows // 2)
        for kind, columns in (("json", f" ({DDL})"), ("raw", "")):
            topic = at.topic(f"bench_{kind}", PARTITIONS)
            reader = by_hand.Reader(at.servers, topic, PARTITIONS)
            yield Case(
                f"Kafka, {kind}",
                rows,
                f"raw.bus_{kind}",
                f"COLLECT raw.bus_{kind} PARTITIONED{columns} FROM bus.{topic} OPTIONS (format '{kind}')"
                " EVERY DAY BY ARRIVAL TIME;",
                "confluent",
                partial(lambda r, k, _: r.read(self.target(f"bus {k}"), is_raw=k == "raw"), reader, kind),
                before=partial(lambda t, day: send_day(producer, t, rows, day, PARTITIONS), topic),
            )
        taken, kept = at.topic("bench_taken", PARTITIONS), at.topic("bench_by_hand", PARTITIONS)
        write = partial(by_hand.kafka_out, at.servers, kept)
        yield self._out("Kafka, json", rows, f"bus.{taken}", " OPTIONS (key 'id')", "confluent", write)

    def _out(
        self, name: str, rows: int, to: str, said: str, hand: str, write: Callable[[list[str], int], None]
    ) -> Case:
        origin = f"origin_{to.replace('.', '_')}"
        landed = Landing(self.folder / origin, "parquet", rows)
        (self.folder / "new" / "web").mkdir(parents=True, exist_ok=True)
        landing = self.folder / "new" / "web" / origin
        landing.mkdir()

        return Case(
            f"to {name}",
            rows,
            to,
            f"COLLECT raw.{origin} PARTITIONED ({DDL}) FROM landing.web.{origin} EVERY DAY BY ARRIVAL TIME;\n"
            f"PUBLISH raw.{origin} TO {to}{said};",
            hand,
            partial(write, landed.paths),
            before=partial(self._origin, landed, landing, origin),
        )

    def _origin(self, landed: Landing, landing: Path, name: str, day: int) -> None:
        for part, path in enumerate(landed.paths):
            stamp = START + (day + 1) * DAY - (part + 1) * DAY / 86_400
            (landing / f"web_{name}_{stamp:%Y_%m_%d_%H_%M_%S}.parquet").hardlink_to(path)
        self.run(f"raw.{name}", day)

    def run(self, table: str, day: int) -> None:
        now = START + (day + 1) * DAY
        done = Runner(self.project.work, only=[table]).run_once(now)
        if done.failed:
            sys.exit("\n".join(report.error.render() for report in done.failed if report.error))
        newest = self.project.work.ledger.reads.newest(table)
        if newest is None or newest.label != START + day * DAY or not newest.rows:
            sys.exit(f"{table} did not make day {day}: {newest}")

    def run_changes(self, table: str, _: int) -> None:
        """Run the minutes that have ended: one has the changes, the others are empty."""
        done = Runner(self.project.work, only=[table]).run_once(datetime.now(UTC))
        if done.failed or not done.rows:
            sys.exit("\n".join(report.error.render() for report in done.failed if report.error) or f"{table}: no row")

    def open(self, cases: Sequence[Case]) -> None:
        (self.folder / "flows").mkdir()
        (self.folder / "waterclock.toml").write_text(HEADER.format(**self.told), encoding="utf-8")
        said = [f"CREATE CONNECTION {name} TYPE {kind};" for name, kind in CONNECTIONS.items()]
        (self.folder / "flows" / "a.dpl").write_text(
            "\n".join([*said, *(case.statement for case in cases)]), encoding="utf-8"
        )
        self.project = Project(self.spark, self.folder, 1)
        self.stack.callback(self.project.close)
        apply_flow(self.project.work, START + DAY)

    def costs(self, case: Case, rounds: int, minutes: float) -> dict[str, list[Cost]]:
        begun: set[int] = set()

        def side(work: Step) -> Callable[[int], Cost]:
            def once(day: int) -> Cost:
                if day not in begun:
                    begun.add(day)
                    case.before(day)
                beside = cpu_seconds(self.beside)
                cost = cost_of(lambda: work(day), self.spark)
                return cost - Cost(cpu=cpu_seconds(self.beside) - beside)

            return once

        sides = {"ours": side(case.run or partial(self.run, case.table)), "by hand": side(case.by_hand)}
        if case.dlt is not None:
            sides["dlt"] = side(case.dlt)
        return interleaved(sides, rounds, warm=1, minutes=minutes)


def line(case: Case, costs: dict[str, list[Cost]]) -> list[Any]:
    ours, hand = middle(costs["ours"]), middle(costs["by hand"])
    dlt = middle(costs["dlt"]) if "dlt" in costs else None
    return [
        case.name,
        f"{case.rows:,}",
        f"{case.rows / ours.wall:,.0f}",
        f"{case.rows / hand.wall:,.0f}",
        case.hand,
        ratio(hand.wall, ours.wall),
        ratio(ours.cpu, hand.cpu) if ours.cpu > 0 else "–",  # the CPU of a worker that has ended is missing
        f"{case.rows / dlt.wall:,.0f}" if dlt else "",
        ratio(dlt.wall, ours.wall) if dlt else "",
        ours.jobs,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="of a day; of some kinds a part of them (100,000)")
    parser.add_argument("--rounds", type=int, default=3, help="days measured, behind one to warm up (3)")
    parser.add_argument("--minutes", type=float, default=0.25, help="of one case: begin no round after these (0.25)")
    parser.add_argument("--only", nargs="*", default=[], help="files, sqlite, postgres, duckdb, rest, kafka; all")
    parser.add_argument("--no-dlt", action="store_true", help="leave dlt out, though it is installed")
    asked = parser.parse_args()
    lines, failed = [], []
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        folder = Path(name) / "ours"
        folder.mkdir()
        bench = Bench(spark, folder, asked.rows, asked.rounds + 1, asked.only, with_dlt=not asked.no_dlt)
        with bench.stack:
            cases = bench.cases()
            bench.open(cases)
            for case in cases:
                try:
                    lines.append(line(case, bench.costs(case, asked.rounds, asked.minutes)))
                except (Exception, SystemExit) as error:  # noqa: BLE001 - the other cases are still reported
                    failed.append(case.name)
                    print(case.name, repr(error), file=sys.stderr, flush=True)
                else:
                    print(*lines[-1], file=sys.stderr, flush=True)
    print(
        f"Medians of up to {asked.rounds} days with so many rows each, after one to warm up; the sides run in turns.\n"
    )
    head = [
        "",
        "rows",
        "rows/s",
        "by hand, rows/s",
        "by",
        "rows/s / by hand",
        "CPU / by hand",
        "dlt, rows/s",
        "of dlt",
        "jobs",
    ]
    print(grid(head, lines))
    if failed:
        print(f"\nFailed, and left out: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
