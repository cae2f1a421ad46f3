"""Parses the addresses at which servers listen, and binds their sockets."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from waterclock.errors import WaterclockError

UNIX = "unix:"
"""The prefix of a host that is the path of a Unix socket."""
_LOOPBACK = "127.0.0.1"
_BACKLOG = 128


class Listener(socket.socket):
    """A listening socket. `on_accept`, if set, is called with each connection before anything is read from it."""

    on_accept: Callable[[socket.socket], None] | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        accepted, address = super().accept()
        if self.on_accept is not None:
            self.on_accept(accepted)
        return accepted, address


def address_of(text: str, *, may_be_socket: bool = False) -> tuple[str, int]:
    """Parse a listen address: `9090`, `0.0.0.0:9090`, or `unix:/path` (if allowed; its port is 0).

    Raises E909 for other texts.
    """
    if may_be_socket and text.startswith(f"{UNIX}/"):
        return text, 0
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise WaterclockError(
            "E909", f"{text!r} is not an address to listen at",
            why="an address is a port, or a host and a port; a port is a number from 1 to 65535",
            fix="write 9090 for this machine only, or 0.0.0.0:9090 for all machines that can reach it",
        )  # fmt: skip
    return host.strip("[]") or _LOOPBACK, int(port)


def bind_port(host: str, port: int, *, is_shared: bool = False) -> Listener:
    """Bind a TCP port and listen at it. Raises E909.

    With `is_shared`, several processes can bind the port, so that one can start before the other ends. The socket does
    not listen yet then.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # without the explicit protocol, asyncio would leave Nagle's algorithm on and delay each answer
    bound = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with _close_on_failure(
        bound, f"{host}:{port}", "another port with --listen, or stop the process that uses this one"
    ):
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
        if not is_shared:
            bound.listen(_BACKLOG)
    return bound


def bind_unix_socket(path: str) -> Listener:
    """Listen at a Unix socket for this user alone. A socket that a killed server left is replaced. Raises E909."""
    bound = Listener(socket.AF_UNIX, socket.SOCK_STREAM)
    with _close_on_failure(bound, path, "another path"):
        _remove_left_socket(path)
        bound.bind(path)
        Path(path).chmod(0o600)  # connections are refused before the socket listens
        bound.listen(_BACKLOG)
    return bound


@contextmanager
def _close_on_failure(bound: socket.socket, where: str, choice: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        bound.close()
        raise WaterclockError(
            "E909", f"cannot listen at {where}", why=error.strerror or str(error), fix=f"choose {choice}"
        ) from error


def _remove_left_socket(path: str) -> None:
    """Remove the socket that a killed server left: one that belongs to this user and refuses connections."""
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
