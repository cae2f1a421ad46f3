"""Removes values of erased persons from texts of the ledger, such as errors and reasons."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

import sqlalchemy as sa

from waterclock.batches.erasures import DISTINCTIVE, ERASED, value_pattern
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import (
    accesses,
    alerts,
    batches,
    claims,
    closings,
    events,
    messages,
    offline_looks,
    revisions,
    tables,
)
from waterclock.ledger.store.sqlite import is_in_memory

# texts of errors: a number or a short value there is most probably the person's
_ERRORS = (batches.c.error, claims.c.error, messages.c.error, offline_looks.c.error)
# other texts contain times and counts: only values that cannot be one of these are replaced
_TEXTS = (accesses.c.query, accesses.c.refusal, closings.c.reason, closings.c.why, tables.c.paused_why)
_JSON = (events.c.data, revisions.c.measures, revisions.c.source, alerts.c.trouble, alerts.c.told, messages.c.body)
_BUSY_MILLISECONDS = 60_000


def redact_texts(database: LedgerDatabase, values: Sequence[str]) -> int:
    """Replace values of persons in texts of the ledger. Return the number of changed texts.

    Values of fewer than six characters are replaced in texts of errors only, where they are whole words. Cost: a read
    of these columns.
    """
    every = value_pattern(values)
    distinctive = value_pattern([value for value in values if len(value) >= DISTINCTIVE])
    changed = 0
    with database.write() as write:
        for columns, pattern in ((_ERRORS, every), (_TEXTS, distinctive), (_JSON, distinctive)):
            if pattern is None:
                continue
            for column in columns:
                table = column.table
                keys = list(table.primary_key.columns)
                rows = write.execute(sa.select(*keys, column.label("text_")).where(column.is_not(None))).all()
                for row in rows:
                    redacted = _redact(row.text_, pattern)
                    if redacted != row.text_:
                        same = [key == getattr(row, key.name) for key in keys]
                        write.execute(sa.update(table).where(*same).values({column.name: redacted}))
                        changed += 1
    _compact(database)
    return changed


def _compact(database: LedgerDatabase) -> None:
    """Write the file of a ledger in SQLite anew, since deleted texts stay in its free pages.

    If another process uses the ledger for more than a minute, they stay, and the search of bytes reports them.
    """
    if database.url.get_backend_name() != "sqlite" or is_in_memory(database.url):
        return
    with closing(sqlite3.connect(str(database.url.database), isolation_level=None)) as connection:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
        with suppress(sqlite3.OperationalError):
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _redact(of: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(of, str):
        return pattern.sub(ERASED, of)
    if isinstance(of, dict):
        return {_redact(key, pattern): _redact(value, pattern) for key, value in of.items()}
    if isinstance(of, list):
        return [_redact(value, pattern) for value in of]
    return of  # a number is a count, a size, a claim or a position in a source
