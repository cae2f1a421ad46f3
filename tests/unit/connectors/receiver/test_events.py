from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.receiver.events import OWN, RefusedError, decode_body, events_of, lines_of

NOW = datetime(2026, 11, 23, 11, 40, 7, 123456, tzinfo=UTC)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_KEYS = st.text("abcdefgh", min_size=1, max_size=3)
EVENTS = st.lists(st.dictionaries(_KEYS, _VALUES, max_size=4), min_size=1, max_size=5)


def lines(body: bytes, request: str | None = None, headers: Any = None, *, raw: bool = False) -> list[dict[str, Any]]:
    kept = events_of(body).body(request, headers, has_raw=raw)
    return [json.loads(line) for line in lines_of(kept, NOW, "w-1-0")]


@given(EVENTS, st.sampled_from(["array", "pretty", "lines"]), st.booleans())
def test_events_come_through_as_they_were_sent(events: list[dict[str, Any]], form: str, ascii_only: bool) -> None:
    texts = [json.dumps(event, ensure_ascii=ascii_only) for event in events]
    indent = 2 if form == "pretty" else None
    text = "\n".join(texts) if form == "lines" else json.dumps(events, indent=indent, ensure_ascii=ascii_only)
    found = lines(text.encode(errors="surrogatepass") if ascii_only else text.encode())
    assert [{key: value for key, value in line.items() if key not in OWN} for line in found] == events
    assert [line["_event"] for line in found] == list(range(1, len(events) + 1))


def test_metadata_of_an_event_is_placed_before_its_own_keys() -> None:
    (line,) = lines(b' {"n": 1.10}\n', "k-7", {"user-agent": "curl"}, raw=True)
    assert line == {
        "_received": "2026-11-23T11:40:07.123456Z",
        "_request": "k-7",
        "_headers": '{"user-agent":"curl"}',
        "_event": 1,
        "_raw": '{"n": 1.10}',
        "n": 1.1,
    }
    assert lines(b"{ }") == [{"_received": "2026-11-23T11:40:07.123456Z", "_request": "w-1-0", "_event": 1}]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "has no event"),
        (b"[]", "has no event"),
        (b"[1]", "event 1 is not a JSON object"),
        (b'{"a":1}{"b"', "event 2 is not JSON"),
        (b'{"a":1}, {"a":2}', "event 2 is not JSON"),
        (b'[{"a":1}', "the array does not end"),
        (b'[{"a":1},]', "malformed after event 1"),
        (b'[{"a":1} {"a":2}]', "malformed after event 1"),
        (b'[{"a":1}] {"a":2}', "after the array"),
        (b'{"a":NaN}', "NaN is not a JSON value"),
        (b'{"a":"\xff"}', "not UTF-8 at byte 7"),
        (b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}", "nested too deep"),
        (b'{"a":' + b"1" * 2000 + b"}", "a number of 2000 digits"),
        (b'{"a":{"' + b"k" * 50_000 + b'":1}}', "a key of 50000 characters"),
        (b'{"a":1,"A":2}', "two keys a"),
        (b'{"a b":1,"a_b":2}', "two keys a_b"),
        (b'{"":1}', "a key without a name"),
        (b'{"_Received":1}', "a key _Received, which is a column"),
        (b'{" _raw":1}', "which is a column that the endpoint adds"),
    ],
)
def test_an_event_that_would_fail_a_table_later_is_refused_on_receipt(body: bytes, said: str) -> None:
    with pytest.raises(RefusedError, match=said) as raised:
        events_of(body)
    assert raised.value.status == 400


def test_bodies_may_be_packed() -> None:
    plain = b'{"a":1}' * 100
    assert decode_body(plain, "", 10) == plain
    assert decode_body(gzip.compress(plain, mtime=0), "gzip", len(plain)) == plain


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (gzip.compress(bytes(10_000_000)), "gzip", 413),
        (gzip.compress(b"abc", mtime=0)[:-1], "gzip", 400),
        (gzip.compress(b"abc", mtime=0) + b"x", "gzip", 400),
        (b"plain", "gzip", 400),
        (b"plain", "br", 415),
    ],
)
def test_packed_bodies_that_are_not_taken(body: bytes, encoding: str, status: int) -> None:
    with pytest.raises(RefusedError) as raised:
        decode_body(body, encoding, 1000)
    assert raised.value.status == status
