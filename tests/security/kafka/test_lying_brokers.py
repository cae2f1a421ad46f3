"""Malicious brokers: each wait ends, no rows are silently lost, duplicated or changed, and the error names a fix.

A proxy in front of a broker that the client library simulates changes the broker's responses.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.ranges import OffsetSpan
from waterclock.connectors.kafka.reading import KafkaExtract, OffsetPart, batches
from waterclock.errors import WaterclockError

Lie = Callable[[bytes], bytes | None]
FETCH, METADATA, FIND_COORDINATOR = 1, 3, 10
HEADER = 61  # bytes of a batch of records
NAMES = [f"value{number}".encode() for number in range(5)]


class Proxy:
    """Forwards requests and responses. `lie` changes responses to FETCH; None sends no response."""

    def __init__(self, port: int, lie: Lie) -> None:
        self.of, self.lie = port, lie
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._pass_on, args=(self.server.accept()[0],), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        kinds: dict[int, int] = {}
        with closing(client), closing(socket.create_connection(("127.0.0.1", self.of))) as broker:

            def send() -> None:
                with suppress(OSError):
                    while True:
                        asked = frame_of(client)
                        kind, _, number = struct.unpack(">hhi", asked[:8])
                        kinds[number] = kind
                        broker.sendall(struct.pack(">i", len(asked)) + asked)
                with suppress(OSError):
                    broker.shutdown(socket.SHUT_RDWR)

            threading.Thread(target=send, daemon=True).start()
            with suppress(OSError):
                while True:
                    answer: bytes | None = frame_of(broker)
                    assert answer is not None
                    kind = kinds.pop(struct.unpack(">i", answer[:4])[0])
                    if kind in {METADATA, FIND_COORDINATOR}:
                        answer = answer.replace(struct.pack(">i", self.of), struct.pack(">i", self.port))
                    if kind == FETCH:
                        answer = self.lie(answer)
                    if answer is not None:
                        client.sendall(struct.pack(">i", len(answer)) + answer)


def frame_of(end: socket.socket) -> bytes:
    def take(size: int) -> bytes:
        read = b""
        while len(read) < size:
            part = end.recv(size - len(read))
            if not part:
                raise OSError("closed")
            read += part
        return read

    return take(struct.unpack(">i", take(4))[0])


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Return the port of a broker with the topics `plain` and `packed`, of five records each."""
    simulating = confluent_kafka.Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1})
    [broker] = simulating.list_topics(timeout=30).brokers.values()
    for topic, codec in (("plain", "none"), ("packed", "gzip")):
        sender = confluent_kafka.Producer(
            {"bootstrap.servers": f"127.0.0.1:{broker.port}", "compression.type": codec, "linger.ms": 500}
        )
        for name in NAMES:
            sender.produce(topic, name * 20, partition=0)
        assert sender.flush(60) == 0
    yield broker.port
    simulating.flush(1)  # the broker lives as long as its client


def read(address: str, topic: str, high: int = 5, **settings: str) -> list[bytes]:
    cluster = Cluster("bus", address, settings, timeout=2)
    part = OffsetPart(datetime(2026, 1, 1, tzinfo=UTC), OffsetSpan(0, 0, high))
    extract = KafkaExtract(cluster, topic, f"bus.{topic}", (part,))
    return [value[:6] for batch in batches(extract) for value in batch.column("value").to_pylist()]


def refused(port: int, topic: str, lie: Lie, high: int = 5) -> WaterclockError:
    proxy, begun = Proxy(port, lie), time.monotonic()
    with closing(proxy.server), pytest.raises(WaterclockError) as caught:
        read(f"127.0.0.1:{proxy.port}", topic, high)
    assert time.monotonic() - begun < 30
    assert caught.value.transient
    assert caught.value.fix
    return caught.value


def change_a_record(answer: bytes) -> bytes:
    return answer.replace(b"value3", b"Value3")


def spoil_packed_records(answer: bytes) -> bytes:
    """Corrupt the packed records of a batch, and correct its checksum."""
    at = answer.find(b"\x1f\x8b\x08")
    if at < 0:
        return answer
    begins, spoiled = at - HEADER, bytearray(answer)
    end = begins + 12 + struct.unpack(">i", answer[begins + 8 : begins + 12])[0]
    spoiled[at + 12 : at + 20] = b"\xff" * 8
    spoiled[begins + 17 : begins + 21] = struct.pack(">I", crc32c(bytes(spoiled[begins + 21 : end])))
    return bytes(spoiled)


def crc32c(content: bytes) -> int:
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0x82F63B78 if found & 1 else 0)
    return found ^ 0xFFFFFFFF


def test_records_behind_an_honest_proxy_are_read(port: int) -> None:
    proxy = Proxy(port, lambda answer: answer)
    assert [read(f"127.0.0.1:{proxy.port}", topic) for topic in ("plain", "packed")] == [NAMES, NAMES]


@pytest.mark.parametrize(("topic", "lie"), [("plain", change_a_record), ("packed", spoil_packed_records)])
def test_damaged_records_are_not_read(port: int, topic: str, lie: Lie) -> None:
    """Regression: the client library checks no checksum by default, and the changed record was collected."""
    error = refused(port, topic, lie)
    assert (error.code, error.what) == ("E857", f"records of {topic} are damaged")
    # the changed record may be in a later batch: the producer chooses how many records it sends together
    assert re.search(r"(offset|at) \d+", str(error.why)), error.why


@pytest.mark.parametrize(
    "lie", [lambda _: None, lambda answer: answer[:8] + b"\xff" * 60, lambda answer: answer[: len(answer) // 2]],
    ids=["silence", "noise", "half"],
)  # fmt: skip
def test_waiting_for_answers_ends(port: int, lie: Lie) -> None:
    assert refused(port, "plain", lie).code == "E854"


@pytest.mark.parametrize("high", [6, 2**62])
def test_waiting_for_records_that_a_broker_promised_ends(port: int, high: int) -> None:
    error = refused(port, "plain", lambda answer: answer, high)
    assert (error.code, f"0:5-{high}" in str(error.why)) == ("E854", True)


@pytest.mark.parametrize("security", ["plaintext", "sasl_plaintext", "ssl", "sasl_ssl"])
def test_waiting_for_a_login_that_is_never_answered_ends(security: str) -> None:
    login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "ann", "sasl.password": "x"}
    settings = {"security.protocol": security, **(login if "sasl" in security else {})}
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        address, begun = f"127.0.0.1:{silent.getsockname()[1]}", time.monotonic()
        with pytest.raises(WaterclockError, match="E854"):
            read(address, "plain", 5, **settings)
        with pytest.raises(WaterclockError, match="E854"):
            Cluster("bus", address, settings, timeout=1).log_of("plain", "bus.plain")
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        ({0: 0}, {0: -1}),  # regression: the library interprets an offset of -1 as the end, so all records were lost
        ({0: -2}, {0: 9}),
        ({0: 0}, {0: -(2**63)}),
        ({0: 7}, {0: 3}),
        ({0: 0, 1: 0}, {0: 5, 1: -1001}),
        ({}, {}),
    ],
)
def test_offsets_that_cannot_be_are_not_used(
    starts: dict[int, int], ends: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter([starts, ends])

    def answer(value: object) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(value)
        return future

    topic = SimpleNamespace(partitions=[SimpleNamespace(id=part) for part in starts], topic_id="id")

    def list_offsets(wanted: dict[Any, object], **_: object) -> dict[Any, Future[Any]]:
        found = next(asked)
        return {part: answer(SimpleNamespace(offset=found[part.partition])) for part in wanted}

    admin = SimpleNamespace(
        describe_topics=lambda *_, **__: {"plain": answer(topic)}, list_offsets=list_offsets, poll=lambda _: 0
    )
    monkeypatch.setattr(Cluster, "admin", lambda *_: admin)
    with pytest.raises(WaterclockError, match="E854") as caught:
        Cluster("bus", "127.0.0.1:9").log_of("plain", "bus.plain")
    assert caught.value.what == "Kafka gives an impossible answer"
    assert caught.value.transient
