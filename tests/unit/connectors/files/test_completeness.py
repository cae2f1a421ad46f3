from __future__ import annotations

import bz2
import gzip
import io
import signal
from pathlib import Path
from time import process_time

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waterclock.connectors.files import completeness
from waterclock.connectors.files.completeness import problem_of

TEXT = "".join(f'{{"id": {at * 7919 % 1000}}}\n' for at in range(300)).encode()


def problem(path: Path, ending: str, compression: str = "") -> str | None:
    stat = path.stat()
    found = problem_of(str(path), stat.st_size, stat.st_mtime_ns, (ending, compression))
    return found[0] if found else None


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
@pytest.mark.parametrize("share", [0.3, 0.9, 0.99])
def test_a_compressed_file_that_was_cut_is_half_written(tmp_path: Path, compress: object, share: float) -> None:
    whole = gzip.compress(TEXT) if compress is gzip.compress else bz2.compress(TEXT)
    compression = "gz" if compress is gzip.compress else "bz2"
    path = tmp_path / "a"
    path.write_bytes(whole)
    assert problem(path, "csv", compression) is None
    path.write_bytes(whole[: int(len(whole) * share)])
    assert problem(path, "csv", compression) == "half-written"


@pytest.mark.parametrize("compression", ["gz", "bz2"])
def test_a_file_that_unpacks_to_very_much_is_read_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    path = tmp_path / "a"
    one = (gzip if compression == "gz" else bz2).compress(bytes(3 << 20))
    path.write_bytes(one * 3 + one[:-4])
    assert problem(path, "csv", compression) == "half-written"
    problem_of.cache_clear()
    monkeypatch.setitem(completeness._MOST_UNPACKED, compression, 4 << 20)
    assert problem(path, "csv", compression) is None  # the end is not checked, as for larger files
    path.write_bytes(one + one[:-4])
    monkeypatch.setitem(completeness._MOST_UNPACKED, compression, 8 << 20)
    assert problem(path, "csv", compression) == "half-written"


def test_a_gzip_file_of_several_members_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(TEXT) + gzip.compress(TEXT))
    assert problem(path, "json", "gz") is None


def test_a_damaged_gzip_file_is_damaged(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(TEXT))
    whole[len(whole) // 2] ^= 0xFF
    path = tmp_path / "a"
    path.write_bytes(whole)
    assert problem(path, "csv", "gz") in ("damaged", "half-written")


def test_a_gz_file_without_gzip_content_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(TEXT)
    assert problem(path, "csv", "gz") == "damaged"


@pytest.mark.parametrize(("ending", "compression"), [("csv", ""), ("csv", "gz"), ("parquet", ""), ("json", "zst")])
def test_an_empty_file_is_half_written(tmp_path: Path, ending: str, compression: str) -> None:
    path = tmp_path / "a"
    path.touch()
    assert problem(path, ending, compression) == "half-written"


def test_a_compressed_nothing_is_half_written(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(b""))
    assert problem(path, "csv", "gz") == "half-written"


@pytest.mark.parametrize("cut", [1, 4, 8, 40])
def test_a_parquet_file_without_its_footer_is_half_written(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a"
    pq.write_table(pa.table({"id": [1, 2]}), path)
    assert problem(path, "parquet") is None
    path.write_bytes(path.read_bytes()[:-cut])
    assert problem(path, "parquet") == "half-written"


def test_a_json_file_that_ends_within_an_object_is_half_written(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(TEXT)
    assert problem(path, "json") is None
    path.write_bytes(TEXT[:-4])
    assert problem(path, "json") == "half-written"
    path.write_bytes(gzip.compress(TEXT[:-4]))
    assert problem(path, "json", "gz") == "half-written"


def test_an_avro_file_ends_with_the_mark_of_its_head(tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "string", "doc": "x" * 300}]
    for records in ([], [{"id": f"{at}"} for at in range(5)]):
        content = io.BytesIO()
        fastavro.writer(content, {"type": "record", "name": "r", "fields": fields}, records)
        whole = content.getvalue()
        path = tmp_path / f"{len(records)}.avro"
        path.write_bytes(whole)
        assert problem_of(str(path), len(whole), "whole", ("avro", "")) is None
    path.write_bytes(whole[:-1])
    cut = problem_of(str(path), len(whole) - 1, "cut", ("avro", ""))
    assert cut == ("half-written", "it ends within a block")
    path.write_bytes(whole[:100])
    assert problem_of(str(path), 100, "head", ("avro", "")) == ("half-written", "it ends within its header")
    path.write_bytes(b"id\n1\n")
    assert problem_of(str(path), 5, "csv", ("avro", "")) == ("damaged", "it is not an Avro file")


MANY, NEGATIVE, END = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x01", b"\0" + b"S" * 16


@pytest.mark.parametrize(
    ("header", "found"),
    [
        pytest.param(MANY + NEGATIVE + b"xx", ("damaged", "it has a length of -1"), id="a negative length"),
        pytest.param(b"\2" + b"\2a" + MANY + END, ("half-written", "within its header"), id="a length beyond the file"),
        pytest.param(MANY, ("half-written", "within its header"), id="more entries than bytes"),
        pytest.param(MANY + bytes(1 << 19), ("half-written", "within its header"), id="many empty entries"),
        pytest.param(b"\x80" * 500_000, ("damaged", "more than 10 bytes"), id="a number of many bytes"),
        pytest.param(b"\2\2a\2b" + b"\x80" * 10, ("damaged", "more than 10 bytes"), id="a count of many bytes"),
        pytest.param(b"\1" * 500_000, ("damaged", "it has a length of -1"), id="a part with its length"),
        pytest.param(b"\1\4\2a\2b" + END, None, id="a part with its length, and the end"),
        pytest.param(b"\1\4\2a\2b\2\2c\2d" + END, None, id="two parts"),
    ],
)
def test_a_broken_header_of_avro_is_found_in_linear_time(
    tmp_path: Path, header: bytes, found: tuple[str, str] | None
) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(b"Obj\x01" + header)
    signal.setitimer(signal.ITIMER_REAL, 20)  # its signal ends an endless loop
    begun = process_time()
    told = problem_of(str(path), path.stat().st_size, "broken", ("avro", ""))
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert process_time() - begun < 5
    assert told is None if found is None else told is not None and told[0] == found[0] and found[1] in told[1]


@pytest.mark.parametrize(("text", "is_whole"), [("<r>\n</r>\n", True), ("<r><a", False)])
def test_xml_ends_with_its_last_element(tmp_path: Path, text: str, is_whole: bool) -> None:
    path = tmp_path / "a.xml"
    path.write_text(text)
    assert (problem_of(str(path), len(text), text, ("xml", "")) is None) == is_whole
