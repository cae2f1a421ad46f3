"""A Hive metastore for tests: that of PySpark's own jars, over Derby, in a temporary folder, once for each worker."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from socket import create_connection
from typing import Any

import pyspark

from tests.receiving import free_port
from waterclock.engine.spark.java import find_java
from waterclock.flow.metastore import Metastore
from waterclock.metastore import client

_PATIENCE = 120
_SITE = """<configuration>{}</configuration>"""


@dataclass
class RunningMetastore:
    """A metastore; `stop` and `start` simulate an outage."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> Metastore:
        return Metastore("127.0.0.1", self.port)

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        jars = Path(pyspark.__file__).parent / "jars"
        tuned = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        tuned.append(f"-Dderby.stream.error.file={self.folder / 'derby.log'}")
        command = [find_java(), *tuned, "-cp", f"{self.folder}:{jars}/*"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with suppress(OSError), create_connection(("127.0.0.1", self.port), timeout=1):
                return
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def table(self, database: str, name: str) -> Any:
        """Return an entry as the metastore has it; None if there is none."""
        with create_connection(("127.0.0.1", self.port), timeout=_PATIENCE) as connection:
            entry = client.CatalogEntry(database, name, "", "", "")
            return client._find(client._client_of(connection), entry)

    def create(self, entry: client.CatalogEntry, **parameters: str) -> None:
        """Create an entry as another program would."""
        table = client._table_of(entry)
        table.parameters = parameters
        with create_connection(("127.0.0.1", self.port), timeout=_PATIENCE) as connection:
            client._client_of(connection).create_table(table)


@lru_cache
def metastore() -> RunningMetastore:
    """Return this process's metastore, started at the first call and stopped with the process."""
    folder = Path(tempfile.mkdtemp(prefix="metastore-"))
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'derby'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "DBCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
        "hive.async.log.enabled": "false",  # it needs a library that is not among PySpark's
    }
    listed = "".join(f"<property><name>{name}</name><value>{it}</value></property>" for name, it in settings.items())
    (folder / "hive-site.xml").write_text(_SITE.format(listed), encoding="ascii")
    made = RunningMetastore(folder, free_port())
    made.start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(made.stop)
    return made
