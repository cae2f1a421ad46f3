"""How often a reader of a range waits, against a client of the test's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError

from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.ranges import Span
from waterclock.connectors.kafka.reading import Extract, _messages


@dataclass
class Told:
    """A record, or the word that the log ends at an offset."""

    at: int
    is_end: bool = False

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.is_end else None

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes:
        return b"{}"

    def key(self) -> None:
        return None


@dataclass
class Client:
    """Gives what it has, and waits as librdkafka does where it has less than is asked for."""

    held: list[Told]
    waited: int = 0
    calls: int = 0
    left: list[Told] = field(default_factory=list)

    def assign(self, _: Any) -> None:
        self.left = list(self.held)

    def unassign(self) -> None:
        self.left = []

    def consume(self, most: int, _: float) -> list[Told]:
        self.calls += 1
        given, self.left = self.left[:most], self.left[most:]
        self.waited += len(given) < most
        return given


@pytest.mark.parametrize(
    "held",
    [
        pytest.param([Told(at) for at in range(30)], id="to the end of the log"),
        pytest.param([Told(at) for at in range(900)], id="within the log"),
        pytest.param([*(Told(at) for at in range(29)), Told(30, is_end=True)], id="a transaction's end comes last"),
    ],
)
def test_a_small_range_is_read_without_waiting_for_what_never_comes(held: list[Told]) -> None:
    client: Any = Client(held)
    extract = Extract(Cluster("bus", "127.0.0.1:9"), "orders", "bus.orders", ())
    for partition in range(3):
        found = [m.offset() for part in _messages(client, extract, Span(partition, 0, 30)) for m in part]
        assert found == [one.at for one in held if one.at < 30 and not one.is_end]
    assert (client.waited, client.calls) == (0, 3)
