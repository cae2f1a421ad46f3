"""FLAT returns each row once: keys are not compared by a conversion that makes several of them equal. No Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from tests.ledgers import table
from waterclock.engine.reads.flat_join import can_match_several_keys, flat_frame
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flat, FlatJoin, Flow, Read
from waterclock.flow.enums import Mode

CHILD, PARENT = Read("fact.sale"), Read("dim.shop")
FLAT = Flat(CHILD, (FlatJoin(Flat(PARENT), ("shop",), ("id",)),))


@pytest.mark.parametrize(
    ("own", "other", "rounds"),
    [
        ("DOUBLE", "BIGINT", True),  # 2^53 and 2^53 + 1
        ("FLOAT", "BIGINT", True),
        ("DOUBLE", "DECIMAL(20, 0)", True),
        ("DOUBLE", "INT", False),
        ("BIGINT", "BIGINT", False),
        ("INT", "BIGINT", False),
        ("BIGINT", "DOUBLE", False),
        ("FLOAT", "DOUBLE", False),
        ("DECIMAL(20, 0)", "BIGINT", False),
    ],
)
def test_a_fraction_may_be_equal_to_several_keys_of_a_parent(own: str, other: str, rounds: bool) -> None:
    types = [StructType.fromJson({"fields": [_field("v", kind)]}).fields[0].dataType for kind in (own, other)]
    assert can_match_several_keys(*types) is rounds


def test_a_parent_by_key_of_another_type_is_refused_before_rows_are_doubled() -> None:
    rows, parent = frame("shop", "BIGINT"), frame("id", "STRING")
    flow = Flow(project="demo", tables={PARENT.table: table(PARENT.table, mode=Mode.MERGE, keys=("id",))})
    with pytest.raises(WaterclockError, match="E305") as refused:
        flat_frame(flow, FLAT, {CHILD: rows, PARENT: parent})
    assert refused.value.what == "keys of different types: shop is bigint, id string"
    assert refused.value.where == "FLAT(fact.sale), which refers to dim.shop"


def frame(name: str, kind: str) -> Any:
    """Return a fake frame with a name and types."""
    schema = StructType.fromJson({"fields": [_field(name, kind)]})
    made = SimpleNamespace(columns=[name], schema=schema)
    made.drop = lambda *_: made
    return made


def _field(name: str, kind: str) -> dict[str, Any]:
    plain = {"BIGINT": "long", "INT": "integer"}.get(kind, kind.lower().replace(" ", ""))
    return {"name": name, "type": plain, "nullable": True, "metadata": {}}
