"""A PostgreSQL server for tests on loopback, in a temporary folder, started once for each worker."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

KEEPER, WORD = "keeper", "w0rd/of+the'keeper"
"""A role with all rights, and its password; the server requires no password from other roles."""
_SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
fsync = off
autovacuum = off
max_connections = 200
wal_level = logical
log_min_messages = fatal
"""


@dataclass
class Server:
    """A running server; `stop` and `start` simulate an outage."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        """The URL of its one database."""
        return self.url_of("postgres")

    def url_of(self, role: str) -> str:
        """Return the URL of its one database for a role."""
        return f"postgresql://{role}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        _as_its_user("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w", "start")

    def stop(self, how: str = "fast") -> None:
        _as_its_user("pg_ctl", "-D", self.folder / "data", "-m", how, "-w", "stop")

    def connect(self) -> Any:
        """Open a connection, each of whose statements is a transaction."""
        import psycopg

        return psycopg.connect(self.url, autocommit=True)

    def run(self, sql: str, *values: Any) -> list[Any]:
        """Run one statement in its own transaction."""
        with closing(self.connect()) as connection:
            cursor = connection.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    def fresh_schema(self) -> str:
        """Return the name of a new schema."""
        return f"t_{uuid.uuid4().hex[:12]}"

    def ledger_url(self, schema: str | None = None) -> str:
        """Return the URL of a new ledger."""
        return f"{self.url}?schema={schema or self.fresh_schema()}"


@lru_cache
def server() -> Server:
    """Return this process's server, started at the first call and stopped with the process.

    Without PostgreSQL the test is skipped, except on CI, which skips no tests.
    """
    if _programs() is None:
        if os.environ.get("CI"):
            pytest.fail("no PostgreSQL server is installed. Fix: run bin/_servers")
        pytest.skip("no PostgreSQL server is installed. Fix: run bin/_servers")
    folder = Path(tempfile.mkdtemp(prefix="waterclock-postgres-"))
    if os.geteuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"
    _as_its_user("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
    made = Server(folder, _free_port())
    with (data / "postgresql.conf").open("a") as conf:
        conf.write(_SETTINGS.format(port=made.port))
    rules = data / "pg_hba.conf"
    rules.write_text(f"host all {KEEPER} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    made.start()
    in_sql = WORD.replace("'", "''")
    made.run(f"CREATE ROLE {KEEPER} SUPERUSER LOGIN PASSWORD '{in_sql}'")
    import atexit

    atexit.register(_end, made, os.getpid())
    return made


def _end(made: Server, pid: int) -> None:
    if os.getpid() == pid:
        with suppress(subprocess.CalledProcessError):  # a test may have stopped its own server already
            made.stop("immediate")
        shutil.rmtree(made.folder, ignore_errors=True)


def needs_wal2json(at: Server | None = None) -> None:
    """Make a server (by default this process's) trust wal2json; without wal2json skip the test, or fail it on CI."""
    folder = _programs()
    if folder is None or not (folder.parent / "lib" / "wal2json.so").exists():
        if os.environ.get("CI"):
            pytest.fail("wal2json is not installed. Fix: run bin/_servers")
        pytest.skip("wal2json is not installed. Fix: run bin/_servers")
    trust(at or server(), "pgoutput, test_decoding, wal2json")


def trust(at: Server, libraries: str | None) -> None:
    """Set which output plugins a server trusts (None: the default).

    No change if the server trusts all of them, as those before the minor releases of late 2026 do.
    """
    if not asks_for_trust(at):
        return
    value = "DEFAULT" if libraries is None else libraries
    at.run(f"ALTER SYSTEM SET output_plugin_libraries = {value}")
    at.run("SELECT pg_reload_conf()")
    default = "pgoutput, test_decoding"
    wait_until(lambda: at.run("SHOW output_plugin_libraries") == [(libraries or default,)])


def asks_for_trust(at: Server) -> bool:
    """Return whether a server distinguishes trusted output plugins."""
    return bool(at.run("SELECT 1 FROM pg_settings WHERE name = 'output_plugin_libraries'"))


def drop_all_slots() -> None:
    """Drop all slots of this process's server: each would keep its log from then on."""
    server().run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


def wait_until(true: Callable[[], bool], *, seconds: float = 30) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.02)


@lru_cache
def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return Path(there).parent if there else None


def _as_its_user(program: str, *arguments: object) -> None:
    folder = _programs()
    assert folder is not None
    owner: dict[str, Any] = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        found = pwd.getpwnam("postgres")
        owner = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    subprocess.run(
        [str(folder / program), *map(str, arguments)],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
        **owner,
    )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
