"""Groups the batches that cannot proceed by root cause, and counts the batches that each cause blocks.

Batches have the same cause if they failed with the same error, ignoring table names, labels, counts and values of
their rows in its text.
Errors in a table's own rows or code are a separate cause for each table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from waterclock.alerts.deadline_causes import find_deadline_causes
from waterclock.alerts.decisions import AlertInput
from waterclock.batches.alerts import LONGEST, Batches, BatchWarnings, RootCause, TroubleKind, cause_key
from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.batches.log_retention import LogSafety
from waterclock.errors import WaterclockError, rendered_parts
from waterclock.flow.declarations import Flow
from waterclock.operations.blocking_batches import skip_words
from waterclock.operations.deadlines import DeadlineWindow
from waterclock.operations.formatting import common_reason
from waterclock.operations.held_batches import retry_words
from waterclock.operations.retained_logs import TableLog
from waterclock.operations.silent_sources import Silence, silence_words
from waterclock.planner.plan import NEEDS_SOMEBODY, Batch, Plan, Status

_KINDS = {Status.FAILED: TroubleKind.FAILED, Status.HELD: TroubleKind.HELD, Status.EXPIRED: TroubleKind.EXPIRED}
_DAMAGE = frozenset({"E605", "E640", "E643", "E752", "E753", "E754"})
# errors in the rows or the code of one table: the same message for two tables is two causes
_OF_ONE_TABLE = frozenset({"E720", "E721", "E722", "E740", "E752", "E753", "E754"})
# kinds that stop no batch. Each check finds all causes of these kinds
_KINDS_WITHOUT_STOP = frozenset(
    {
        TroubleKind.WARNED,
        TroubleKind.MISSED,
        TroubleKind.NEAR,
        TroubleKind.LONG,
        TroubleKind.EMPTY,
        TroubleKind.HOLDING,
        TroubleKind.LOSING,
    }
)
# what explains a broken rule by values of the batch: aggregates, or examples of repeated keys
_OF_ROWS = re.compile(r"(?:, where | is not unique: ).*", re.DOTALL)
_WAITING_STATUSES = frozenset({Status.BLOCKED, Status.WAITING})


@dataclass(frozen=True, slots=True)
class RefusedBatch:
    """An error that stopped batches before they were claimed, so that no claim records it.

    `table` is "" if the error affects the whole project.
    """

    table: str
    labels: frozenset[datetime]
    error: WaterclockError


@dataclass(frozen=True, slots=True)
class SilentSource:
    """A source whose data for a window is overdue by more than one window length.

    `behind` is the part of the message about its newest data.
    """

    table: str
    label: datetime
    source: str
    behind: str


@dataclass(frozen=True, slots=True)
class CheckInput:
    """The input of an alert check.

    `plan` covers all tables. `of_run`: the tables that a run checked completely for `refused` and `silent`; None if the
    check is not part of a run. `warned`: the batches with warnings since the last check. `newest` maps tables to the
    warnings of their newest batch. `deadlines`: the windows that missed their deadline, are near it or took too long.
    `empty`: the collects without rows for unusually long. `logs`: the change logs that databases retain for tables, as
    runs last saw them.
    """

    flow: Flow
    snapshot: LedgerSnapshot
    plan: Plan
    refused: Sequence[RefusedBatch] = ()
    silent: Sequence[SilentSource] = ()
    of_run: frozenset[str] | None = None
    warned: Sequence[BatchWarnings] = ()
    newest: Mapping[str, BatchWarnings] = field(default_factory=dict)
    deadlines: Sequence[DeadlineWindow] = ()
    empty: Sequence[Silence] = ()
    logs: Sequence[TableLog] = ()


def build_alert_input(check: CheckInput) -> AlertInput:
    """Build the input for the decision on alerts: the current root causes, and the warnings that are over."""
    troubles = _merge_by_key(
        (
            *_find_stops(check),
            *_find_refusals(check),
            *_find_silent_sources(check),
            *_find_empty_sources(check),
            *_find_retained_log_causes(check.logs),
            *find_deadline_causes(check.flow, check.deadlines),
            *_find_current_warnings(check),
        )
    )
    current_keys = {trouble.key for trouble in troubles}
    passed = [trouble for trouble in _merge_by_key(_find_past_warnings(check)) if trouble.key not in current_keys]
    return AlertInput(troubles, passed, _UnfixedBatches(check, troubles))


@dataclass(slots=True)
class _UnfixedBatches:
    """Finds the batches of an earlier cause that are not fixed yet, although they are in no current cause."""

    looked: CheckInput
    troubles: Sequence[RootCause]
    _planned_statuses: Mapping[tuple[str, datetime], Status] = field(init=False)
    _in_current_causes: frozenset[tuple[str, datetime]] = field(init=False)

    def __post_init__(self) -> None:
        self._planned_statuses = {(batch.table, batch.label): batch.status for batch in self.looked.plan.batches}
        self._in_current_causes = frozenset(
            (name, label)
            for trouble in self.troubles
            if trouble.kind not in _KINDS_WITHOUT_STOP
            for name, labels in trouble.batches.items()
            for label in labels
        )

    def __call__(self, trouble: RootCause) -> Batches:
        if trouble.kind in _KINDS_WITHOUT_STOP:
            return {}
        if trouble.of_run:
            return trouble.batches if not self._is_checked(trouble) else {}
        left = {
            name: frozenset(label for label in labels if self._may_be_unfixed(name, label))
            for name, labels in trouble.batches.items()
        }
        return {name: labels for name, labels in left.items() if labels}

    def _is_checked(self, trouble: RootCause) -> bool:
        if self.looked.of_run is None:
            return False
        gone = {name for name in trouble.batches if name and name not in self.looked.flow.tables}
        return set(trouble.batches) - gone <= self.looked.of_run | {""}

    def _may_be_unfixed(self, name: str, label: datetime) -> bool:
        """Return whether a batch may still have its earlier problem, and is not part of a current cause."""
        table = self.looked.flow.tables.get(name)
        if table is None or (name, label) in self._in_current_causes:
            return False
        if (name, label) in self._planned_statuses:
            return True
        if self.looked.snapshot.of(name).covered.covers_instant(label):
            return False
        is_failure_listed = (
            not self.looked.plan.left_out.get(name) and table.cadence.next(label) <= self.looked.plan.now
        )
        return not is_failure_listed


def _merge_by_key(troubles: Iterable[RootCause]) -> list[RootCause]:
    """Merge root causes with the same key into one."""
    alike: dict[str, list[RootCause]] = {}
    for trouble in troubles:
        alike.setdefault(trouble.key, []).append(trouble)
    return [_merge_causes(each) if len(each) > 1 else each[0] for each in alike.values()]


def _merge_causes(alike: Sequence[RootCause]) -> RootCause:
    """Merge causes with the same key: add all their batches and counts of blocked batches to the first one."""
    batches: dict[str, set[datetime]] = {}
    blocks: Counter[str] = Counter()
    for trouble in alike:
        for name, labels in trouble.batches.items():
            batches.setdefault(name, set()).update(labels)
        blocks.update(trouble.blocks)
    return replace(alike[0], batches={name: frozenset(labels) for name, labels in batches.items()}, blocks=dict(blocks))


def _find_stops(check: CheckInput) -> Iterable[RootCause]:
    blocked: dict[tuple[str, datetime], Counter[str]] = {}
    for batch in check.plan.batches:
        if batch.status is Status.BLOCKED and batch.causes:
            cause = batch.causes[0]
            blocked.setdefault((cause.table, cause.window.start), Counter())[batch.table] += 1
    for batch in check.plan.batches:
        if batch.status in NEEDS_SOMEBODY:
            yield _batch_cause(check, batch, blocked.get((batch.table, batch.label), Counter()))


def _batch_cause(check: CheckInput, batch: Batch, blocks: Mapping[str, int]) -> RootCause:
    trouble = check.snapshot.of(batch.table).troubles.get(batch.label)
    parts = rendered_parts(batch.reason if trouble is None else trouble.error)
    code, what = _split_code(parts["what"])
    kind = TroubleKind.DAMAGED if code in _DAMAGE else _KINDS[batch.status]
    return RootCause(
        key=alert_key(kind, code, what, batch.table),
        kind=kind,
        what=what[:LONGEST],
        batches={batch.table: frozenset({batch.label})},
        code=code,
        why=parts["why"][:LONGEST],
        fix=_fix_text(batch, parts["fix"])[:LONGEST],
        blocks=dict(blocks),
    )


def _fix_text(batch: Batch, stored_fix: str) -> str:
    if batch.is_outdated:
        return retry_words(batch.table, batch.window.label)
    return stored_fix or skip_words(batch)


def _find_refusals(check: CheckInput) -> Iterable[RootCause]:
    for refused in check.refused:
        error = refused.error
        kind = TroubleKind.DAMAGED if error.code in _DAMAGE else TroubleKind.STOPPED
        yield RootCause(
            key=alert_key(kind, error.code, error.what, refused.table),
            kind=kind,
            what=error.what[:LONGEST],
            batches={refused.table: refused.labels},
            code=error.code,
            why=(error.why or "")[:LONGEST],
            fix=(error.fix or "")[:LONGEST],
            blocks=_count_waiting_batches(check, refused.table),
            of_run=True,
        )


def _find_silent_sources(check: CheckInput) -> Iterable[RootCause]:
    for silent in check.silent:
        yield RootCause(
            key=cause_key(TroubleKind.SILENT, silent.source),
            kind=TroubleKind.SILENT,
            what=f"{silent.source} {silent.behind}",
            batches={silent.table: frozenset({silent.label})},
            fix=(
                f"check whether {silent.source} is still filled; `waterclock plan {silent.table}` shows what the "
                "table awaits"
            ),
            blocks=_count_waiting_batches(check, silent.table),
            of_run=True,
        )


def _find_empty_sources(check: CheckInput) -> Iterable[RootCause]:
    """Yield the sources that deliver no rows, each with all tables that collect from it."""
    for silence in check.empty:
        source = check.flow.tables[silence.table].source
        name = silence.table if source is None else source.unit.connection
        yield RootCause(
            key=cause_key(TroubleKind.EMPTY, name),
            kind=TroubleKind.EMPTY,
            what=silence_words(silence, check.flow)[:LONGEST],
            batches={silence.table: frozenset({silence.since})},
            fix=f"check whether {name} is still filled",
        )


def _find_retained_log_causes(logs: Iterable[TableLog]) -> Iterable[RootCause]:
    """Yield a cause for each change log at a source that is too large, lost or at risk, the largest first."""
    for log in sorted(logs, key=lambda each: -each.retained_bytes):
        if log.is_troubled:
            kind = TroubleKind.HOLDING if log.condition is LogSafety.SAFE else TroubleKind.LOSING
            yield RootCause(
                key=cause_key(kind, log.connection),
                kind=kind,
                what=log.words()[:LONGEST],
                batches={log.table if log.is_needed else "": frozenset()},
                fix=log.fix()[:LONGEST],
            )


def _count_waiting_batches(check: CheckInput, table: str) -> Mapping[str, int]:
    """Count, for each other table, the batches that wait for `table`."""
    return Counter(
        batch.table
        for batch in check.plan.batches
        if table and batch.status in _WAITING_STATUSES and batch.causes and batch.causes[0].table == table
    )


def _find_current_warnings(check: CheckInput) -> Iterable[RootCause]:
    for warned in check.newest.values():
        if warned.table in check.flow.tables:
            yield from _find_warning_causes(warned)


def _find_past_warnings(check: CheckInput) -> Iterable[RootCause]:
    for warned in check.warned:
        yield from _find_warning_causes(warned)


def _find_warning_causes(warned: BatchWarnings) -> Iterable[RootCause]:
    for text in warned.texts:
        yield RootCause(
            key=cause_key(TroubleKind.WARNED, warned.table, _common_finding(text)),
            kind=TroubleKind.WARNED,
            what=text[:LONGEST],
            batches={warned.table: frozenset({warned.label})},
        )


def alert_key(kind: TroubleKind, code: str, what: str, table: str) -> str:
    """Return the deduplication key of an alert: equal failures share one alert."""
    is_of_table = code in _OF_ONE_TABLE or kind in {TroubleKind.HELD, TroubleKind.EXPIRED}
    alike = _common_finding(what.replace(table, "…") if table else what)
    return cause_key(kind, code, alike, table if is_of_table or not what else "")


def _common_finding(text: str) -> str:
    """Return the part of a text that all batches with the same cause have: without values of their rows."""
    return common_reason(_OF_ROWS.sub("", text))


def _split_code(text: str) -> tuple[str, str]:
    code, _, rest = text.partition(" ")
    is_code = len(code) == 4 and code[0] == "E" and code[1:].isdigit()
    return (code, rest) if is_code else ("", text)
