"""A MERGE publish finds the changed rows between two states. No Spark."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from tests.ledgers import SOMEWHERE, table
from waterclock.engine.batch import publish_changes
from waterclock.flow.declarations import Column, Columns
from waterclock.flow.enums import Kind, Mode

MAP = {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}
NESTED = {"type": "array", "elementType": MAP, "containsNull": True}


def frame(kind: Any) -> Any:
    """Return the part of a frame that the comparison of two states uses."""
    fields = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in [("id", "long"), ("v", kind)]
    ]
    made = SimpleNamespace(columns=["id", "v"], schema=StructType.fromJson({"fields": fields}))
    made.select = made.join = lambda *_: made
    return made


@pytest.mark.parametrize(("kind", "is_compared"), [("string", True), (MAP, False), (NESTED, False)])
def test_rows_with_maps_are_all_delivered_since_spark_compares_none(
    monkeypatch: pytest.MonkeyPatch, kind: Any, is_compared: bool
) -> None:
    then, now, differing = frame(kind), frame(kind), frame(kind)
    now.exceptAll = lambda _: differing
    for name in ("_delivered_state", "last_by_key", "fill_columns"):
        monkeypatch.setattr(publish_changes, name, lambda *_: then)
    publish = table("out.totals", kind=Kind.PUBLISH, mode=Mode.MERGE, keys=("id",))
    upserts, gone = publish_changes._compare_states(SimpleNamespace(), None, publish, now, None)  # type: ignore[arg-type]
    assert gone is then
    assert upserts is (differing if is_compared else now)


def test_a_list_names_columns_in_any_case_and_with_dots() -> None:
    named = tuple(Column(name, SOMEWHERE) for name in ("ID", "a.b"))
    publish = replace(table("out.totals", kind=Kind.PUBLISH), columns=Columns(named, is_open=False))
    rows: Any = SimpleNamespace(columns=["timelabel", "id", "a.b", "secret"], select=lambda *names: names)
    sent: Any = publish_changes.published_columns(publish, rows)
    assert sent == ("`timelabel`", "`id`", "`a.b`")


def test_keys_and_columns_with_dots_are_compared_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    then, now, asked = frame("string"), frame("string"), list[str]()
    now.columns, now.exceptAll = ["id", "a.b"], lambda _: now

    def select(*names: str) -> Any:
        asked.extend(names)
        return then

    then.select = now.select = select
    for name in ("_delivered_state", "last_by_key", "fill_columns"):
        monkeypatch.setattr(publish_changes, name, lambda *_: then)
    publish = table("out.totals", kind=Kind.PUBLISH, mode=Mode.MERGE, keys=("a.b",))
    publish_changes._compare_states(SimpleNamespace(), None, publish, now, None)  # type: ignore[arg-type]
    assert asked == ["`a.b`", "`id`", "`a.b`"]  # Spark reads a.b as a field of a
