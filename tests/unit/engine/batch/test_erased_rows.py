"""A project without erasures has no cost for them."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from waterclock.batches.records import Claim
from waterclock.engine.batch.erased_rows import drop_erased_rows, require_no_erased_rows


class Untouched:
    """Fails on any access."""

    def __getattr__(self, name: str) -> Any:
        pytest.fail(f"{name} was used")


def test_without_erasures_neither_the_plan_nor_the_ledger_is_touched() -> None:
    claim = Claim(1, None, datetime(2026, 1, 1, tzinfo=UTC))  # type: ignore[arg-type]
    work = SimpleNamespace(past=None, ledger=Untouched(), flow=Untouched(), keys=Untouched())
    attempt: Any = SimpleNamespace(work=work, table=Untouched(), spark=Untouched())
    rows: Any = SimpleNamespace(columns=["buyer"])
    assert drop_erased_rows(attempt, claim, rows) is rows
    require_no_erased_rows(attempt, claim, Untouched())  # type: ignore[arg-type]
