"""Checks the Host header of requests against a server's own names, which prevents DNS rebinding.

A page of a foreign site may let its own host name resolve to this machine. The browser then sends that name in the Host
header.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from dataclasses import dataclass

from waterclock.http.listening import UNIX

HOSTS = "WATERCLOCK_HOSTS"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ALL_ADDRESSES = frozenset({"0.0.0.0", "::"})  # noqa: S104 - requested by the user
_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class ServedHosts:
    """The host names that a server accepts. `by_address`: also any IP address, as no foreign site is named by one."""

    names: frozenset[str] = LOOPBACK
    by_address: bool = False

    def allows(self, header: str) -> bool:
        """Return whether a Host header contains one of the names, with or without a port."""
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = found["name"].strip("[]").lower()
        return name in self.names or (self.by_address and _is_address(name))


def hosts_of(listens: str) -> ServedHosts:
    """Return the accepted host names of a server: localhost, the host at which it listens, and WATERCLOCK_HOSTS.

    If it listens at all addresses, the names of this machine are accepted too.
    """
    more = {each.strip().lower() for each in os.environ.get(HOSTS, "").split(",")} - {""}
    if listens in LOOPBACK or listens.startswith(UNIX):
        return ServedHosts(LOOPBACK | more)
    own = {socket.gethostname(), socket.getfqdn()} if listens in ALL_ADDRESSES else {listens}
    return ServedHosts(LOOPBACK | more | {each.lower() for each in own}, by_address=True)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
