"""The ledger's tables of erasures. They contain keyed hashes of persons, and never a value that identifies one."""

from __future__ import annotations

import sqlalchemy as sa

from waterclock.ledger.store.instants import Instant
from waterclock.ledger.store.schema import TEXT, columns, metadata

erasures = sa.Table(
    "erasures",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    *columns(TEXT, "subject key_name who why"),
    sa.Column("at", Instant, nullable=False),
    sa.Column("finished_at", Instant),
)

erased_persons = sa.Table(
    "erased_persons",
    metadata,
    sa.Column("erasure", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("hash", TEXT, primary_key=True),
    sqlite_with_rowid=False,
)

# the finished steps of each erasure, with their results for the certificate
erasure_steps = sa.Table(
    "erasure_steps",
    metadata,
    sa.Column("erasure", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("step", TEXT, primary_key=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("result", sa.JSON, nullable=False),
    sqlite_with_rowid=False,
)
