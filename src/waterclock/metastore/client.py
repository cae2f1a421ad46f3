"""Makes the entry of a table in a Hive metastore, by its Thrift interface.

An entry is the one that Spark makes for `CREATE TABLE … USING delta LOCATION …`: it names the table's folder, and
engines read the columns from the Delta log. So it does not change when the columns do.

thriftpy2 is used because it reads the interface at run time: no generated code, and no JVM.
"""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from waterclock.database_clients.time_limits import call_in_time, limit_connection_time
from waterclock.flow.metastore import Metastore
from waterclock.printable import printable

SECONDS = 5.0
"""The maximum time to wait for a metastore."""

_INTERFACE = Path(__file__).with_name("hive_metastore.thrift")
_PROJECT, _ENVIRONMENT = "waterclock.project", "waterclock.env"
_PROVIDER = "spark.sql.sources.provider"
_NAME = re.compile(r"[a-z0-9_]{1,128}")
_MOST_LETTERS = 200  # of a message of the metastore


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """The entry of a table: its names, the address of its folder, and the project and environment that own it."""

    database: str
    table: str
    location: str
    project: str
    environment: str


class NotEnteredError(Exception):
    """A table could not be entered. `is_refused`: the metastore answered, so other tables can be entered."""

    def __init__(self, why: str, *, is_refused: bool = False) -> None:
        super().__init__(why)
        self.is_refused = is_refused


def enter_table(metastore: Metastore, entry: CatalogEntry) -> None:
    """Create or correct the entry of a table. An entry of others is left as it is.

    Raises NotEnteredError, after `SECONDS` at most. Cost: a connection and a request, if the entry is right.
    """
    if not (_NAME.fullmatch(entry.database) and _NAME.fullmatch(entry.table)):
        why = "a name in a metastore has at most 128 characters, which are a to z, 0 to 9 and _"
        raise NotEnteredError(why, is_refused=True)
    try:
        call_in_time(SECONDS, lambda: _enter(metastore, entry))
    except NotEnteredError:
        raise
    except Exception as error:
        raise _not_entered(error) from error


def _not_entered(error: Exception) -> NotEnteredError:
    said = getattr(error, "message", None) or getattr(error, "strerror", None)  # of the interface, or of the system
    why = said if isinstance(said, str) else str(error) or type(error).__name__
    is_refused = type(error).__module__ == _interface().__name__
    return NotEnteredError(printable(why.partition("\n")[0][:_MOST_LETTERS]), is_refused=is_refused)


@cache
def _interface() -> Any:
    import thriftpy2

    return thriftpy2.load(str(_INTERFACE), module_name="waterclock_hive_metastore_thrift")


def _enter(metastore: Metastore, entry: CatalogEntry) -> None:
    with (
        socket.create_connection((metastore.host, metastore.port), timeout=SECONDS) as connection,
        limit_connection_time(SECONDS, connection.fileno()),
    ):
        _correct(_client_of(connection), entry)


def _client_of(connection: socket.socket) -> Any:
    import thriftpy2.protocol
    import thriftpy2.thrift
    import thriftpy2.transport

    library: Any = thriftpy2  # it has no types
    transport = library.transport.TBufferedTransportFactory().get_transport(library.transport.TSocket(sock=connection))
    protocol = library.protocol.TBinaryProtocolFactory().get_protocol(transport)
    return library.thrift.TClient(_interface().ThriftHiveMetastore, protocol)


def _correct(client: Any, entry: CatalogEntry) -> None:
    found = _find(client, entry)
    if found is None:
        interface = _interface()
        with suppress(interface.AlreadyExistsException):
            client.create_database(interface.Database(name=entry.database, description="", parameters={}))
        with suppress(interface.AlreadyExistsException):  # another runner was faster
            client.create_table(_table_of(entry))
            return
        found = _find(client, entry)
    parameters, location = found.parameters or {}, _location_of(found)
    if parameters.get(_PROVIDER) == "delta" and location == entry.location:
        return
    if (parameters.get(_PROJECT), parameters.get(_ENVIRONMENT)) != (entry.project, entry.environment):
        owner = f"project {parameters[_PROJECT]}" if _PROJECT in parameters else "others"
        why = f"the metastore has a table of {owner} with this name, at {location or 'no location'}"
        raise NotEnteredError(printable(why), is_refused=True)
    client.alter_table_with_environment_context(
        entry.database, entry.table, _table_of(entry), _interface().EnvironmentContext(properties={})
    )


def _find(client: Any, entry: CatalogEntry) -> Any:
    interface = _interface()
    try:
        return client.get_table_req(interface.GetTableRequest(dbName=entry.database, tblName=entry.table)).table
    except interface.NoSuchObjectException:
        return None


def _location_of(table: Any) -> str | None:
    details = None if table.sd is None else table.sd.serdeInfo
    return None if details is None else (details.parameters or {}).get("path")


def _table_of(entry: CatalogEntry) -> Any:
    interface = _interface()
    storage = interface.StorageDescriptor(
        # Spark's own entry: an engine that does not know Delta finds no column and no file of this format
        cols=[interface.FieldSchema(name="col", type="array<string>", comment="from deserializer")],
        location=entry.location,
        inputFormat="org.apache.hadoop.mapred.SequenceFileInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
        compressed=False,
        numBuckets=-1,
        serdeInfo=interface.SerDeInfo(
            serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
            parameters={"serialization.format": "1", "path": entry.location},
        ),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    return interface.Table(
        tableName=entry.table,
        dbName=entry.database,
        owner="waterclock",
        createTime=0,
        lastAccessTime=0,
        retention=0,
        sd=storage,
        partitionKeys=[],
        parameters={
            "EXTERNAL": "TRUE",
            _PROVIDER: "delta",
            "spark.sql.partitionProvider": "catalog",
            "spark.sql.sources.schema": '{"type":"struct","fields":[]}',
            _PROJECT: entry.project,
            _ENVIRONMENT: entry.environment,
        },
        tableType="EXTERNAL_TABLE",
    )
