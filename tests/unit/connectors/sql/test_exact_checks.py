"""Values that a column stores exactly: those that fit, and those that a database would silently change."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from waterclock.connectors.sql.exact_values import StoredColumn, ValueKind, require_exact_values
from waterclock.errors import WaterclockError

DECIMAL = pa.decimal128(20, 4)
NAN = float("nan")


def _case(values: list[Any], kind: pa.DataType, **facts: Any) -> tuple[list[Any], pa.DataType, StoredColumn]:
    return values, kind, StoredColumn("v", "T", **facts)


EXACT = [
    _case([Decimal("1.5000"), None], DECIMAL, holds=ValueKind.DECIMAL, places=2),
    _case([1200, None], pa.int32(), holds=ValueKind.DECIMAL, places=-2),
    _case([Decimal("1200.0000")], DECIMAL, holds=ValueKind.DECIMAL, places=-2),
    _case([0.1, NAN, None], pa.float64(), holds=ValueKind.DECIMAL, places=2),
    _case([0.1], pa.float32(), holds=ValueKind.DECIMAL, places=2),
    _case(["1.50", "1e3", "x"], pa.string(), holds=ValueKind.DECIMAL, places=2),
    _case([2**25], pa.int32(), holds=ValueKind.FLOAT, bits=24),
    _case([2**62], pa.int64(), holds=ValueKind.FLOAT, bits=53),
    _case([Decimal("0.1000")], DECIMAL, holds=ValueKind.FLOAT, bits=24),
    _case([0.5, NAN, None], pa.float64(), holds=ValueKind.FLOAT, bits=24),
    _case(["0.1", "16777216", "", "nan"], pa.string(), holds=ValueKind.FLOAT, bits=24),
    _case([datetime(2013, 1, 1, 5, 0, 0, tzinfo=UTC)], pa.timestamp("us", "UTC"), holds=ValueKind.TIMESTAMP, places=0),
    _case(
        ["2013-02-28 05:30:00+00", "2013-02-28 05:30:00Z", "2013-02-28 05:30:00 UTC", "2013-02-28"],
        pa.string(),
        holds=ValueKind.TIMESTAMP,
        has_zone=False,
    ),
    _case(["2013-02-28 00:00:00", "2013-02-28"], pa.string(), holds=ValueKind.DATE),
    _case(["05:30:00.5"], pa.string(), holds=ValueKind.TIME, has_zone=False),
    _case(["abc", None], pa.string(), holds=ValueKind.TEXT, length=3),
    _case([[Decimal("1.0050")]], pa.list_(DECIMAL), holds=ValueKind.DECIMAL, places=2),
    _case(["7", "x", "1.5"], pa.string(), holds=ValueKind.NUMBER_OR_TEXT),
    _case([1.0, None, float("inf")], pa.float64(), unknown=("nan",)),
    _case([Decimal(9007199254740993)], pa.decimal128(18, 0), holds=ValueKind.NUMBER_OR_TEXT),
]
BENT = [
    _case([None, Decimal("1.0050")], DECIMAL, holds=ValueKind.DECIMAL, places=2),
    _case([1234], pa.int32(), holds=ValueKind.DECIMAL, places=-2),
    _case([Decimal("1234.0000")], DECIMAL, holds=ValueKind.DECIMAL, places=-2),
    _case([1.005], pa.float64(), holds=ValueKind.DECIMAL, places=2),
    _case(["1.005"], pa.string(), holds=ValueKind.DECIMAL, places=2),
    _case(["1,000.005"], pa.string(), holds=ValueKind.DECIMAL, places=2),
    _case(["{1}"], pa.string(), is_array=True, holds=ValueKind.DECIMAL, places=2),
    _case([{"a": 1}], pa.struct([("a", pa.int32())]), takes_json=False),
    _case([""], pa.string(), holds=ValueKind.DECIMAL, places=2),
    _case(["7.5"], pa.string(), holds=ValueKind.DECIMAL, places=0),
    _case(["1e-3"], pa.string(), holds=ValueKind.DECIMAL, places=0),
    _case([2**24 + 1, None], pa.int32(), holds=ValueKind.FLOAT, bits=24),
    _case([2**53 + 1], pa.int64(), holds=ValueKind.FLOAT, bits=53),
    _case([2**63 - 1], pa.int64(), holds=ValueKind.FLOAT, bits=53),
    _case([Decimal("9007199254740993.0000"), None], DECIMAL, holds=ValueKind.FLOAT, bits=53),
    _case([0.1], pa.float64(), holds=ValueKind.FLOAT, bits=24),
    _case(["16777217", None], pa.string(), holds=ValueKind.FLOAT, bits=24),
    _case(
        [datetime(2013, 1, 1, 5, 0, 0, 5, tzinfo=UTC)], pa.timestamp("us", "UTC"), holds=ValueKind.TIMESTAMP, places=0
    ),
    _case(["2013-02-28 05:30:00.1234567"], pa.string(), holds=ValueKind.TIMESTAMP),
    _case(["2013-02-28 05:30:00+02"], pa.string(), holds=ValueKind.TIMESTAMP, has_zone=False),
    _case(["2013-02-28 05:30:00 Europe/Berlin"], pa.string(), holds=ValueKind.TIMESTAMP, has_zone=False),
    _case(["1.005"], pa.string(), holds=ValueKind.TIMESTAMP),
    _case([20130228], pa.int32(), holds=ValueKind.DATE),
    _case(["2013-02-28 05:30:00"], pa.string(), holds=ValueKind.DATE),
    _case([datetime(2013, 1, 1, 5, tzinfo=UTC)], pa.timestamp("us", "UTC"), holds=ValueKind.DATE),
    _case(["05:30:00.5"], pa.string(), holds=ValueKind.TIME, places=0),
    _case(["2013-02-28 05:30:00"], pa.string(), holds=ValueKind.TIME),
    _case(["ab "], pa.string(), holds=ValueKind.TEXT, length=3, forgets_blanks=True),
    _case(["abc   "], pa.string(), holds=ValueKind.TEXT, length=3),
    _case(["\u00e9" * 40], pa.string(), holds=ValueKind.TEXT, length=63, is_in_bytes=True),
    _case([123], pa.int32(), holds=ValueKind.TEXT, length=1, is_in_bytes=True),
    _case(
        [[Decimal("1.5000")], None, [Decimal("1.0050"), None]],
        pa.list_(DECIMAL),
        is_array=True,
        holds=ValueKind.DECIMAL,
        places=2,
    ),
    _case(["007"], pa.string(), holds=ValueKind.NUMBER_OR_TEXT),
    _case(["12345678901234567890"], pa.string(), holds=ValueKind.NUMBER_OR_TEXT),
    _case([2**53 + 1], pa.int64(), holds=ValueKind.NUMBER_OR_TEXT, bits=53),
    _case([NAN], pa.float64(), unknown=("nan",)),
    _case([0.1 + 0.2], pa.float64(), holds=ValueKind.TEXT, digits=15),
    _case(["1"], pa.string(), refuses="x"),
]


@pytest.mark.parametrize(("values", "kind", "into"), EXACT)
def test_values_that_are_stored_exactly_are_taken(values: list[Any], kind: pa.DataType, into: StoredColumn) -> None:
    require_exact_values(pa.array(values, kind), into, "ops.totals@20130101000000")


@pytest.mark.parametrize(("values", "kind", "into"), BENT)
def test_values_that_would_be_bent_are_refused(values: list[Any], kind: pa.DataType, into: StoredColumn) -> None:
    with pytest.raises(WaterclockError, match="v cannot store") as refused:
        require_exact_values(pa.array(values, kind), into, "ops.totals@20130101000000")
    assert refused.value.code == "E812"


def test_a_refusal_names_the_place_the_value_and_the_fix() -> None:
    with pytest.raises(WaterclockError) as refused:
        require_exact_values(
            pa.array([Decimal("1.0050")], DECIMAL),
            StoredColumn("amount", "numeric(10,2)", holds=ValueKind.DECIMAL, places=2),
            "ops.totals@20130101000000",
        )
    error = refused.value
    assert (error.what, error.where) == ("amount cannot store 1.0050", "ops.totals@20130101000000")
    assert "numeric(10,2), which keeps 2 digits after the point" in str(error.why)
    assert str(error.fix).startswith("widen the column at the destination")
