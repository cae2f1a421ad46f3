"""The page Today, a short summary for mails and phones, and the page of all current errors, grouped by cause."""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.operations.blocking_batches import blockers
from waterclock.operations.display_states import display_state_of
from waterclock.operations.formatting import common_reason, short_label
from waterclock.operations.freshness import freshness
from waterclock.operations.plan_excerpt import plan_of_due
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.project_summary import verdict
from waterclock.planner.plan import NEEDS_SOMEBODY, Batch, Plan, Status
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, PageQuery, batch_address
from waterclock.ui.pages.alerts import open_alerts
from waterclock.ui.pages.grid import fresh_words, sentence_part

_MOST = 50


def today(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the problems that need a user, the late tables and the running batches. Cost: two plans and a query."""
    tables, _ = parameters.tables(at)
    plan = plan_of_due(at, [table.name for table in tables])
    found = freshness(at.flow, [table.name for table in tables], at.snapshot, plan)
    summary = verdict(at.flow, found, plan)
    late = [name for name, one in found.items() if not one.is_fresh and one.label is not None]
    return {
        "alerts": open_alerts(at),
        "title": [sentence_part(part) for part in summary.title],
        "more": [sentence_part(part) for part in summary.more],
        "needs": troubles(at, plan)[:_MOST],
        "late": [
            {
                "table": name,
                "state": str(found[name].state),
                "fresh_to": fresh_words(at.flow.tables[name], found[name], at.now),
            }
            for name in late[:_MOST]
        ],
        "more_late": max(0, len(late) - _MOST),
        "running": [_describe_batch(at, each) for each in plan.batches if each.status is Status.RUNNING][:_MOST],
    }


def errors(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return all batches that failed, are held or can never be made, grouped by cause. Cost: a plan."""
    tables, _ = parameters.tables(at)
    plan = plan_of_due(at, [table.name for table in tables])
    found = troubles(at, plan)
    return {
        "troubles": found[: 4 * _MOST],
        "more": max(0, len(found) - 4 * _MOST),
        "not_looked_at": sum(plan.left_out.values()),
    }


def troubles(at: OpenedProject, plan: Plan) -> list[Content]:
    """Return the problems that need a user, grouped by table and cause. Those that block the most come first."""
    blocks = {(table, label): count for table, label, _, count in blockers(plan.batches)}
    alike: dict[tuple[str, ...], list[Batch]] = {}
    for batch in plan.batches:
        if batch.status in NEEDS_SOMEBODY:
            alike.setdefault((batch.table, batch.status.value, common_reason(batch.reason)), []).append(batch)
    failed = [it for it in plan.batches if it.status in {Status.FAILED, Status.HELD} and not it.is_over_limit]
    found_troubles = [
        _describe_problem(at, batches, failed, sum(blocks.get((each.table, each.label), 0) for each in batches))
        for batches in alike.values()
    ]
    return sorted(found_troubles, key=lambda each: (-each["blocks"], -each["count"]))


def _describe_problem(at: OpenedProject, batches: list[Batch], failed: Iterable[Batch], blocks: int) -> Content:
    first, last = batches[0], batches[-1]
    within = [each for each in failed if each.table == first.table and first.label <= each.label <= last.label]
    return {
        **_describe_batch(at, last),
        "reason": last.reason,
        "count": len(batches),
        "blocks": blocks,
        "retried": len(within),
        "labels": label_of(first.label) if len(batches) == 1 else f"{label_of(first.label)}..{label_of(last.label)}",
        "first": _label_text(at, first),
        "others": [_label_text(at, each) for each in list(batches[:-1])[-6:]],
        "can_retry": last.status is not Status.EXPIRED and not last.is_over_limit,
        "can_release": last.status is Status.HELD and not last.is_outdated,
    }


def _describe_batch(at: OpenedProject, batch: Batch) -> Content:
    return {
        "table": batch.table,
        "label": label_of(batch.label),
        "words": _label_text(at, batch),
        "state": str(display_state_of(batch)),
        "address": batch_address(batch.table, label_of(batch.label)),
    }


def _label_text(at: OpenedProject, batch: Batch) -> str:
    return short_label(batch.label, at.flow.tables[batch.table].cadence, at.now)
