"""Finds the history of a batch, or of a table's newest batches, in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.audit_records import Audit, Link, PauseEvent
from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, Closing
from waterclock.batches.records import BatchResult
from waterclock.batches.schemas import SchemaVersion
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.operations.closings import read_closing
from waterclock.operations.held_results import find_held_result, stage_of
from waterclock.operations.project_opening import OpenedProject, known_label_bounds
from waterclock.planner.label_states import LabelState, label_states
from waterclock.planner.plan import Status
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """The history of one batch: its record, window, upstream and downstream batches, and the pauses of its table.

    `held` is the sealed result that waits for a release, stored below `stage`. If `is_outdated`, its
    inputs have changed since, so that it cannot be released, only made again.
    """

    table: str
    label: datetime
    end: datetime
    audit: Audit
    status: Status
    reason: str
    code_is_current: bool
    up: tuple[Link, ...]
    down: tuple[Link, ...]
    pauses: tuple[PauseEvent, ...]
    closing: Closing | None = None
    schemas: tuple[SchemaVersion, ...] = ()
    held: BatchResult | None = None
    stage: str = ""
    is_outdated: bool = False


@dataclass(frozen=True, slots=True)
class BatchList:
    """Batches of one table, newest last. `states`: the states of those that are due. `pauses`: the table's pauses."""

    audits: tuple[Audit, ...]
    states: Mapping[datetime, LabelState]
    pauses: tuple[PauseEvent, ...] = ()


def find_audit_target(
    at: OpenedProject, name: str, labels: Labels | None, *, depth: int | None, last: int
) -> AuditTarget | BatchList:
    """Return one batch, or the newest batches of the table if `labels` is None or selects several.

    Raises E513 if `labels` selects no label of the table, E516 if the ledger has none of the selected batches.
    """
    table = at.flow.tables[name]
    low, high = BEGINNING, FOREVER
    if labels is not None:
        low, high = known_label_bounds(at, table, labels)
        if table.cadence.next(low) == high:
            return _read_audit_target(at, table, low, depth)
    shown = [] if at.ledger is None else at.ledger.past.newest(name, last, low, high)
    if at.ledger is None or not shown:
        raise WaterclockError(
            "E516",
            f"no batch of {name} was made yet",
            why="the ledger has no batch of it" if labels is None else f"the ledger has none in {labels}",
            fix=f"`waterclock plan {name}` shows the due batches",
        )
    span = shown[0].label, table.cadence.next(shown[-1].label)
    states = label_states(at.planner, at.snapshot, at.now, shown, span, only=[name])[name]
    return BatchList(
        tuple(at.ledger.past.audit(name, cell.label) for cell in shown),
        {one.label: one for one in states},
        at.ledger.past.pauses(name),
    )


def _describe_state(now: LabelState | None) -> str:
    if now is None:
        return "it is not due yet"
    names_status = now.reason.startswith(str(now.status))  # blocked by ...
    return f"it is {now.reason}" if names_status else f"it is {now.status}{f': {now.reason}' if now.reason else ''}"


def _read_audit_target(at: OpenedProject, table: Table, label: datetime, depth: int | None) -> AuditTarget:
    end = table.cadence.next(label)
    stored = [] if at.ledger is None else at.ledger.past.grid([table.name], label, end)
    state = label_states(at.planner, at.snapshot, at.now, stored, (label, end), only=[table.name])[table.name]
    now = state[0] if state else None
    if at.ledger is None or not stored:
        more = f"`waterclock plan {table.name}@{label_of(label)}` shows more"
        raise WaterclockError(
            "E516",
            f"{table.name}@{label_of(label)} was not made",
            why=_describe_state(now),
            fix=f"`waterclock run` makes it; {more}" if now is not None and now.status is Status.READY else more,
        )
    audit = at.ledger.past.audit(table.name, label)
    current = audit.current
    up: Iterable[Link] = ()
    down: Iterable[Link] = ()
    if current is not None:
        up = at.ledger.past.upstream(table.name, label, depth=depth)
        down = at.ledger.past.downstream(table.name, label, depth=depth)
    return AuditTarget(
        table=table.name,
        label=label,
        end=end,
        audit=audit,
        status=now.status if now else Status.DONE,
        reason=now.reason if now else "",
        code_is_current=current is not None and current.code == table.fingerprint,
        up=tuple(up),
        down=tuple(down),
        pauses=at.ledger.past.pauses(table.name),
        closing=read_closing(at, table, label),
        schemas=at.ledger.reads.schemas(table.name),
        held=find_held_result(at, table, audit.cell),
        stage=stage_of(at, table),
        is_outdated=now is not None and now.is_outdated,
    )
