"""Serves the pages from a separate thread."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from waterclock.http.access_tokens import token_of_environment
from waterclock.http.listening import UNIX, bind_port, bind_unix_socket
from waterclock.http.served_hosts import ALL_ADDRESSES, hosts_of
from waterclock.ui.app import create_app
from waterclock.ui.guard import LINK, Guard, new_token
from waterclock.ui.live import LiveProject
from waterclock.ui.peers import KnowsPeers
from waterclock.ui.query_queue import Asker
from waterclock.ui.slow_clients import MOST, SECONDS, build_limited_protocol

TOKEN = "WATERCLOCK_UI_TOKEN"  # noqa: S105 - the name of the variable
_PROXIES = "FORWARDED_ALLOW_IPS"  # the variable of uvicorn
_SECONDS_TO_END = 3


@dataclass(frozen=True, slots=True)
class Served:
    """The address of running pages, and the guard that controls access to them."""

    host: str
    port: int
    guard: Guard

    @property
    def address(self) -> str:
        """The address of the first page, for users who have the token or a session."""
        return address_at(self.host, self.port)

    def new_link(self) -> str:
        """Return a link that opens the pages in one browser."""
        return link_at(self.host, self.port, self.guard.links.new_code())


def address_at(host: str, port: int) -> str:
    """Return the address of the first page of a server."""
    if host.startswith(UNIX):
        return "http://localhost/"
    named = socket.gethostname() if host in ALL_ADDRESSES else host
    return f"http://{f'[{named}]' if ':' in named else named}:{port}/"


def link_at(host: str, port: int, code: str) -> str:
    """Return the link that contains a code."""
    return f"{address_at(host, port)}?{LINK}={code}"


def place_of(host: str, port: int) -> str:
    """Return the place that a server's links and cookies are bound to: its port, or the path of its socket."""
    return host.removeprefix(UNIX) if host.startswith(UNIX) else str(port)


@contextmanager
def serve_pages(
    live: LiveProject, host: str, port: int, *, patience: float = SECONDS, asker: Asker | None = None
) -> Iterator[Served]:
    """Serve a project's pages. Port 0 is any free port; a host `unix:/path` is a socket for this user alone.

    A token is always required: the one of WATERCLOCK_UI_TOKEN, or else a new one for each start. `patience` is the
    number of seconds within which a request must arrive completely.
    Raises  E909 where the address cannot be bound, E923 for a short token
    """
    token = token_of_environment(TOKEN) or new_token()
    asker = asker or Asker()
    path = host.removeprefix(UNIX) if host.startswith(UNIX) else None
    listener = bind_port(host, port) if path is None else bind_unix_socket(path)
    port = listener.getsockname()[1] if path is None else 0
    served = Served(host, port, Guard(token, hosts_of(host), place_of(host, port)))
    app: Any = create_app(live, served.guard, asker)
    behind_proxies: Any = ProxyHeadersMiddleware(app, os.environ.get(_PROXIES, "127.0.0.1,::1"))
    config = uvicorn.Config(
        KnowsPeers(behind_proxies),
        proxy_headers=False,  # they replace the address of the peer, too
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        limit_concurrency=2 * MOST,
        timeout_graceful_shutdown=_SECONDS_TO_END,
        h11_max_incomplete_event_size=32 * 1024,
        http=build_limited_protocol(patience),
        ws="none",
        lifespan="off",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="pages", daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.should_exit = True
        asker.close()  # first, because requests wait for it
        thread.join(_SECONDS_TO_END + 2)
        live.close()
        listener.close()
        if path is not None:
            Path(path).unlink(missing_ok=True)
