"""Reads erasures of persons."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import sqlalchemy as sa

from waterclock.batches.erasures import Erasure
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.erasure_tables import erased_persons, erasure_steps, erasures

_ALL = sa.select(erasures).order_by(erasures.c.number)
_HASHES = sa.select(erased_persons)
_STEPS = sa.select(erasure_steps).order_by(erasure_steps.c.at, erasure_steps.c.step)


def list_erasures(database: LedgerDatabase) -> list[Erasure]:
    """Return all erasures with their hashes and finished steps, oldest first."""
    hashes: defaultdict[int, set[str]] = defaultdict(set)
    steps: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    with database.read() as connection:
        rows = connection.execute(_ALL).all()
        for row in connection.execute(_HASHES) if rows else ():
            hashes[row.erasure].add(row.hash)
        for row in connection.execute(_STEPS) if rows else ():
            steps[row.erasure][row.step] = row.result
    return [
        Erasure(
            row.number,
            row.subject,
            row.key_name,
            row.who,
            row.why,
            row.at,
            frozenset(hashes[row.number]),
            row.finished_at,
            steps[row.number],
        )
        for row in rows
    ]
