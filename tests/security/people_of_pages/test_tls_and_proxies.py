"""The pages over HTTPS with an own certificate, and behind proxies whose headers are trusted only if configured."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import stocks
from tests.certificates import Authority
from waterclock.cli.actions.ui_links import store_token
from waterclock.cli.app import app as command_line
from waterclock.errors import WaterclockError
from waterclock.http.server_certificate import Certificate
from waterclock.ui.live_project import LiveProject
from waterclock.ui.serving import RunningServer, serve_pages
from waterclock.ui.slow_clients import MOST


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = stocks.make(tmp_path_factory.mktemp("tls") / "shop")
    made.fill(until=stocks.FIRST + timedelta(days=1))
    return made.folder


def served_in_plain_text(port: int) -> bool:
    """Return whether a server answers a request that is not encrypted."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, suppress(OSError):
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.recv(100).startswith(b"HTTP/")
    return False


def sign_in(served: RunningServer, **headers: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)) as connection:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", "/" + served.new_link().split("/", 3)[3], headers=sent)
        answer = connection.getresponse()
        return answer.status, answer.headers["set-cookie"]


def test_pages_with_a_certificate_are_served_by_https_alone_and_their_cookies_are_secure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    authority = Authority(tmp_path / "keys")
    pair = authority.pair("pages")
    certificate = Certificate(pair.certificate, pair.key)
    with serve_pages(LiveProject(folder), "127.0.0.1", 0, certificate=certificate) as served, store_token(served):
        link = served.new_link()
        assert link.startswith(f"https://127.0.0.1:{served.port}/?link=")
        context = ssl.create_default_context(cafile=str(authority.certificate))
        with closing(http.client.HTTPSConnection("127.0.0.1", served.port, context=context, timeout=10)) as connection:
            connection.request("GET", "/" + link.split("/", 3)[3])
            answer = connection.getresponse()
            assert answer.status == 303
            assert "; Secure" in answer.headers["set-cookie"]
        assert not served_in_plain_text(served.port)
        another = CliRunner().invoke(command_line, ["ui", "--link", "--listen", str(served.port)])
        assert another.output.startswith("https://127.0.0.1:")
        listed = CliRunner().invoke(command_line, ["session", "--listen", str(served.port), "--json"])
        assert [each["sign_in"] for each in json.loads(listed.stdout)["sessions"]] == ["owner"]


def test_a_certificate_that_cannot_be_used_is_refused_at_the_start(folder: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "keys")
    one, other, locked = (authority.pair(name) for name in ("one", "other", "locked"))
    locked = authority.pair("locked", password="secret")
    for certificate in (
        Certificate(one.certificate, other.key),
        Certificate(tmp_path / "missing.pem", one.key),
        Certificate(locked.certificate, locked.key),
        Certificate(one.key, one.key),
    ):
        with (
            pytest.raises(WaterclockError) as refused,
            serve_pages(LiveProject(folder), "127.0.0.1", 0, certificate=certificate),
        ):
            pass
        assert refused.value.code == "E944"


@pytest.mark.parametrize(("proxies", "is_trusted"), [((), False), (("10.0.0.7",), False), (("127.0.0.1",), True)])
def test_headers_about_the_client_are_believed_from_named_proxies_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, proxies: tuple[str, ...], is_trusted: bool
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    named = ", ".join(f'"{each}"' for each in proxies)
    (folder / "waterclock.toml").write_text(f"{stocks.HEADER}\n[sign_in]\nproxies = [{named}]\n")
    with serve_pages(LiveProject(folder), "127.0.0.1", 0) as served:
        sent = {"X_Forwarded_Proto": "https", "X_Forwarded_For": "192.0.2.1, 203.0.113.9"}
        status, cookie = sign_in(served, **sent)
        assert (status, "; Secure" in cookie) == (303, is_trusted)
        [session] = served.guard.sessions.current()
        # of the addresses that the proxy sends on, only the last is its own
        assert session.address == ("203.0.113.9" if is_trusted else "127.0.0.1")
        assert sign_in(served, X_Forwarded_Host="evil.example")[0] == 303
        with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)) as connection:
            connection.request("GET", "/grid.json", headers={"X-Forwarded-For": "127.0.0.1", "X-Forwarded-User": "ops"})
            assert connection.getresponse().status == 401


def test_the_peer_of_an_encrypted_connection_is_looked_up_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "keys")
    pair, context = authority.pair("pages"), ssl.create_default_context(cafile=str(authority.certificate))
    users = [1000, 1001]
    monkeypatch.setattr("waterclock.ui.peers._find_user", lambda *_: users.pop(0))
    certificate = Certificate(pair.certificate, pair.key)
    with serve_pages(LiveProject(folder), "127.0.0.1", 0, certificate=certificate) as served:
        path, cookie = "/" + served.new_link().split("/", 3)[3], ""
        statuses = []
        for count in (3, 1):
            with closing(
                http.client.HTTPSConnection("127.0.0.1", served.port, context=context, timeout=10)
            ) as connection:
                for _ in range(count):
                    connection.request("GET", path, headers={"Cookie": cookie})
                    answer = connection.getresponse()
                    answer.read()
                    statuses.append(answer.status)
                    cookie, path = cookie or answer.headers["set-cookie"].partition(";")[0], "/openapi.json"
    assert (statuses, users) == ([303, 200, 200, 401], [])


def test_connections_without_a_handshake_end_in_time_and_the_oldest_make_room(folder: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "keys")
    pair, context = authority.pair("pages"), ssl.create_default_context(cafile=str(authority.certificate))
    certificate = Certificate(pair.certificate, pair.key)
    with (
        serve_pages(LiveProject(folder), "127.0.0.1", 0, certificate=certificate, patience=5) as served,
        ExitStack() as stack,
    ):
        begun = time.monotonic()
        stalled = [
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", served.port), timeout=30)))
            for _ in range(MOST // 2 + 20)
        ]
        assert [each.recv(1) for each in stalled[:20]] == [b""] * 20  # asyncio would wait for a minute
        with closing(http.client.HTTPSConnection("127.0.0.1", served.port, context=context, timeout=30)) as connection:
            connection.request("GET", "/livez", headers={"Authorization": f"Bearer {served.guard.token}"})
            assert connection.getresponse().status == 200
        assert [each.recv(1) for each in stalled[20:]] == [b""] * (MOST // 2)
        assert time.monotonic() - begun < 50
