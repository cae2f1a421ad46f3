"""Addresses at which servers listen."""

from __future__ import annotations

import pytest

from waterclock.errors import WaterclockError
from waterclock.http.listening import address_of


@pytest.mark.parametrize(
    ("said", "address"),
    [("9090", ("127.0.0.1", 9090)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:9", ("::1", 9)), (":9", ("127.0.0.1", 9))],
)
def test_a_port_alone_is_this_machines(said: str, address: tuple[str, int]) -> None:
    assert address_of(said) == address


@pytest.mark.parametrize("said", ["", "here", "host:port", "1:99999", "99999"])
def test_an_invalid_address_is_refused(said: str) -> None:
    with pytest.raises(WaterclockError) as refused:
        address_of(said)
    assert refused.value.code == "E909"
    assert "from 1 to 65535" in (refused.value.why or "")
