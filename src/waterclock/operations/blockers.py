"""Counts the batches that each stopped batch blocks. Alerts about such batches are in `alerts/causes.py`."""

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
