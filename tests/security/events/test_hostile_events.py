"""An acknowledged event can be read: events that would block a batch forever are refused, and stay with the sender."""

from __future__ import annotations

import json
import random
import time

import pytest

from waterclock.connectors.receiver.events import RefusedError, events_of

N = b'{"event_id":"p","n":%s}'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"1e400", "exponent 400|larger than any DOUBLE"),
        (b"1e401", "exponent 401"),
        (b"1e999999", "exponent 999999"),
        (b"-1E+9999999", r"exponent \+9999999"),
        (b"1e-9999999", "exponent -9999999"),
        (b"0e99999999", "exponent 99999999"),
        (b"[[1.5e" + b"9" * 5000 + b"]]", "exponent 999"),
        (b"1e" + b"0" * 5000 + b"1", "exponent 000"),
        (b"9" * 901 + b".5", "a number of"),
        (b'"\\ud800"', "surrogate"),
        (b'"x\\udFFFx"', "surrogate"),
        (b'{"\\ud800":1}', "surrogate"),
        (b'"\\ude00\\ud83d"', "surrogate"),
        (b"[" * 900 + b"]" * 900, "nested too deep"),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "nested too deep"),
        (b'{"a":1,"a":2}', "two keys a"),
        (b'[{"b":{"a":1,"c":1,"c":2}}]', "two keys c"),
    ],
)
def test_events_that_no_batch_can_read_are_refused(value: bytes, said: str) -> None:
    with pytest.raises(RefusedError, match=said) as caught:
        events_of(b'{"event_id":"ok"}\n' + N % value)
    assert str(caught.value).startswith("event 2")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "value",
    [b"1e300", b"1e-300", b"-0.0", b"1.7976931348623157e308", b"9" * 300, b'"\\ud83d\\ude00"', b'"\\u2028\\u0000"',
     b"[" * 400 + b"]" * 400, b'{"a":{"a":{"a":1}}}', b'"1e999999"', b'"\\\\ud800"', b'{"a":1,"A":2}', b'"[[[["'],
)  # fmt: skip
def test_events_that_batches_can_read_are_accepted(value: bytes) -> None:
    body = N % value
    assert events_of(body).events == (body.decode(),)


def test_accepted_mutated_events_are_plain_json() -> None:
    """Accepted events are read again by a strict reader: finite numbers, complete characters, no duplicate key."""
    pieces = [b'{"a":', b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\ud800", b"\\ude00", b"1e", b"999", b"-",
              b".", b"e+", b"null",
              b"NaN", b"true", b'"a"', b'"A"', b'{"b":1,"b":2}', b"\xff", b"\xed\xa0\x80", b"\0", b"\n", b" ", b"0",
              b"\xf0\x9f\x98\x80"]  # fmt: skip
    rng = random.Random(38)
    taken = 0
    for _ in range(20_000):
        inner = b"".join(rng.choices(pieces, k=rng.randint(0, 7)))
        body = b'{"event_id":"p","n":%s}' % (inner if rng.random() < 0.5 else b'"%s"' % inner)
        try:
            found = events_of(body)
        except RefusedError:
            continue
        taken += 1
        for event in found.events:
            read = json.loads(event)
            json.dumps(read, ensure_ascii=False, allow_nan=False).encode()
    assert taken > 500


def test_hostile_numbers_are_refused_at_once() -> None:
    begun = time.monotonic()
    for value in (b"1e" + b"9" * 900_000, b"9" * 900_000, b"0." + b"9" * 900_000, b"[" * 500_000):
        with pytest.raises(RefusedError):
            events_of(N % value)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (b'{"_rece\\u0131ved":1}', "which is a column that the endpoint adds"),
        (b'{"\\u0000x":1}', "control character U\\+0000"),
        (b'{"x\\u0007":1}', "control character U\\+0007"),
        (b'{"x\\u009fy":1}', "control character U\\+009F"),
        (b'{"a":1,"a":2}', "two keys a"),
        (b'{"a":1,"\\u0061":2}', "two keys a"),
        (b'{"i":1,"\\u0131":2}', "two keys"),
        (b'{"\\u0130":1,"i":2}', "two keys"),
        (b'{"s":1,"\\u017f":2}', "two keys"),
        (b'{"\\u00b5":1,"\\u03bc":2}', "two keys"),
        (b'{"\\u03c3":1,"\\u03c2":2}', "two keys"),
        (b'{"K":1,"k":2}', "two keys"),
    ],
)
def test_a_key_that_is_no_column_of_its_own_is_refused(event: bytes, said: str) -> None:
    with pytest.raises(RefusedError, match=said) as caught:
        events_of(event)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "event", ['{"ß":1,"ss":2}', '{"_metadata":1}', '{"_meta":1}', '{"a":{"_metadata":{"a":1}}}', '{"é":1,"e":2}']
)
def test_keys_that_are_columns_of_their_own_are_taken(event: str) -> None:
    assert events_of(event.encode()).events == (event,)


def test_a_request_has_a_bounded_number_of_events() -> None:
    assert len(events_of(b"{}" * 10_000).events) == 10_000
    for body in (b"{}" * 10_001, b"[" + b"{}," * 10_000 + b"{}]", b'{"a":1}\n' * 10_001):
        with pytest.raises(RefusedError, match="more than 10000 events") as caught:
            events_of(body)
        assert caught.value.status == 413
