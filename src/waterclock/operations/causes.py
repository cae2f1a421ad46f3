"""Finds what is at the root of the batches that cannot go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from waterclock.planner.plan import Batch, Status


def causes_at_root(batches: Iterable[Batch]) -> list[tuple[str, datetime, str, int]]:
    """Return what blocks at the root: table, label, detail and how many batches it blocks, the most first."""
    counts: Counter[tuple[str, datetime, str]] = Counter()
    for batch in batches:
        if batch.status is Status.BLOCKED and batch.causes:
            cause = batch.causes[0]
            counts[cause.table, cause.window.start, cause.detail or cause.status.value] += 1
    return [(*cause, count) for cause, count in counts.most_common()]
