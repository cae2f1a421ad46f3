from __future__ import annotations

from datetime import UTC, datetime

import pytest

from waterclock.connectors.rest.response_headers import Response

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:09 GMT"}, 9.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "9" * 400}, float("inf")),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 -0100"}, None),
        ({}, None),
        # a server whose clock is a year off still requests nine seconds
        ({"retry-after": "Fri, 01 Jan 2027 00:00:09 GMT", "date": "Fri, 01 Jan 2027 00:00:00 GMT"}, 9.0),
    ],
)
def test_how_long_to_wait_is_read_in_seconds_and_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert Response(429, headers, b"").seconds_to_wait(NOW) == seconds


@pytest.mark.parametrize(
    ("link", "following"),
    [
        ('<https://a/x?p=2>; rel="next"', "https://a/x?p=2"),
        ('<https://a/x?p=1>; rel="prev", <https://a/x?p=3,4>; rel=next', "https://a/x?p=3,4"),
        ('<https://a/x>; title="a, b"; rel="last next"', "https://a/x"),
        ('<https://a/x>; rel="nextest"', None),
        ("", None),
    ],
)
def test_the_next_page_is_read_from_the_header(link: str, following: str | None) -> None:
    assert Response(200, {"link": link}, b"").next_link == following


def test_only_transient_status_codes_are_retryable() -> None:
    passing = [status for status in range(100, 600) if Response(status, {}, b"").is_retryable]
    assert passing == [408, 425, 429, 500, *range(502, 505), *range(506, 600)]
