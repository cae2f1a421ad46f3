"""A single hostile record does not block a topic: odd header keys and timestamps."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.ranges import OffsetSpan
from waterclock.connectors.kafka.reading import KafkaExtract, OffsetPart, batches
from waterclock.errors import WaterclockError

Send = Callable[..., None]
_TOPIC, _PARTITION, _VALUE, _TIMESTAMP, _HEADER = 1, 3, 4, 8, 9  # of rd_kafka_vtype_t
_PRODUCER = 0


def _client_library() -> ctypes.CDLL:
    """Load the client's library in C, which sends header keys of any bytes."""
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    found = sorted(folder.glob("librdkafka*"))
    if not found:
        pytest.skip("confluent-kafka was installed without a library of its own")
    return ctypes.CDLL(str(found[0]))


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[str, Send]]:
    """Return the address of a broker that the client library simulates, and a function that sends a record to it."""
    library = _client_library()
    simulating = confluent_kafka.Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1})
    address = ",".join(f"{one.host}:{one.port}" for one in simulating.list_topics(timeout=30).brokers.values())
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = ctypes.c_void_p
    why = ctypes.create_string_buffer(512)
    conf = ctypes.c_void_p(library.rd_kafka_conf_new())
    library.rd_kafka_conf_set(conf, b"bootstrap.servers", address.encode(), why, len(why))
    producer = ctypes.c_void_p(library.rd_kafka_new(_PRODUCER, conf, why, len(why)))

    def send(topic: str, *keys: bytes, stamp: int | None = None) -> None:
        said: list[Any] = [_TOPIC, topic.encode(), _PARTITION, 0, _VALUE, b"{}", ctypes.c_size_t(2)]
        for key in keys:
            said += [_HEADER, key, b"v", ctypes.c_ssize_t(1)]
        said += [] if stamp is None else [_TIMESTAMP, ctypes.c_int64(stamp)]
        assert library.rd_kafka_producev(producer, *said, 0) == 0
        assert library.rd_kafka_flush(producer, 30_000) == 0

    yield address, send
    library.rd_kafka_destroy(producer)


def read(address: str, topic: str, count: int, *, refuses_odd: bool) -> list[dict[str, Any]]:
    part = OffsetPart(datetime(2026, 1, 1, tzinfo=UTC), OffsetSpan(0, 0, count))
    cluster = Cluster("bus", address, timeout=30)
    extract = KafkaExtract(cluster, topic, "bus.orders", (part,), refuses_odd=refuses_odd)
    return [row for batch in batches(extract) for row in batch.to_pylist()]


def test_header_keys_that_are_not_utf8_are_null_or_an_error_of_their_record(broker: tuple[str, Send]) -> None:
    address, send = broker
    send("headers", b"a", b"a", "ä".encode())
    send("headers", b"a", b"\xff\xfe", b"\xff", b"b")
    send("headers")
    for _ in range(100):  # as often as Python needs to optimize the call
        send("headers", b"a", b"\xff")
    found = read(address, "headers", 103, refuses_odd=False)
    keys = [None if row["headers"] is None else [each["key"] for each in row["headers"]] for row in found]
    assert (keys, [row["value"] for row in found]) == ([["a", "a", "ä"]] + [None] * 102, [b"{}"] * 103)
    with pytest.raises(WaterclockError, match="a record of headers cannot be read") as refused:
        read(address, "headers", 3, refuses_odd=True)
    assert (refused.value.code, refused.value.why) == (
        "E857", "partition 0, offset 1: the key of a header is not UTF-8 text")  # fmt: skip


@pytest.mark.parametrize("stamp", [2**62, -(2**62), 253_402_300_800_000, -62_135_596_800_001])
def test_a_timestamp_out_of_range_is_null_or_an_error_of_its_record(broker: tuple[str, Send], stamp: int) -> None:
    address, send = broker
    topic = f"stamps{abs(stamp)}{stamp < 0}"
    for each in (stamp, -5, 253_402_300_799_999):
        send(topic, stamp=each)
    found = read(address, topic, 3, refuses_odd=False)
    assert [(row["timestamp"], row["timestamp_type"]) for row in found] == [
        (None, "create"),
        (datetime(1969, 12, 31, 23, 59, 59, 995_000, UTC), "create"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC), "create"),
    ]
    with pytest.raises(WaterclockError) as refused:
        read(address, topic, 3, refuses_odd=True)
    why = f"its timestamp of {stamp} ms since 1970 is outside of the years 1 to 9999"
    assert (refused.value.code, refused.value.why) == ("E857", f"partition 0, offset 0: {why}")
