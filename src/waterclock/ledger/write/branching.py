"""Turns a copied ledger into that of a branch, and records which of its tables the branch has itself.

A table of another environment has an absolute folder in the branch's ledger: no claim is taken for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import (
    IS_OPEN,
    IS_REQUESTED,
    access_tokens,
    accesses,
    alerts,
    batches,
    claim_labels,
    claims,
    ledger,
    messages,
    tables,
)
from waterclock.ledger.write.claim_endings import close, restore_statuses

_OPEN = (
    sa.select(claims.c.number, claim_labels.c.label)
    .join(claim_labels, claim_labels.c.claim == claims.c.number)
    .where(IS_OPEN)
)
_SET_FOLDER = sa.update(tables).where(tables.c.name == sa.bindparam("of")).values(location=sa.bindparam("to"))
_NO_PAUSE = {"paused_at": None, "paused_by": None, "paused_why": None}


def start_branch(database: LedgerDatabase, folders: Mapping[str, str], *, who: str, base: str) -> None:
    """Make a copied ledger that of a branch. `folders` maps each borrowed table to its absolute folder.

    Batches that were running, requests, pauses and alerts stay with the environment `base`. So do its access tokens,
    which could not be revoked here, and the recorded accesses. Cost: independent of the number of batches.
    """
    with database.write() as write:
        running: dict[int, list[sa.Row[tuple[object, ...]]]] = {}
        for row in write.execute(_OPEN).all():
            running.setdefault(row.number, []).append(row)
        for number, rows in running.items():
            close(write, number, "lost", why=f"it runs in {base}, of which this is a branch")
            restore_statuses(write, number, {row.label for row in rows})
        for name, folder in folders.items():
            write.execute(_SET_FOLDER, {"of": name, "to": folder})
        write.execute(sa.update(tables).values(**_NO_PAUSE))
        write.execute(sa.update(ledger).values(**_NO_PAUSE, rebuilding=None))
        write.execute(sa.update(batches).where(IS_REQUESTED).values(requested=None, requested_sequence=None))
        for table in (messages, alerts, access_tokens, accesses):
            write.execute(sa.delete(table))
        write.log("branch created", who=who, data={"from": base})


def own_tables(database: LedgerDatabase, folders: Mapping[str, str], *, who: str) -> None:
    """Record that tables are the branch's own from now on, in folders relative to its storage."""
    with database.write() as write:
        for name, folder in folders.items():
            write.execute(_SET_FOLDER, {"of": name, "to": folder})
            write.log("branched", who=who, table=name)
