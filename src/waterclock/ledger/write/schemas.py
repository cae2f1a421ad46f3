"""Records schema versions together with the batches that deliver them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from waterclock.batches.records import BatchResult, Claim
from waterclock.batches.schemas import SCHEMA, SchemaVersion, Side, find_matching_version
from waterclock.ledger.read.schemas import schemas_within
from waterclock.ledger.store.database import Write
from waterclock.ledger.store.schema import schemas

_ADD = sa.insert(schemas)


def add_schemas(write: Write, held: Claim, results: Sequence[BatchResult]) -> None:
    """Record the columns that batches report as new, unless another batch has recorded them meanwhile."""
    with_schema = [found for found in results if found.source.get(SCHEMA)]
    if not with_schema:
        return
    table = held.request.table
    versions = list(schemas_within(write.connection, table))
    for found in sorted(with_schema, key=lambda each: each.label):
        for side_name, columns in found.source[SCHEMA].items():
            side = Side(side_name)
            of_side = [each for each in versions if each.side is side]
            if find_matching_version(of_side, side, found.label, columns) is not None:
                continue
            number = 1 + max((each.number for each in of_side), default=0)
            versions.append(SchemaVersion(side, number, found.label, held.number, columns, write.at))
            row = {"table_name": table, "side": str(side), "version": number, "label": found.label}
            write.execute(_ADD, row | {"claim": held.number, "columns": dict(columns), "at": write.at})
