"""Formats the history of batches as JSON-compatible values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from waterclock.batches.audit_trail import Attempt, Audit, Link, PauseEvent
from waterclock.batches.schemas import SchemaVersion, Side
from waterclock.operations.audit_lookup import AuditTarget, Listed
from waterclock.operations.json import instant_text
from waterclock.operations.schema_versions import of_batch
from waterclock.timelabel.label import label_of


def audit_json(found: AuditTarget) -> dict[str, Any]:
    """Return the history of one batch for scripts."""
    return {
        "table": found.table,
        "label": label_of(found.label),
        "start": instant_text(found.label),
        "end": instant_text(found.end),
        "status": found.status.value,
        "reason": found.reason,
        "code_is_current": found.code_is_current,
        **audit_parts(found.audit),
        "events": [
            {"at": instant_text(it.at), "kind": it.kind, "who": it.who, "claim": it.claim, "data": dict(it.data)}
            for it in found.audit.events
        ],
        "made_from": [_link_json(link) for link in found.up],
        "went_into": [_link_json(link) for link in found.down],
        "pauses": _pauses_json(found.pauses),
        "closing": None if found.closing is None else found.closing.to_dict(),
        "held": None
        if found.held is None
        else {
            "rows": found.held.rows,
            "bytes": found.held.bytes,
            "folder": f"{found.stage}/{found.held.slice_path}",
            "measures": dict(found.held.measures),
        },
        "schemas": {str(side): version.number for side, version in _versions(found).items()},
    }


def _versions(found: AuditTarget) -> dict[Side, SchemaVersion]:
    claim = found.audit.cell.current_claim
    return {} if claim is None else of_batch(found.schemas, claim)


def batches_json(name: str, listed: Listed) -> dict[str, Any]:
    """Return a table's batches for scripts, newest last."""
    return {
        "table": name,
        "batches": [
            {"label": label_of(it.cell.label), "status": _status(it, listed), **audit_parts(it)} for it in listed.audits
        ],
        "pauses": _pauses_json(listed.pauses),
    }


def _pauses_json(pauses: Iterable[PauseEvent]) -> list[dict[str, Any]]:
    return [
        {"at": instant_text(it.at), "kind": it.kind, "all": it.is_of_all, "who": it.who, "why": it.why} for it in pauses
    ]


def _status(audit: Audit, listed: Listed) -> str | None:
    state = listed.unsettled.get(audit.cell.label)
    return audit.cell.status if state is None else state.status.value


def audit_parts(audit: Audit) -> dict[str, Any]:
    """Return the contents of a batch and its attempts."""
    return {
        "claim": audit.cell.current_claim,
        "rows": audit.cell.rows,
        "stands_from": instant_text(audit.cell.stands_from),
        "error": audit.cell.error,
        "attempts": [_attempt_json(attempt) for attempt in audit.attempts],
    }


def _attempt_json(attempt: Attempt) -> dict[str, Any]:
    made = attempt.revision
    return {
        "claim": attempt.claim,
        "status": attempt.status,
        "who": attempt.who,
        "runner": attempt.runner,
        "run": attempt.run,
        "code": attempt.code,
        "flow": attempt.flow,
        "now": instant_text(attempt.now),
        "claimed_at": instant_text(attempt.claimed_at),
        "closed_at": instant_text(attempt.closed_at),
        "error": attempt.error,
        "inputs": [
            {
                "table": it.table,
                "read": it.read,
                "kind": it.kind,
                "low": instant_text(it.low),
                "high": instant_text(it.high),
                "location": it.location,
                "version": it.version,
                "content": it.content,
            }
            for it in attempt.inputs
        ],
        "revision": None
        if made is None
        else {
            "version": made.version,
            "rows": made.rows,
            "bytes": made.bytes,
            "digest": made.digest,
            "slice_path": made.slice_path,
            "measures": dict(made.measures),
            "timings": dict(made.timings),
            "source": dict(made.source),
            "recorded_at": instant_text(made.recorded_at),
        },
    }


def _link_json(link: Link) -> dict[str, Any]:
    return {
        "depth": link.depth,
        "table": link.table,
        "label": label_of(link.label),
        "claim": link.claim,
        "rows": link.rows,
        "code": link.code,
        "is_replaced": link.is_replaced,
    }
