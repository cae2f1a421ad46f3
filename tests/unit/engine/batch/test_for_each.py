"""The name under which the responses for each row of a table are stored. No Spark."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import day
from tests.unit.engine.fakes import FakeConnections, collect, group, work_of
from waterclock.engine.batch import for_each
from waterclock.flow.enums import Batching
from waterclock.flow.for_each import Each
from waterclock.storage.lake import Lake


class Api(FakeConnections):
    """An API that records its requests."""

    request: Any = None

    def reach_each(self, *_: Any) -> None:
        raise AssertionError("only rows are requested here")

    def schema(self, *_: Any) -> None:
        return None

    def explain(self, *_: Any) -> None:
        return None

    def read_each(self, _: Any, __: Any, request: Any, *___: Any) -> Any:
        self.request = request
        return SimpleNamespace(source={})


@pytest.mark.parametrize(
    ("folders", "stored_as"),
    [({}, "crm.people"), ({"crm.people": "tables/crm/users"}, "crm.users"), ({"crm.people": "tables/a/b.2"}, "a.b.2")],
)
def test_a_renamed_table_keeps_its_answers(
    monkeypatch: pytest.MonkeyPatch, folders: dict[str, str], stored_as: str
) -> None:
    """Regression: all responses were requested again, and records that the API had deleted were lost."""
    table, api = collect("crm.people"), Api()
    assert table.source is not None
    source = replace(table.source, batching=Batching.EACH, each=Each("shop.orders", ("user_id",)))
    work = work_of([table], connections=api, lake=Lake("/nowhere", folders=folders))
    monkeypatch.setattr(for_each, "_read_table_rows", lambda *_: None)
    spark: Any = None
    for_each.collect_for_each(work, spark, replace(table, source=source), group("crm.people", 1), {day(1): ()})
    assert (api.request.table, api.request.stored_as) == ("crm.people", stored_as)
