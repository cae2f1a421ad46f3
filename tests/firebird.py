"""A Firebird server for tests on loopback, in a temporary folder, started once for each worker."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

KEEPER = "KEEPER"
READER = "READER"
"""A user with the password WORD and no right but to log in."""
WORD = "Pass'w0rd/+%"
_SETTINGS = """RemoteBindAddress = 127.0.0.1
RemoteServicePort = {port}
DatabaseAccess = Restrict {folder}
SecurityDatabase = {folder}/users.fdb
AuthServer = Srp256, Srp
UserManager = Srp
ServerMode = Super
"""
_MAKE_USERS = """
import sys
from firebird.driver import connect
with connect(sys.argv[1], user="SYSDBA") as own:
    for user in (sys.argv[2], sys.argv[4]):
        own.execute_immediate(f"CREATE USER {user} PASSWORD '{sys.argv[3]}' USING PLUGIN Srp")
        own.commit()
    own.execute_immediate(f"GRANT CREATE DATABASE TO USER {sys.argv[2]}")
    own.commit()
"""


@dataclass
class Server:
    """A running server; `stop` and `start` simulate an outage."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def url(self, database: str, user: str = KEEPER) -> str:
        """Return the URL of one of its databases."""
        return f"firebird://{user}@127.0.0.1:{self.port}/{self.path(database)}"

    def path(self, database: str) -> Path:
        """Return the file of a database."""
        return self.folder / f"{database}.fdb"

    def start(self) -> None:
        """Start it, and wait until it responds."""
        folders = ("-e", str(self.folder), "-el", str(self.folder / "lock"), "-em", str(self.folder))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(_program()), "-p", str(self.port), *folders],
                env=_environment(self.folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + 60
        while not self._answers():
            said = (self.folder / "log").read_text(errors="replace")[-2000:]
            assert self.process.poll() is None, f"the server ended: {said}"
            assert time.monotonic() < end, f"the server does not respond: {said}"
            time.sleep(0.05)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop it, by default gracefully, or by another signal as a crash does."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def connect(self, database: str) -> Any:
        """Open a connection."""
        from firebird.driver import connect

        return connect(self._dsn(database), user=KEEPER, password=WORD, charset="UTF8", auth_plugin_list="Srp256,Srp")

    def run(self, sql: str, *values: Any, database: str) -> list[Any]:
        """Run one statement in its own transaction."""
        with closing(self.connect(database)) as connection:
            with connection.cursor() as cursor:
                cursor.stream_blob_threshold = -1
                cursor.execute(sql, values or None)
                rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
        return rows

    def fresh_database(self) -> str:
        """Create a database with a unique name, owned by KEEPER with the password WORD."""
        from firebird.driver import create_database

        name = f"t_{uuid.uuid4().hex[:12]}"
        create_database(
            self._dsn(name), user=KEEPER, password=WORD, charset="UTF8", auth_plugin_list="Srp256,Srp"
        ).close()
        return name

    def _dsn(self, database: str) -> str:
        return f"inet://127.0.0.1:{self.port}/{self.path(database)}"

    def _answers(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0


@lru_cache
def server() -> Server:
    """Return this process's server, started at the first call and stopped with the process.

    Without Firebird, its client or the right to read Debian's user database the test is skipped, but fails on CI.
    """
    if lacking := _find_lack():
        if os.environ.get("CI"):
            pytest.fail(f"{lacking}. Fix: run bin/_servers")
        pytest.skip(f"{lacking}. Fix: run bin/_servers")
    folder = Path(tempfile.mkdtemp(prefix="waterclock-firebird-"))
    made = Server(folder, _free_port())
    libraries = next(Path("/usr/lib").glob(f"*/firebird/{_version()}"))
    for name in ("intl", "firebird.msg"):
        (folder / name).symlink_to(libraries / name)
    shutil.copytree(libraries / "plugins", folder / "plugins")  # Firebird 4 refuses to load them through a link
    (folder / "plugins.conf").write_bytes((Path("/etc/firebird") / _version() / "plugins.conf").read_bytes())
    (folder / "databases.conf").write_text("")
    (folder / "firebird.conf").write_text(_SETTINGS.format(port=made.port, folder=folder))
    (folder / "lock").mkdir()
    (folder / "users.fdb").write_bytes(_users().read_bytes())
    subprocess.run(
        [sys.executable, "-c", _MAKE_USERS, str(folder / "users.fdb"), KEEPER, WORD.replace("'", "''"), READER],
        env=_environment(folder),
        check=True,
        stdin=subprocess.DEVNULL,
    )
    made.start()
    atexit.register(_end, made, os.getpid())
    return made


def _find_lack() -> str:
    try:
        from firebird.driver import get_api

        get_api()
    except Exception as error:  # noqa: BLE001 - the driver raises an Exception if there is no client library
        return f"no Firebird client is installed ({error})"
    if _program() is None:
        return "no Firebird server is installed"
    return "" if os.access(_users(), os.R_OK) else f"{_users()} cannot be read"


def _environment(folder: Path) -> dict[str, str]:
    own = {"FIREBIRD": str(folder), "FIREBIRD_LOCK": str(folder / "lock"), "FIREBIRD_TMP": str(folder)}
    return {**os.environ, **own, "TZ": "America/New_York"}  # it records local times without a zone name


def _end(made: Server, pid: int) -> None:
    if os.getpid() == pid:
        made.stop(signal.SIGKILL)
        shutil.rmtree(made.folder, ignore_errors=True)


@lru_cache
def _version() -> str:
    """Return the newest version that Debian has installed, which is that of the client library; empty if none is."""
    found = [it.name for it in Path("/var/lib/firebird").glob("*.*")]
    return max(found, key=float, default="")


def _users() -> Path:
    """Return the path of Debian's user database, from which the server's own is copied."""
    return Path("/var/lib/firebird") / _version() / "system" / f"security{_version().partition('.')[0]}.fdb"


def _program() -> Path | None:
    own = Path("/usr/lib/firebird") / _version() / "bin" / "firebird"
    found = own if own.is_file() else shutil.which("firebird", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return Path(found) if _version() and found else None


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
