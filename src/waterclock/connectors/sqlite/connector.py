"""The connection type `sqlite`: tables and queries of a SQLite database, and tables delivered to it.

Connection      `path`: the database file.
Unit            a table or view by name, or a query.
Data time       `WHERE t >= s AND t < e`, in one read transaction. Times may be ISO 8601 texts (`2013-01-01 05:00:00`,
                with `T`, `Z`, an offset or a fraction, or a date alone) or numbers since 1970, in any mixture.
Snapshot        All rows, in one read transaction.
Publish         See `delivery`.
Types           The declared types; else those of the database's columns by SQLite's affinity rules; else text.

A result of up to 50,000 rows and 64 MB is passed to Spark directly. A bigger one is read in batches by a Python worker
of Spark, also in one transaction. `partitions n` reads a table in n parts in parallel, by ranges of its rowid. If the
parts have not seen the same state of the database, the batch is retried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import ConnectionType, Setting
from waterclock.connectors.sql.capabilities import (
    CHANGE_SLACK,
    database_capabilities,
    database_file,
    file_options,
    in_lower_case,
)
from waterclock.flow.capabilities import DestinationNames, Option

if TYPE_CHECKING:
    from waterclock.connectors.sqlite.collection import SqliteCollector

CAPABILITIES = database_capabilities(
    "sqlite",
    file_options("the database is locked"),
    {
        "partitions": Option("number", help="in how many parallel parts a large table is read; default 1"),
        **CHANGE_SLACK,
    },
    names=DestinationNames(
        {
            r"(.*\.)?sqlite_[^.]*": "SQLite uses tables whose names begin with sqlite_",
            r"temp\..*": "tables in the schema temp exist only in one connection",
        },
        spelling=in_lower_case,
        server=database_file,
    ),
)


def _open_source(setting: Setting) -> SqliteCollector:
    from waterclock.connectors.sqlite.collection import SqliteCollector
    from waterclock.connectors.sqlite.database import database_of

    return SqliteCollector(database_of(setting))


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.sqlite.database import database_of
    from waterclock.connectors.sqlite.delivery import SqliteDeliverer

    return SqliteDeliverer(database_of(setting))


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)
