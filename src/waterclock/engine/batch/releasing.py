"""Releases a held batch with the rows that were sealed.

Nothing is computed again, and the audit trail records who released it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from waterclock.batches.audit_records import Audit
from waterclock.batches.earlier_revisions import input_identities
from waterclock.batches.ledger_snapshot import BEGINNING, LOOK_AGAIN, RELEASE, is_release
from waterclock.batches.records import BatchResult, Claim, ClaimRequest
from waterclock.engine.batch.claim_record import read_claim_record
from waterclock.engine.batch.restored_rows import can_restore_rows
from waterclock.engine.collect.change_scans import CHANGED, LOOKED
from waterclock.engine.collect.collect_result import RELEASED
from waterclock.engine.collect.lookback import find_next_lookback
from waterclock.engine.reads.pin import PinnedRead
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.planner.plan import RECOLLECT, TO_BE_RELEASED, Batch, Group, Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.selection import Labels
from waterclock.storage.slices.hard_links import seal_linked_slice
from waterclock.storage.slices.manifest import Manifest, is_sealed, read_manifest
from waterclock.storage.slices.writer import WrittenSlices
from waterclock.timelabel.label import label_of


def group_to_release(work: RunContext, table: Table, label: datetime, now: datetime, why: str) -> Group:
    """Return the group that releases a held label, for the reason `why`. Raises E756 if its inputs changed."""
    snapshot = work.ledger.reads.snapshot(work.flow)
    facts = snapshot.of(table.name)
    others = {other: found for other, found in facts.troubles.items() if other != label}
    free = replace(snapshot, tables={**snapshot.tables, table.name: replace(facts, troubles=others)})
    request = PlanRequest(
        only=(table.name,), labels=Labels.from_range(label, label), force={table.name: frozenset({label})}
    )
    plan = Planner(work.flow).plan(free, now, request)
    found = next((batch for batch in plan.batches if batch.table == table.name and batch.label == label), None)
    if found is None or found.status is not Status.READY:
        raise _not_ready_error(table, label, found)
    return Group(table.name, (replace(found, verb=RELEASE, reason=why),))


def _not_ready_error(table: Table, label: datetime, found: Batch | None) -> WaterclockError:
    """Build the error for a held batch that would not be made now. One that waits may be releasable later."""
    if found is None:
        return _release_error(table, label, "it is no longer due")
    fix = ""
    if found.status in {Status.WAITING, Status.BLOCKED}:
        fix = "release it when the batches that it waits for are done, if its inputs are then as it read them"
        fix = f"{fix}; or `waterclock retry {table.name}@{label_of(label)}` makes it again"
    return _release_error(table, label, found.reason, fix=fix)


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """A held batch to release: its sealed slice, the claim that sealed it, and the result to record.

    `release_request`: who requested the release, and why. It is empty if the user of this run releases the batch.
    """

    manifest: Manifest
    request: ClaimRequest
    result: BatchResult
    release_request: Mapping[str, Any] = field(default_factory=dict)


def find_held_batch(
    work: RunContext, table: Table, group: Group, pins: Mapping[datetime, Sequence[PinnedRead]]
) -> HeldBatch:
    """Return the held batch that a group releases. `pins` are the inputs that it would read now.

    Raises E756 if the slice is gone, its inputs have changed, further late rows were found for it, a later delivery
    followed the one that it was compared with, a later snapshot stands for it, or the request to release it was
    withdrawn.
    """
    [batch], label = group.batches, group.batches[0].label
    reads = pins[label]
    folder = work.folder(table)
    audit, claim = work.ledger.past.audit(table.name, label), work.ledger.reads.held_claim(table.name, label)
    is_asked = is_release(audit.cell.requested)
    if batch.reason == TO_BE_RELEASED and not is_asked:
        raise _release_error(table, label, "the request was withdrawn")
    if table.is_snapshot and audit.cell.current_claim is None and _is_covered(work, table, label):
        raise _release_error(table, label, "a later snapshot stands for it", fix="leave it: no reader waits for it")
    if audit.cell.due_again is not None:
        raise _release_error(table, label, "the next run makes it again, with further late rows")
    path = "" if claim is None else work.lake.slice_path(label, claim)
    record = read_claim_record(folder, path) if path else None
    if record is None or not is_sealed(folder, path):
        raise _release_error(table, label, "its sealed rows are gone")
    request, results = work.former.request(record[0], table.name, table.fingerprint), record[1]
    if reads and input_identities(request.inputs.get(label, ())) != input_identities([it.input for it in reads]):
        raise _release_error(table, label, "its inputs have changed since")
    release_request = _read_request(audit) if is_asked else {}
    manifest = read_manifest(folder, path)
    if _holds_changes_only(work, table, batch, manifest):
        earlier = work.ledger.reads.slices(table.name, BEGINNING, label)
        if since := next((piece for piece in earlier if piece.claim > manifest.claim), None):
            raise _release_error(table, label, f"{label_of(since.label)} was delivered since")
    manifest = replace(manifest, table=table.name, code=work.former.code(manifest.code, table.fingerprint))
    return HeldBatch(manifest, request, results[0], release_request)


def _is_covered(work: RunContext, table: Table, label: datetime) -> bool:
    return work.ledger.reads.covered_windows(table.name).covers_instant(label)


def _holds_changes_only(work: RunContext, table: Table, batch: Batch, manifest: Manifest) -> bool:
    """Return whether held rows are changes relative to earlier deliveries, so that later deliveries outdate them."""
    if table.kind is not Kind.PUBLISH or table.mode is not Mode.MERGE:
        return False
    return can_restore_rows(work, table, batch) if table.is_delivered_by_label else not manifest.source.get("is_whole")


def _read_request(audit: Audit) -> dict[str, Any]:
    """Return who last requested the release of a batch, and why."""
    asked = next(each for each in reversed(audit.events) if each.kind == f"{RELEASE} requested")
    return {"by": asked.who, "why": asked.data.get("why", "") if asked.data else ""}


def seal_held_slice(work: RunContext, table: Table, held: HeldBatch, claim: Claim) -> WrittenSlices:
    """Seal a held slice under a new claim, by links to its files."""
    folder, manifest = work.folder(table), held.manifest
    linked = seal_linked_slice(
        manifest,
        folder,
        folder=folder,
        lake=work.lake,
        claim=claim.number,
        label=manifest.label,
        code=manifest.code,
        name=table.name,
        # past windows that its lookback found are not released; with their notes, the next lookback would skip them
        source={name: of for name, of in manifest.source.items() if name not in {LOOKED, CHANGED}}
        | {RELEASED: manifest.slice_path},
    )
    return WrittenSlices((linked,), {manifest.label: {}})


def recollect_past(work: RunContext, table: Table, held: HeldBatch) -> None:
    """Request that past windows are collected again if only a held batch's LOOKBACK has read their late rows.

    The late rows of these windows are not released with the batch. Windows of a MERGE or TEMPORAL table keep their
    rows. Windows within the LOOKBACK of the next batch are left to that batch. Batches that were skipped, or made
    before the held one, do not count as the next. The request is recorded before the release is committed: if the
    release then fails, one scan of the source was in vain.
    """
    source, label = table.source, held.manifest.label
    past = [other for other in held.request.labels if other < label]
    if source is None or source.lookback is None or not past:
        return
    reach = find_next_lookback(work.ledger, table, table.cadence.window_of(label).end, held.manifest.claim)
    done = {piece.label for piece in work.ledger.reads.slices(table.name, min(past), label)}
    wanted = [other for other in past if other in done and other < reach]
    if wanted:
        why = f"{label_of(label)} contained rows of this window, and was held"
        verb = LOOK_AGAIN if table.is_fold else RECOLLECT
        # a window that is held itself has rows from before: it is made again as well
        work.ledger.decisions.request_restate(table.name, wanted, verb, who=work.settings.who, why=why, is_retry=True)


def record_release(work: RunContext, group: Group, claim: Claim, release: Mapping[str, Any]) -> None:
    """Record in the audit trail that a held batch is released, and by whom."""
    data = {"why": release["why"], "claim": claim.number}
    work.ledger.past.add_event(
        "released", who=release["by"], table=group.table, label=group.batches[0].label, data=data
    )


def _release_error(table: Table, label: datetime, why: str, *, fix: str = "") -> WaterclockError:
    where = f"{table.name}@{label_of(label)}"
    fix = fix or f"`waterclock retry {where}` makes it again"
    return WaterclockError("E756", f"{where} cannot be released", where=where, why=why, fix=fix)
