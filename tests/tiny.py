"""A tiny project in a folder: its sources, its flow, and runs of it in this process with an existing session."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.batches.records import Claim, ClaimRequest
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.engine.ledger_opening import ledger_url
from waterclock.engine.query.query import query
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import Listener
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.runner import Runner
from waterclock.engine.spark.session import Sessions
from waterclock.ledger.ledger import Ledger
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOML = """
[project]
name = "{name}"
[defaults]
start = "2020-01-01"
[env.dev]
storage = "{storage}"
publish = true
connections.shop = {{ path = "shop.sqlite" }}
connections.out = {{ path = "out.sqlite", create = true }}
connections.land = {{ path = "landing/new" }}
connections.files = {{ path = "files" }}
"""
CONNECTIONS = """
CREATE CONNECTION shop TYPE sqlite; CREATE CONNECTION out TYPE sqlite;
CREATE CONNECTION land TYPE files; CREATE CONNECTION files TYPE files;
"""


def day(number: int, hour: int = 0) -> datetime:
    """Return an instant of January 2020: `day(2)` is the end of the first day."""
    return datetime(2020, 1, number, hour, tzinfo=UTC)


def evening(number: int) -> datetime:
    """Return the last second of a day of January 2020: a file with this stamp marks its day as complete."""
    return day(number + 1) - timedelta(seconds=1)


@dataclass
class Heard(Listener):
    """A listener that records its events."""

    said_: list[str] = field(default_factory=list)
    finished_: list[Any] = field(default_factory=list)

    def on_group_finish(self, report: Any) -> None:
        self.finished_.append(report)

    def on_message(self, message: str) -> None:
        self.said_.append(message)


@dataclass
class Tiny:
    """A project of a test. `flow` is its DPL, in addition to the connections of every tiny project."""

    root: Path
    spark: SparkSession
    name: str = "tiny"
    storage: str = ".waterclock"
    toml: str | None = TOML  # None: the existing project file
    heard: Heard = field(default_factory=Heard)
    settings: RunSettings = field(
        default_factory=lambda: RunSettings(threads=2, attempts=2, retry_wait=0.01, who="a test")
    )

    def __post_init__(self) -> None:
        (self.root / "flows").mkdir(parents=True, exist_ok=True)
        if self.toml is not None:
            (self.root / "waterclock.toml").write_text(self.toml.format(name=self.name, storage=self.storage))

    def copied(self, root: Path) -> Tiny:
        """Return a copy of the whole project, with all its data, in a new folder."""
        shutil.copytree(self.root, root)
        return Tiny(root, self.spark, self.name, self.storage, self.toml)

    def declare(self, dpl: str) -> None:
        """Make `dpl` the project's flow."""
        (self.root / "flows" / "flow.dpl").write_text(CONNECTIONS + dpl)

    def source(self, table: str, columns: str, rows: Iterable[tuple[Any, ...]] = ()) -> None:
        """Create a table of the shop's database, or replace its rows."""
        with closing(sqlite3.connect(self.root / "shop.sqlite")) as database, database:
            database.execute(f"DROP TABLE IF EXISTS {table}")
            database.execute(f"CREATE TABLE {table} ({columns})")
            for row in rows:
                database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def shop(self, sql: str) -> None:
        """Change the shop's database."""
        with closing(sqlite3.connect(self.root / "shop.sqlite")) as database, database:
            database.execute(sql)

    def delivered(self, sql: str) -> list[tuple[Any, ...]]:
        """Query the database that is published to."""
        with closing(sqlite3.connect(self.root / "out.sqlite")) as database:
            return list(database.execute(sql))

    def land(self, source: str, at: datetime, text: str) -> Path:
        """Put a file of `new/acme/<source>` as if it had arrived at `at`."""
        folder = self.root / "landing" / "new" / "acme" / source
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"acme_{source}_{at:%Y_%m_%d_%H_%M_%S}.csv.gz"
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        return path

    def load(self) -> Project:
        """Check the project."""
        return load_project(self.root, capabilities=capabilities())

    @contextmanager
    def opened(self) -> Iterator[RunContext]:
        """Open it for work, with the existing session."""
        sessions = Sessions.from_session(self.spark)
        with open_workplace(self.load(), settings=self.settings, listener=self.heard, sessions=sessions) as work:
            yield work

    def run(self, now: datetime, until: datetime | None = None, **bounds: Any) -> RunOutcome:
        """Run the due batches."""
        with self.opened() as work:
            apply_flow(work, now)
            runner = Runner(work, **bounds)
            return runner.run_once(now) if until is None else runner.run_until(now, until)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Query the lake."""
        with self.opened() as work:
            return list(query(work, sql, limit=10_000).rows)

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """Open the ledger for reading."""
        ledger = Ledger.open(ledger_url(self.load()))
        try:
            yield ledger
        finally:
            ledger.close()

    def batches(self) -> dict[tuple[str, str], str]:
        """Return the stored state of every batch by table and label."""
        with self.ledger() as ledger:
            return {
                (row["table"], row["timelabel"]): row["status"] for row in ledger.past.rows("batches") if row["status"]
            }

    def done(self, table: str) -> list[str]:
        """Return the labels of a table that are done, oldest first."""
        return sorted(label for (name, label), status in self.batches().items() if name == table and status == "done")

    def runs_of(self, table: str) -> int:
        """Count the claims of a table that committed."""
        with self.ledger() as ledger:
            return sum(row["kind"] == "done" and row["table"] == table for row in ledger.past.rows("events"))

    def digests(self) -> Mapping[tuple[str, str], str]:
        """Return the digest of every done batch."""
        with self.ledger() as ledger:
            return {
                (r["table"], r["timelabel"]): r["digest"] for r in ledger.past.rows("batches") if r["status"] == "done"
            }

    def claim(self, work: RunContext, table: str, number: int, *, runner: str = "another") -> Claim:
        """Take the claim of a day, as another active runner does."""
        request = ClaimRequest(
            table=table,
            labels=(day(number),),
            code="c",
            flow=work.flow.fingerprint,
            runner=runner,
            who="ann",
            now=day(number + 1),
            lease_seconds=600,
            target_version=work.ledger.reads.table(table).head_version,
        )
        return work.ledger.claims.take(request)

    def open_claims(self) -> int:
        """Count the open claims."""
        with self.ledger() as ledger:
            return len(ledger.claims.open())


def labels(*days: int) -> list[str]:
    """Return the labels of days of January 2020."""
    return [label_of(day(number)) for number in days]


def described(outcome: RunOutcome) -> str:
    """Return the errors of a run as text, for a failing test."""
    return json.dumps([report.error.to_dict() for report in outcome.failed if report.error], indent=1)
