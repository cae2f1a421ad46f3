"""Resolves a table's content as of a tick from its recorded commits, and returns its rows."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.engine.reads.hidden import with_hidden
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Table
from waterclock.ledger.ledger import Ledger
from waterclock.storage.folds.older_states import frame_of_resolved
from waterclock.storage.log.content_as_of import NO_VERSION, DataCommit, LogStep, Resolved, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def commit_records(ledger: Ledger, table: str) -> list[DataCommit]:
    """Return the data commits of a table from the ledger, which keeps them longer than the Delta log.

    Their times are those of the ledger's clock. Cost: some 10 µs for each slice that was ever committed.
    """
    rows, recuts = ledger.reads.committed_slices(table), ledger.keeping.recuts_of(table)
    versions = {row.version for row in rows}
    # a recut after which no rows remain
    records = [
        DataCommit(version, at, {}, begins_anew=True) for version, at in recuts.items() if version not in versions
    ]
    for (version, stands_from), of_version in groupby(rows, key=lambda row: (row.version, row.stands_from)):
        members = list(of_version)
        slices, since = {row.label: row.slice_path for row in members}, members[0].recorded_at
        records.append(DataCommit(version, since, slices, stands_from, begins_anew=version in recuts))
    return records


def steps_before(ledger: Ledger, table: str, high: datetime) -> tuple[LogStep, ...]:
    """Return a MERGE or TEMPORAL table's current slices before `high`, with the versions that have their states."""
    versions = ledger.reads.versions(table)
    slices = ledger.reads.slices(table, BEGINNING, high)
    return tuple(LogStep(each.label, each.slice_path, versions.get(each.label, NO_VERSION)) for each in slices)


def resolve_as_of(work: RunContext, table: Table, tick: datetime, *, known_at: datetime | None = None) -> Resolved:
    """Resolve the content of a table as of a tick, as far as it was known at `known_at`."""
    return resolve(table, tick, commit_records(work.ledger, table.name), known_at=known_at)


def frame_as_of(
    work: RunContext, spark: SparkSession, table: Table, tick: datetime, *, known_at: datetime | None = None
) -> DataFrame:
    """Return the rows of a table as of a tick, as known at `known_at`. Raises  E705 without types, E640 if not kept."""
    rows = frame_of_resolved(spark, work.lake, table, resolve_as_of(work, table, tick, known_at=known_at))
    return with_hidden(rows, table)
