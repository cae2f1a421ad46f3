"""Helpers for tests of the ledger: small flows, claims in one line, and results that need no storage."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests import postgres
from waterclock.batches.records import BatchResult, Claim, ClaimRequest, Input, Recorded
from waterclock.flow.declarations import Flow, Place, Read, Table
from waterclock.flow.enums import Kind, Mode, TableType
from waterclock.flow.merge_settings import Merge
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store import database, schema
from waterclock.ledger.store.instants import to_micros
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import parse_period

DAY = timedelta(days=1)
ZERO = datetime(2013, 1, 1, tzinfo=UTC)
SOMEWHERE = Place("flow.dpl", 1, 1)
_FICTITIOUS = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "9999", "{newest}", None, None


def upgrade():
    op.add_column("runs", sa.Column("note", sa.Text(), nullable=False, server_default="none"))
"""


def day(number: float) -> datetime:
    """Return the label `number` days after the first."""
    return ZERO + number * DAY


def table(
    name: str,
    *,
    mode: Mode = Mode.APPEND,
    partitioned: bool = False,
    reads: Iterable[str] = (),
    every: str = "DAY",
    zone: str = "UTC",
    keys: tuple[str, ...] = (),
    kind: Kind = Kind.TRANSFORM,
    start: datetime | None = None,
) -> Table:
    """Declare a table for a test."""
    return Table(
        name=name,
        kind=kind,
        type=TableType.PARTITIONED if partitioned else TableType.REGULAR,
        mode=mode,
        cadence=Cadence(parse_period(every), zone=zone),
        place=SOMEWHERE,
        start=start,
        fold=Merge(keys) if keys else None,
        reads=tuple(Read(read) for read in reads),
        fingerprint=f"code of {name}",
    )


def flow(*tables: Table, fingerprint: str = "flow 1", project: str = "demo") -> Flow:
    """Declare a flow for a test."""
    return Flow(
        project=project,
        tables={each.name: each for each in tables},
        order=tuple(each.name for each in tables),
        fingerprint=fingerprint,
    )


@dataclass
class Clock:
    """A wall clock that only tests advance."""

    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def pass_by(self, **span: float) -> None:
        self.at += timedelta(**span)


@dataclass
class Desk:
    """A ledger with a flow applied, and short methods to claim and to record."""

    ledger: Ledger
    clock: Clock
    version: int = 0
    flow: Flow = field(default_factory=flow)

    def apply(self, *tables: Table, fingerprint: str = "flow 1") -> None:
        self.flow = flow(*tables, fingerprint=fingerprint)
        self.ledger.declared.apply(self.flow, who="ann", now=ZERO, runner="here")

    def request(
        self, name: str, *labels: float, reads: Mapping[float, Iterable[Input]] | None = None, **more: Any
    ) -> ClaimRequest:
        inputs = {day(label): tuple(of) for label, of in (reads or {}).items()}
        values: dict[str, Any] = {
            "table": name,
            "labels": tuple(map(day, labels)),
            "code": f"code of {name}",
            "flow": self.flow.fingerprint,
            "runner": "here",
            "who": "ann",
            "now": ZERO,
            "lease_seconds": 60,
            "target_version": -1,
            "inputs": inputs,
        }
        return ClaimRequest(**(values | more))

    def claim(
        self, name: str, *labels: float, reads: Mapping[float, Iterable[Input]] | None = None, **more: Any
    ) -> Claim:
        return self.ledger.claims.take(self.request(name, *labels, reads=reads, **more))

    def read(self, name: str, low: float, high: float, *, read: str | None = None) -> Input:
        [pin] = self.ledger.reads.pins([(name, day(low), day(high))])
        return pin.input(read or name, "slices")

    def done(
        self,
        name: str,
        *labels: float,
        digest: str | None = "1:2:3",
        reads: Mapping[float, Iterable[Input]] | None = None,
        stands_from: float | None = None,
        claim: Claim | None = None,
        **more: Any,
    ) -> Recorded:
        held = claim or self.claim(name, *labels, reads=reads, **more)
        self.version += 1
        stands = None if stands_from is None else day(stands_from)
        results = [result(label, digest=digest, version=self.version, stands_from=stands) for label in labels]
        return self.ledger.claims.record_done(held, results)

    def suspects(self, *names: str) -> set[tuple[str, datetime]]:
        """Return the batches that have a different input than recorded."""
        found = self.ledger.reads.snapshot(self.flow)
        return {
            (name, label)
            for name in names or self.flow.tables
            for label, facts in found.of(name).suspects.items()
            if any(fact.recorded != fact.current for fact in facts)
        }


def result(
    label: float | datetime,
    *,
    digest: str | None = "1:2:3",
    version: int = 1,
    rows: int | None = None,
    stands_from: datetime | None = None,
    **more: Any,
) -> BatchResult:
    """Return the result of a batch of one day."""
    at = label if isinstance(label, datetime) else day(label)
    count = rows if rows is not None else 1 if digest is None else int(digest.split(":", maxsplit=1)[0])
    path = f"_stage/{at:%Y%m%d}/c={version}"
    return BatchResult(at, at + DAY, version, count, 10, digest, path, stands_from=stands_from, **more)


def require_sums(ledger: Ledger) -> None:
    """Verify that the ledger's total of each table's weights equals their sum."""
    batches, tables = schema.batches.c, schema.tables.c
    halves = sa.func.coalesce(sa.func.sum(batches.hash_high), 0), sa.func.coalesce(sa.func.sum(batches.hash_low), 0)
    summed = sa.select(tables.name, *halves).outerjoin(schema.batches, batches.table_name == tables.name)
    with ledger._database.read() as connection:
        kept = {
            name: sums for name, *sums in connection.execute(sa.select(tables.name, tables.sum_high, tables.sum_low))
        }
        assert kept == {name: list(map(int, sums)) for name, *sums in connection.execute(summed.group_by(tables.name))}


def desk(path: Path | None = None) -> Desk:
    """Open an empty ledger, in memory or in a folder. Its connections close when the test no longer refers to it."""
    clock = Clock()
    url = "sqlite://" if path is None else f"sqlite:///{path / 'ledger.db'}"
    ledger = Ledger.open(url, clock=clock)
    weakref.finalize(ledger._database, ledger._database._engine.dispose)
    return Desk(ledger, clock)


def desk_at_server() -> Desk:
    """Open an empty ledger in PostgreSQL: one schema serves all tests of a process, one after the other."""
    clock = Clock()
    server = postgres.server()
    ledger = Ledger.open(server.ledger_url("tests"), clock=clock)
    names = ", ".join(f'tests."{name}"' for name in schema.metadata.tables)
    server.run(f"TRUNCATE {names} RESTART IDENTITY")
    server.run(
        "INSERT INTO tests.ledger (id, sequence, last_claim, created_at) VALUES (1, 0, 0, %s)", to_micros(clock())
    )
    return Desk(ledger, clock)


def add_fictitious_migration(scripts: Path, patch: pytest.MonkeyPatch) -> None:
    """Open ledgers with a copy of the migrations in `scripts`, plus one that adds the column `note` to `runs`."""
    from waterclock.ledger.store import migrations

    shutil.copytree(migrations.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "9999_fictitious.py").write_text(_FICTITIOUS.replace("{newest}", database.NEWEST_SCHEMA))
    patch.setattr(migrations, "SCRIPTS", scripts)
    patch.setattr(database, "NEWEST_SCHEMA", "9999")
    patch.setattr("waterclock.ledger.store.read_only.NEWEST_SCHEMA", "9999")
