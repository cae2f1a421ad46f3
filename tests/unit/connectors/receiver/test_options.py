"""Messages of `check` about a receiver's options."""

from __future__ import annotations

import pytest

from waterclock.connectors.receiver.connector import CAPABILITIES


@pytest.mark.parametrize(
    ("headers", "count"), [("x-device, Authorization", 1), ("cookie", 1), ("user-agent", 0), ("", 0)]
)
def test_headers_with_credentials_cannot_become_columns(headers: str, count: int) -> None:
    assert CAPABILITIES.wrong_options is not None
    wrong = list(CAPABILITIES.wrong_options("connection", {"headers": headers}, ""))
    assert [one.code for one in wrong] == ["E313"] * count
