"""Records the start and end of runs (calls of a command that runs batches), and single events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import runs

_ADD = sa.insert(runs)
_END = (
    sa.update(runs)
    .where(runs.c.run == sa.bindparam("which"))
    .values(ended_at=sa.bindparam("ended"), outcome=sa.bindparam("came_to"))
)


def begin_run(database: LedgerDatabase, *, who: str, command: str, now: datetime) -> str:
    """Record the start of a run with the logical `now`. Return the run's name, which its claims record."""
    name = uuid4().hex[:12]
    with database.write() as write:
        values = {"run": name, "who": who, "command": command, "now": now, "started_at": write.at}
        write.execute(_ADD, values)
        write.log("run began", who=who, run=name, data={"command": command, "now": now.isoformat()})
    return name


def end_run(database: LedgerDatabase, run: str, outcome: str, *, who: str) -> None:
    """Record the outcome of a run: `done`, `failed`, `interrupted`. A run that was killed never ends."""
    with database.write() as write:
        write.execute(_END, {"which": run, "ended": write.at, "came_to": outcome})
        write.log("run ended", who=who, run=run, data={"outcome": outcome})


def add_event(  # noqa: PLR0913 - the fields of an event
    database: LedgerDatabase,
    kind: str,
    *,
    who: str,
    table: str | None = None,
    label: datetime | None = None,
    claim: int | None = None,
    run: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Record an event that has no other source, such as a foreign commit or a quarantined file."""
    with database.write() as write:
        write.log(kind, who=who, table=table, labels=[label], claim=claim, run=run, data=data)
