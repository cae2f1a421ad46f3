"""A schema registry with invalid responses: an error that names it, no traceback, and no password sent elsewhere."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.security.rest.servers import RecordingServer, recording_server, send
from waterclock.connectors.kafka.avro import decoder_of
from waterclock.errors import WaterclockError

RECORD = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}
DEEP = b"[" * 100_000 + b"]" * 100_000


def schema(said: Any) -> bytes:
    return json.dumps({"schema": said if isinstance(said, str) else json.dumps(said)}).encode()


def record(*fields: Any) -> bytes:
    return schema({"type": "record", "name": "order", "fields": list(fields)})


@pytest.fixture
def registry() -> Iterator[RecordingServer]:
    with recording_server() as server:
        yield server


def refusal(registry: RecordingServer, answer: bytes) -> str:
    """Return the reason that no schema is read."""
    registry.answer = lambda handler: send(handler, answer)
    with pytest.raises(WaterclockError) as refused:
        decoder_of("orders", "bus.orders", {"registry": registry.url}, None)
    assert refused.value.code == "E857"
    return str(refused.value.why)


@pytest.mark.parametrize(
    "answer",
    [
        *(
            b"[]",
            b"null",
            b"1",
            b'"x"',
            b"[",
            b"\xff\xfe{",
            DEEP,
            b'{"schema": 1e99999}',
            b'{"a":' + b"9" * 5000 + b"}",
        ),
        *(b"{}", b'{"schema": []}', b'{"schema": {}}', schema(DEEP.decode()), schema("\ud800"), schema("[]")),
        *(record({"name": {}, "type": "int"}), record({"name": 5, "type": "int"}), record({"type": "int"}), record(5)),
        *(record({"name": "x", "type": 5}), record({"name": "x", "type": {"type": {"type": {"type": "int"}}}})),
        schema({"type": "record", "name": "order", "fields": {"name": "x"}}),
    ],
)
def test_an_odd_schema_is_refused(registry: RecordingServer, answer: bytes) -> None:
    assert refusal(registry, answer).startswith(registry.url)


@pytest.mark.parametrize("answer", [b"[]", b"null", DEEP, b'{"schema": 5}', b"{}", schema([]), schema("[" * 5000)])
def test_an_odd_schema_of_a_record_is_refused(registry: RecordingServer, answer: bytes) -> None:
    decoder = decoder_of_good(registry)
    registry.answer = lambda handler: send(handler, answer)
    with pytest.raises(WaterclockError) as refused:
        decoder.json_of(struct.pack(">bI", 0, 7) + b"\x02", 0, 0)
    assert refused.value.code == "E857"


def test_a_password_follows_no_redirect(registry: RecordingServer) -> None:
    with recording_server() as other:
        registry.answer = lambda handler: send(handler, b"", 307, Location=f"{other.url}/subjects")
        options = {"registry": registry.url, "registry_user": "ann", "registry_password": "canary-4711"}
        with pytest.raises(WaterclockError) as refused:
            decoder_of("orders", "bus.orders", options, None)
    assert (refused.value.code, len(registry.requests), other.requests) == ("E857", 1, [])
    assert "canary-4711" not in str(refused.value.to_dict())


def decoder_of_good(registry: RecordingServer) -> Any:
    registry.answer = lambda handler: send(handler, schema(RECORD))
    decoder = decoder_of("orders", "bus.orders", {"registry": registry.url}, None)
    assert decoder.json_of(struct.pack(">bI", 0, 1) + b"\x02", 0, 0) == b'{"id": 1}'
    return decoder
