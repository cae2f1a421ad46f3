"""Counts the batches that each stopped batch blocks, and advises to skip a batch that can never be made.

Alerts about such batches are in `alerts/causes.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from waterclock.planner.plan import Batch, Status


def blockers(batches: Iterable[Batch]) -> list[tuple[str, datetime, str, int]]:
    """Return the root causes of blocked batches: table, label, detail and number of blocked batches, largest first."""
    counts: Counter[tuple[str, datetime, str]] = Counter()
    for batch in batches:
        if batch.status is Status.BLOCKED and batch.causes:
            cause = batch.causes[0]
            counts[cause.table, cause.window.start, cause.detail or cause.status.value] += 1
    return [(*cause, count) for cause, count in counts.most_common()]


def skip_words(batch: Batch, last: Batch | None = None) -> str:
    """Return advice to skip an expired batch, or all batches up to `last`.

    Return "" if the batch is not expired or has rows.
    """
    if batch.status is not Status.EXPIRED or batch.is_revision:
        return ""
    end = (last or batch).window.label
    which = batch.window.label if end == batch.window.label else f"{batch.window.label}..{end}"
    return f"`waterclock skip {batch.table} {which} --why '…'` lets its readers go on without it"
