"""A Unix socket of another user, in /tmp, gets no readable password."""

from __future__ import annotations

import socket
import struct
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from tests.systems import setting_of, unit_of
from tests.unit.connectors.mysql.test_client import Impostor, switches_to
from waterclock.connectors.mysql.connector import CONNECTOR
from waterclock.database_clients.local_sockets import is_protected
from waterclock.database_clients.postgres_login import connect
from waterclock.errors import WaterclockError

WORD = "canary-4711"
_REQUESTS = {struct.pack("!I", 80877103), struct.pack("!I", 80877104)}  # for encryption


@pytest.fixture(params=["/tmp", "a folder in /tmp", "own folder"])
def folder(request: pytest.FixtureRequest) -> Iterator[tuple[Path, bool]]:
    """Yield a folder for a socket, and whether other users are unable to create it or a socket in it."""
    is_own = request.param == "own folder"
    with tempfile.TemporaryDirectory(dir=Path.home() if is_own else "/tmp", prefix="sockets-") as name:
        path = Path(name)
        path.chmod(0o1777 if request.param == "/tmp" else 0o755)
        if is_own and not is_protected(name):
            pytest.skip("every user can write to a folder above that of this user")
        yield path, is_own


def asking_for_the_password(at: socket.socket) -> bytes:
    """Request the password of the first client, as PostgreSQL may; return its response."""
    connection, _ = at.accept()
    connection.settimeout(10)
    with closing(connection), suppress(OSError):
        while connection.recv(1000)[4:8] in _REQUESTS:
            connection.sendall(b"N")
        connection.sendall(b"R" + struct.pack("!II", 8, 3))
        return connection.recv(1000)
    return b""


def test_postgresql(folder: tuple[Path, bool]) -> None:
    path, is_protected_folder = folder
    with socket.socket(socket.AF_UNIX) as at, ThreadPoolExecutor() as pool:
        at.bind(str(path / ".s.PGSQL.5432"))
        at.listen()
        at.settimeout(30)
        heard = pool.submit(asking_for_the_password, at)
        with pytest.raises(psycopg.OperationalError):
            connect(host=str(path), port=5432, user="ann", password=WORD, dbname="shop", connect_timeout=10)
        assert (WORD.encode() in heard.result()) == is_protected_folder


def test_mysql(folder: tuple[Path, bool]) -> None:
    path, is_protected_folder = folder
    impostor = Impostor(b"mysql_native_password", switches_to(b"mysql_clear_password"))
    with socket.socket(socket.AF_UNIX) as at, ThreadPoolExecutor() as pool:
        at.bind(str(path / "s"))
        at.listen()
        at.settimeout(30)
        served = pool.submit(impostor.serve, at)
        url = f"mysql://loader@localhost/shop?unix_socket={path / 's'}"
        with pytest.raises(WaterclockError):
            CONNECTOR.deliverer(setting_of("ops", path, url=url, password=WORD)).last(
                unit_of("ops", "totals"), "p", "q"
            )
        served.result()
    assert (WORD.encode() in impostor.heard) == is_protected_folder


def test_names_links_and_missing_folders_are_not_protected() -> None:
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        Path(f"{name}/link").symlink_to("/tmp")
        assert not any(map(is_protected, ("", "@x", "x", f"{name}/link/s", f"{name}/link", "/nowhere/s")))
    assert is_protected("/proc")
