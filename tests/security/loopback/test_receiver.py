"""Requests to the receiver without a token or with a rebound name: no stream is named, and short tokens are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.receiving import project_with_door
from tests.unit.connectors.receiver.test_endpoint import Answer, Disk, ask
from waterclock.cli.actions.receive import endpoint_of
from waterclock.connectors.receiver.endpoint import Endpoint, RequestLimits, Stream
from waterclock.errors import WaterclockError
from waterclock.http.access_tokens import WrongTokens
from waterclock.operations.project_opening import open_project

TOKEN, OTHER, METRICS = "t0ken-of-a-good-length", "an0ther-of-a-good-length", "t0ken-of-the-metrics"
REFUSED = {"error": "a token is needed: Authorization: Bearer"}


def answer(path: str, method: str = "POST", headers: Mapping[str, str] | None = None, **more: str | None) -> Answer:
    """Send a request to an endpoint with two streams that have tokens; `open` is one without."""
    tokens = {"hr-salaries/payslips": TOKEN, "door/events": more.get("token", OTHER)}
    streams = {name: Stream(RequestLimits(token=token), Disk()) for name, token in tokens.items()}
    door = Endpoint(streams, metrics_token=more.get("metrics", METRICS), wrong=WrongTokens(seconds=0))
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, ask(door, path=path, method=method, headers=headers)).result()


@pytest.mark.parametrize("path", ["/hr-salaries/payslips", "/hr-salaries/other", "/unknown/x", "/"])
def test_known_and_unknown_streams_are_refused_with_the_same_response(path: str) -> None:
    assert answer(path)[:2] == (401, REFUSED)
    status, said, _ = answer(path, headers={"authorization": "Bearer wrong"})
    assert (status, said) == (403, {"error": "wrong token"})


def test_a_token_of_one_connection_is_refused_by_another() -> None:
    assert answer("/hr-salaries/payslips", headers={"authorization": f"Bearer {OTHER}"})[0] == 403


def test_metrics_name_streams_to_the_holder_of_their_token_alone() -> None:
    assert answer("/metrics", "GET")[:2] == (401, REFUSED)
    assert answer("/metrics", "GET", {"authorization": f"Bearer {TOKEN}"})[0] == 403
    assert answer("/metrics", "GET", {"authorization": "Bearer "}, metrics=None)[0] == 403
    status, said, _ = answer("/metrics", "GET", {"authorization": f"Bearer {METRICS}"})
    assert (status, sorted(said["streams"])) == (200, ["door/events", "hr-salaries/payslips"])


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.nip.io:8877", "", "x@localhost"])
def test_a_name_that_was_rebound_is_not_served(host: str) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        assert answer(path, "GET", {"host": host, "authorization": f"Bearer {METRICS}"})[0] == 421
    assert answer("/door/events", headers={"host": host}, token=None)[0] == 421


def test_a_short_token_opens_no_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = """\
[project]
name = "shop"

[env.dev]
connections.door = { path = "data/door", token = { secret = "door/token" } }
"""
    project = project_with_door(tmp_path / "shop", settings=settings)
    monkeypatch.setenv("WATERCLOCK_SECRET_DOOR_TOKEN", "hunter2")
    with pytest.raises(WaterclockError) as refused:
        endpoint_of(open_project(project, None), is_open=False)
    assert (refused.value.code, "hunter2" in f"{refused.value.to_dict()}") == ("E923", False)
