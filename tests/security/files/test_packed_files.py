"""A small packed file is not unpacked into memory to find its columns."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from waterclock.connectors.files import encodings, file_schemas, xml_documents
from waterclock.connectors.files.csv_records import reader_of
from waterclock.connectors.files.error_positions import explain
from waterclock.connectors.files.multiline_csv import read_by_record
from waterclock.connectors.files.reading_options import ReadOptions, parse_read_options
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns, Place

MIB = 1 << 20


def pack(path: Path, head: bytes, tail: bytes, size: int = 64) -> str:
    with gzip.open(path, "wb", 1) as file:
        file.write(head)
        for _ in range(size):
            file.write(b"x" * MIB)
        file.write(tail)
    assert path.stat().st_size < MIB
    return str(path)


def columns_of(path: str, reading: ReadOptions) -> tuple[list[str], list[str]]:
    asked: list[str] = []

    def keys_of_many(kind: str, paths: Sequence[str]) -> Mapping[str, str]:
        asked.extend([kind, *paths])
        return {"a": "STRING"}

    shapes = file_schemas.shapes_of([path], reading, Columns(is_open=True), keys_of_many=keys_of_many)
    (shape,) = shapes
    return [column.name for column in shape.found], asked


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("name", "head", "tail", "options"),
    [
        ("a.jsonl.gz", b'{"a":"', b'"}\n', {}),
        ("a.json.gz", b'{"a":"', b'"}', {"multiline": "true"}),
        ("a.xml.gz", b"<a><r><b>", b"</b></r></a>", {"rows": "r"}),
    ],
)
def test_the_unpacked_bytes_of_a_file_count(
    tmp_path: Path, name: str, head: bytes, tail: bytes, options: dict[str, str]
) -> None:
    path = pack(tmp_path / name, head, tail)
    assert columns_of(path, parse_read_options(options)) == (["a"], ["xml" if "xml" in name else "json", path])
    assert tracemalloc.get_traced_memory()[1] < 16 * MIB


@pytest.mark.usefixtures("traced")
def test_a_header_has_a_bound(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.csv.gz", b"", b"\n1\n")
    with pytest.raises(WaterclockError) as caught:
        columns_of(path, ReadOptions())
    assert caught.value.code == "E807"
    assert tracemalloc.get_traced_memory()[1] < 64 * MIB


@pytest.mark.parametrize("is_multiline", [False, True])
def test_a_document_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_multiline: bool) -> None:
    monkeypatch.setattr(file_schemas, "_MOST_CHARACTERS", 4 * MIB)
    path = pack(tmp_path / "a.json.gz", b'{"a":"', b'"}', 5)
    with pytest.raises(WaterclockError) as caught:
        file_schemas.shapes_of([path], parse_read_options({"multiline": str(is_multiline)}), Columns(is_open=True))
    assert caught.value.code == "E807"


def test_small_packed_files_are_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a":1}\n{"b":2}\n'))
    assert columns_of(str(path), ReadOptions()) == (["a", "b"], [])


def long_line(path: Path, head: bytes, byte: bytes = b"x") -> str:
    with gzip.open(path, "wb", 1) as file:
        file.write(head + b"\n")
        for _ in range(24):
            file.write(byte * MIB)
        file.write(b"\n")
    return str(path)


PLACE = Place("a.dpl", 1, 1)
COLUMNS = Columns((Column("a", PLACE), Column("b", PLACE)))


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16LE"])
def test_lines_of_csv_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    """A runner reads small packed files to check their quotes, and a worker reads all files in some encodings."""
    monkeypatch.setattr(encodings, "MOST_OF_A_LINE", 2 * MIB)
    path = long_line(tmp_path / "a.csv.gz", "a,b".encode(encoding))
    reading = parse_read_options({"encoding": encoding})
    if encoding == "UTF-8":
        with pytest.raises(WaterclockError, match="cannot read") as caught:
            read_by_record(cast("Any", None), reading, [path])
        assert "a line of 2097152 characters or more" in str(caught.value.why)
        assert caught.value.where == path
    with pytest.raises(EOFError, match="a line of 2097152 characters or more"), open(path, "rb") as file:  # noqa: PTH123
        list(reader_of(reading, ",", "gz")(file))
    assert tracemalloc.get_traced_memory()[1] < 20 * MIB


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("name", "head", "options"),
    [
        ("a.csv.gz", b"a,b", {}),
        ("a.txt.gz", b"12", {"positions": "a 1-1, b 2-2"}),
        ("a.xml.gz", b"<a><r>", {"rows": "r"}),
    ],
)
def test_a_broken_row_is_located_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, head: bytes, options: dict[str, str]
) -> None:
    """The runner itself reads a file again that Spark could not read."""
    monkeypatch.setattr(encodings, "MOST_OF_A_LINE", 2 * MIB)
    monkeypatch.setattr(xml_documents, "MOST_OF_A_LINE", 2 * MIB)
    path = long_line(tmp_path / name, head + (b"<b c='" if "xml" in name else b""))
    error = explain(
        RuntimeError(f"[PATH_NOT_FOUND] Path does not exist: file:{path}. "), parse_read_options(options), COLUMNS
    )
    assert error is not None
    assert name in error.what
    assert "more" in str(error.why)
    assert tracemalloc.get_traced_memory()[1] < 20 * MIB
