from __future__ import annotations

import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.systems import setting_of, unit_of
from waterclock.connectors.mysql import client
from waterclock.connectors.mysql.connector import CONNECTOR
from waterclock.errors import WaterclockError

_PROTOCOL_41, _TLS, _SECURE, _PLUGINS = 0x200, 0x800, 0x8000, 0x80000
_OK = b"\0\0\0\2\0\0\0"
WORD = "s3cret"
ENCRYPTED = 256  # bytes of a password that is encrypted by the impostor's key; a scrambled one has 32


@dataclass
class Impostor:
    """A server that responds to each connection by a script, and records all bytes received."""

    first: bytes
    script: Callable[[Impostor], None]
    context: ssl.SSLContext | None = None
    messages: list[bytes] = field(default_factory=list)
    taken: socket.socket = field(init=False)
    number: int = 0

    def send(self, payload: bytes) -> None:
        self.taken.sendall(len(payload).to_bytes(3, "little") + bytes([self.number]) + payload)

    def hear(self) -> bytes:
        head = self._read(4)
        payload = self._read(int.from_bytes(head[:3], "little"))
        self.number = head[3] + 1
        self.messages.append(payload)
        return payload

    @property
    def heard(self) -> bytes:
        return b"".join(self.messages)

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self.taken.recv(size - len(found))
            if not more:
                raise ConnectionError
            found += more
        return found

    def serve(self, at: socket.socket) -> None:
        self.taken, _ = at.accept()
        self.taken.settimeout(10)
        with suppress(OSError):
            flags = _PROTOCOL_41 | _SECURE | _PLUGINS | (_TLS if self.context else 0)
            self.send(
                b"\x0a8.0.0\0" + bytes(4) + b"saltsalt\0" + (flags & 0xFFFF).to_bytes(2, "little") + b"\x2d\x02\0"
                + (flags >> 16).to_bytes(2, "little") + b"\x15" + bytes(10) + b"saltsaltsalt\0" + self.first + b"\0"
            )  # fmt: skip
            self.hear()
            if self.context is not None:
                self.taken = self.context.wrap_socket(self.taken, server_side=True)
                self.hear()
            self.script(self)
            while True:
                self.hear()
        self.taken.close()


@lru_cache
def key() -> bytes:
    """Return the public key of the impostor."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(65537, 2048).public_key()
    return made.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def switch(plugin: bytes, salt: bytes = b"saltsaltsaltsaltsalt") -> bytes:
    return b"\xfe" + plugin + b"\0" + salt + b"\0"


def full_login(of: Impostor) -> None:
    of.send(b"\x01\x04")
    of.hear()
    of.send(b"\x01" + key())


def switched_to_full_login(of: Impostor) -> None:
    of.send(switch(b"caching_sha2_password"))
    of.hear()
    full_login(of)


def sends_key(of: Impostor) -> None:
    of.send(b"\x01" + key())


def switches_to(plugin: bytes) -> Callable[[Impostor], None]:
    def script(of: Impostor) -> None:
        of.send(switch(plugin, b"\x05Password: " if plugin == b"dialog" else b"saltsaltsaltsaltsalt"))

    return script


ROADS: dict[str, tuple[bytes, Callable[[Impostor], None]]] = {
    "caching_sha2": (b"caching_sha2_password", full_login),
    "caching_sha2, switched": (b"mysql_native_password", switched_to_full_login),
    "sha256": (b"sha256_password", sends_key),
    **{
        f"{plugin}, switched": (b"mysql_native_password", switches_to(plugin.encode()))
        for plugin in ("sha256_password", "mysql_clear_password", "dialog", "mysql_old_password")
    },
}


def ask(impostor: Impostor, folder: Path, **options: bool) -> WaterclockError:
    """Log in to the impostor, and return the error."""
    with socket.create_server(("127.0.0.1", 0)) as at, ThreadPoolExecutor() as pool:
        served = pool.submit(impostor.serve, at)
        url = f"mysql://loader@127.0.0.1:{at.getsockname()[1]}/shop"
        deliverer = CONNECTOR.deliverer(setting_of("ops", folder, url=url, password=WORD, **options))
        with pytest.raises(WaterclockError) as refused:
            deliverer.last(unit_of("ops", "totals"), "p", "q")
        served.result()
    return refused.value


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("with_tls", [False, True], ids=["", "over TLS"])
def test_a_server_that_may_be_anyone_gets_no_password(tmp_path: Path, road: str, with_tls: bool) -> None:
    first, script = ROADS[road]
    impostor = Impostor(first, script, _context(tmp_path) if with_tls else None)
    error = ask(impostor, tmp_path)
    assert error.code == "E810", error.render()
    assert "the password was not sent: set ca" in error.render()
    assert WORD.encode() not in impostor.heard
    assert all(len(each) < ENCRYPTED for each in impostor.messages)


def _context(folder: Path) -> ssl.SSLContext:
    made = Authority(folder).pair("impostor")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    return context


def test_a_login_that_the_server_has_cached_works_and_reveals_nothing(tmp_path: Path) -> None:
    def cached(of: Impostor) -> None:
        of.send(b"\x01\x03")
        of.number += 1
        of.send(_OK)
        of.hear()
        of.send(b"\xff\x28\x04#42000no such statement")

    impostor = Impostor(b"caching_sha2_password", cached)
    assert ask(impostor, tmp_path).code == "E813"
    assert b"SET NAMES" in impostor.heard
    assert WORD.encode() not in impostor.heard


def test_a_clear_text_password_is_sent_with_trust_server(tmp_path: Path) -> None:
    def takes_it(of: Impostor) -> None:
        of.send(switch(b"mysql_clear_password"))
        of.hear()
        of.taken.close()

    impostor = Impostor(b"mysql_native_password", takes_it)
    ask(impostor, tmp_path, trust_server=True)
    assert WORD.encode() in impostor.heard


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"\x01\xff", b"\xfb", b"\x02\x03def", b"\xfe", b"\xff", b"\xff\x01", b"\xfc\xff\xff", b"\0\xff\xff",
        bytes(range(64)),
    ],
    ids=repr,
)  # fmt: skip
def test_answers_that_make_no_sense_are_errors_of_the_database(tmp_path: Path, answer: bytes) -> None:
    def lies(of: Impostor) -> None:
        of.send(_OK)
        of.hear()
        of.send(answer)
        of.taken.close()

    assert ask(Impostor(b"mysql_native_password", lies), tmp_path).code in {"E810", "E813"}


@pytest.mark.parametrize("answer", [b"\x01", b"\xfe", b"\xfe\xff\xff", b"\xff", b"", b"\x07\x07"], ids=repr)
def test_logins_that_make_no_sense_are_errors_of_the_database(tmp_path: Path, answer: bytes) -> None:
    def lies(of: Impostor) -> None:
        of.send(answer)
        of.taken.close()

    impostor = Impostor(b"mysql_native_password", lies)
    assert ask(impostor, tmp_path).code in {"E810", "E813"}


def _says_nothing(_: Impostor) -> None:
    """Wait without a response."""


def test_a_silent_server_is_not_waited_for_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LOGIN_SECONDS", 0.5)
    begun = time.monotonic()
    error = ask(Impostor(b"mysql_native_password", _says_nothing), tmp_path)
    assert (error.code, error.transient) == ("E810", True)
    assert time.monotonic() - begun < 10


def _goes_on(of: Impostor) -> None:
    for _ in range(400):
        of.send(b"\x01\x03")
        of.number = (of.number + 1) % 256
        time.sleep(0.02)


def _drips(of: Impostor) -> None:
    of.taken.sendall((400).to_bytes(3, "little") + bytes([of.number]))
    for _ in range(400):
        of.taken.sendall(b"\x01")
        time.sleep(0.02)


def _never_welcomes(of: Impostor) -> None:
    of.send(_OK)
    of.hear()
    of.taken.sendall((400).to_bytes(3, "little") + bytes([1]))
    for _ in range(400):
        of.taken.sendall(b"\0")
        time.sleep(0.02)


@pytest.mark.parametrize("with_tls", [False, True], ids=["", "over TLS"])
@pytest.mark.parametrize("script", [_goes_on, _drips, _never_welcomes])
def test_a_login_times_out_even_if_the_server_keeps_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: Callable[[Impostor], None], with_tls: bool
) -> None:
    monkeypatch.setattr(client, "_LOGIN_SECONDS", 1)
    begun = time.monotonic()
    error = ask(Impostor(b"caching_sha2_password", script, _context(tmp_path) if with_tls else None), tmp_path)
    assert (error.code, error.transient) == ("E810", True)
    assert "the login was not complete after 1 seconds" in str(error.why)
    assert time.monotonic() - begun < 5
    assert not [each for each in threading.enumerate() if isinstance(each, threading.Timer)]


def test_a_login_through_a_socket_of_this_machine_has_an_end_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_LOGIN_SECONDS", 1)
    with socket.socket(socket.AF_UNIX) as at, ThreadPoolExecutor() as pool:
        at.bind(str(tmp_path / "s"))
        at.listen()
        served = pool.submit(Impostor(b"caching_sha2_password", _goes_on).serve, at)
        url = f"mysql://loader@localhost/shop?unix_socket={tmp_path / 's'}"
        with pytest.raises(WaterclockError, match="not complete after 1 seconds"):
            CONNECTOR.deliverer(setting_of("ops", tmp_path, url=url, password=WORD)).last(
                unit_of("ops", "totals"), "p", "q"
            )
        served.result()


def test_a_missing_socket_is_reported(tmp_path: Path) -> None:
    url = f"mysql://loader@localhost/shop?unix_socket={tmp_path / 's'}"
    with pytest.raises(WaterclockError) as refused:
        CONNECTOR.deliverer(setting_of("ops", tmp_path, url=url)).last(unit_of("ops", "totals"), "p", "q")
    assert (refused.value.code, refused.value.transient) == ("E810", True)
    assert str(tmp_path / "s") in str(refused.value.why)


def test_a_login_that_needs_a_package_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nacl", None)
    error = ask(Impostor(b"mysql_native_password", switches_to(b"client_ed25519")), tmp_path)
    assert (error.code, error.transient) == ("E810", False)
    assert "'pynacl' package is required" in str(error.why)


def test_a_servers_request_for_a_local_file_is_refused(tmp_path: Path) -> None:
    def asks_for_a_file(of: Impostor) -> None:
        of.send(_OK)
        for _ in range(2):  # the character set, and that each statement is a transaction
            of.hear()
            of.send(_OK)
        of.hear()
        of.send(b"\xfb/etc/passwd")

    impostor = Impostor(b"mysql_native_password", asks_for_a_file)
    error = ask(impostor, tmp_path)
    assert (error.code, error.transient) == ("E813", False)
    assert "local_infile" in str(error.why)
    assert b"root:" not in impostor.heard


def test_a_server_that_falls_silent_later_is_not_waited_for_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_SILENT_SECONDS", 0.5)

    def welcomes(of: Impostor) -> None:
        of.send(_OK)
        for _ in range(2):  # the character set, and that each statement is a transaction
            of.hear()
            of.send(_OK)

    error = ask(Impostor(b"mysql_native_password", welcomes), tmp_path)
    assert (error.code, error.transient) == ("E810", True)


def test_an_answer_without_an_end_has_a_limit_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST_BYTES", 1 << 20)
    sent = [0]

    def goes_on(of: Impostor) -> None:
        of.send(_OK)
        for _ in range(2):  # the character set, and that each statement is a transaction
            of.hear()
            of.send(_OK)
        of.hear()
        of.send(b"\x01")
        of.number += 1
        of.send(b"\x03def\0\0\0\x01a\0\x0c\x2d\0\xff\0\0\0\xfd\0\0\0\0\0")
        of.number += 1
        of.send(b"\xfe\0\0\2\0")
        while sent[0] < 64 << 20:
            of.number = (of.number + 1) % 256
            of.send(b"\xfc\x00\xf0" + b"x" * 0xF000)
            sent[0] += 0xF000

    error = ask(Impostor(b"mysql_native_password", goes_on), tmp_path)
    assert (error.code, error.transient) == ("E810", True)
    assert "an answer of more than 1 MiB" in str(error.why)
    assert sent[0] < 16 << 20
