"""Marks batches whose inputs another project has restated."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import batches

_MARK = (
    sa.update(batches)
    .where(
        batches.c.table_name == sa.bindparam("of"),
        batches.c.label == sa.bindparam("at"),
        # not a newer revision than the compared one: it has read the current data
        batches.c.current_claim == sa.bindparam("made_by"),
        batches.c.is_suspect == sa.false(),
    )
    .values(is_suspect=True)
)


def mark_restated(
    database: LedgerDatabase, table: str, made_by: Mapping[datetime, int], *, upstream: str, who: str
) -> int:
    """Mark labels whose inputs another project (`upstream`) has restated. Return the number of labels newly marked.

    `made_by` maps the labels to the claims that made them. A label is left out if it has been made again since then.
    """
    marked = []
    with database.write() as write:
        for label, claim in sorted(made_by.items()):
            if write.execute(_MARK, {"of": table, "at": label, "made_by": claim}).rowcount:
                marked.append(label)
        write.log("restated upstream", who=who, table=table, labels=marked, data={"upstream": upstream})
    return len(marked)
