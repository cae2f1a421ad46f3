"""Clears the failed batches that `retry` names, and runs what follows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from waterclock.batches.facts import BatchStatus
from waterclock.cli.actions.run import Asked, carry_out
from waterclock.cli.views.json import print_json
from waterclock.cli.views.theme import console
from waterclock.engine.run_settings import RunSettings
from waterclock.operations.opening import Reading, reading, selected
from waterclock.operations.words import count_words
from waterclock.planner.plan import Status
from waterclock.planner.request import Request
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of

_NO_CAP = 1 << 30
_CLEARED = {BatchStatus.FAILED.value, BatchStatus.HELD.value, BatchStatus.SKIPPED.value}
_SKIPPED = BatchStatus.SKIPPED.value
Found = dict[str, frozenset[datetime]]


def retried(
    folder: Path,
    env: str | None,
    which: tuple[str | None, str | None],
    now: str | None,
    *,
    is_json: bool,
    is_run: bool,
) -> int:
    """Clear what failed, run it with what it blocked, and give the exit code."""
    to = console(stderr=is_json)
    with reading(folder, env, now) as at:
        cleared = troubled(at, *which)
        freed = blocked_by(at, cleared)
        if at.ledger is not None:
            for name, found in cleared.items():
                at.ledger.decisions.retry(name, sorted(found), who=RunSettings().who)
        project = at.project
    told = {name: [label_of(label) for label in sorted(found)] for name, found in cleared.items()}
    if not cleared or not is_run:
        if is_json:
            print_json({"cleared": told})
        else:
            count = sum(len(found) for found in cleared.values())
            to.print(f"{count_words(count, 'batch', 'batches')} due again" if count else "nothing failed there")
        return 0
    for name, texts in told.items():
        to.print(f"due again: {name}@{', '.join(texts[:5])}{', …' if len(texts) > 5 else ''}", style="quiet")
    both = {name: cleared.get(name, frozenset()) | freed.get(name, frozenset()) for name in {*cleared, *freed}}
    return carry_out(
        project,
        Asked(command="retry", only=tuple(sorted(both)), labels=_ranges(both), now=now, is_json=is_json),
    )


def troubled(at: Reading, selection: str | None, labels: str | None) -> Found:
    """Find the failed and held batches that are meant; skipped ones only where labels are said.

    Raises  E510 to E514 as `selection.select`
    """
    found, by_table = selected(at.flow, [selection] if selection else None, labels)
    if at.ledger is None:
        return {}
    batches: defaultdict[str, set[datetime]] = defaultdict(set)
    for cell in at.ledger.past.grid(found.tables):
        meant = by_table.get(cell.table)
        is_meant = meant is None or meant.contains(cell.label, at.flow.tables[cell.table].cadence)
        if cell.status in _CLEARED and is_meant and (cell.status != _SKIPPED or meant is not None):
            batches[cell.table].add(cell.label)
    return {name: frozenset(found) for name, found in batches.items()}


def blocked_by(at: Reading, cleared: Mapping[str, Iterable[datetime]]) -> Found:
    """Find the batches that wait for nothing but what is cleared."""
    roots = {(name, label) for name, labels in cleared.items() for label in labels}
    freed: defaultdict[str, set[datetime]] = defaultdict(set)
    for batch in at.planner.plan(at.snapshot, at.now, Request(cap=_NO_CAP)).batches:
        causes = [cause for cause in batch.causes if cause.status in {Status.FAILED, Status.HELD}]
        if batch.status is Status.BLOCKED and all((it.table, it.window.start) in roots for it in causes):
            freed[batch.table].add(batch.label)
    return {name: frozenset(labels) for name, labels in freed.items()}


def _ranges(found: Mapping[str, frozenset[datetime]]) -> dict[str, Labels]:
    return {name: Labels.between(min(labels), max(labels)) for name, labels in found.items()}
