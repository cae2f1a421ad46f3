"""A reader of offset ranges: how it waits and which records it returns, with a fake client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from waterclock.connectors.kafka import reading
from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.login_errors import ErrorListener
from waterclock.connectors.kafka.ranges import Log, OffsetSpan
from waterclock.connectors.kafka.reading import KafkaExtract, OffsetPart, _read_in_parallel, group_by_pass
from waterclock.errors import WaterclockError
from waterclock.timelabel.instant import EPOCH


@dataclass
class Told:
    """A record, the message that the log ends at an offset, or an error."""

    at: int
    code: int | None = None
    part: int | None = 0
    size: int = 0

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)

    def offset(self) -> int:
        return self.at

    def partition(self) -> int | None:
        return self.part

    def value(self) -> bytes:
        return b"{}"

    def key(self) -> None:
        return None

    def headers(self) -> list[tuple[str, bytes]] | None:
        return [("h", bytes(self.size))] if self.size else None


END = KafkaError._PARTITION_EOF
FIRST, SECOND = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)


@dataclass
class Client:
    """Returns the records it has, and waits as librdkafka does if they are fewer than requested."""

    held: list[Told]
    waited: int = 0
    calls: int = 0
    assigned: list[dict[int, int]] = field(default_factory=list)
    paused: list[int] = field(default_factory=list)
    at: int = 0

    def assign(self, places: Any) -> None:
        self.assigned.append({place.partition: place.offset for place in places})

    def pause(self, places: Any) -> None:
        self.paused += [place.partition for place in places]

    def resume(self, places: Any) -> None:
        self.paused = [part for part in self.paused if part not in {place.partition for place in places}]

    def unassign(self) -> None:
        self.at = len(self.held)

    def consume(self, most: int, _: float) -> list[Told]:
        self.calls += 1
        given = self.held[self.at : self.at + most]
        self.at += len(given)
        self.waited += len(given) < most
        return given


def read(client: Any, *spans: OffsetSpan, timeout: float = 5) -> dict[int, list[int]]:
    extract = KafkaExtract(Cluster("bus", "127.0.0.1:9", timeout=timeout), "orders", "bus.orders", ())
    found: dict[int, list[int]] = {span.partition: [] for span in spans}
    for records in _read_in_parallel(client, ErrorListener(), extract, [OffsetPart(EPOCH, span) for span in spans]):
        for part, message, _ in records:
            assert message.partition() == part.span.partition
            found[part.span.partition].append(message.offset() or 0)
    return found


def turns(*parts: list[Told]) -> list[Told]:
    return [one for each in zip_longest(*parts) for one in each if one is not None]


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(lambda part: [Told(at, part=part) for at in range(30)], id="to the end of the log"),
        pytest.param(lambda part: [Told(at, part=part) for at in range(90)], id="within the log"),
        pytest.param(
            lambda part: [*(Told(at, part=part) for at in range(29)), Told(30, END, part)], id="a transaction ends it"
        ),
    ],
)
@pytest.mark.parametrize("partitions", [1, 40])
def test_all_partitions_are_read_with_one_assignment(held: Callable[[int], list[Told]], partitions: int) -> None:
    of_each = [held(part) for part in range(partitions)]
    client = Client(turns(*of_each))
    found = read(client, *(OffsetSpan(part, 0, 30) for part in range(partitions)))
    assert found == {
        part: [one.at for one in all_ if one.at < 30 and not one.code] for part, all_ in enumerate(of_each)
    }
    assert (client.waited, len(client.assigned)) == (0, 1)
    assert client.calls <= 2 + partitions // 8


def test_records_with_large_headers_are_taken_in_small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BATCH_BYTES", 1000)
    client = Client([Told(at, size=100 if at >= 300 else 0) for at in range(2000)])
    extract = KafkaExtract(Cluster("bus", "127.0.0.1:9"), "orders", "bus.orders", ())
    part = OffsetPart(EPOCH, OffsetSpan(0, 0, 2000))
    found = list(_read_in_parallel(cast("Any", client), ErrorListener(), extract, [part]))
    large = [len(records) for records in found if (records[0].message.offset() or 0) >= 1000]
    assert sum(map(len, found)) == 2000
    assert 9 <= max(large) < 20  # the first large ones were asked for as if they were small


def test_a_partition_that_is_over_is_not_fetched_any_more() -> None:
    client = Client(turns([Told(0), Told(1), Told(2)], [Told(at, part=1) for at in range(9)]))
    assert read(client, OffsetSpan(0, 0, 2), OffsetSpan(1, 0, 9)) == {0: [0, 1], 1: list(range(9))}
    assert client.paused == [0]


def test_reading_resumes_after_a_lost_position_without_duplicate_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Cluster, "log_of", lambda *_: Log("orders", "id", {0: 0, 1: 0}, {0: 9, 1: 9}))
    lost = Told(0, KafkaError._AUTO_OFFSET_RESET, 1)
    again = [Told(1, part=1), Told(2, part=1)]  # this one was already in flight when the position was lost
    client = Client([Told(0), Told(0, part=1), lost, Told(1, part=1), Told(1), *again, Told(2)])
    assert read(client, OffsetSpan(0, 0, 3), OffsetSpan(1, 0, 3)) == {0: [0, 1, 2], 1: [0, 1, 2]}
    assert client.assigned == [{0: 0, 1: 0}, {0: 2, 1: 2}]


@pytest.mark.parametrize("part", [None, 0])
def test_a_permanent_error_is_raised_with_or_without_a_partition(part: int | None) -> None:
    client = Client([Told(0), Told(0, KafkaError.TOPIC_AUTHORIZATION_FAILED, part)])
    with pytest.raises(WaterclockError, match="E855"):
        read(client, OffsetSpan(0, 0, 3), OffsetSpan(1, 0, 3))


def test_a_stalled_partition_is_reported_with_its_remaining_offsets() -> None:
    client = Client([Told(0), Told(0, part=1), Told(1)])
    with pytest.raises(WaterclockError, match=r"offsets 1:1-3 .* were not read completely"):
        read(client, OffsetSpan(0, 0, 2), OffsetSpan(1, 0, 3), timeout=0)


def test_records_outside_of_the_requested_range_are_ignored() -> None:
    stale = [Told(12), Told(3, part=1), Told(9, part=1)]
    came = [Told(10, part=1), Told(12, part=1), Told(12, part=1), Told(11, part=1), Told(14, part=1)]
    assert read(Client([*stale, *came]), OffsetSpan(1, 10, 15)) == {1: [10, 12, 14]}


def test_an_end_of_another_partition_does_not_end_the_read() -> None:
    came = [Told(10, part=1), Told(99, END, 0), Told(99), Told(11, part=1), Told(13, END, 1)]
    assert read(Client(came), OffsetSpan(1, 10, 13)) == {1: [10, 11]}


def test_a_failed_offset_lookup_by_time_is_transient_and_does_not_start_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Answer:
        partition, offset, error = 0, 1_767_225_600_000, KafkaError(KafkaError.LEADER_NOT_AVAILABLE)

    class Asked(Client):
        def offsets_for_times(self, *_: Any, **__: Any) -> list[Any]:
            return [Answer()]

        def close(self) -> None:
            pass

    monkeypatch.setattr(Cluster, "consumer", lambda *_, **_more: Asked([]))
    log = Log("t", "id", {0: 0}, {0: 100})
    with pytest.raises(WaterclockError) as caught:
        Cluster("bus", "nowhere:9").offsets_since(log, EPOCH, "t")
    assert (caught.value.code, caught.value.transient) == ("E854", True)


def part(label: datetime, partition: int, low: int, high: int) -> OffsetPart:
    return OffsetPart(label, OffsetSpan(partition, low, high))


def test_each_partition_is_in_a_wave_once_and_in_its_order() -> None:
    a, b, c, d = part(FIRST, 0, 0, 5), part(FIRST, 1, 0, 5), part(SECOND, 0, 5, 9), part(SECOND, 2, 0, 1)
    assert group_by_pass([a, b, c, d]) == [[a, b, d], [c]]


def test_small_spans_go_to_one_worker_and_large_ones_to_their_own() -> None:
    counts = [3, 4, 50, 2, 9, 1]
    parts = tuple(part(FIRST, at, 0, count) for at, count in enumerate(counts))
    found = KafkaExtract(Cluster("bus", "127.0.0.1:9"), "orders", "bus.orders", parts).split_into_bundles(10)
    assert [[one.span.high for one in each.parts] for each in found] == [[3, 4], [50], [2], [9, 1]]
    assert tuple(one for each in found for one in each.parts) == parts
