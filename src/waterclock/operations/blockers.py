"""Counts what each batch that does not go on blocks. What is told as an alert of such batches: `alerts/causes.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from waterclock.planner.plan import Batch, Status


def blockers(batches: Iterable[Batch]) -> list[tuple[str, datetime, str, int]]:
    """Return the root of each batch that is blocked: table, label, detail and how many it blocks, the most first."""
    counts: Counter[tuple[str, datetime, str]] = Counter()
    for batch in batches:
        if batch.status is Status.BLOCKED and batch.causes:
            cause = batch.causes[0]
            counts[cause.table, cause.window.start, cause.detail or cause.status.value] += 1
    return [(*cause, count) for cause, count in counts.most_common()]
