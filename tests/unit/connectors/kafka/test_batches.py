"""Decoded records become batches of a limited size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from waterclock.connectors.kafka import reading
from waterclock.connectors.kafka.ranges import OffsetSpan
from waterclock.connectors.kafka.reading import KafkaExtract, OffsetPart


@dataclass
class Record:
    """A record of the client library."""

    at: int

    def value(self) -> bytes:
        return b"v"

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


class Repeating:
    """A decoder whose JSON is a hundred times as long as a value."""

    def json_of(self, value: bytes, partition: int, offset: int) -> bytes:
        del partition, offset
        return value * 100


@pytest.mark.parametrize(("decoder", "sizes"), [(Repeating(), [3, 3, 1]), (None, [7])])
def test_values_that_are_large_when_decoded_make_several_batches(
    monkeypatch: pytest.MonkeyPatch, decoder: Any, sizes: list[int]
) -> None:
    monkeypatch.setattr(reading, "MOST_OF_A_BATCH", 250)
    part = OffsetPart(datetime(2026, 1, 1, tzinfo=UTC), OffsetSpan(0, 0, 7))
    extract = KafkaExtract(cast("Any", None), "t", "bus.t", (part,), decoder)
    records = [reading._Record(part, cast("Any", Record(at)), None) for at in range(7)]
    found = list(reading._build_batches(records, extract))
    assert [batch.num_rows for batch in found] == sizes
    assert [offset for batch in found for offset in batch["offset"].to_pylist()] == list(range(7))
    assert {len(value) for batch in found for value in batch["value"].to_pylist()} == {100 if decoder else 1}
