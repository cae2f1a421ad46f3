"""The connection type `duckdb`: tables and queries of a DuckDB database file, and tables delivered to it.

Connection      `path`, below the project unless absolute. One process can write a file, or several can read it.
Unit            a table or view by name, with its schema if that is not `main`; or a query.
Clock           None; the clock of this machine is used.
Data time       `WHERE t >= s AND t < e`. The time is a timestamp, a date, or a whole number since 1970.
Snapshot        All rows.
Publish         See `delivery`.
Types           The declared types; else those of the database's columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import ConnectionType, Setting
from waterclock.connectors.sql.capabilities import database_capabilities, database_file, file_options, in_lower_case
from waterclock.flow.capabilities import DestinationNames, Driver

if TYPE_CHECKING:
    from waterclock.connectors.duckdb.collection import DuckdbCollector

CAPABILITIES = database_capabilities(
    "duckdb",
    file_options("another process holds the file"),
    {},
    driver=Driver("duckdb", extra="duckdb"),
    changes=None,
    names=DestinationNames(
        {
            r"temp\..*": "tables in the schema temp exist only in one connection",
            r"(system|information_schema|pg_catalog)\..*": "the schema is a part of DuckDB",
        },
        spelling=in_lower_case,
        server=database_file,
    ),
)


def _open_source(setting: Setting) -> DuckdbCollector:
    from waterclock.connectors.duckdb.collection import DuckdbCollector
    from waterclock.connectors.duckdb.database import database_of

    return DuckdbCollector(database_of(setting))


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.duckdb.database import database_of
    from waterclock.connectors.duckdb.delivery import DuckdbDeliverer

    return DuckdbDeliverer(database_of(setting))


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)
