from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ledgers import Desk, desk, desk_at_server, require_sums


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def at_desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    """Yield an empty ledger of each kind of database, and check its stored sums after the test."""
    opened = desk() if request.param == "sqlite" else desk_at_server()
    with opened.ledger:
        yield opened
        require_sums(opened.ledger)
