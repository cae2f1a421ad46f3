from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ledgers import Desk, desk


@pytest.fixture
def at_desk() -> Iterator[Desk]:
    opened = desk()
    with opened.ledger:
        yield opened
