"""Avro, Excel and zip files of other libraries are read back unchanged."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import fastavro
import openpyxl
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from waterclock.connectors.files import avro_reading, excel_reading
from waterclock.connectors.files.python_readers import NUMBER
from waterclock.connectors.files.reading_options import ROOM, ReadOptions
from waterclock.connectors.files.zips import unpack_zips

QUICK = settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
SIGNS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
TEXTS = st.text(SIGNS, min_size=1, max_size=12).filter(lambda text: "_x" not in text and text == text.strip())
CELLS = (
    st.none() | TEXTS | st.booleans() | st.integers(-(10**15), 10**15) | st.dates(date(1950, 1, 1), date(2100, 1, 1))
)
SHEETS = st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=6))
OPTIONAL = {
    "id": ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
    "note": ("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
    "ratio": ("double", st.floats(allow_nan=False)),
    "is_paid": ("boolean", st.booleans()),
    "raw": ("bytes", st.binary(max_size=8)),
    "day": ({"type": "int", "logicalType": "date"}, st.dates()),
    "at": (
        {"type": "long", "logicalType": "timestamp-micros"},
        st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),  # noqa: DTZ001
    ),
    "list": ({"type": "array", "items": ["null", "int"]}, st.lists(st.none() | st.integers(-5, 5), max_size=3)),
}
RECORDS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in OPTIONAL.items()}), max_size=5
)
FIELDS = [{"name": name, "type": ["null", kind]} for name, (kind, _) in OPTIONAL.items()]


def text_of(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else None if value is None else str(value)


@QUICK
@given(lines=SHEETS, top=st.integers(0, 3), left=st.integers(0, 3))
@pytest.mark.slow
def test_a_sheet_is_read_back_wherever_its_cells_start(lines: list[list[Any]], top: int, left: int) -> None:
    width = len(lines[0]) if lines else 1
    names = [f"c {at}" for at in range(width)]
    book = openpyxl.Workbook()
    for at, line in enumerate([names, *lines], top + 1):
        for place, value in enumerate(line, left + 1):
            cell = book.active.cell(at, place, value)
            if isinstance(value, str):
                cell.data_type = "s"
    content = io.BytesIO()
    book.save(content)
    reading = ReadOptions()
    assert excel_reading.columns_of(content, reading, []) == tuple(names)
    content.seek(0)
    found = [row for batch in excel_reading.reader_of(reading, tuple(names))(content) for row in batch.to_pylist()]
    told = [
        {**{f"c{place}": text_of(value) for place, value in enumerate(line)}, NUMBER: top + 2 + at}
        for at, line in enumerate(lines)
        if any(value is not None for value in line)
    ]
    assert found == told


@QUICK
@given(records=RECORDS, codec=st.sampled_from(["null", "deflate", "bzip2"]))
def test_avro_is_read_back(records: list[dict[str, Any]], codec: str) -> None:
    content = io.BytesIO()
    fastavro.writer(content, {"type": "record", "name": "r", "fields": FIELDS}, records, codec=codec)
    content.seek(0)
    columns = avro_reading.columns_of(content)
    assert [column.name for column in columns] == list(OPTIONAL)
    content.seek(0)
    read = (
        pa.Table.from_batches(batches).to_pylist() if (batches := [*avro_reading.reader_of(columns)(content)]) else []
    )
    told = [{f"c{at}": record[name] for at, name in enumerate(OPTIONAL)} for record in records]
    assert read == [{**record, NUMBER: number} for number, record in enumerate(told, 1)]


@QUICK
@given(members=st.dictionaries(st.from_regex(r"[a-z]{1,3}(/[a-z]{1,3})?\.csv", fullmatch=True), st.binary(max_size=50)))
@pytest.mark.slow
def test_members_are_read_back(tmp_path_factory: pytest.TempPathFactory, members: dict[str, bytes]) -> None:
    folder = tmp_path_factory.mktemp("zips")
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("always.csv", b"x")
        for name, content in members.items():
            packed.writestr(name, content)
    found = unpack_zips([str(folder / "a.zip")], ReadOptions(room=folder / ROOM))
    read = [(Path(path).name, Path(path).read_bytes()) for path in found.paths]
    assert read == [("always.csv", b"x"), *((name.rpartition("/")[2], content) for name, content in members.items())]
    found.close()
