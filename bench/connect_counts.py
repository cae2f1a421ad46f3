"""Counts the requests of each connector by number of labels: Spark jobs and scans, ledger statements, and requests to
the source or destination. The counts are the same on every machine.

    python bench/connect_counts.py [files sqlite postgres duckdb rest kafka] [--labels 10 100]

A table with this many days is collected in one run, and published. `asked` counts the statements to a database, the
requests to an API, or the Kafka clients that are opened (each connects and reads the cluster's metadata).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from books import Counted, counting
from connect import CONNECTIONS, HEADER
from connect_rows import DAY, DDL, START, api, content_of, copy_in, fill_sqlite, serve_day, table_of
from measure import grid
from product import Project, warm_spark

from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20
_PAGES = "rows 'data', paging 'page', more 'next', since 'since', until 'until'"


class Asked:
    """Counts the requests to sources and destinations of any kind."""

    def __init__(self) -> None:
        self.count = 0

    def calls(self, of: Any, name: str) -> None:
        """Count the calls of a method."""
        before = getattr(of, name)

        def counted(*given: Any, **named: Any) -> Any:
            self.count += 1
            return before(*given, **named)

        setattr(of, name, counted)

    def statements(self, of: Any) -> None:
        """Count the statements of connections that a database's class opens."""
        for name in ("reading", "writing"):
            before: Callable[..., Any] = getattr(of, name)

            @contextmanager
            def counted(*given: Any, before: Callable[..., Any] = before, **named: Any) -> Iterator[Any]:
                with before(*given, **named) as connection:
                    yield _Heard(connection, self)

            setattr(of, name, counted)


class _Heard:
    """A connection whose statements are counted."""

    def __init__(self, connection: Any, asked: Asked) -> None:
        self._connection = connection
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        if name in {"execute", "executemany", "sql", "cursor"}:
            self._asked.count += 1
        return getattr(self._connection, name)


def flow_of(kind: str) -> str:
    """Return the statements for one connector."""
    by_time = f"PARTITIONED ({DDL})"
    said = {
        "files": (f"COLLECT raw.files {by_time} FROM landing.web.few EVERY DAY BY ARRIVAL TIME;", "out.copied"),
        "sqlite": (f"COLLECT raw.sqlite {by_time} FROM lite.events EVERY DAY BY DATA TIME at;", "lite.copied"),
        "postgres": (f"COLLECT raw.postgres {by_time} FROM pg.events EVERY DAY BY DATA TIME at;", "pg.copied"),
        "duckdb": (f"COLLECT raw.duckdb {by_time} FROM duck.events EVERY DAY BY DATA TIME at;", "duck.copied"),
        "rest": (
            f"COLLECT raw.rest {by_time} FROM api.events OPTIONS ({_PAGES}) EVERY DAY BY DATA TIME at;",
            "api.taken OPTIONS (path 'take')",
        ),
        "kafka": (f"COLLECT raw.kafka {by_time} FROM bus.few EVERY DAY BY ARRIVAL TIME;", "bus.copied"),
    }
    collect, to = said[kind]
    return f"{collect}\nPUBLISH raw.{kind} TO {to};"


def prepare(kind: str, folder: Path, days: int, told: dict[str, str], stack: ExitStack, asked: Asked) -> None:
    """Fill the source, and count the requests to it from now on."""
    if kind == "files":
        landing = folder / "new" / "web" / "few"
        landing.mkdir(parents=True)
        (folder / "out").mkdir()
        content = content_of("csv.gz", table_of(ROWS))
        for day in range(days):
            name = f"web_few_{START + (day + 1) * DAY - DAY / 86_400:%Y_%m_%d_%H_%M_%S}.csv.gz"
            (landing / name).write_bytes(content)
    elif kind == "sqlite":
        from waterclock.connectors.sqlite.database import SqliteFile as Sqlite

        fill_sqlite(folder / "ops.sqlite", ROWS, days)
        asked.statements(Sqlite)
    elif kind == "duckdb":
        import duckdb

        from waterclock.connectors.duckdb.database import DuckdbDatabase as Duck

        with closing(duckdb.connect(str(folder / "ops.duckdb"))) as connection:
            for day in range(days):
                connection.register("given", table_of(ROWS, day))
                connection.execute(f"{'INSERT INTO events' if day else 'CREATE TABLE events AS'} SELECT * FROM given")
        asked.statements(Duck)
    elif kind == "postgres":
        from connect_rows import POSTGRES

        from tests.postgres import server
        from waterclock.connectors.postgres.database import PostgresDatabase as Postgres

        told |= {"postgres": server().url, "schema": server().fresh_schema()}
        with closing(server().connect()) as connection:
            connection.execute(f"CREATE SCHEMA {told['schema']}; CREATE TABLE {told['schema']}.events ({POSTGRES})")
            for day in range(days):
                copy_in(connection, f"{told['schema']}.events", table_of(ROWS, day))
        asked.statements(Postgres)
    elif kind == "rest":
        from waterclock.connectors.rest.client import Api

        told["api"] = stack.enter_context(api())[0]
        for day in range(days):
            serve_day(told["api"], ROWS, day)
        asked.calls(Api, "_send")
    else:
        _prepare_kafka(days, told, asked)


def _prepare_kafka(days: int, told: dict[str, str], asked: Asked) -> None:
    from connect_rows import send_day

    from tests.kafka import broker
    from waterclock.connectors.kafka.cluster import Cluster

    at = broker()
    told["broker"] = at.servers
    for name in ("few", "copied"):
        if name in at.admin().list_topics(timeout=10).topics:
            at.delete_topic(name)
        at.topic(name, partitions=2)
    from confluent_kafka import Producer

    for day in range(days):
        send_day(Producer({"bootstrap.servers": at.servers}), "few", ROWS, day, 2)
    for name in ("admin", "consumer", "producer"):
        asked.calls(Cluster, name)


def measured(spark: SparkSession, counted: Counted, kind: str, days: int) -> list[list[Any]]:
    told = {"postgres": "postgresql://u@127.0.0.1/x", "schema": "x", "broker": "127.0.0.1:1"}
    told["api"] = "http://127.0.0.1:1"
    asked, lines = Asked(), []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        prepare(kind, folder, days, told, stack, asked)
        (folder / "flows").mkdir()
        (folder / "waterclock.toml").write_text(HEADER.format(**told), encoding="utf-8")
        said = [f"CREATE CONNECTION {name} TYPE {of};" for name, of in CONNECTIONS.items()]
        (folder / "flows" / "a.dpl").write_text("\n".join([*said, flow_of(kind)]), encoding="utf-8")
        project = Project(spark, folder, 1)
        stack.callback(project.close)
        now = START + days * DAY
        apply_flow(project.work, now)
        counted.taken()
        for what, table in (("collect", f"raw.{kind}"), ("publish", None)):
            before = asked.count
            done = Runner(project.work, only=[table] if table else None).run_once(now)
            if done.failed:
                sys.exit("\n".join(report.error.render() for report in done.failed if report.error))
            found = [counts for of, counts in counted.taken().items() if (of == f"raw.{kind}") == (what == "collect")]
            sums = [sum(each) for each in zip(*found, strict=True)] or [0] * 6
            calls, jobs, scans, exchanges, statements, cpu = sums
            lines.append([f"{kind}, {what}", days, int(calls), int(jobs), int(scans), int(exchanges), int(statements),
                          asked.count - before, f"{cpu:.1f}"])  # fmt: skip
            print(*lines[-1], file=sys.stderr, flush=True)
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = ("files", "sqlite", "postgres", "duckdb", "rest", "kafka")
    parser.add_argument("kinds", nargs="*", default=kinds)
    parser.add_argument("--labels", nargs="*", type=int, default=[10, 100])
    wanted = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        counted = Counted(spark)
        counting(counted)
        lines = [
            line for kind in wanted.kinds for days in wanted.labels for line in measured(spark, counted, kind, days)
        ]
    print(grid(["", "labels", "groups", "jobs", "scans", "exchanges", "ledger", "asked", "CPU s"], lines))


if __name__ == "__main__":
    main()
