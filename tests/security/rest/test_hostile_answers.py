"""Responses that are small for a server and expensive for us are refused, in bounded time and memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from waterclock.connectors.rest import records
from waterclock.connectors.rest.records import NoRecords, body_of
from waterclock.connectors.rest.response_headers import Response
from waterclock.connectors.rest.tokens import Tokens


@pytest.mark.parametrize(
    "link",
    [
        "<" * 100_000,
        "<a>" * 30_000,
        "<a>;" * 30_000,
        "<a>" + " " * 100_000 + "x",
        "<a>;b" + " " * 100_000 + "x",
        "<a>" + ";b" * 50_000 + " ",
        "<a>" + "; rel " * 20_000,
        '<a>;b="' * 20_000,
        '<a>;b="c' * 20_001,
    ],
)
def test_links_are_parsed_in_linear_time(link: str) -> None:
    begun = time.process_time()
    assert Response(200, {"link": link + ', <https://x/2>; title="a, b"; rel="prev next"'}, b"").next_link in {
        None,
        "https://x/2",
    }
    assert time.process_time() - begun < 2


def test_links_of_all_forms_are_found() -> None:
    for link in (
        '<https://x/1>; rel="prev", <https://x/2>; rel="next"',
        "<https://x/2>;rel=next",
        '<https://x/2> ; title="a; b, c" ; REL = "last next" , <https://x/9>; rel=last',
        "<https://x/2>; anchor; rel=next",
    ):
        assert Response(200, {"link": link}, b"").next_link == "https://x/2"


def test_the_records_of_a_page_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MOST_RECORDS", 1_000)
    assert len(body_of(b"[" + b"{}," * 999 + b"{}]", ()).lines) == 1_000
    with pytest.raises(NoRecords, match="more than 1000 records"):
        body_of(b"[" + b"{}," * 1_000 + b"{}]", ())


@pytest.mark.parametrize("value", [b"[],", b"{},", b'"ab",', b"0,"])
def test_the_values_of_a_page_are_bounded_before_they_are_parsed(value: bytes) -> None:
    begun = time.process_time()
    with pytest.raises(NoRecords, match="more than 10000000 values"):
        body_of(b'[{"a":[' + value * 10_000_001 + b"0]}]", ())
    assert time.process_time() - begun < 2


def answering(content: bytes) -> Callable[[], bytes]:
    return lambda: content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 200_000, "not JSON"),
        (b'{"access_token":' + b"[" * 200_000, "not JSON"),
        (json.dumps({"access_token": "ü"}).encode(), "not allowed in a header"),
        (b'{"access_token":"a\\r\\nHost: x"}', "not allowed in a header"),
        (b'{"access_token":"\\ud800"}', "not allowed in a header"),
    ],
)
def test_a_token_that_cannot_be_sent_is_no_token(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        Tokens(answering(content)).get()
    assert type(caught.value) is ValueError  # the client reports it as E844


@pytest.mark.parametrize("seconds", [b"9" * 400, b"1e999", b"-1e999", b'"x"', b"[]", b"NaN"])
def test_the_life_of_a_token_may_be_any_text(seconds: bytes) -> None:
    tokens = Tokens(answering(b'{"access_token":"t","expires_in":%s}' % seconds))
    assert tokens.get() == "t"
    assert 0 < tokens._until - time.monotonic() <= 3600
