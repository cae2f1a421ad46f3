"""The connection type `mysql`: tables and queries of a MariaDB or MySQL database, and tables delivered to it.

Connection      `url`: mysql://user@host:3306/database; `password` as a secret.
Unit            a table or view by name, with its database if that differs from the connection's; or a query.
Clock           The server's.
Data time       `WHERE t >= s AND t < e`. The time is a timestamp, a datetime, a date, or a whole number since 1970.
Snapshot        All rows.
Publish         See `delivery`.
Types           The declared types; else those of the database's columns.

A batch reads InnoDB tables as of one moment. If it reads in parts and the rows of a part have changed meanwhile, it
fails and is retried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import ConnectionType, Setting
from waterclock.connectors.sql.addresses import database_in, server_of
from waterclock.connectors.sql.capabilities import CHANGE_SLACK, LOCK_TIMEOUT, LOGIN, database_capabilities
from waterclock.flow.capabilities import DestinationNames, Driver, Option

if TYPE_CHECKING:
    from waterclock.connectors.mysql.collection import MysqlCollector

CAPABILITIES = database_capabilities(
    "mysql",
    {
        "url": Option(
            is_required=True,
            is_address=True,
            schemes=("mysql", "mariadb"),
            help="the database, as mysql://user@host:3306/database",
        ),
        "password": Option(is_secret=True, help="its user's password, as a secret"),
        **LOGIN,
        **LOCK_TIMEOUT,
    },
    {
        "partitions": Option("number", help="in how many parallel parts a large result is read; default 1"),
        **CHANGE_SLACK,
    },
    driver=Driver("pymysql", extra="mysql"),
    names=DestinationNames(
        {r"(mysql|sys|information_schema|performance_schema)\..*": "the database is a part of the server"},
        # many servers ignore the case of tables
        spelling=lambda path, options: (path if "." in path else f"{database_in(options)}.{path}").lower(),
        server=lambda options: server_of(options, 3306),
    ),
)


def _open_source(setting: Setting) -> MysqlCollector:
    from waterclock.connectors.mysql.collection import MysqlCollector
    from waterclock.connectors.mysql.database import database_of

    return MysqlCollector(database_of(setting))


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.mysql.database import database_of
    from waterclock.connectors.mysql.delivery import MysqlDeliverer

    return MysqlDeliverer(database_of(setting))


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)
