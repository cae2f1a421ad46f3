"""The memory of a read: how much the client library buffers while the caller is busy, counted by its own statistics."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.kafka import broker, needs_broker
from waterclock.connectors.kafka.cluster import Cluster

pytestmark = needs_broker

_LARGE = 900_000  # bytes of a value
_STABLE, _PATIENCE = 1.0, 30.0  # seconds


@contextmanager
def buffering(topic: str, partitions: int) -> Iterator[tuple[Consumer, list[tuple[int, int]]]]:
    """Open a consumer of a topic from its beginning. Yield it with the sizes of its buffer so far: records and bytes.

    The bytes are those of values. All partitions have the same buffer.
    """
    sizes = [(0, 0)]

    def note(text: str) -> None:
        found = json.loads(text)["topics"].get(topic, {"partitions": {}})["partitions"].values()
        sizes.append(max(((each["fetchq_cnt"], each["fetchq_size"]) for each in found), default=(0, 0)))

    cluster = Cluster("bus", broker().servers)
    with cluster.open_consumer(**{"stats_cb": note, "statistics.interval.ms": 100}) as (consumer, _):
        consumer.assign([TopicPartition(topic, part, 0) for part in range(partitions)])
        yield consumer, sizes


def largest_buffer(topic: str, partitions: int) -> tuple[int, int]:
    """Return the largest buffer of a consumer, in records and bytes, whose caller takes three records a second."""
    with buffering(topic, partitions) as (consumer, sizes):
        end = time.monotonic() + _PATIENCE
        last, since = (0, 0), time.monotonic()
        while time.monotonic() < end and (last == (0, 0) or time.monotonic() - since < _STABLE):
            consumer.consume(1, 0.1)  # the statistics come with records
            found = max(count for count, _ in sizes), max(size for _, size in sizes)
            if found != last:
                last, since = found, time.monotonic()
            time.sleep(0.3)
        return last


@pytest.mark.parametrize(
    ("partitions", "each", "value", "header", "most"),
    [
        # `queued.min.messages`: the library does not count headers as kilobytes. A fetch has 1 MiB of each partition
        pytest.param(4, 1000, 1, 10_000, (4 * (100 + 2 * 105), 4000), id="large headers"),
        # `queued.max.messages.kbytes`: 32 MiB, and one more fetch
        pytest.param(1, 90, _LARGE, 0, (90, 36_000_000), id="large values"),
        # `fetch.max.bytes`: 32 MiB, and one more response of 16 MiB; without it, the first response has 50 MiB
        pytest.param(90, 1, _LARGE, 0, (180, 50_000_000), id="many partitions"),
    ],
)
def test_a_read_buffers_few_records(partitions: int, each: int, value: int, header: int, most: tuple[int, int]) -> None:
    topic = broker().topic(partitions=partitions)
    producer = Producer({"bootstrap.servers": broker().servers, "linger.ms": 5, "log_level": 0})
    headers: list[tuple[str, str | bytes | None]] = [("h", b"x" * header)] if header else []
    for number in range(partitions * each):
        producer.produce(topic, b"x" * value, partition=number % partitions, headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0
    count, size = largest_buffer(topic, partitions)
    assert 10 < count <= most[0]
    assert 0 < size <= most[1]
