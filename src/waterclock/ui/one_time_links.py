"""One-time links to the pages: created by any process with the server's token, accepted once by the server.

A link contains its creation time, a random number and a signature. The accepting server needs no record of created
links, so a second process of the same user can create one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

SECONDS = 3600
_CODE = re.compile(r"(?P<made>[0-9]{1,15})-(?P<number>[0-9a-f]{32})-(?P<signature>[0-9a-f]{64})")
_EARLY = 60_000  # milliseconds by which another process's clock may be ahead of ours


def make_code(token: str, place: str, clock: Callable[[], float] = time.time) -> str:
    """Return the code of a new link to the server at `place`: its port, or its socket's path."""
    signed = f"{int(clock() * 1000)}-{secrets.token_hex(16)}"
    return f"{signed}-{_signature(token, place, signed)}"


@dataclass(slots=True)
class OneTimeLinks:
    """Accepts each code once, within an hour after its creation, unless it was created before the server started."""

    token: str = field(repr=False)
    place: str
    clock: Callable[[], float] = time.time
    _started: int = field(init=False)
    _used: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._started = int(self.clock() * 1000)

    def new_code(self) -> str:
        """Return the code of a new link."""
        return make_code(self.token, self.place, self.clock)

    def accept(self, code: str) -> bool:
        """Return whether a code is valid. Each code is accepted once."""
        found = _CODE.fullmatch(code)
        if found is None:
            return False
        signed = f"{found['made']}-{found['number']}"
        if not hmac.compare_digest(found["signature"], _signature(self.token, self.place, signed)):
            return False
        now, made = int(self.clock() * 1000), int(found["made"])
        if not max(self._started, now - SECONDS * 1000) <= made <= now + _EARLY:
            return False
        self._used = {each: at for each, at in self._used.items() if at >= now - SECONDS * 1000}
        if found["number"] in self._used:
            return False
        self._used[found["number"]] = made
        return True


def _signature(token: str, place: str, signed: str) -> str:
    return hmac.new(token.encode(), f"waterclock ui link\n{place}\n{signed}".encode(), hashlib.sha256).hexdigest()
