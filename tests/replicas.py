"""A table of a real PostgreSQL database, and a tiny project that replicates it BY CHANGES."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.postgres import Server, server
from tests.tiny import Tiny, described
from waterclock.engine.run_outcome import RunOutcome
from waterclock.timelabel.label import instant_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOML = """
[project]
name = "{{name}}"
[env.dev]
storage = "{{storage}}"
connections.ops = {{{{ type = "postgres", url = "{url}", schema = "{schema}" }}}}
"""
COLUMNS = "id int PRIMARY KEY, name text, amount numeric(10,2), big text, at timestamptz"
FLOW = """
CREATE CONNECTION ops TYPE postgres;
COLLECT shop.orders (id KEY, *) FROM ops.orders{options} EVERY MINUTE BY CHANGES MERGE;
"""


@dataclass
class Replicated:
    """A project that follows the table `orders` in its own schema."""

    tiny: Tiny
    at: Server
    schema: str
    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(second=0, microsecond=0))

    window = timedelta(minutes=1)

    @staticmethod
    def begun(
        root: Path,
        spark: SparkSession,
        columns: str = COLUMNS,
        flow: str = FLOW,
        options: str = "",
    ) -> Replicated:
        """Create the table and declare the flow, without a run."""
        at = server()
        schema = at.fresh_schema()
        at.run(f"CREATE SCHEMA {schema}")
        tiny = Tiny(root, spark, toml=TOML.format(url=at.url, schema=schema))
        made = Replicated(tiny, at, schema)
        made.sql(f"CREATE TABLE orders ({columns}); ALTER TABLE orders ALTER big SET STORAGE EXTERNAL")
        made.declare(flow, options)
        return made

    def declare(self, flow: str = FLOW, options: str = "") -> None:
        """Declare another flow."""
        (self.tiny.root / "flows" / "flow.dpl").write_text(flow.format(options=options))

    def sql(self, text: str, *values: Any) -> list[Any]:
        """Run statements in one transaction."""
        with closing(self.at.connect()) as connection:
            connection.execute(f"SET search_path = {self.schema}")
            with connection.transaction():
                cursor = connection.execute(text, values or None)
                return cursor.fetchall() if cursor.description else []

    def run(self) -> RunOutcome:
        """Collect the next window, with a source clock that is past its end.

        On a busy machine it is the window that ends after now: changes committed after a window's end belong to the
        next one.
        """
        self.now = max(self.now, datetime.now(UTC).replace(second=0, microsecond=0)) + self.window
        return self.tiny.run(self.now)

    def replicate(self) -> None:
        """Collect the next window, which includes all commits so far."""
        outcome = self.run()
        assert not outcome.failed, described(outcome)

    def retry(self) -> None:
        """Request a retry of the failed batch by the next run."""
        failed = [label for (_, label), status in self.tiny.batches().items() if status == "failed"]
        with self.tiny.ledger() as ledger:
            for label in failed:
                ledger.decisions.retry("shop.orders", [instant_of(label)], who="a test")

    def source(self, columns: str = "id, name, amount, md5(big), at") -> list[tuple[Any, ...]]:
        """Return the rows of the source."""
        return sorted((tuple(row) for row in self.sql(f"SELECT {columns} FROM orders")), key=repr)

    def replica(self, columns: str = "id, name, amount, md5(big), at") -> list[tuple[Any, ...]]:
        """Return the rows of the replica."""
        return sorted((tuple(row) for row in self.tiny.rows(f"SELECT {columns} FROM shop.orders")), key=repr)

    def slots(self) -> list[str]:
        """Return the slots of the server."""
        return [row[0] for row in self.at.run("SELECT slot_name FROM pg_replication_slots ORDER BY 1")]


def past_all_windows(_: object, unit: object) -> datetime:
    """Replace a source's clock, so that a test need not wait for windows to end."""
    del unit
    return datetime(2100, 1, 1, tzinfo=UTC)
