"""Responses to a monitor while a run watches. No Spark."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.certificates import Authority
from tests.tiny import CONNECTIONS, day
from waterclock.cli.actions.health_server import serve_health_endpoints
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.errors import WaterclockError
from waterclock.http.server_certificate import Certificate

FLOW = "COLLECT web.clicks PARTITIONED (id BIGINT) FROM land.acme.clicks EVERY DAY START '2020-01-01' BY ARRIVAL TIME;"
TOML = """
[project]
name = "tiny"
[env.dev]
storage = ".waterclock"
connections.shop = { path = "shop.sqlite" }
connections.out = { path = "out.sqlite", create = true }
connections.land = { path = "landing/new" }
connections.files = { path = "files" }
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[RunContext]:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML)
    (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + FLOW)
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        yield work


TOKEN = "t0ken-of-a-good-length"


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_METRICS_TOKEN", TOKEN)


def ask(work: RunContext, path: str, token: str | None = TOKEN) -> tuple[int, str]:
    with serve_health_endpoints(work, ("127.0.0.1", 0)) as (host, port):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        asked = urllib.request.Request(f"http://{host}:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def test_it_lives_and_is_ready_once_its_flow_is_applied(work: RunContext) -> None:
    assert ask(work, "/livez") == (200, "alive\n")
    assert ask(work, "/readyz") == (503, "another flow is applied\n")
    apply_flow(work, day(5))
    assert ask(work, "/readyz") == (200, "ready\n")
    assert ask(work, "/elsewhere")[0] == 404


def test_metrics_are_prometheus_text(work: RunContext) -> None:
    apply_flow(work, day(5))
    status, text = ask(work, "/metrics")
    assert status == 200
    assert "# TYPE waterclock_due_labels gauge" in text
    assert 'waterclock_due_labels{status="ready",table="web.clicks"}' in text or (
        'waterclock_due_labels{table="web.clicks",status="ready"}' in text
    )
    assert "waterclock_open_claims 0.0" in text


def test_an_unavailable_ledger_is_reported_at_once(work: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    apply_flow(work, day(5))
    monkeypatch.setattr(work.ledger, "answers", lambda: False)
    assert ask(work, "/livez")[0] == 200
    assert ask(work, "/readyz") == (503, "the ledger does not answer\n")
    assert ask(work, "/metrics")[0] == 503


def test_with_a_certificate_it_answers_by_https_alone(work: RunContext, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "keys")
    pair, over = authority.pair("shop"), authority.pair("over", is_over=True)
    trusted = ssl.create_default_context(cafile=str(authority.certificate))
    certificate = Certificate(pair.certificate, pair.key)
    with (
        serve_health_endpoints(work, ("127.0.0.1", 0), certificate=certificate) as (host, port),
        httpx2.Client(verify=trusted, trust_env=False, timeout=60) as client,
    ):
        asked = client.get(f"https://{host}:{port}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert (asked.status_code, "waterclock_open_claims" in asked.text) == (200, True)
        with pytest.raises(httpx2.TransportError):
            client.get(f"http://{host}:{port}/livez")
        with httpx2.Client(trust_env=False, timeout=60) as stranger, pytest.raises(httpx2.ConnectError, match="CERT"):
            stranger.get(f"https://{host}:{port}/livez")
    with (
        pytest.raises(WaterclockError, match="nothing can be served by HTTPS"),
        serve_health_endpoints(work, ("127.0.0.1", 0), certificate=Certificate(over.certificate, over.key)),
    ):
        pass


def test_an_address_in_use_is_reported(work: RunContext) -> None:
    with serve_health_endpoints(work, ("127.0.0.1", 0)) as address:
        again = serve_health_endpoints(work, address)
        with pytest.raises(WaterclockError, match="cannot listen"):
            again.__enter__()
