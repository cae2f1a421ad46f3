"""The connection type `firebird`: tables and queries of a Firebird database, and tables delivered to it.

Connection      `url`: firebird://user@host:3050/alias, or a path of the server after a second slash; `password`.
Unit            a table or view by name, or a query. A name in lower case means that in upper case, as in Firebird.
Clock           None; the clock of this machine is used. A server of version 3 does not report its time in UTC.
Data time       `WHERE t >= s AND t < e`. The time is a timestamp, a date, or a whole number since 1970.
Snapshot        All rows.
Publish         See `delivery`.
Types           The declared types; else those of the database's columns.
"""

from __future__ import annotations

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import ConnectionType, Setting, WindowCollector
from waterclock.connectors.sql.addresses import full_database
from waterclock.connectors.sql.capabilities import CHANGE_SLACK, LOCK_TIMEOUT, database_capabilities
from waterclock.flow.capabilities import DestinationNames, Driver, Option

CAPABILITIES = database_capabilities(
    "firebird",
    {
        "url": Option(
            is_required=True,
            is_address=True,
            schemes=("firebird",),
            help="the database, as firebird://user@host:3050/alias",
        ),
        "password": Option(is_secret=True, help="its user's password, as a secret"),
        **LOCK_TIMEOUT,
    },
    CHANGE_SLACK,
    driver=Driver("firebird.driver", extra="firebird"),
    # a name in lower case means the one in upper case
    names=DestinationNames(
        spelling=lambda path, _options: path.upper() if path == path.lower() else path,
        server=lambda options: full_database(options, 3050),
    ),
)


def _open_source(setting: Setting) -> WindowCollector:
    from waterclock.connectors.firebird.collection import FirebirdCollector
    from waterclock.connectors.firebird.database import database_of

    return FirebirdCollector(database_of(setting))


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.firebird.database import database_of
    from waterclock.connectors.firebird.delivery import FirebirdDeliverer

    return FirebirdDeliverer(database_of(setting))


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)
