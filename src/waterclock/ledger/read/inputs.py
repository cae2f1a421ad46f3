"""The inputs that batches were made of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.records import Input
from waterclock.ledger.store.schema import inputs

_INPUTS = sa.select(inputs).where(inputs.c.claim == sa.bindparam("number_")).order_by(inputs.c.label, inputs.c.position)


def read_inputs(connection: sa.Connection, number: int) -> Mapping[datetime, tuple[Input, ...]]:
    """Return the inputs of a claim by label, in the order of the reads."""
    read: dict[datetime, list[Input]] = {}
    for row in connection.execute(_INPUTS, {"number_": number}):
        fields = (row.table_name, row.read, row.kind, row.low, row.high, row.location, row.version, row.content)
        read.setdefault(row.label, []).append(Input(*fields))
    return {label: tuple(reads) for label, reads in read.items()}
