"""Resolves a table's content as of a tick from its recorded commits, and returns its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.batches.records import CommittedSlice
from waterclock.engine.reads.hidden import add_hidden_columns
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Table
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.revisions import CommittedRevision
from waterclock.storage.folds.older_states import frame_of_resolved
from waterclock.storage.log.content_as_of import NO_VERSION, ContentLocation, DataCommit, LogStep, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def commit_records(ledger: Ledger, table: str) -> list[DataCommit]:
    """Return the data commits of a table from the ledger, which keeps them longer than the Delta log.

    Their times are those of the ledger's clock. Cost: some 10 µs for each slice that was ever committed.
    """
    return group_commits(ledger.reads.committed_slices(table), ledger.maintenance.emptying_versions_of(table))


def group_commits(
    rows: Sequence[CommittedSlice | CommittedRevision], emptying_versions: Mapping[int, datetime]
) -> list[DataCommit]:
    """Group slices in the order of their versions into commits.

    `emptying_versions` are the versions that emptied the table.
    """
    versions = {row.version for row in rows}
    # commits that emptied the table, such as a change of its windows, and added no rows
    records = [
        DataCommit(version, at, {}, is_reset=True)
        for version, at in emptying_versions.items()
        if version not in versions
    ]
    for (version, stands_from), of_version in groupby(rows, key=lambda row: (row.version, row.stands_from)):
        members = list(of_version)
        slices, since = {row.label: row.slice_path for row in members}, members[0].recorded_at
        records.append(DataCommit(version, since, slices, stands_from, is_reset=version in emptying_versions))
    return records


def list_state_steps(ledger: Ledger, table: str, high: datetime) -> tuple[LogStep, ...]:
    """Return a MERGE or TEMPORAL table's current slices before `high`, each with the Delta version of its state."""
    versions = ledger.reads.versions(table)
    slices = ledger.reads.slices(table, BEGINNING, high)
    return tuple(LogStep(each.label, each.slice_path, versions.get(each.label, NO_VERSION)) for each in slices)


def resolve_as_of(
    work: RunContext, table: Table, tick: datetime, *, known_at: datetime | None = None
) -> ContentLocation:
    """Find the slices or the Delta version with a table's content as of a tick, as it was known at `known_at`."""
    return resolve(table, tick, commit_records(work.ledger, table.name), known_at=known_at)


def frame_as_of(
    work: RunContext, spark: SparkSession, table: Table, tick: datetime, *, known_at: datetime | None = None
) -> DataFrame:
    """Return a table's rows as of a tick, as known at `known_at` (None: now).

    Raises E705 if neither a batch nor the declaration has types, E640 if the state is not kept.
    """
    rows = frame_of_resolved(spark, work.lake, table, resolve_as_of(work, table, tick, known_at=known_at))
    return add_hidden_columns(rows, table)
