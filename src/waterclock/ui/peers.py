"""Identifies who is at the other end of a connection: a user of this machine, or the address of another machine.

Browsers send a session's cookie to every port of a host. So a server of another user at another port of this machine
may receive the cookie, and send it to the pages. The peer shows that such a request is not the browser's.
"""

from __future__ import annotations

import ipaddress
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_CONNECTION = "waterclock.connection"
_SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"  # the sockets of closed connections have no user
_NETWORK_BITS = 64  # a machine changes its IPv6 address within this network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class PeerMiddleware:
    """Middleware that stores both ends of the connection in each request, before a proxy's headers replace them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        scope[_CONNECTION] = (scope.get("client"), scope.get("server"))
        await self._app(scope, receive, send)


def peer_of(scope: Scope) -> str:
    """Return `user ID` for a request of a process on this machine, or else the address of the client.

    The result is empty for a Unix socket. On systems other than Linux, it is always an address.
    Cost: up to two reads of the list of the machine's connections, some milliseconds for 10,000 of them.
    """
    client, server = scope.get(_CONNECTION) or (None, None)
    if not client or not client[0] or not server:
        return ""
    address = _address_of(client[0])
    user = _find_user((address, client[1]), (_address_of(server[0]), server[1]))
    if user is not None:
        return f"user {user}"
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _NETWORK_BITS), strict=False))
    return str(address)


def _address_of(text: str) -> _Address:
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _find_user(own: tuple[_Address, int], other: tuple[_Address, int]) -> int | None:
    """Return the id of the user whose process has the local socket with these two ends, or None if there is none."""
    for path in _SOCKETS:
        try:
            text = path.read_text(encoding="ascii")
        except OSError:
            continue
        is_long = path.name.endswith("6")
        ends = f" {_format_endpoint(*own, is_long=is_long)} {_format_endpoint(*other, is_long=is_long)} {_ESTABLISHED} "
        at = text.find(ends)
        if at >= 0:
            return int(text[at + len(ends) :].split(maxsplit=4)[3])
    return None


def _format_endpoint(address: _Address, port: Any, *, is_long: bool) -> str:
    """Format one end of a connection as in /proc/net/tcp: each 32 bits of the address in the machine's byte order."""
    packed = address.packed
    if is_long and len(packed) == 4:
        packed = ipaddress.IPv6Address(f"::ffff:{address}").packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
