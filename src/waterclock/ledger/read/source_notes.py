"""Reads the source notes of batches, such as log positions, which record how far each batch read its source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.ledger.read.signatures import LAST_RESET
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import revisions

_NOTED = (
    sa.select(revisions.c.label, revisions.c.source)
    .where(
        revisions.c.table_name == sa.bindparam("of"),
        revisions.c.label >= sa.bindparam("low"),
        revisions.c.label < sa.bindparam("high"),
        revisions.c.claim > sa.bindparam("since"),
    )
    # a rebuild makes all labels in one claim
    .order_by(revisions.c.claim.desc(), revisions.c.label.desc())
    .limit(sa.bindparam("most"))
    .offset(sa.bindparam("past"))
)


def list_source_notes(
    database: LedgerDatabase, name: str, low: datetime, high: datetime, *, most: int, past: int = 0
) -> list[tuple[datetime, Mapping[str, Any]]]:
    """Return the source notes of a table's revisions of labels in `[low, high)`, current or not, newest claims first.

    Each has its label; within a claim, newer labels come first. The first `past` notes are left out, and all from
    before the table's last reset, after which its source is read from the beginning. Cost: the revisions of the
    interval are sorted by their claims, and the notes of `most` of them are read.
    """
    values: dict[str, Any] = {"of": name, "low": low, "high": high, "most": most, "past": past}
    with database.read() as connection:
        reset = connection.execute(LAST_RESET, {"of": name}).scalar()
        values["since"] = 0 if reset is None else reset["claim"]
        return [(row.label, row.source) for row in connection.execute(_NOTED, values)]
