"""Serves the web pages of a project from a separate thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from waterclock.errors import WaterclockError
from waterclock.http.access_tokens import token_of_environment
from waterclock.http.listening import UNIX, bind_port, bind_unix_socket
from waterclock.http.served_hosts import ALL_ADDRESSES, hosts_of
from waterclock.http.server_certificate import Certificate
from waterclock.ui.app import create_app
from waterclock.ui.live_project import LiveProject
from waterclock.ui.peers import PeerMiddleware
from waterclock.ui.people import People
from waterclock.ui.query_queue import QueryQueue
from waterclock.ui.request_guard import LINK, Guard, new_token
from waterclock.ui.slow_clients import MOST, SECONDS, build_server
from waterclock.ui.table_events import TableEvents

TOKEN = "WATERCLOCK_UI_TOKEN"  # noqa: S105 - the name of the variable
_SECONDS_TO_END = 3


@dataclass(frozen=True, slots=True)
class RunningServer:
    """The address of a running server of pages, and the guard that controls access to it."""

    host: str
    port: int
    guard: Guard
    certificate: Certificate | None = None

    @property
    def address(self) -> str:
        """The address of the first page. It requires a token or a session."""
        return address_at(self.host, self.port, is_tls=self.certificate is not None)

    def new_link(self) -> str:
        """Return a link that opens the pages in one browser."""
        return link_at(self.host, self.port, self.guard.links.new_code(), is_tls=self.certificate is not None)


def address_at(host: str, port: int, *, is_tls: bool = False) -> str:
    """Return the address of the first page of a server."""
    if host.startswith(UNIX):
        return "http://localhost/"
    named = socket.gethostname() if host in ALL_ADDRESSES else host
    return f"http{'s' if is_tls else ''}://{f'[{named}]' if ':' in named else named}:{port}/"


def link_at(host: str, port: int, code: str, *, is_tls: bool = False) -> str:
    """Return the one-time link that contains a code."""
    return f"{address_at(host, port, is_tls=is_tls)}?{LINK}={code}"


def place_of(host: str, port: int) -> str:
    """Return the place that a server's links and cookies are bound to: its port, or the path of its socket."""
    return host.removeprefix(UNIX) if host.startswith(UNIX) else str(port)


@contextmanager
def serve_pages(
    live: LiveProject,
    host: str,
    port: int,
    *,
    patience: float = SECONDS,
    asker: QueryQueue | None = None,
    certificate: Certificate | None = None,
) -> Iterator[RunningServer]:
    """Serve a project's pages. Port 0 is any free port; a host `unix:/path` is a socket for this user alone.

    A token is always required: the one of WATERCLOCK_UI_TOKEN, or else a new one for each start. `patience` is the
    number of seconds within which a request must arrive completely. With a certificate the pages are served by HTTPS.

    Headers about the client are trusted from the proxies that the project names, and from no others. They are read
    once, at the start.
    Raises E909 if the address cannot be bound, E923 for a short token, E944 for an unusable certificate, E945 or E225
    if the declared identity provider cannot be used.
    """
    token = token_of_environment(TOKEN) or new_token()
    if certificate is not None:
        certificate.require_usable()
    asker = asker or QueryQueue()
    path = host.removeprefix(UNIX) if host.startswith(UNIX) else None
    listener = bind_port(host, port) if path is None else bind_unix_socket(path)
    port = listener.getsockname()[1] if path is None else 0
    served = RunningServer(host, port, Guard(token, hosts_of(host), place_of(host, port)), certificate)
    people = People(live)
    try:
        if (provider := people.provider()) is not None:
            provider.require_usable()
    except WaterclockError:
        listener.close()
        raise
    events = TableEvents(people, served.guard)
    app: Any = create_app(live, served.guard, asker, people, events)
    proxies = [*people.rules().proxies]
    behind_proxies: Any = ProxyHeadersMiddleware(app, proxies) if proxies else app
    server = build_server(
        PeerMiddleware(behind_proxies),
        listener,
        certificate,
        patience,
        proxy_headers=False,  # uvicorn would replace the address of the peer, too
        timeout_keep_alive=15,
        limit_concurrency=2 * MOST,
        timeout_graceful_shutdown=_SECONDS_TO_END,
        h11_max_incomplete_event_size=32 * 1024,
    )
    thread = threading.Thread(target=server.run, args=([listener],), name="pages", daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.should_exit = True
        events.close()
        asker.close()  # first, because requests wait for it
        thread.join(_SECONDS_TO_END + 2)
        app.close()
        live.close()
        listener.close()
        if path is not None:
            Path(path).unlink(missing_ok=True)
