"""Finds the root causes of missed and near deadlines, and of long runs. Windows with the same reason share a cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from waterclock.batches.alerts import LONGEST, RootCause, TroubleKind, cause_key
from waterclock.flow.declarations import Flow
from waterclock.operations.deadline_words import group_due_windows, situation_words
from waterclock.operations.deadlines import DeadlineState, DeadlineWindow
from waterclock.operations.time_estimates import add_upstream
from waterclock.planner.plan import NEEDS_SOMEBODY, Status

_KINDS = {
    DeadlineState.MISSED: TroubleKind.MISSED,
    DeadlineState.NEAR: TroubleKind.NEAR,
    DeadlineState.LONG: TroubleKind.LONG,
}
_IS_STOPPED = NEEDS_SOMEBODY | {Status.PAUSED}


def find_deadline_causes(flow: Flow, found: Sequence[DeadlineWindow]) -> Iterator[RootCause]:
    """Yield the causes of missed deadlines and long runtimes.

    Batches of any table that wait for stopped batches of one table share a cause. Batches that are merely slow are
    reported for the most upstream late table; late tables downstream of it count as blocked.
    """
    groups = group_due_windows(found)
    slow = [
        alike
        for alike in groups
        if alike[0].situation is not DeadlineState.LONG and alike[0].root.status not in _IS_STOPPED
    ]
    behind = _find_late_inputs(flow, slow)
    blocks: dict[str, Counter[str]] = {}
    for alike in slow:
        for upstream in behind.get((alike[0].table, alike[0].situation), ()):
            blocks.setdefault(upstream, Counter())[alike[0].table] += len(alike)
    for alike in groups:
        due = alike[0]
        if due.situation is DeadlineState.LONG:
            yield _build_cause(flow, alike, due.table)
        elif due.root.status in _IS_STOPPED:
            yield _build_cause(flow, alike, f"{due.root.table} {due.root.status}")
        elif (due.table, due.situation) not in behind:
            yield _build_cause(flow, alike, due.table, blocks.get(due.table))


def _find_late_inputs(
    flow: Flow, slow: Iterable[Sequence[DeadlineWindow]]
) -> dict[tuple[str, DeadlineState], frozenset[str]]:
    """Map each late table, with its state, to upstream tables in the same state or with a missed deadline."""
    situations: dict[str, set[DeadlineState]] = {}
    for alike in slow:
        situations.setdefault(alike[0].table, set()).add(alike[0].situation)
    found = {}
    for name, of_table in situations.items():
        upstream = add_upstream(flow, [name]) - {name}
        for situation in of_table:
            louder = {DeadlineState.MISSED, situation}
            if late := frozenset(other for other in upstream if situations.get(other, set()) & louder):
                found[name, situation] = late
    return found


def _build_cause(
    flow: Flow, alike: Sequence[DeadlineWindow], cause: str, blocks: Mapping[str, int] | None = None
) -> RootCause:
    due, kind = alike[0], _KINDS[alike[0].situation]
    return RootCause(
        key=cause_key(kind, cause),
        kind=kind,
        what=situation_words(alike, flow)[:LONGEST],
        batches={due.table: frozenset(each.window.start for each in alike)},
        fix=_fix_text(due),
        blocks=dict(blocks or {}),
    )


def _fix_text(due: DeadlineWindow) -> str:
    if due.situation is DeadlineState.LONG:
        return ""
    if due.late_rows is not None:
        return f"check the source of {due.root.table}: its batches are done, but their rows are old"
    return f"`waterclock plan {due.root.table}` shows what it waits for"
