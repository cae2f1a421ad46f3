"""Records the column lineage of Python transforms by code, merging the results of several batches.

These writes do not concern batches, so they leave the ledger's sequence unchanged and wake no runner.
"""

from __future__ import annotations

import sqlalchemy as sa

from waterclock.flow.code_lineage import CodeLineage
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import code_lineage

_KEY = (code_lineage.c.table_name == sa.bindparam("of"), code_lineage.c.code == sa.bindparam("by"))
_FIRST = sa.text(
    "INSERT INTO code_lineage (table_name, code, lineage, at) VALUES (:table_name, :code, :lineage, :at)"
    " ON CONFLICT (table_name, code) DO NOTHING"
).bindparams(*(sa.bindparam(it.name, type_=it.type) for it in code_lineage.c))
# locks the row: another runner with additional lineage waits
_RECORDED = sa.select(code_lineage.c.lineage).where(*_KEY).with_for_update()
_UPDATE = sa.update(code_lineage).where(*_KEY).values(lineage=sa.bindparam("lineage_"), at=sa.bindparam("at_"))


def record_code_lineage(database: LedgerDatabase, table: str, code: str, found: CodeLineage) -> CodeLineage:
    """Merge lineage found in a plan into the recorded one of a table's code, and return it. Cost: one transaction."""
    with database.write_unordered() as (connection, now):
        connection.execute(_FIRST, {"table_name": table, "code": code, "lineage": found.to_json(), "at": now})
        key = {"of": table, "by": code}
        before = CodeLineage.of_json(connection.execute(_RECORDED, key).scalar_one())
        after = before | found
        if after != before:
            connection.execute(_UPDATE, {**key, "lineage_": after.to_json(), "at_": now})
        return after
