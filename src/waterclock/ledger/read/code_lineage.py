"""Reads the recorded column lineage of Python transforms, which is stored by table and code."""

from __future__ import annotations

import sqlalchemy as sa

from waterclock.flow.code_lineage import CodeLineage
from waterclock.flow.declarations import Flow
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import code_lineage

_ALL = sa.select(code_lineage.c.table_name, code_lineage.c.code, code_lineage.c.lineage)


def code_lineages(database: LedgerDatabase, flow: Flow) -> dict[str, CodeLineage]:
    """Map each table to the recorded column lineage of its current code, if there is any.

    Cost: one query, some microseconds a table and code.
    """
    with database.read() as connection:
        rows = connection.execute(_ALL).all()
    return {
        row.table_name: CodeLineage.of_json(row.lineage)
        for row in rows
        if row.table_name in flow.tables and flow.tables[row.table_name].fingerprint == row.code
    }
