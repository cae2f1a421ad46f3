"""Every server of the command line by HTTPS: `ui`, `ui --run`, `run --ui`, `run --listen` and `receive`."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from tests import stocks
from tests.certificates import Authority, Pair
from tests.receiving import free_port, project_with_door
from waterclock.cli.app import app as command_line

LATER = stocks.HEADER.replace("2026-09-22", "2126-09-22")  # nothing is due, and no Spark is started
TOKEN = "a token of a good length"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.pair("shop")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stocks.make(tmp_path_factory.mktemp("https") / "shop", header=LATER).folder


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "WATERCLOCK_UI_TOKEN": TOKEN, "WATERCLOCK_METRICS_TOKEN": TOKEN}
    command = [sys.executable, "-m", "waterclock", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def client_of(authority: Authority) -> httpx2.Client:
    """Return a client that trusts the authority alone, and sends the token."""
    trusted = ssl.create_default_context(cafile=str(authority.certificate))
    return httpx2.Client(verify=trusted, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20, trust_env=False)


def status_of(client: httpx2.Client, process: subprocess.Popen[str], address: str) -> int:
    """Return the status of a response, once the server answers."""
    end = time.monotonic() + 120
    while True:
        try:
            return client.get(address).status_code
        except httpx2.TransportError:
            assert process.poll() is None, process.stdout and process.stdout.read()
            assert time.monotonic() < end
            time.sleep(0.2)


def check_that_it_serves_https_alone(
    authority: Authority, process: subprocess.Popen[str], port: int, path: str
) -> None:
    with client_of(authority) as client:
        assert status_of(client, process, f"https://127.0.0.1:{port}{path}") == 200
        with pytest.raises(httpx2.TransportError):
            client.get(f"http://127.0.0.1:{port}{path}")
    with (
        httpx2.Client(timeout=20, trust_env=False) as stranger,
        pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        stranger.get(f"https://127.0.0.1:{port}{path}")


def test_a_run_serves_its_pages_and_its_metrics_by_https(authority: Authority, pair: Pair, project: Path) -> None:
    metrics, pages = free_port(), free_port()
    words = ("run", "--watch", "--listen", str(metrics), "--ui", str(pages), "--project", str(project))
    with running(*words, "--certificate", str(pair.certificate), "--key", str(pair.key)) as process:
        check_that_it_serves_https_alone(authority, process, metrics, "/metrics")
        check_that_it_serves_https_alone(authority, process, pages, "/grid.json")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert f"https://127.0.0.1:{pages}/?link=" in said
    assert process.returncode == 0


@pytest.mark.parametrize("more", [(), ("--run",)])
def test_pages_are_served_by_https_alone_and_beside_a_run(
    authority: Authority, pair: Pair, project: Path, more: tuple[str, ...]
) -> None:
    port = free_port()
    words = ("ui", *more, "--listen", str(port), "--project", str(project))
    with running(*words, "--certificate", str(pair.certificate), "--key", str(pair.key)) as process:
        check_that_it_serves_https_alone(authority, process, port, "/grid.json")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.parametrize("server", ["granian", "uvicorn"])
def test_events_are_received_by_https(
    authority: Authority, pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    monkeypatch.setenv("WATERCLOCK_RECEIVER_SERVER", server)
    port, folder = free_port(), project_with_door(tmp_path / "shop")
    words = ("receive", "--listen", str(port), "--project", str(folder))
    with running(*words, "--certificate", str(pair.certificate), "--key", str(pair.key)) as process:
        check_that_it_serves_https_alone(authority, process, port, "/readyz")
        with client_of(authority) as client:
            sent = client.post(f"https://127.0.0.1:{port}/door/events", content=b'{"id": 1}\n{"id": 2}')
            assert (sent.status_code, sent.json()) == (202, {"accepted": 2})
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    assert f"events are received at https://127.0.0.1:{port}/door/events" in said
    assert (process.returncode, "Traceback" in said) == (0, False), said


@pytest.mark.parametrize("command", [("receive",), ("ui",), ("ui", "--run"), ("run", "--watch")])
def test_no_server_starts_with_an_expired_certificate(
    authority: Authority, tmp_path: Path, project: Path, command: tuple[str, ...]
) -> None:
    over = authority.pair("over", is_over=True)
    folder = project_with_door(tmp_path / "shop") if command == ("receive",) else project
    words = [*command, "--listen", "0", "--project", str(folder)]
    found = CliRunner().invoke(command_line, [*words, "--certificate", str(over.certificate), "--key", str(over.key)])
    assert (found.exit_code, "E944" in found.output, "certificate has expired" in found.output) == (1, True, True)


def test_a_certificate_needs_its_key_and_a_server(project: Path, pair: Pair) -> None:
    both = ("--certificate", str(pair.certificate), "--key", str(pair.key))
    for words, reason in (
        (("run", *both), "nothing is served by HTTPS"),
        (("run", "--watch", "--listen", "0", *both[:2]), "--certificate and --key belong together"),
        (("receive", *both[2:]), "--certificate and --key belong together"),
    ):
        found = CliRunner().invoke(command_line, [*words, "--project", str(project)])
        assert (found.exit_code, reason in " ".join(found.output.replace("│", " ").split())) == (2, True), found.output
