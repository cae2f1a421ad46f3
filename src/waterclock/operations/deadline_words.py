"""Describes missed and near deadlines and their causes in words for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from waterclock.flow.declarations import Flow
from waterclock.operations.deadlines import DeadlineState, DeadlineWindow
from waterclock.operations.formatting import count_words, local_label, local_range, seconds_words
from waterclock.planner.plan import Status

_SHORTEST_SHOWN = timedelta(seconds=1)
_STATUS_WORDS = {
    Status.FAILED: "failed",
    Status.EXPIRED: "can never be made",
    Status.WAITING: "waits",
    Status.READY: "is ready and not started",
    Status.RUNNING: "runs",
}


def group_due_windows(found: Iterable[DeadlineWindow]) -> list[tuple[DeadlineWindow, ...]]:
    """Group windows by table, situation and cause. Each group is sorted, oldest first."""
    alike: dict[tuple[str, str, str, str], list[DeadlineWindow]] = {}
    for due in found:
        status = "" if due.root.table == due.table else due.root.status  # a table's own windows differ in status
        alike.setdefault((due.table, due.situation, due.root.table, status), []).append(due)
    return [tuple(sorted(each, key=lambda due: due.window.start)) for each in alike.values()]


def window_words(alike: Sequence[DeadlineWindow], flow: Flow) -> str:
    """Format windows of one table: `marts.daily @ 2026-11-20 (3 windows)`."""
    first, last = alike[0], alike[-1]
    spans = local_range(first.window.start, last.window.start, flow.tables[first.table].cadence)
    many = f" ({count_words(len(alike), 'window')})" if len(alike) > 1 else ""
    return f"{first.table} @ {spans}{many}"


def situation_words(alike: Sequence[DeadlineWindow], flow: Flow, left: str = "") -> str:
    """Describe the missed or near deadline, or the long run, of a group of windows, and its cause.

    `left` is a text about the remaining time. Alerts omit it, so that their text rarely changes.
    """
    due = alike[0]
    table = flow.tables[due.table]
    if due.situation is DeadlineState.LONG:
        verb = "took" if due.status is Status.DONE else "has run for"
        return f"{verb} longer than {str(table.runtime).lower()}{left}"
    oldest = "the oldest " if len(alike) > 1 else ""
    if table.is_by_watermark:
        passed = oldest.strip() or "it"
        return f"the watermark must pass {passed} by {due.by:%Y-%m-%d %H:%MZ}{left}; {_cause_words(due, flow)}"
    return f"{oldest}to be done by {due.by:%Y-%m-%d %H:%MZ}{left}; {_cause_words(due, flow)}"


def _cause_words(due: DeadlineWindow, flow: Flow) -> str:
    """Describe the most upstream batch that a window waits for, and its problem."""
    root = due.root
    label = local_label(root.window.start, flow.tables[root.table].cadence)
    subject = "it" if (root.table, root.window) == (due.table, due.window) else f"{root.table} @ {label}"
    detail = root.detail.strip().split("\n")[0]
    if due.late_rows is not None:
        return f"{'it' if root.table == due.table else root.table} {detail}"
    if root.status is Status.PAUSED and detail:
        return f"{subject} is {detail}"
    described = f"{subject} {_STATUS_WORDS.get(root.status, f'is {root.status}')}"
    return described if not detail or root.status in {Status.READY, Status.RUNNING} else f"{described}: {detail}"


def remaining_time_words(due: DeadlineWindow) -> str:
    """Format how long the remaining work usually takes, or a slow batch took; "" if unknown or the work is stopped."""
    if due.situation is DeadlineState.LONG:
        return f": {seconds_words(due.left.total_seconds())}"
    if due.left < _SHORTEST_SHOWN or not due.root.is_proceeding:
        return ""
    return f", the remaining work usually takes {seconds_words(due.left.total_seconds())}"
