"""Copies a ledger in a file to another file, as of one moment: page by page, so that no row is read."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from waterclock.ledger.database_errors import refused_operation_error
from waterclock.ledger.store.backend import parse_url, translate_database_errors
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.export import EXPORTED_TABLES
from waterclock.ledger.store.failure import StatementFailure
from waterclock.ledger.store.instants import to_micros
from waterclock.ledger.store.read_only import require_no_code
from waterclock.ledger.store.schema import metadata
from waterclock.permissions.ownership import create_private_file

_FIRST_READ = sa.text("SELECT sequence FROM ledger")  # from then on, the transaction shows one moment
_NEW_LEDGER = "UPDATE ledger SET created_at = ?, moved_to = NULL"


def copy_file(database: LedgerDatabase, target: str) -> bool:
    """Copy the ledger to the URL of a file that does not exist. Return False, without a copy, for one on a server.

    The copy is a new ledger with what an export contains: without tokens, logged accesses and active runners.
    Raises E416 if the file cannot be written, E422 if the ledger is damaged. Cost: some 4 µs for each page of 4 kB, and
    the rows that are removed.
    """
    if database.url.get_backend_name() != "sqlite":
        return False
    url = parse_url(target)
    try:
        _copy(database, Path(str(url.database)))
    except OSError as error:
        raise refused_operation_error(url, error) from error
    except sqlite3.Error as error:
        failed = sa.exc.OperationalError("copy", None, error)
        is_damaged = database.backend.failure_of(failed) is StatementFailure.DAMAGED
        with translate_database_errors(database.url if is_damaged else url):
            raise failed from error
    return True


def _copy(database: LedgerDatabase, path: Path) -> None:
    os.close(create_private_file(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as copy:
        # a copy that is interrupted starts over, so it needs no journal
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        with database.read() as connection:
            connection.execute(_FIRST_READ)
            source: Any = connection.connection.dbapi_connection
            source.backup(copy)
        require_no_code(copy)
        copy.execute("PRAGMA secure_delete = ON")  # deleted rows would stay in free pages
        for name in sorted(metadata.tables.keys() - EXPORTED_TABLES):
            copy.execute(f'DELETE FROM "{name}"')
        copy.execute(_NEW_LEDGER, [to_micros(database.clock())])
    with path.open("rb") as file:
        os.fsync(file.fileno())
