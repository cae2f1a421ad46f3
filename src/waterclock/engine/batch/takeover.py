"""Resolves claims of unknown outcome: writes a log entry that prevents their commit, unless the commit came first.

Writing this entry is called killing the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from waterclock.batches.records import BatchResult, Claim
from waterclock.engine.batch.claim_record import read_claim_record
from waterclock.engine.batch.other_engines import update_for_other_engines
from waterclock.engine.batch.other_parts import request_other_part
from waterclock.engine.batch.publish import kill_delivery
from waterclock.engine.damage import require_versions
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger_errors import ClaimClosed
from waterclock.storage.commit.pointers import kill_claim
from waterclock.storage.log.delta_log import outcome, table_exists
from waterclock.storage.slices.manifest import Manifest, quarantine_measure, read_manifest
from waterclock.timelabel.label import instant_of, label_of


@dataclass(slots=True)
class TakeoverResult:
    """The number of claims that were resolved, and the errors of those that could not be."""

    settled: int = 0
    unsettled: list[WaterclockError] = field(default_factory=list)


def take_over(work: RunContext, left: Sequence[Claim]) -> TakeoverResult:
    """Resolve claims that were left open: record each as done or close it, if its outcome can be determined now."""
    found = TakeoverResult()
    for claim in left:
        table = work.flow.tables.get(claim.request.table)
        if table is None:
            found.settled += _close_undeclared(work, claim)
            continue
        try:
            _take_over(work, table, claim)
            found.settled += 1
        except Exception as raised:  # noqa: BLE001 - a claim that cannot be resolved does not block the others
            error = _unsettled_claim_error(table, claim, raised)
            work.listener.on_message(error.what)
            found.unsettled.append(error)
    return found


def _close_undeclared(work: RunContext, claim: Claim) -> bool:
    """Close a claim of a table that is no longer declared, unless it has committed data. Return whether it was closed.

    While a claim is open, the slices that it reads are kept. Claims of deliveries stay open, as their destination is
    not known any more.
    """
    record = work.ledger.reads.find_table(claim.request.table)
    if record is None or record.kind == Kind.PUBLISH:
        return False
    folder = work.lake.folder(record.name)
    try:
        if table_exists(folder):
            kill_claim(folder, claim.number)
            if outcome(folder, claim.number, after_version=claim.request.target_version).kind == "data":
                return False
        work.ledger.claims.close_lost(claim, why=f"{record.name} is no longer declared")
    except WaterclockError:
        return False
    work.listener.on_message(f"claim {claim.number} of {record.name}, which is no longer declared: closed")
    return True


def _unsettled_claim_error(table: Table, claim: Claim, raised: Exception) -> WaterclockError:
    """Build the error for a claim of unknown outcome, with the reason why the outcome could not be determined."""
    where = f"{table.name}@{label_of(claim.request.labels[0])}"
    cause = to_error(raised, where=where)
    return WaterclockError(
        cause.code,
        f"claim {claim.number} of {table.name} cannot be resolved yet: {cause.what}",
        where=where,
        why=": ".join(part for part in (cause.where if cause.where != where else None, cause.why) if part) or None,
        fix=cause.fix,
        transient=cause.transient,
    )


def _take_over(work: RunContext, table: Table, claim: Claim) -> None:
    left_by = claim.request.runner
    try:
        had_committed = record_if_committed(work, table, claim)
        if not had_committed:
            ended = "the lease of {} expired" if claim.has_expired(work.real_now()) else "{} has ended"
            work.ledger.claims.close_lost(claim, why=ended.format(left_by))
    except ClaimClosed:
        return  # another runner has resolved it in the meantime
    what = "had committed: recorded" if had_committed else f"was abandoned by {left_by}: killed"
    work.listener.on_message(f"claim {claim.number} of {table.name} {what}")


def record_if_committed(work: RunContext, table: Table, claim: Claim) -> bool:
    """Kill the claim, and check whether its data was committed before. If so, record it and return True.

    Claims of unknown outcome must be closed only this way, so that no paused runner can commit later. If this returns
    False, the caller closes the claim.
    """
    fault("settling")
    committed = _kill_or_find_commit(work, table, claim)
    if committed is None:
        return False
    version, labels = committed
    folder = work.folder(table)
    manifests = [read_manifest(folder, work.lake.slice_path(label, claim.number)) for label in labels]
    results = _build_results(table, folder, manifests, version)
    request_other_part(work, table, claim, labels)
    work.ledger.claims.record_done(claim, results)
    _record_releases(work, table, claim, results)
    if table.kind is not Kind.PUBLISH:
        update_for_other_engines(work, table)
    return True


def _kill_or_find_commit(work: RunContext, table: Table, claim: Claim) -> tuple[int, Sequence[datetime]] | None:
    """Return version and labels of the claim's data commit, or None if the kill came first."""
    if table.kind is Kind.PUBLISH:
        return (-1, claim.request.labels) if kill_delivery(work, table, claim.number) else None
    folder = work.folder(table)
    if not table_exists(folder):
        require_versions(work, table.name)
        # a claim is taken only after its table was created: without a table nothing can be committed
        return None
    # in an older log, a kill would be committed under a version number that the ledger has for another commit
    require_versions(work, table.name)
    kill_claim(folder, claim.number)
    found = outcome(folder, claim.number, after_version=claim.request.target_version)
    if found.kind != "data":
        return None
    # a label that a LOOKBACK found unchanged is claimed, but not committed
    named = found.identity.labels if found.identity else ()
    return found.version, [instant_of(label) for label in named] or claim.request.labels


def _build_results(table: Table, folder: str, manifests: Sequence[Manifest], version: int) -> list[BatchResult]:
    """Build the results to record for a claim's labels, from its claim record.

    Without a record they are built from the manifests, and have no warnings, measures or author of a release.
    """
    left = next((found for it in manifests if (found := read_claim_record(folder, it.slice_path)) is not None), None)
    known = {result.label: result for result in (left[1] if left else ())}
    return [
        replace(
            known.get(manifest.label)
            or manifest.result(
                table.cadence.window(label_of(manifest.label)).end, stands_from=parse_snapshot_start(manifest)
            ),
            version=version,
            measures={
                **(known[manifest.label].measures if manifest.label in known else quarantine_measure(manifest)),
                "recovered": True,
            },
        )
        for manifest in manifests
    ]


def _record_releases(work: RunContext, table: Table, claim: Claim, results: Sequence[BatchResult]) -> None:
    """Record in the audit trail who released a held batch, and why, since its own runner has ended."""
    for result in results:
        if released := result.measures.get("released"):
            release = {"why": released["why"], "claim": claim.number}
            work.ledger.past.add_event(
                "released", who=released["by"], table=table.name, label=result.label, data=release
            )


def parse_snapshot_start(manifest: Manifest) -> datetime | None:
    """Return the start of the period that a sealed snapshot stands for, according to its manifest, or None."""
    text = manifest.source.get("stands_from")
    return None if text is None else datetime.fromisoformat(str(text))
