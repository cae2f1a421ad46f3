"""Avro and Excel files are written so that other libraries can read them."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from python_calamine import CalamineWorkbook

from waterclock.connectors.files.file_writing import WriteOptions, find_write_option_errors, write_file
from waterclock.errors import WaterclockError

PLAIN = {
    "id": (pa.int64(), "BIGINT"),
    "note": (pa.string(), "STRING"),
    "is_paid": (pa.bool_(), "BOOLEAN"),
    "amount": (pa.decimal128(20, 2), "DECIMAL(20,2)"),
    "day": (pa.date32(), "DATE"),
    "at": (pa.timestamp("us", tz="UTC"), "TIMESTAMP"),
    "ratio": (pa.float64(), "DOUBLE"),
}
TIMES = st.datetimes(datetime(1900, 3, 1), datetime(2199, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001
# characters that XML allows
CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
ROWS = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "note": st.none() | st.text(CHARACTERS, min_size=1),
        "is_paid": st.none() | st.booleans(),
        "amount": st.none() | st.decimals(-(10**17), 10**17, places=2),
        "day": st.none() | st.dates(date(1900, 3, 1), date(2199, 1, 1)),
        "at": st.none() | TIMES,
        "ratio": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    }
)


def written(path: Path, rows: list[dict[str, Any]], kinds: dict[str, Any], **options: Any) -> bytes:
    schema = pa.schema([(name, kind) for name, (kind, _) in kinds.items()])
    batches = iter([pa.RecordBatch.from_pylist(rows, schema)] if rows else [])
    columns = [(name, told) for name, (_, told) in kinds.items()]
    assert write_file(path, batches, columns, WriteOptions(**options)) == len(rows)
    return path.read_bytes()


@pytest.mark.parametrize("name", PLAIN)
def test_a_csv_file_of_one_column_has_a_row_for_each_null(tmp_path: Path, name: str) -> None:
    text = written(tmp_path / "a.csv", [{name: None}, {name: None}], {name: PLAIN[name]}).decode()
    assert list(csv.DictReader(text.splitlines())) == [{name: ""}, {name: ""}]


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(rows=st.lists(ROWS, max_size=5), compression=st.sampled_from(["none", "gzip"]))
def test_avro_is_read_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], compression: str
) -> None:
    path = tmp_path_factory.mktemp("avro") / "a.avro"
    content = written(path, rows, PLAIN, format="avro", compression=compression)
    assert list(fastavro.reader(io.BytesIO(content))) == rows


def test_nested_values_are_written_to_avro(tmp_path: Path) -> None:
    kinds = {
        "l": (pa.list_(pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))])), ""),
        "m": (pa.map_(pa.string(), pa.list_(pa.binary())), ""),
    }
    rows: list[dict[str, Any]] = [
        {"l": [{"a": 1, "b": {"c": "é"}}, None], "m": [("x", [b"\x00"])]},
        {"l": None, "m": []},
    ]
    found = list(fastavro.reader(io.BytesIO(written(tmp_path / "a.avro", rows, kinds, format="avro"))))
    assert found == [rows[0] | {"m": {"x": [b"\x00"]}}, {"l": None, "m": {}}]


def test_a_file_without_rows_has_its_nested_columns(tmp_path: Path) -> None:
    kinds = {
        "l": (pa.list_(pa.struct([("date", pa.date32()), ("in", pa.struct([("c", pa.string())]))])), ""),
        "m": (pa.map_(pa.string(), pa.list_(pa.decimal128(10, 2))), ""),
    }
    told = {"l": "array<struct<date:date,in:struct<c:string>>>", "m": "MAP<STRING, ARRAY<DECIMAL(10, 2)>>"}
    named = {name: (kind, told[name]) for name, (kind, _) in kinds.items()}
    with_rows = pq.read_schema(io.BytesIO(written(tmp_path / "a.parquet", [{}], kinds, format="parquet")))
    assert pq.read_schema(io.BytesIO(written(tmp_path / "b.parquet", [], named, format="parquet"))) == with_rows
    assert list(fastavro.reader(io.BytesIO(written(tmp_path / "b.avro", [], named, format="avro")))) == []


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(rows=st.lists(ROWS, max_size=5))
def test_a_workbook_contains_the_values_of_its_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    content = written(tmp_path_factory.mktemp("excel") / "a.xlsx", rows, PLAIN, format="excel")
    head, *lines = openpyxl.load_workbook(io.BytesIO(content)).active.iter_rows(values_only=True)
    assert list(head) == list(PLAIN)
    lines += [(None,) * len(PLAIN)] * (len(rows) - len(lines))  # empty rows at the end are not in a workbook
    for line, row in zip(lines, rows, strict=True):
        told = dict(zip(head, line, strict=True))
        for name in ("id", "amount"):
            assert (told[name] is None) == (row[name] is None)
            if row[name] is not None:
                assert Decimal(str(told[name])) == row[name]
        assert told["note"] == row["note"]
        assert told["is_paid"] is row["is_paid"]
        assert told["day"] is None if row["day"] is None else told["day"].date() == row["day"]
        if row["at"] is not None:  # Excel stores milliseconds
            assert abs((told["at"].replace(tzinfo=UTC) - row["at"]).total_seconds()) < 0.002
        assert told["ratio"] is None if row["ratio"] is None else math.isclose(float(told["ratio"]), row["ratio"])


def test_nested_values_are_the_same_json_in_a_workbook_as_in_csv(tmp_path: Path) -> None:
    at = pa.timestamp("us", "UTC")
    kinds = {
        "m": (pa.map_(pa.string(), pa.int32()), "map<string,int>"),
        "s": (
            pa.struct([("x", pa.binary()), ("at", at), ("n", pa.decimal128(4, 2)), ("f", pa.float64())]),
            "struct<x:binary,at:timestamp,n:decimal(4,2),f:double>",
        ),
    }
    row = {
        "m": [("a", 1)],
        "s": {"x": b"\x00\xff", "at": datetime(2013, 1, 1, tzinfo=UTC), "n": Decimal("1.50"), "f": math.inf},
    }
    content = written(tmp_path / "a.xlsx", [row], kinds, format="excel")
    _, line = openpyxl.load_workbook(io.BytesIO(content)).active.iter_rows(values_only=True)
    [in_csv] = csv.DictReader(written(tmp_path / "a.csv", [row], kinds).decode().splitlines())
    assert list(line) == list(in_csv.values())
    assert json.loads(in_csv["s"]) == {"x": "AP8=", "at": "2013-01-01 00:00:00Z", "n": "1.50", "f": "Infinity"}
    assert json.loads(in_csv["m"]) == {"a": 1}


@pytest.mark.parametrize("text", ["=1+1", "#N/A", "+1", "@x", "-1", "0012", " x "])
def test_a_text_is_a_text_and_never_a_formula(tmp_path: Path, text: str) -> None:
    content = written(tmp_path / "a.xlsx", [{"x": text}], {"x": (pa.string(), "STRING")}, format="excel")
    cell = openpyxl.load_workbook(io.BytesIO(content)).active["A2"]
    assert (cell.value, cell.data_type) == (text, "s")
    assert CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(0).to_python()[1] == [text]


@pytest.mark.parametrize("text", ["a\rb", "a\r\nb", "_x0041_", "__x000d__", "_x0041", "x_x005F_x0041_y", "_X0041_"])
def test_a_text_written_to_excel_is_read_back_unchanged(tmp_path: Path, text: str) -> None:
    content = written(tmp_path / "a.xlsx", [{"x": text}], {"x": (pa.string(), "STRING")}, format="excel")
    assert CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(0).to_python()[1] == [text]


@pytest.mark.parametrize("text", ["x" * 32_768, "a\x01b", "a\uffffb", "\ufffe"])
def test_a_text_that_an_excel_cell_cannot_contain_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(WaterclockError) as caught:
        written(tmp_path / "a.xlsx", [{"x": text}], {"x": (pa.string(), "STRING")}, format="excel")
    assert caught.value.code == "E889"


def test_more_rows_than_a_sheet_holds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.connectors.files.excel_writing._MOST_ROWS", 3)
    kinds = {"x": (pa.int64(), "BIGINT")}
    written(tmp_path / "a.xlsx", [{"x": 1}, {"x": 2}], kinds, format="excel")
    with pytest.raises(WaterclockError, match="do not fit an Excel sheet"):
        written(tmp_path / "a.xlsx", [{"x": 1}, {"x": 2}, {"x": 3}], kinds, format="excel")


def test_a_name_that_avro_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WaterclockError) as caught:
        written(tmp_path / "a.avro", [{"é": 1}], {"é": (pa.int64(), "BIGINT")}, format="avro")
    assert caught.value.code == "E889"


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({"format": "excel", "compression": "gzip"}, ["E337"]),
        ({"format": "parquet", "compression": "bz2"}, ["E337"]),
        ({"format": "avro", "compression": "gzip"}, []),
        ({}, []),
    ],
)
def test_a_compression_that_a_format_has_not_is_refused(options: dict[str, Any], codes: list[str]) -> None:
    assert [each.code for each in find_write_option_errors(options)] == codes


@pytest.mark.parametrize("sign", [";;", "", "é", "\n", '"', "\\t"])
def test_a_delimiter_that_no_file_can_be_written_with_is_refused(tmp_path: Path, sign: str) -> None:
    assert [(each.code, each.option) for each in find_write_option_errors({"delimiter": sign})] == [
        ("E335", "delimiter")
    ]
    assert not list(find_write_option_errors({"delimiter": "\t"}))
    with pytest.raises((ValueError, pa.ArrowInvalid)):
        written(tmp_path / "a.csv", [{"id": 1}], {"id": PLAIN["id"]}, delimiter=sign)
