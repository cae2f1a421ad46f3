from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from tests.systems import setting_of
from waterclock.connectors.postgres.database import database_of
from waterclock.database_clients import postgres_client, postgres_login
from waterclock.database_clients.postgres_client import execute_replication
from waterclock.database_clients.postgres_login import (
    Refusal,
    RefusalReason,
    connect,
    limit_first_statements,
    refusal_of,
)
from waterclock.errors import WaterclockError
from waterclock.ledger.store.failure import StatementFailure
from waterclock.ledger.store.postgres import create_engine, failure_of

AT = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('FATAL:  password authentication failed for user "ann"', RefusalReason.LOGIN),
        ('FATAL:  role "ann" does not exist', RefusalReason.LOGIN),
        ('FATAL:  role "ann" is not permitted to log in', RefusalReason.LOGIN),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "ann", database "shop"', RefusalReason.LOGIN),
        ('FATAL:  permission denied for database "shop"', RefusalReason.LOGIN),
        ('FATAL:  database "shop" is not currently accepting connections', RefusalReason.LOGIN),
        ("fe_sendauth: no password supplied", RefusalReason.LOGIN),
        ("SSL error: certificate verify failed", RefusalReason.LOGIN),
        ("FATAL:  no such user: ann", RefusalReason.LOGIN),
        ('FATAL:  database "shop" does not exist', RefusalReason.DATABASE),
        ("FATAL:  no such database: shop", RefusalReason.DATABASE),
        ("Connection refused", None),
        ("timeout expired", None),
        ("FATAL:  the database system is starting up", None),
        ("FATAL:  sorry, too many clients already", None),
        ("server closed the connection unexpectedly", None),
        ('could not translate host name "db" to address: Name or service not known', None),
    ],
)
def test_a_refused_login_or_database_is_distinguished_from_an_unavailable_server(
    text: str, reason: RefusalReason | None
) -> None:
    assert refusal_of(None, AT + text) == (None if reason is None else Refusal(reason, AT + text))


def test_of_several_attempts_the_refused_one_is_shown() -> None:
    refused = f"- host: 'b': {AT}FATAL:  role \"ann\" does not exist"
    text = f"Multiple connection attempts failed. All failures were:\n- host: 'a': {AT}Connection refused\n{refused}"
    assert refusal_of(None, text) == Refusal(RefusalReason.LOGIN, refused)


@pytest.mark.parametrize(
    ("state", "reason"),
    [("28P01", RefusalReason.LOGIN), ("28000", RefusalReason.LOGIN), ("3D000", RefusalReason.DATABASE)],
)
def test_a_state_decides_whatever_the_language_of_the_text(state: str, reason: RefusalReason) -> None:
    assert refusal_of(state, "FATAL:  Datenbank gibt es nicht") == Refusal(reason, "FATAL:  Datenbank gibt es nicht")


def test_a_statement_that_fails_is_no_refused_connection() -> None:
    assert refusal_of("42704", 'role "ann" does not exist') is None


Refuse = Callable[[str, str], str]
_ENCRYPTION_REQUESTS = {struct.pack("!I", 80877103), struct.pack("!I", 80877104)}


@pytest.fixture
def refusing() -> Iterator[Refuse]:
    """Return a function that starts a server which refuses connections with a SQLSTATE and a text."""
    listening: list[socket.socket] = []

    def serve(at: socket.socket, message: bytes) -> None:
        while True:
            try:
                connection, _ = at.accept()
            except OSError:
                return
            with closing(connection):
                while _asked(connection) in _ENCRYPTION_REQUESTS:
                    connection.sendall(b"N")
                connection.sendall(message)

    def refuse(state: str, text: str) -> str:
        body = f"SFATAL\0VFATAL\0C{state}\0M{text}\0\0".encode()
        at = socket.create_server(("127.0.0.1", 0))
        listening.append(at)
        message = b"E" + struct.pack("!I", len(body) + 4) + body
        threading.Thread(target=serve, args=(at, message), daemon=True).start()
        return f"postgresql://ann:w0rd@127.0.0.1:{at.getsockname()[1]}/shop"

    yield refuse
    for at in listening:
        at.close()


def _asked(connection: socket.socket) -> bytes:
    (size,) = struct.unpack("!I", connection.recv(4))
    return connection.recv(size - 4)[:4]


@pytest.mark.parametrize(
    ("state", "text", "reason"),
    [
        ("28P01", "Passwort-Authentifizierung für Benutzer »ann« fehlgeschlagen", RefusalReason.LOGIN),
        ("28000", "aucune entrée dans pg_hba.conf pour l'hôte", RefusalReason.LOGIN),
        ("3D000", "Datenbank »shop« existiert nicht", RefusalReason.DATABASE),
        ("57P03", "le système de bases de données se lance", None),
        ("53300", "désolé, trop de clients sont déjà connectés", None),
    ],
)
def test_a_refusal_in_another_language_has_its_state(
    refusing: Refuse, state: str, text: str, reason: RefusalReason | None
) -> None:
    with pytest.raises(psycopg.OperationalError) as refused:
        connect(refusing(state, text), autocommit=True, connect_timeout=10)
    found = refusal_of(refused.value.sqlstate, str(refused.value))
    assert (found and found.reason) == reason
    if "pg_hba.conf" not in text:  # recognized in any language
        assert refused.value.sqlstate == state


def test_a_server_that_does_not_answer_has_no_state() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(psycopg.OperationalError) as refused:
        connect(f"postgresql://ann@127.0.0.1:{port}/shop")
    assert refused.value.sqlstate is None
    assert refusal_of(None, str(refused.value)) is None


@pytest.fixture
def asking() -> Iterator[tuple[str, bytearray]]:
    """Start a server that requests the password itself; yield its address and the messages received after that."""
    heard = bytearray()

    def serve(at: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = at.accept()
                connection.settimeout(10)
                with closing(connection):
                    while _asked(connection) in _ENCRYPTION_REQUESTS:
                        connection.sendall(b"N")
                    connection.sendall(b"R" + struct.pack("!II", 8, 3))
                    heard.extend(connection.recv(1000))

    with socket.create_server(("127.0.0.1", 0)) as at:
        threading.Thread(target=serve, args=(at,), daemon=True).start()
        yield f"postgresql://ann:w0rd@127.0.0.1:{at.getsockname()[1]}/shop", heard


def test_a_server_that_may_be_anyone_does_not_get_the_password_itself(asking: tuple[str, bytearray]) -> None:
    url, heard = asking
    with pytest.raises(psycopg.OperationalError) as refused:
        connect(url, autocommit=True, connect_timeout=10)
    found = refusal_of(refused.value.sqlstate, str(refused.value))
    assert found is not None
    assert found.reason is RefusalReason.LOGIN
    assert "the password was not sent" in found.text
    assert b"w0rd" not in heard


@pytest.mark.parametrize("how", ["by the url", "by the environment", "by a setting"])
def test_a_clear_text_password_is_sent_if_the_server_is_explicitly_trusted(
    asking: tuple[str, bytearray], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    url, heard = asking
    if how == "by the environment":
        monkeypatch.setenv("PGREQUIREAUTH", "password")
    with pytest.raises(psycopg.OperationalError):
        connect(
            f"{url}?require_auth=password" if how == "by the url" else url,
            connect_timeout=10,
            is_trusted=how == "by a setting",
        )
    assert b"w0rd" in heard


def test_a_service_is_no_socket(asking: tuple[str, bytearray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, heard = asking
    port = url.rpartition(":")[2].partition("/")[0]
    (tmp_path / "services").write_text(f"[evil]\nhost=127.0.0.1\nport={port}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    with pytest.raises(psycopg.OperationalError, match="cleartext password"):
        connect("postgresql://ann:w0rd@/shop?service=evil", connect_timeout=10)
    assert b"w0rd" not in heard


_LET_IN = (
    b"R" + struct.pack("!II", 8, 0)
    + b"S" + struct.pack("!I", 24) + b"server_version\x0017.0\0"
    + b"Z" + struct.pack("!I", 5) + b"I"
)  # fmt: skip
_NOTICE = b"N" + struct.pack("!I", 13) + b"SNOTICE\0\0"
_DONE = b"C" + struct.pack("!I", 8) + b"SET\0" + b"Z" + struct.pack("!I", 5) + b"I"


@pytest.fixture
def silent() -> Iterator[Callable[[bytes], str]]:
    """Return a function that starts a server which accepts everyone and then only repeats some bytes."""
    listening: list[socket.socket] = []

    def serve(at: socket.socket, bytes_sent: bytes) -> None:
        with suppress(OSError):
            while True:
                connection, _ = at.accept()
                connection.settimeout(10)
                with closing(connection), suppress(OSError):
                    while _asked(connection) in _ENCRYPTION_REQUESTS:
                        connection.sendall(b"N")
                    connection.sendall(_LET_IN)
                    for _ in range(200):
                        connection.sendall(bytes_sent)
                        time.sleep(0.05)

    def start(bytes_sent: bytes) -> str:
        at = socket.create_server(("127.0.0.1", 0))
        listening.append(at)
        threading.Thread(target=serve, args=(at, bytes_sent), daemon=True).start()
        return f"postgresql://ann@127.0.0.1:{at.getsockname()[1]}/shop"

    yield start
    for at in listening:
        at.close()


_ROW = b"D" + struct.pack("!IHI", 100_010, 1, 100_000) + b"x" * 100_000
_ROWS = b"T" + struct.pack("!IH", 26, 1) + b"a\0" + struct.pack("!IHIHIH", 0, 0, 25, 65535, 0, 0) + _ROW


@pytest.mark.parametrize("bytes_sent", [b"", _NOTICE, _ROWS], ids=["silent", "notices", "rows"])
def test_an_answer_without_an_end_is_not_waited_for(
    silent: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch, bytes_sent: bytes
) -> None:
    monkeypatch.setattr(postgres_client, "_LONGEST_SECONDS", 1)
    begun = time.monotonic()
    with (
        pytest.raises(psycopg.OperationalError, match="no complete answer within"),
        connect(silent(bytes_sent), autocommit=True) as connection,
    ):
        connection.execute("SELECT 1")
    assert connection.closed
    assert time.monotonic() - begun < 5


def test_a_silent_catalog_is_not_waited_for_as_long_as_a_query(
    silent: Callable[[bytes], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.connectors.postgres.database._CATALOG_SECONDS", 0.5)
    database = database_of(setting_of("ops", tmp_path, url=silent(_DONE), timeout=0.5)).for_catalog
    with closing(database.connect()) as connection:
        assert connection.longest_seconds == 1  # type: ignore[attr-defined]
    begun = time.monotonic()
    with closing(connect(silent(b""), autocommit=True)) as connection:
        connection.longest_seconds = 1  # type: ignore[attr-defined]
        with pytest.raises(psycopg.OperationalError, match="no complete answer within 1 seconds"):
            connection.execute("SELECT 1")
    assert time.monotonic() - begun < 5


def test_an_answer_has_a_limit_of_bytes(silent: Callable[[bytes], str]) -> None:
    with (
        pytest.raises(psycopg.OperationalError, match="an answer of more than 1 MiB"),
        connect(silent(_ROWS), autocommit=True, most_bytes=1 << 20) as connection,
    ):
        connection.execute("SELECT 1")
    assert connection.closed


def test_a_replication_command_is_not_waited_for_without_an_end(
    silent: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(postgres_client, "_LONGEST_SECONDS", 1)
    database = database_of(setting_of("ops", tmp_path, url=silent(b"")))
    with pytest.raises(WaterclockError) as refused, database.connect_for_replication("t") as connection:
        execute_replication(connection, "TIMELINE_HISTORY 2")
    assert (refused.value.code, refused.value.transient) == ("E810", True)


@pytest.mark.parametrize("bytes_sent", [b"", _NOTICE], ids=["silent", "notices"])
@pytest.mark.parametrize("by", ["connector", "ledger"])
def test_a_server_that_answers_nothing_after_the_login_is_away(
    silent: Callable[[bytes], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, bytes_sent: bytes
) -> None:
    monkeypatch.setattr(postgres_login, "_FIRST_SECONDS", 1)
    url, begun = silent(bytes_sent), time.monotonic()
    if by == "connector":
        with (
            pytest.raises(WaterclockError) as refused,
            database_of(setting_of("ops", tmp_path, url=url)).open_for_reading("t"),
        ):
            pass
        assert (refused.value.code, refused.value.transient) == ("E810", True)
        assert "no complete answer within 1 seconds" in str(refused.value.why)
    else:
        with pytest.raises(sa.exc.OperationalError) as failed:
            create_engine(sa.make_url(url)).connect()
        assert failure_of(failed.value) is StatementFailure.AWAY
    assert time.monotonic() - begun < 5
    assert not [each for each in threading.enumerate() if isinstance(each, threading.Timer)]


def test_first_statements_that_are_answered_leave_no_limit_behind(
    silent: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_login, "_FIRST_SECONDS", 1)
    with connect(silent(_DONE), autocommit=True) as connection:
        with limit_first_statements(connection):
            connection.execute("SET a = b")
        assert not [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
        time.sleep(1.2)
        assert not connection.closed
        connection.execute("SET a = b")


def test_a_first_statement_that_fails_closes_the_connection(silent: Callable[[bytes], str]) -> None:
    connection = connect(silent(b""), autocommit=True)
    with pytest.raises(KeyError), limit_first_statements(connection):
        raise KeyError
    assert connection.closed
