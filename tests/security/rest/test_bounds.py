"""A server cannot fill our memory: every response has a bound, including those with tokens and errors."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.apis import patient
from tests.security.rest.servers import RecordingServer, recording_server, send
from tests.systems import setting_of
from waterclock.connectors.rest import client
from waterclock.connectors.rest.client import ApiRequest
from waterclock.errors import WaterclockError

ONE = ApiRequest("GET", "x", {})
MIB = 1 << 20


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server() as made:
        yield made


def flood(handler: BaseHTTPRequestHandler, status: int = 200) -> None:
    """Respond with 64 MiB."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(64 * MIB))
    handler.end_headers()
    for _ in range(64):
        handler.wfile.write(b" " * MIB)


def test_an_answer_for_a_token_has_a_bound(server: RecordingServer, tmp_path: Path) -> None:
    server.answer = flood
    options = {"auth.token_url": "token", "auth.client_id": "me", "auth.client_secret": "CANARY"}
    api = patient(setting_of("api", tmp_path, **{"url": server.url, **options}))
    tracemalloc.start()
    try:
        with pytest.raises(WaterclockError) as caught:
            api.request(ONE, where="w")
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()
    assert caught.value.code == "E844"
    assert "more than 1 MiB" in str(caught.value.why)
    assert len(server.requests) == 1


def test_a_refusal_is_read_in_part(server: RecordingServer, tmp_path: Path) -> None:
    server.answer = lambda handler: flood(handler, 400)
    api = patient(setting_of("api", tmp_path, url=server.url))
    tracemalloc.start()
    try:
        with pytest.raises(WaterclockError, match="E845"):
            api.request(ONE, where="w")
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()


def test_an_answer_is_bounded_unpacked(
    server: RecordingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_BYTES", MIB)
    server.answer = lambda handler: send(handler, gzip.compress(b" " * 8 * MIB), Content_Encoding="gzip")
    with pytest.raises(WaterclockError) as caught:
        patient(setting_of("api", tmp_path, url=server.url)).request(ONE, where="w")
    assert caught.value.code == "E842"
    assert "smaller pages" in str(caught.value.fix)


@pytest.mark.parametrize("encoding", ["gzip, gzip", "zstd", "br", "compress"])
def test_a_response_in_an_encoding_that_was_not_requested_is_not_decoded(
    server: RecordingServer, tmp_path: Path, encoding: str
) -> None:
    server.answer = lambda handler: send(handler, b"[]", Content_Encoding=encoding)
    with pytest.raises(WaterclockError) as caught:
        patient(setting_of("api", tmp_path, url=server.url, tries=1)).request(ONE, where="w")
    assert caught.value.code == "E842"
    assert "not requested" in str(caught.value.why)
