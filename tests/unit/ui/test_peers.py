"""The number of times that the machine's connections are listed to identify the peer of a connection."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.event_loops import run_in_new_loop
from waterclock.ui import peers
from waterclock.ui.peers import KEPT, PeerMiddleware, peer_of


class Lookups:
    """A fake list of the machine's connections: returns or raises one result after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *results: int | OSError | None) -> None:
        self.results = list(results)
        monkeypatch.setattr(peers, "_find_user", self)

    def __call__(self, *_: object) -> int | None:
        found = self.results.pop(0)
        if isinstance(found, OSError):
            raise found
        return found


def ask(state: dict[str, Any], times: int = 1, client: str = "127.0.0.1") -> list[str]:
    """Return the peers of requests of one connection, whose state uvicorn copies for each of them."""
    found = []

    async def app(scope: Any, *_: object) -> None:
        found.append(peer_of(scope))

    for _ in range(times):
        ends = {"client": (client, 4711), "server": ("127.0.0.1", 8899)}
        run_in_new_loop(PeerMiddleware(app)({"type": "http", **ends, "state": state.copy()}, None, None))  # type: ignore[arg-type]
    return found


def test_a_connection_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = Lookups(monkeypatch, 1000, None)
    assert ask({KEPT: {}}, 50) == ["user 1000"] * 50
    assert ask({KEPT: {}}, 50, "192.0.2.7") == ["192.0.2.7"] * 50
    assert lookups.results == []


def test_a_process_of_this_machine_that_was_not_found_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = Lookups(monkeypatch, None, 1000)
    assert ask({KEPT: {}}, 3) == ["127.0.0.1", "user 1000", "user 1000"]
    assert lookups.results == []


def test_another_connection_with_the_same_port_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Lookups(monkeypatch, 1000, 1001)
    assert ask({KEPT: {}}) + ask({KEPT: {}}) == ["user 1000", "user 1001"]


def test_a_failed_lookup_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    Lookups(monkeypatch, OSError(errno.EMFILE, "too many open files"), 1000)
    assert ask({KEPT: {}}, 3) == ["127.0.0.1", "user 1000", "user 1000"]


def test_without_a_cache_each_request_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    Lookups(monkeypatch, 1000, 1001)
    assert ask({}, 2) == ["user 1000", "user 1001"]
