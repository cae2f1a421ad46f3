"""The output of `query` besides rows. No Spark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.conftest import Shop
from waterclock.engine.query.query import AnsweredQuery
from waterclock.operations import query_results as answers
from waterclock.operations.query_results import ZonedQueryResult


@pytest.fixture(autouse=True)
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*_: Any, **__: Any) -> ZonedQueryResult:
        return ZonedQueryResult(AnsweredQuery((("n", "int"),), ((1,),), is_cut=False))

    monkeypatch.setattr(answers, "answer_query", answer)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_missing_sandbox_is_reported(shop: Shop, options: tuple[str, ...]) -> None:
    found = shop.ask("query", "SELECT 1 AS n", *options, WATERCLOCK_UNCONFINED="1")
    assert found.exit_code == 0, found.output
    assert found.stderr == "the query runs without a sandbox: WATERCLOCK_UNCONFINED is set\n"
