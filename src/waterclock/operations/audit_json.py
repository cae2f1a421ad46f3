"""Builds the JSON responses about the history of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waterclock.batches.audit_records import Audit
from waterclock.batches.schemas import SchemaVersion, Side
from waterclock.operations.audit_lookup import AuditTarget, BatchList
from waterclock.operations.schema_versions import batch_versions

if TYPE_CHECKING:
    from waterclock.json_models.audit import AuditAnswer, AuditListAnswer


def audit_answer(found: AuditTarget) -> AuditAnswer:
    """Build the JSON response with the history of one batch."""
    from waterclock.json_models.audit import AuditAnswer, HeldResult

    held = found.held
    folder = "" if held is None else f"{found.stage}/{held.slice_path}"
    return AuditAnswer.build(
        found,
        start=found.label,
        claim=found.audit.cell.current_claim,
        rows=found.audit.cell.rows,
        stands_from=found.audit.cell.stands_from,
        error=found.audit.cell.error,
        attempts=found.audit.attempts,
        events=found.audit.events,
        made_from=found.up,
        went_into=found.down,
        held=held and HeldResult.build(rows=held.rows, bytes=held.bytes, folder=folder, measures=held.measures),
        schemas={str(side): version.number for side, version in _schema_versions(found).items()},
    )


def _schema_versions(found: AuditTarget) -> dict[Side, SchemaVersion]:
    claim = found.audit.cell.current_claim
    return {} if claim is None else batch_versions(found.schemas, claim)


def audit_list_answer(name: str, listed: BatchList) -> AuditListAnswer:
    """Build the JSON response with the history of a table's batches, newest last."""
    from waterclock.json_models.audit import AuditListAnswer, ListedAudit

    batches = [
        ListedAudit.build(
            label=it.cell.label, status=_status_text(it, listed), claim=it.cell.current_claim, rows=it.cell.rows,
            stands_from=it.cell.stands_from, error=it.cell.error, attempts=it.attempts,
        )
        for it in listed.audits
    ]  # fmt: skip
    return AuditListAnswer.build(table=name, batches=batches, pauses=listed.pauses)


def _status_text(audit: Audit, listed: BatchList) -> str | None:
    state = listed.states.get(audit.cell.label)
    return audit.cell.status if state is None else state.status.value


def batch_record(audit: Audit) -> dict[str, Any]:
    """Return a batch and its attempts as a dict for JSON."""
    from waterclock.json_models.audit import BatchRecord

    return BatchRecord.model_validate(audit).to_json()
