from __future__ import annotations

import struct
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waterclock.connectors.deliverable_values import require_deliverable_values
from waterclock.connectors.slice_rows import deliverable_batches_of, to_portable_types
from waterclock.errors import WaterclockError

_DAY, _TIME = pa.date32(), pa.timestamp("us", "UTC")
_INVALID = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, 1)), pa.py_buffer(b"\xff")])
_YEAR_10000, _YEAR_0 = 2_932_897, -719_163


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (pa.array([0, _YEAR_10000], _DAY), "a time outside"),
        (pa.array([_YEAR_0], _DAY), "a time outside"),
        (pa.array([10**8, None], _DAY), "a time outside"),
        (pa.array([2**31 - 1], _DAY), "a time outside"),
        (pa.array([10**18], _TIME), "a time outside"),
        (pa.array([[None, 10**18]], pa.list_(_TIME)), "a time outside"),
        (pa.array([[(_YEAR_0, 1)]], pa.map_(_DAY, pa.int32())), "a time outside"),
        (_INVALID, "a text that is not UTF-8"),
        (pa.StructArray.from_arrays([_INVALID], ["a"]), "a text that is not UTF-8"),
        (pa.array([[({"a": 1}, 1)]], pa.map_(pa.struct([("a", pa.int32())]), pa.int32())), "nested keys"),
    ],
)
def test_values_that_no_text_can_contain_are_refused(values: pa.Array, what: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1] * len(values)), values], ["id", "own"])
    with pytest.raises(WaterclockError, match=f"own has .*{what}") as refused:
        require_deliverable_values(batch)
    assert refused.value.code == "E812"
    assert refused.value.fix


@pytest.mark.parametrize(
    "values",
    [
        pa.array([date.min, date.max, None]),
        pa.array([], _TIME),
        pa.array([None], pa.list_(_DAY)),
        pa.array(["", "\0", None]),
        pa.array([b"\xff"]),
        pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())),
    ],
)
def test_other_values_are_accepted(values: pa.Array) -> None:
    require_deliverable_values(pa.RecordBatch.from_arrays([values], ["own"]))


def test_far_times_are_accepted_where_they_are_sent_as_times(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([10**18], _TIME)}), tmp_path / "slice.parquet")
    [batch] = deliverable_batches_of([tmp_path / "slice.parquet"], ["at"], takes_far_times=True)
    assert batch.num_rows == 1


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        (date(2013, 1, 1), pa.date32(), "2013-01-01"),
        (Decimal("1.50"), pa.decimal128(5, 2), "1.50"),
        (b"a", pa.binary(), "YQ=="),
        (5, pa.int32(), "5"),
    ],
)
def test_keys_of_maps_are_texts_in_json(key: Any, kind: pa.DataType, text: str) -> None:
    maps = pa.array([[(key, 1)]], pa.map_(kind, pa.int32()))
    assert to_portable_types(maps, "map<date,int>").to_pylist() == [f'{{"{text}": 1}}']
