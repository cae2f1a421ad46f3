"""Another user of the machine, or a site in its browser, can see and do nothing on the pages."""

from __future__ import annotations

import http.client
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import stocks
from tests.security.strangers import MALLORY, as_user, needs_root
from waterclock.errors import WaterclockError
from waterclock.http.access_tokens import WrongTokens
from waterclock.permissions.users_and_roles import SignIn
from waterclock.ui.browser_sessions import MOST, MOST_OF_ONE, BrowserSessions, Credential
from waterclock.ui.live_project import LiveProject
from waterclock.ui.one_time_links import OneTimeLinks, make_code
from waterclock.ui.peers import peer_of
from waterclock.ui.request_guard import Guard
from waterclock.ui.serving import RunningServer, serve_pages


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stocks.make(tmp_path_factory.mktemp("loopback") / "shop").folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[RunningServer]:
    with serve_pages(LiveProject(folder, now="2026-11-21T01:30Z"), "127.0.0.1", 0) as found:
        found.guard.wrong.seconds = 0.05
        yield found


def ask(served: RunningServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)) as connection:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()


def path_of(link: str) -> str:
    return "/" + link.split("/", 3)[3]


@pytest.mark.parametrize(
    "path", ["/", "/grid.json", "/livez", "/openapi.json", "/query.json?q=SELECT+1", "/static/ui.js"]
)
def test_nothing_is_shown_without_a_token_on_loopback(served: RunningServer, path: str) -> None:
    status, _, text = ask(served, path)
    assert (status, "shop" in text) == (401, False)
    if "q=" not in path:  # this would start Spark
        assert ask(served, path, Authorization=f"Bearer {served.guard.token}")[0] == 200


def test_a_plan_is_not_carried_out_without_a_token(served: RunningServer) -> None:
    own = f"http://127.0.0.1:{served.port}"
    assert ask(served, "/plan", "POST", Origin=own, Content_Length="0")[0] == 401


def test_a_link_opens_one_browser_by_a_strict_cookie_of_its_port(served: RunningServer) -> None:
    path = path_of(served.new_link())
    assert ask(served, path, "HEAD")[0] == 401  # link previews do not use the link up
    status, headers, _ = ask(served, path)
    assert (status, headers["location"]) == (303, "/")
    name, _, rest = headers["set-cookie"].partition("=")
    assert name == f"waterclock_session_{served.port}"
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in rest.split(";")}
    value = rest.partition(";")[0]
    assert value != served.guard.token
    assert ask(served, "/grid.json", Cookie=f"{name}={value}")[0] == 200
    assert ask(served, "/grid.json", Cookie=f"waterclock_session_1={value}")[0] == 401
    assert ask(served, path)[0] == 401


def cookie_of(served: RunningServer) -> str:
    return ask(served, path_of(served.new_link()))[1]["set-cookie"].partition(";")[0]


@needs_root
def test_another_user_cannot_use_a_session(served: RunningServer) -> None:
    """A browser sends its cookie to a server of another user, too, if that is at another port."""
    cookie = cookie_of(served)
    spoofed = {"Cookie": cookie, "X_Forwarded_For": "127.0.0.1", "Forwarded": "for=127.0.0.1"}
    assert as_user(MALLORY, lambda: ask(served, "/grid.json", **spoofed)[0]) == 401
    own = {"Origin": f"http://127.0.0.1:{served.port}", "Content_Length": "0"}
    assert as_user(MALLORY, lambda: ask(served, "/plan", "POST", **spoofed, **own)[0]) == 401
    assert ask(served, "/grid.json", Cookie=cookie)[0] == 200
    stolen = as_user(MALLORY, lambda: cookie_of(served))
    assert ask(served, "/grid.json", Cookie=stolen)[0] == 401
    assert as_user(MALLORY, lambda: ask(served, "/grid.json", Cookie=stolen)[0]) == 200


def test_another_machine_cannot_use_a_session(served: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = cookie_of(served)
    assert ask(served, "/grid.json", Cookie=cookie, X_Forwarded_For="192.0.2.7")[0] == 200
    monkeypatch.setattr("waterclock.ui.request_guard.peer_of", lambda _: "192.0.2.7")
    assert ask(served, "/grid.json", Cookie=cookie)[0] == 401
    assert ask(served, "/grid.json", Cookie=cookie_of(served))[0] == 200


@pytest.mark.parametrize(("at", "to"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")])
def test_a_peer_is_the_user_of_an_open_connection(at: str, to: str) -> None:
    family, is_dual = socket.AF_INET6 if ":" in at else socket.AF_INET, at == "::"
    with socket.create_server((at, 0), family=family, dualstack_ipv6=is_dual) as server:
        client = socket.create_connection((to, server.getsockname()[1]))
        with client, server.accept()[0] as accepted:
            scope = {"waterclock.connection": (accepted.getpeername()[:2], accepted.getsockname()[:2])}
            assert peer_of(scope) == (f"user {os.geteuid()}" if Path("/proc/net/tcp").exists() else to)
            client.close()
            assert peer_of(scope) in {to, f"{to}/64", "::/64"}


def test_a_peer_is_kept_for_its_connection_and_not_for_its_port(
    served: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [os.geteuid(), os.geteuid() + 1]
    cookie = cookie_of(served)
    if not Path("/proc/net/tcp").exists():
        pytest.skip("peers are addresses here")
    monkeypatch.setattr("waterclock.ui.peers._find_user", lambda *_: users.pop(0))
    port, answers = 0, []
    for requests in (3, 1):
        with closing(
            http.client.HTTPConnection("127.0.0.1", served.port, timeout=10, source_address=("127.0.0.1", port))
        ) as connection:
            connection.connect()
            port = connection.sock.getsockname()[1]
            # closed by a reset, which frees the port at once
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            for _ in range(requests):
                connection.request("GET", "/livez", headers={"Cookie": cookie})
                answer = connection.getresponse()
                answers.append(answer.status)
                answer.read()
    assert (answers, users) == ([200, 200, 200, 401], [])


@needs_root
def test_another_user_cannot_use_a_session_from_a_port_of_its_browser(served: RunningServer) -> None:
    cookie = cookie_of(served)

    def ask_from(port: int) -> tuple[int, int]:
        at = ("127.0.0.1", port)
        with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=10, source_address=at)) as connection:
            connection.connect()
            own = connection.sock.getsockname()[1]
            # closed by a reset, which frees the port at once
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.request("GET", "/livez", headers={"Cookie": cookie})
            return connection.getresponse().status, own

    status, port = ask_from(0)
    assert status == 200
    assert as_user(MALLORY, lambda: ask_from(port)) == (401, port)
    assert ask_from(port) == (200, port)


def test_peers_elsewhere_are_addresses_or_networks() -> None:
    ends = {"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:0:1:2:3:4:5%eth0": "2001:db8:0:1::/64"}
    for client, peer in ends.items():
        assert peer_of({"waterclock.connection": ((client, 4711), ("::", 8899))}) == peer
    assert peer_of({"waterclock.connection": (None, ("/run/pages.sock", None))}) == ""


@pytest.mark.parametrize("path", ["//evil.example/", "/%5Cevil.example/", "//evil.example/%2e%2e", "/\\evil.example/"])
def test_a_link_leads_to_no_other_site(served: RunningServer, path: str) -> None:
    query = path_of(served.new_link()).partition("?")[2]
    status, headers, _ = ask(served, f"{path}?{query}")
    assert (status, headers["location"]) == (303, "/")
    assert ask(served, f"{path}?token={served.guard.token}")[1].get("location") is None


def test_a_link_that_another_site_has_is_followed_without_a_redirect(served: RunningServer) -> None:
    """A browser does not send a strict cookie with redirects that another site started."""
    status, headers, text = ask(served, path_of(served.new_link()), Sec_Fetch_Site="cross-site")
    assert (status, "location" in headers, 'content="0;url=/"' in text) == (200, False, True)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "127.0.0.1@evil.example", "[::1].evil", "a b"],
)
def test_a_name_that_was_rebound_is_not_served(served: RunningServer, host: str) -> None:
    token = f"Bearer {served.guard.token}"
    assert ask(served, "/grid.json", Host=host, Authorization=token)[0] in {400, 421}


def test_links_expire_and_are_for_one_server() -> None:
    now = 1000.0
    links = OneTimeLinks("token-of-a-good-length", "8899", lambda: now)
    code = links.new_code()
    assert not OneTimeLinks("token-of-a-good-length", "8898", lambda: now).accept(code)
    assert not OneTimeLinks("another-token-of-length", "8899", lambda: now).accept(code)
    before = make_code("token-of-a-good-length", "8899", lambda: 999.0)
    assert not links.accept(before)  # it may have been used before this server started
    assert not links.accept(code.replace("1000000-", "1000001-"))
    now += 3601
    assert not links.accept(code)
    now -= 3601
    assert [links.accept(code), links.accept(code)] == [True, False]


def test_sessions_end_and_are_few() -> None:
    now = 0.0
    looked_up = []

    def user() -> str:
        looked_up.append(now)
        return "user 1"

    sessions = BrowserSessions(lambda: now)
    first = sessions.begin(Credential(), peer="user 1")
    others = [
        sessions.begin(Credential(SignIn.TOKEN, digest=f"{number // MOST_OF_ONE}"), peer="user 1")
        for number in range(MOST - 1)
    ]
    assert sessions.find(first, user)
    sessions.begin(Credential(), peer="user 1")
    assert (sessions.find(first, user) is None, sessions.find(others[0], user) is None) == (False, True)
    assert sessions.find(first, lambda: "user 2") is None
    assert sessions.find(first, user)
    looked_up.clear()
    now = 8 * 24 * 3600.0
    assert sessions.find(first, user) is None
    assert sessions.find("", user) is None
    assert not looked_up  # a flood of wrong cookies causes no listing of all connections


def test_the_sessions_of_one_token_end_no_others() -> None:
    sessions = BrowserSessions()
    other = sessions.begin(Credential())
    own = [sessions.begin(Credential(SignIn.TOKEN, digest="a meter's")) for _ in range(MOST)]
    assert sessions.find(other, str)
    assert [sessions.find(each, str) is not None for each in own] == [False] * (MOST - MOST_OF_ONE) + [
        True
    ] * MOST_OF_ONE


def test_a_session_ends_after_thirty_days_even_if_it_is_used() -> None:
    now = 0.0
    sessions = BrowserSessions(lambda: now)
    cookie = sessions.begin(Credential())
    for now in range(0, 30 * 86_400, 86_400):  # noqa: B007 - the clock
        assert sessions.find(cookie, str)
    now = 30 * 86_400 + 1.0
    assert sessions.current() == ()
    assert sessions.find(cookie, str) is None


def test_wrong_tokens_are_answered_late_and_right_ones_at_once(served: RunningServer) -> None:
    served.guard.wrong.seconds = 1.0
    try:
        begun = time.monotonic()
        threads = [
            threading.Thread(target=ask, args=(served, "/"), kwargs={"Authorization": "Bearer x"}) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        assert ask(served, "/livez", Authorization=f"Bearer {served.guard.token}")[0] == 200
        right = time.monotonic() - begun
        assert ask(served, "/", Authorization="Bearer wrong")[0] == 401
        wrong = time.monotonic() - begun
        for thread in threads:
            thread.join(10)
    finally:
        served.guard.wrong.seconds = 0.05
    assert right < 0.9
    assert wrong >= 1.0


def test_a_short_token_is_refused_and_not_printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_UI_TOKEN", "hunter2")
    with pytest.raises(WaterclockError) as refused, serve_pages(LiveProject(folder), "127.0.0.1", 0):
        pass
    assert refused.value.code == "E923"
    assert "hunter2" not in f"{refused.value.to_dict()}"


def test_a_guard_without_a_token_cannot_be_made() -> None:
    assert len(Guard().token) >= 32
    assert Guard().token != Guard().token
    assert WrongTokens().seconds >= 1


def test_a_unix_socket_is_private_to_its_user_and_also_requires_a_token(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "ui.sock"
    mask = os.umask(0)
    try:
        for _ in range(2):  # the file of a killed server is replaced
            with serve_pages(LiveProject(folder, now="2026-11-21T01:30Z"), f"unix:{path}", 0) as served:
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
                assert at_socket(path, "/grid.json").startswith(b"HTTP/1.1 401")
                bearer = f"Authorization: Bearer {served.guard.token}\r\n"
                assert at_socket(path, "/grid.json", bearer).startswith(b"HTTP/1.1 200")
                assert at_socket(path, path_of(served.new_link())).startswith(b"HTTP/1.1 303")
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(path))
    finally:
        os.umask(mask)


def at_socket(path: Path, address: str, headers: str = "") -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(f"GET {address} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n".encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))
