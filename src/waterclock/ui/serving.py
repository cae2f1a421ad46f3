"""Serves the pages from a separate thread."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from waterclock.errors import WaterclockError
from waterclock.http.access_tokens import token_of_environment
from waterclock.http.served_hosts import ALL_ADDRESSES, hosts_of
from waterclock.ui.app import create_app
from waterclock.ui.guard import LINK, Guard, new_token
from waterclock.ui.live import LiveProject
from waterclock.ui.query_queue import Asker
from waterclock.ui.slow_clients import MOST, SECONDS, build_limited_protocol

TOKEN = "WATERCLOCK_UI_TOKEN"  # noqa: S105 - the name of the variable
SOCKET = "unix:"  # the prefix of a host that is the path of a Unix socket
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
    if host.startswith(SOCKET):
        return "http://localhost/"
    named = socket.gethostname() if host in ALL_ADDRESSES else host
    return f"http://{f'[{named}]' if ':' in named else named}:{port}/"


def link_at(host: str, port: int, code: str) -> str:
    """Return the link that contains a code."""
    return f"{address_at(host, port)}?{LINK}={code}"


def place_of(host: str, port: int) -> str:
    """Return the place that a server's links and cookies are bound to: its port, or the path of its socket."""
    return host.removeprefix(SOCKET) if host.startswith(SOCKET) else str(port)


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
    listener = _listener(host, port)
    port = 0 if host.startswith(SOCKET) else listener.getsockname()[1]
    served = Served(host, port, Guard(token, hosts_of(host), place_of(host, port)))
    config = uvicorn.Config(
        create_app(live, served.guard, asker),
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
        if host.startswith(SOCKET):
            Path(host.removeprefix(SOCKET)).unlink(missing_ok=True)


def _listener(host: str, port: int) -> socket.socket:
    path = host.removeprefix(SOCKET) if host.startswith(SOCKET) else None
    family = socket.AF_UNIX if path is not None else socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if path is None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
        else:
            _remove_left_socket(path)
            listener.bind(path)
            Path(path).chmod(0o600)  # connections are refused before the socket listens
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise WaterclockError(
            "E909", f"cannot listen at {path or f'{host}:{port}'}", why=error.strerror or str(error),
            fix="choose another port, or stop the process that uses this one" if path is None else "choose another "
                "path",
        ) from error  # fmt: skip
    return listener


def _remove_left_socket(path: str) -> None:
    """Remove the socket of a killed server: one of this user that refuses connections."""
    with suppress(FileNotFoundError):
        found = os.lstat(path)
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                Path(path).unlink()
