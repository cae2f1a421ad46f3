"""Another user of the machine, or a rebound name, at `run --watch --listen`: learns only that the run is alive."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests import stocks
from waterclock.cli.actions.health_server import serve_health_endpoints
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import open_project

TOKEN = "t0ken-of-a-good-length"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = stocks.make(tmp_path_factory.mktemp("listen") / "shop").folder
    with pytest.MonkeyPatch.context() as patch, open_workplace(open_project(folder, None)) as work:
        patch.setenv("WATERCLOCK_METRICS_TOKEN", TOKEN)
        apply_flow(work, stocks.NOW)
        with serve_health_endpoints(work, ("127.0.0.1", 0)) as (_, found):
            yield found


def ask(port: int, path: str, **headers: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
@pytest.mark.parametrize("host", ["evil.example", "rebind.evil.example:80", "127.0.0.1.nip.io", "", "a@localhost"])
def test_a_name_that_was_rebound_is_not_served(port: int, path: str, host: str) -> None:
    assert ask(port, path, Host=host, Authorization=f"Bearer {TOKEN}")[0] in {400, 421}


def test_no_table_is_named_without_the_token(port: int) -> None:
    status, text = ask(port, "/metrics")
    assert (status, "raw." in text) == (401, False)
    assert ask(port, "/metrics", Authorization="Bearer wrong")[0] == 401
    status, text = ask(port, "/metrics", Authorization=f"Bearer {TOKEN}")
    assert (status, "raw." in text) == (200, True)
    assert ask(port, "/livez") == (200, "alive\n")
    assert ask(port, "/readyz") == (200, "ready\n")


def test_without_a_token_that_is_set_there_are_no_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATERCLOCK_METRICS_TOKEN", raising=False)
    with open_workplace(open_project(stocks.make(tmp_path / "shop").folder, None)) as work:
        with serve_health_endpoints(work, ("127.0.0.1", 0)) as (_, found):
            assert ask(found, "/metrics", Authorization="Bearer ")[0] == 401
            assert ask(found, "/readyz") == (503, "not ready\n")
        monkeypatch.setenv("WATERCLOCK_METRICS_TOKEN", "short")
        with pytest.raises(WaterclockError) as refused, serve_health_endpoints(work, ("127.0.0.1", 0)):
            pass
    assert refused.value.code == "E923"


def test_300_unfinished_requests_hold_no_threads_and_keep_no_monitor_out(port: int) -> None:
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(300):
            stalled = stack.enter_context(closing(socket.create_connection(("127.0.0.1", port), timeout=10)))
            stalled.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n")
        begun = time.monotonic()
        assert ask(port, "/livez")[0] == 200
        assert time.monotonic() - begun < 3
        assert threading.active_count() - before < 10
