"""A small packed file is not unpacked into memory to look for its columns."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from waterclock.connectors.files import file_schemas
from waterclock.connectors.files.reading_options import ReadOptions, parse_read_options
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns

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
