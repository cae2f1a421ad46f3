"""Records of a range, and of no other, however the client brings them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.ranges import Log, Span
from waterclock.connectors.kafka.reading import Extract, Part, _messages
from waterclock.errors import WaterclockError

DAY = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Record:
    """A record, or an event of its partition, as the client gives it."""

    on: int
    at: int
    fault: KafkaError | None = None

    def error(self) -> KafkaError | None:
        return self.fault

    def partition(self) -> int:
        return self.on

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes:
        return b"v"

    def key(self) -> None:
        return None


class Client:
    """A consumer that gives what it is told to, batch by batch."""

    def __init__(self, *batches: list[Record]) -> None:
        self.batches = list(batches)

    def assign(self, _: Any) -> None:
        pass

    def unassign(self) -> None:
        pass

    def consume(self, _count: int, _wait: float) -> list[Record]:
        return self.batches.pop(0) if self.batches else []


def offsets(client: Client, low: int, high: int) -> list[int]:
    span = Span(1, low, high)
    extract = Extract(
        Cluster("bus", "nowhere:9", timeout=0.3), "t", "t", (Part(datetime(2026, 1, 1, tzinfo=UTC), span),)
    )
    return [record.offset() for found in _messages(client, extract, span) for record in found]  # type: ignore[arg-type, misc]


def test_what_was_fetched_for_another_range_is_left_out() -> None:
    stale = [Record(0, 12), Record(1, 3), Record(1, 9)]
    client = Client([*stale, Record(1, 10), Record(1, 12)], [Record(1, 12), Record(1, 11), Record(1, 14)])
    assert offsets(client, 10, 15) == [10, 12, 14]


def test_an_end_told_of_another_partition_ends_nothing() -> None:
    end = KafkaError(KafkaError._PARTITION_EOF)
    client = Client([Record(1, 10), Record(0, 99, end), Record(0, 99)], [Record(1, 11), Record(1, 13, end)])
    assert offsets(client, 10, 13) == [10, 11]


def test_a_partition_that_does_not_answer_for_a_time_is_told_and_not_begun_at_its_end(monkeypatch: Any) -> None:
    answer = TopicPartition("t", 0, 1_767_225_600_000)

    class Answer:
        partition, offset, error = 0, answer.offset, KafkaError(KafkaError.LEADER_NOT_AVAILABLE)

    class Asked(Client):
        def offsets_for_times(self, *_: Any, **__: Any) -> list[Any]:
            return [Answer()]

        def close(self) -> None:
            pass

    monkeypatch.setattr(Cluster, "consumer", lambda _self, **_more: Asked())
    log = Log("t", "id", {0: 0}, {0: 100})
    with pytest.raises(WaterclockError) as caught:
        Cluster("bus", "nowhere:9").since(log, DAY, "t")
    assert (caught.value.code, caught.value.transient) == ("E854", True)
