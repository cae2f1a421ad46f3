"""A MariaDB server for tests on loopback, in a temporary folder, started once for each worker."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

# its data does not outlive the tests, and flushing it to disk would cost them seconds
_SETTINGS = (
    "--no-defaults",
    "--innodb-flush-method=nosync",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-log-file-size=32M",
    "--innodb-buffer-pool-size=64M",
    "--performance-schema=OFF",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--max-connections=200",
)


KEEPER = "keeper"
WORD = "Pass'w0rd/+%ä"


@dataclass
class Server:
    """A running server; `stop` and `start` simulate an outage."""

    folder: Path
    port: int
    more: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def socket(self) -> Path:
        """Its socket for local connections."""
        return self.folder / "socket"

    def url(self, database: str, user: str = "root") -> str:
        """Return the URL of one of its databases."""
        return f"mysql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it responds."""
        listens = (f"--socket={self.socket}", f"--port={self.port}", "--bind-address=127.0.0.1")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(_program()), *_SETTINGS, *_of(self.folder), *listens, *self.more],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + 120
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

    def connect(self, database: str | None = None) -> Any:
        """Open a connection, each of whose statements is a transaction."""
        import pymysql

        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", database=database, charset="utf8mb4", autocommit=True,
            init_command="SET time_zone = '+00:00'", binary_prefix=True,
        )  # fmt: skip

    def run(self, sql: str, *values: Any, database: str | None = None) -> list[Any]:
        """Run one statement in its own transaction."""
        with closing(self.connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def fresh_database(self) -> str:
        """Create a database with a unique name, owned by KEEPER with the password WORD."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        self.run(f"CREATE DATABASE {name}")
        self.run(f"GRANT ALL ON {name}.* TO {KEEPER} IDENTIFIED BY %s", WORD)
        return name

    def _answers(self) -> bool:
        import pymysql

        try:
            self.connect().close()
        except pymysql.Error:
            return False
        return True


@lru_cache
def server() -> Server:
    """Return this process's server, started at the first call and stopped with the process.

    Without MariaDB the test is skipped, except on CI, which skips no tests.
    """
    if _program() is None or shutil.which("mariadb-install-db") is None:
        if os.environ.get("CI"):
            pytest.fail("no MariaDB server is installed. Fix: run bin/_servers")
        pytest.skip("no MariaDB server is installed. Fix: run bin/_servers")
    folder = Path(tempfile.mkdtemp(prefix="waterclock-mariadb-"))
    (folder / "tmp").mkdir()
    subprocess.run(
        [
            "mariadb-install-db",
            *_SETTINGS,
            *_of(folder),
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    made = Server(folder, _free_port())
    made.start()
    atexit.register(_end, made, os.getpid())
    return made


def _of(folder: Path) -> tuple[str, ...]:
    as_root = ("--user=root",) if os.geteuid() == 0 else ()  # refused without the option
    # a starting server deletes the temporary tables of all servers that share its tmpdir
    of_its_own = (f"--datadir={folder / 'data'}", f"--pid-file={folder / 'pid'}", f"--tmpdir={folder / 'tmp'}")
    return (*of_its_own, *as_root)


def _end(made: Server, pid: int) -> None:
    if os.getpid() == pid:
        made.stop(signal.SIGKILL)
        shutil.rmtree(made.folder, ignore_errors=True)


@lru_cache
def _program() -> Path | None:
    found = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/libexec")
    return Path(found) if found else None


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
