"""Creates tables of a second set (see `second_set`) from links to sealed slices of the live tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from waterclock.batches.records import ClaimRequest, Input
from waterclock.engine.maintenance.ledger_rebuild import REBUILT
from waterclock.engine.maintenance.resealing import seal_linked_slices
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.user_functions import register_functions
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.flow.linked_projects import upstream_of
from waterclock.ledger.read.current_revisions import CurrentRevision
from waterclock.ledger.write.committed_claims import CommittedClaim
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_slices
from waterclock.storage.commit.rebuild import commit_whole_state
from waterclock.storage.commit.row_order import record_row_order
from waterclock.storage.folds.older_states import state_from
from waterclock.storage.folds.versions import table_schema_of
from waterclock.storage.log.identity import Identity
from waterclock.storage.schema_types import widen_schema
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.timelabel.label import label_of


def build_commit_record(work: RunContext, table: Table, current: Sequence[CurrentRevision]) -> CommittedClaim:
    """Build one committed claim with a table's current revisions, for the ledger of the second set."""
    results = tuple(
        replace(
            each.result,
            digest=each.result.digest or (f"claim {each.claim}" if each.result.rows else None),
            source={},
        )
        for each in current
    )
    number = work.ledger.maintenance.take_claim_number()
    return CommittedClaim(number, request_of(work, table, current), results, work.real_now())


def request_of(
    work: RunContext,
    table: Table,
    current: Sequence[CurrentRevision],
    inputs: Mapping[datetime, tuple[Input, ...]] | None = None,
) -> ClaimRequest:
    """Build the claim request that records current revisions in the second set's ledger."""
    codes = {each.code for each in current}
    return ClaimRequest(
        table=table.name,
        labels=tuple(each.result.label for each in current),
        code=min(codes - {table.fingerprint}, default=table.fingerprint),  # rows of older code stay recognisable
        flow=work.flow.fingerprint,
        runner=work.settings.runner,
        who=work.settings.who,
        now=work.real_now(),
        lease_seconds=work.settings.lease,
        target_version=-1,
        inputs=inputs or {},
        restates=REBUILT,
    )


def seed_from_live_slices(live: RunContext, work: RunContext, table: Table, pieces: Sequence[CurrentRevision]) -> None:
    """Create a table of the second set from slices of the live one, by links.

    The state of a MERGE or TEMPORAL table is made from them.
    """
    source = live.folder(table)
    spark = work.sessions.own()
    try:
        register_functions(spark, work.root, work.flow, table.expressions, work.keys)
        claim = work.ledger.maintenance.take_claim_number()
        manifests = seal_linked_slices(
            spark, table, [read_manifest(source, each.result.slice_path) for each in pieces], claim, source, work.lake
        )
        create_from_slices(work, table, pieces, manifests, claim, linked_inputs_by_label(live, table))
    finally:
        work.sessions.release(spark)


def linked_inputs_by_label(live: RunContext, table: Table) -> Mapping[datetime, tuple[Input, ...]]:
    """Map labels to their inputs from another project, by which later restatements there are detected."""
    return {} if upstream_of(table) is None else live.ledger.maintenance.inputs_by_label(table.name)


def create_from_slices(
    work: RunContext,
    table: Table,
    pieces: Sequence[CurrentRevision],
    manifests: Sequence[Manifest],
    claim: int,
    inputs: Mapping[datetime, tuple[Input, ...]],
) -> None:
    """Create a table of the second set from sealed slices, and record them as one claim, with `inputs` by label."""
    folder = work.folder(table)
    schema = schema_of(manifests, table)
    create_table(folder, schema, is_partitioned=table.is_partitioned, project=work.flow.project)
    record_row_order(folder, table.file_order, schema, project=work.flow.project)
    newest = label_of(manifests[-1].label)
    labels = tuple(label_of(manifest.label) for manifest in manifests)
    slices = tuple(manifest.slice_path for manifest in manifests)
    identity = Identity(work.flow.project, table.name, REBUILT, labels, newest, claim, table.fingerprint, (), slices)
    if table.is_fold:
        spark = work.sessions.own()
        version = commit_whole_state(folder, identity, state_from(spark, folder, manifests, table))
        work.sessions.release(spark)
    elif table.mode is Mode.REPLACE:
        version = commit_slices(folder, identity, manifests[-1:], mode="replace")
    else:
        version = commit_slices(folder, identity, manifests, mode="append")
    results = tuple(
        replace(each.result, version=version, slice_path=manifest.slice_path)
        for each, manifest in zip(pieces, manifests, strict=True)
    )
    read = {each.result.label: inputs.get(each.result.label, ()) for each in pieces}
    found = CommittedClaim(claim, request_of(work, table, pieces, read), results, work.real_now())
    work.ledger.maintenance.seed([found], head_version=version)


def schema_of(manifests: Sequence[Manifest], table: Table) -> str:
    """Return the schema of a table that is made from slices, with the columns that a TEMPORAL table adds."""
    schema = raw_schema_of(manifests)
    return schema if table.temporal is None else table_schema_of(schema, table.temporal)


def raw_schema_of(manifests: Sequence[Manifest]) -> str:
    """Return a schema with the columns of all given slices."""
    schema = manifests[0].schema
    for manifest in manifests[1:]:
        schema = widen_schema(schema, manifest.schema) or schema
    return schema
