"""Builds the groups of one table that may be claimed: which ready labels, and which of them together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby, islice

from waterclock.batches.ledger_snapshot import RECOMPUTE, RELEASE, TableFacts
from waterclock.planner.closings import closed_windows
from waterclock.planner.dependency_graph import Node
from waterclock.planner.due_batches import TableWork
from waterclock.planner.linked_projects import find_served_spans
from waterclock.planner.plan import Batch, Group, Status
from waterclock.planner.readiness import BatchEvaluator
from waterclock.planner.readiness_bounds import find_partial_span, find_reachable_spans
from waterclock.planner.request import PlanRequest
from waterclock.planner.sharing import MOST_WINDOWS_OF_A_UNION, max_labels_per_claim
from waterclock.timelabel.cadence import Cadence

# a window is fresh if it is among the newest due windows of its table, or became due a short time ago
NEWEST_WINDOWS = 7
RECENTLY = timedelta(days=1)


def claimable_groups(evaluator: BatchEvaluator, node: Node, to_do: TableWork, request: PlanRequest) -> list[Group]:
    """Build the groups of one table that may be claimed. Only windows that may be ready are evaluated."""
    facts, cadence = evaluator.facts, node.table.cadence
    past = facts.snapshot.of(node.table.name)
    if (node.is_single and past.open_claims) or facts.snapshot.pause_of(node.table.name) or past.refused:
        return []
    front = to_do.front(cadence) if node.is_ordered and not node.groups_in_order else to_do
    within = front.limit_missing(
        find_reachable_spans(node, facts.settlement.settled, facts.graph.nodes) | find_partial_span(node, facts.now)
    )
    if (held := facts.held.get(node.table.name)) is not None:
        within = within.without_revisions(held.labels)
    if node.table.closes is not None:
        within = within.limit_missing(closed_windows(past, cadence))
    if (link := facts.snapshot.links.get(node.table.name)) is not None:
        within = within.limit_missing(find_served_spans(node.table, link))
    fresh_from = find_fresh_start(cadence, facts.now)
    requested = past.wanted.union(request.force.get(node.table.name, ()))
    is_newest_first = request.newest_first and not node.is_ordered
    most = _ready_limit(node, request.cap)
    if is_newest_first:
        parts = [_take_ready(evaluator, node, within, most, is_newest_first=True)]
    elif most > 1:
        parts = _find_ready(evaluator, node, within, most, fresh_from)
    else:
        is_oldest_first = _is_delivered_again(node, past) or _is_behind(to_do, cadence, requested, fresh_from)
        parts = [_find_next_ready(evaluator, node, within, fresh_from, is_oldest_first=is_oldest_first)]
    group_cap = min(request.group_cap, MOST_WINDOWS_OF_A_UNION) if is_newest_first else request.group_cap
    together = max_labels_per_claim(node, group_cap)
    groups = [each for ready in parts for each in _split_into_groups(node, past, ready, together)]
    if is_newest_first:
        groups = [Group(each.table, each.batches[::-1]) for each in groups]
    return [replace(each, is_fresh=_is_fresh(each, requested, fresh_from)) for each in groups]


def find_fresh_start(cadence: Cadence, now: datetime) -> datetime:
    """Return the start of the oldest fresh window: one of the newest due windows, or one that became due recently."""
    # windows that start at the latter or later became due recently
    return min(cadence.shift(cadence.last_due(now), -NEWEST_WINDOWS), cadence.last_due(now - RECENTLY))


def _is_fresh(group: Group, requested: Collection[datetime], fresh_from: datetime) -> bool:
    """Return whether the newest label of a group is a new window from `fresh_from` on that no user requested."""
    newest = group.batches[-1]
    return not newest.is_revision and newest.label >= fresh_from and newest.label not in requested


def _ready_limit(node: Node, cap: int) -> int:
    """Return how many ready batches to find: one for a table with one open claim at a time, otherwise `cap`."""
    return 1 if node.is_single and not node.groups_in_order else cap


def _is_behind(to_do: TableWork, cadence: Cadence, requested: Collection[datetime], fresh_from: datetime) -> bool:
    """Return whether a table misses a window that no user requested and that is older than the fresh ones."""
    missing = (window.start for low, high in to_do.missing for window in cadence.windows(low, high))
    oldest = next((label for label in missing if label not in requested), None)
    return oldest is not None and oldest < fresh_from


def _is_delivered_again(node: Node, past: TableFacts) -> bool:
    """Return whether a user asked to deliver labels of a destination again, one by one.

    If the destination has lost them, a new label cannot be delivered before them (E824).
    """
    return node.table.is_delivered_by_label and RECOMPUTE in past.requested.values()


def _find_ready(
    evaluator: BatchEvaluator, node: Node, within: TableWork, cap: int, fresh_from: datetime
) -> list[tuple[Batch, ...]]:
    """Return up to `cap` ready batches of one table, oldest first. Of more, fresh ones replace some, in their own part.

    Without the fresh ones, a table with a long history to make would stay behind until all of it is made.
    """
    ready = _take_ready(evaluator, node, within, cap)
    if len(ready) < cap or node.is_ordered or ready[-1].label >= fresh_from:
        return [ready]
    fresh = _take_ready(evaluator, node, within.new_from(fresh_from), cap)
    return [ready[: cap - len(fresh)], fresh]


def _find_next_ready(
    evaluator: BatchEvaluator, node: Node, within: TableWork, fresh_from: datetime, *, is_oldest_first: bool
) -> tuple[Batch, ...]:
    """Return the next batch of a table that has one open claim at a time: a fresh one before restated labels.

    If the table is behind or delivers labels again, it is the oldest of all. A table whose new windows come faster than
    they can be made thus still makes its restated labels.
    """
    fresh = () if is_oldest_first else _take_ready(evaluator, node, within.new_from(fresh_from), 1)
    return fresh or _take_ready(evaluator, node, within, 1)


def _take_ready(
    evaluator: BatchEvaluator, node: Node, within: TableWork, most: int, *, is_newest_first: bool = False
) -> tuple[Batch, ...]:
    windows = within.windows(node.table.cadence)
    if is_newest_first:
        windows = reversed(tuple(windows))
    evaluated = (evaluator.batch(node.table.name, window) for window in windows)
    return tuple(islice((batch for batch in evaluated if batch.status is Status.READY), most))


def _needs_own_claim(batch: Batch, past: TableFacts) -> bool:
    return batch.label in past.troubles or bool(batch.missing) or batch.verb == RELEASE


def _split_into_groups(node: Node, past: TableFacts, ready: tuple[Batch, ...], group_cap: int) -> list[Group]:
    """Distribute the ready batches of one table over claims, oldest first.

    A retried batch gets its own claim, since failed groups are split. So does a batch with missing inputs, and a held
    one that is released. Batches that read the source share no claim with batches made from stored rows. Labels made by
    different queries share no claim either.
    """
    groups: list[Group] = []
    if node.table.choices and not node.is_single:  # labels are independent here: group them by query
        ready = tuple(sorted(ready, key=lambda batch: batch.choice or ""))
    runs = groupby(ready, key=lambda batch: (_needs_own_claim(batch, past), batch.verb, batch.choice))
    for (is_alone, _, _), run in runs:
        while chunk := tuple(islice(run, 1 if is_alone else max(group_cap, 1))):
            groups.append(Group(node.table.name, chunk))
    return groups[:1] if node.is_single else groups
