from __future__ import annotations

from collections.abc import Generator

import pyarrow as pa
import pytest

from waterclock.connectors import spark_frames
from waterclock.connectors.spark_frames import FetchSize, are_few, read_if_few


class Source:
    """Batches of one column with some rows each; counts the requested ones, and records if the reader was closed."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.given = 0
        self.is_ended = False

    def read(self) -> Generator[pa.RecordBatch, None, None]:
        try:
            for size in self.sizes:
                self.given += 1
                yield pa.record_batch([pa.array(range(size), pa.int64())], names=["a"])
        finally:
            self.is_ended = True


@pytest.fixture(autouse=True)
def ten_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_frames, "DIRECT_ROWS", 10)


def test_few_rows_are_read_whole() -> None:
    source = Source(4, 6)
    read = read_if_few(source.read())
    assert read is not None
    assert [batch.num_rows for batch in read] == [4, 6]
    assert source.is_ended
    assert read_if_few(Source().read()) == []


def test_reading_stops_as_soon_as_the_row_limit_is_exceeded() -> None:
    source = Source(6, 6, 6)
    assert read_if_few(source.read()) is None
    assert source.given == 2
    assert source.is_ended


def test_rows_of_many_bytes_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_frames, "DIRECT_BYTES", 50)
    source = Source(4, 4, 4)
    assert read_if_few(source.read()) is None
    assert source.given == 2
    assert are_few(10, 50)
    assert not are_few(10, 51)
    assert not are_few(11)


def test_fetched_rows_that_are_not_returned_count_toward_the_limit() -> None:
    came = [0]

    def read(total: int) -> Generator[pa.RecordBatch, None, None]:
        came[0] = total
        yield from Source(1).read()

    assert read_if_few(read(11), came) is None
    assert read_if_few(read(10), came) is not None


def test_rows_fetched_after_the_last_returned_row_count_toward_the_limit() -> None:
    came = [0]

    def read() -> Generator[pa.RecordBatch, None, None]:
        yield from Source(1).read()
        came[0] = 11

    assert read_if_few(read(), came) is None


@pytest.mark.parametrize(("width", "most"), [(8, 10_000), (2_000, 4_194), (1 << 20, 8), (1 << 30, 1), (0, 10_000)])
def test_more_rows_are_fetched_at_a_time_as_long_as_they_fit(width: int, most: int) -> None:
    fetching, asked = FetchSize(10_000), []
    for _ in range(8):
        asked.append(fetching.rows)
        fetching.update(fetching.rows, fetching.rows * width)
    assert asked[:2] == [256, min(512, most)]
    assert asked[-1] == most
    assert asked[1:] == sorted(asked[1:])


def test_rows_that_become_wide_are_fetched_by_fewer() -> None:
    fetching = FetchSize(100)
    assert fetching.rows == 100
    fetching.update(100, 800)
    assert fetching.rows == 100
    fetching.update(100, 100 << 20)
    assert fetching.rows == 8
    fetching.update(0, 0)  # no batch was requested
    assert fetching.rows == 16
