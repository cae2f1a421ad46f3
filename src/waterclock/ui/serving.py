"""Serves the pages from a thread of its own, for as long as somebody looks or a run lasts."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

import uvicorn

from waterclock.errors import WaterclockError
from waterclock.ui.app import create_app
from waterclock.ui.asker import Asker
from waterclock.ui.guard import LOOPBACK, Guard
from waterclock.ui.live import LiveProject
from waterclock.ui.slow_clients import SECONDS, bounded

TOKEN = "WATERCLOCK_UI_TOKEN"  # noqa: S105 - the name of the variable
_SECONDS_TO_END = 3
_ALL_ADDRESSES = frozenset({"0.0.0.0", "::"})  # noqa: S104 - asked for by the user


@dataclass(frozen=True, slots=True)
class Served:
    """Where pages are served: the address to open, which holds the token where one is asked for."""

    host: str
    port: int
    token: str | None

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        named = socket.gethostname() if self.host in _ALL_ADDRESSES else self.host
        host = f"[{named}]" if ":" in named else named
        return f"http://{host}:{self.port}/{f'?token={quote(self.token)}' if self.token else ''}"


@contextmanager
def serving(live: LiveProject, host: str, port: int, *, patience: float = SECONDS) -> Iterator[Served]:
    """Serve a project's pages; port 0 is any that is free. Elsewhere than on loopback a token is asked for.

    The token is that of WATERCLOCK_UI_TOKEN, else a new one for each start. `patience` is the seconds in which a
    request must have come whole.
    Raises  E909 where the address cannot be had
    """
    token = None if host in LOOPBACK else os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    listener = _listener(host, port)
    served = Served(host, listener.getsockname()[1], token)
    guard, asker = Guard(_names(host), token), Asker()
    config = uvicorn.Config(
        create_app(live, guard, asker),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        limit_concurrency=200,
        timeout_graceful_shutdown=_SECONDS_TO_END,
        h11_max_incomplete_event_size=32 * 1024,
        http=bounded(patience),
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
        thread.join(_SECONDS_TO_END + 2)
        live.close()
        asker.close()
        listener.close()


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise WaterclockError(
            "E909", f"nothing can listen at {host}:{port}", why=error.strerror or str(error),
            fix="name another port, or end what has this one",
        ) from error  # fmt: skip
    return listener


def _names(host: str) -> frozenset[str]:
    """Return the names by which browsers may ask: those of this machine, where all of its addresses are served."""
    if host in LOOPBACK:
        return LOOPBACK
    if host in _ALL_ADDRESSES:
        own = {socket.gethostname(), socket.getfqdn()}
        with_addresses = {each for name in own for each in _addresses(name)}
        return LOOPBACK | own | with_addresses
    return frozenset({*LOOPBACK, host})


def _addresses(name: str) -> list[str]:
    try:
        return [str(info[4][0]) for info in socket.getaddrinfo(name, None)]
    except OSError:
        return []
