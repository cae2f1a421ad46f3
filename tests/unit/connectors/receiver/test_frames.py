from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.receiver.frames import build_frame, frames_of

NOW = datetime(2026, 11, 23, 11, 40, 7, 123456, tzinfo=UTC)


def read(data: bytes) -> list[tuple[datetime, bytes]]:
    return [(frame.at, frame.body) for frame in frames_of(io.BytesIO(data))]


def test_frames_come_back_with_their_instants_and_places() -> None:
    data = build_frame(NOW, b"one") + build_frame(NOW + timedelta(microseconds=1), b"two")
    first, second = frames_of(io.BytesIO(data))
    assert (first.at, first.body, first.start) == (NOW, b"one", 0)
    assert (second.at, second.body, second.start, second.end) == (NOW + timedelta(microseconds=1), b"two", 19, 38)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.data())
def test_a_torn_tail_does_not_affect_complete_frames(bodies: list[bytes], data: st.DataObject) -> None:
    frames = [build_frame(NOW, body) for body in bodies]
    whole = b"".join(frames)
    cut = data.draw(st.integers(0, len(whole)))
    kept = sum(1 for count in range(1, len(frames) + 1) if len(b"".join(frames[:count])) <= cut)
    assert [body for _, body in read(whole[:cut])] == bodies[:kept]


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6), st.data())
def test_a_changed_bit_ends_the_reading_before_its_frame(bodies: list[bytes], data: st.DataObject) -> None:
    frames = [build_frame(NOW, body) for body in bodies]
    whole = bytearray(b"".join(frames))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    before = sum(1 for count in range(1, len(frames) + 1) if len(b"".join(frames[:count])) <= bit // 8)
    assert [body for _, body in read(bytes(whole))] == bodies[:before]


def test_zeros_that_the_disk_gave_are_no_frames() -> None:
    assert [body for _, body in read(build_frame(NOW, b"one") + bytes(4096))] == [b"one"]


def test_frames_that_were_read_before_are_skipped() -> None:
    bodies = [b"a" * size for size in (3, 1, 7, 2)]
    data = b"".join(build_frame(NOW, body) for body in bodies)
    whole = list(frames_of(io.BytesIO(data)))
    for least in range(len(data) + 1):
        assert list(frames_of(io.BytesIO(data), least)) == [frame for frame in whole if frame.end > least]
