"""What is read side by side, and what by one worker; when a topic can tell of an old claim."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.looking_back import why_unknown
from waterclock.connectors.kafka.ranges import Log, Span
from waterclock.connectors.kafka.reading import Extract, Part, waves

FIRST, SECOND = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)
DELETED = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}


def part(label: datetime, partition: int, low: int, high: int) -> Part:
    return Part(label, Span(partition, low, high))


def test_each_partition_is_in_a_wave_once_and_in_its_order() -> None:
    a, b, c, d = part(FIRST, 0, 0, 5), part(FIRST, 1, 0, 5), part(SECOND, 0, 5, 9), part(SECOND, 2, 0, 1)
    assert waves([a, b, c, d]) == [[a, b, d], [c]]


def test_small_spans_go_to_one_worker_and_large_ones_to_their_own() -> None:
    counts = [3, 4, 50, 2, 9, 1]
    parts = tuple(part(FIRST, at, 0, count) for at, count in enumerate(counts))
    found = Extract(Cluster("bus", "127.0.0.1:9"), "orders", "bus.orders", parts).bundled(10)
    assert [[one.span.high for one in each.parts] for each in found] == [[3, 4], [50], [2], [9, 1]]
    assert tuple(one for each in found for one in each.parts) == parts


@pytest.mark.parametrize(
    ("config", "start", "end", "days", "said"),
    [
        (DELETED, 0, 9, 30, ""),
        (DELETED, 4, 9, 6, ""),
        (DELETED, 4, 9, 8, "dropped"),
        ({**DELETED, "retention.bytes": "1000"}, 4, 9, 6, "dropped"),
        ({**DELETED, "retention.ms": "-1"}, 4, 9, 900, ""),
        ({**DELETED, "cleanup.policy": "compact"}, 0, 9, 1, "compact"),
        ({}, 0, 9, 1, "who knows"),
        (DELETED, 0, 10, 1, "open"),
    ],
)
def test_a_topic_tells_of_old_claims_while_it_has_all_of_their_time(
    config: dict[str, str], start: int, end: int, days: int, said: str
) -> None:
    log = Log("orders", "id", {0: start, 1: 0}, {0: 9, 1: 3})
    why = why_unknown(config, log, {0: end, 1: 3}, timedelta(days=days))
    assert (said in why, bool(why)) == (True, bool(said))
