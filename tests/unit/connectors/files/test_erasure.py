"""Rows of erased persons are removed from archived files without other changes, compared with files without them."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.systems import setting_of, unit_of
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.interface import ChangeScanRequest, Mark
from waterclock.connectors.original_erasure import OriginalEraser, OriginalErasure, Subjects
from waterclock.faults import inject_faults
from waterclock.flow.declarations import Column, Columns, Place, Value
from waterclock.timelabel.window import Window

HERE = Place("flows/test.dpl", 1, 1)
QUICK = settings(max_examples=150, deadline=None)


def columns_of(**types: str | None) -> Columns:
    return Columns(tuple(Column(name, HERE, type=kind) for name, kind in types.items()))


def archived(folder: Path, name: str, content: bytes) -> Path:
    path = folder / "storage" / "archive" / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def collector_of(folder: Path) -> FilesCollector:
    (folder / "landing").mkdir(exist_ok=True)
    return FilesCollector(setting_of("landing", folder, path="landing"))


def erase(
    folder: Path,
    pattern: str,
    persons: Sequence[str],
    columns: Columns | None = None,
    subject: str = "id",
    kind: str | None = "BIGINT",
    *,
    is_dry_run: bool = False,
    **options: Value,
) -> list[OriginalErasure]:
    collector = collector_of(folder)
    assert isinstance(collector, OriginalEraser)
    subjects = Subjects({subject: kind}, frozenset(persons).__contains__)
    unit = unit_of("landing", pattern, **options)
    return list(
        collector.erase_originals(unit, columns or columns_of(**{subject: kind}), subjects, is_dry_run=is_dry_run)
    )


def erase_one(folder: Path, name: str, content: bytes, persons: Sequence[str], **how: Any) -> bytes:
    """Erase persons from one file, and return its content.

    A dry run before it must find the same rows, and a second run none.
    """
    path = archived(folder, name, content)
    counted = erase(folder, f"*{''.join(path.suffixes)}", persons, is_dry_run=True, **how)
    assert path.read_bytes() == content
    done = erase(folder, f"*{''.join(path.suffixes)}", persons, **how)
    assert done == counted
    assert [one.problem for one in done] == [""]
    again = erase(folder, f"*{''.join(path.suffixes)}", persons, **how)
    assert [one.removed for one in again] == [0]
    assert again[0].rows == done[0].rows - done[0].removed
    return path.read_bytes()


# ---- CSV


@pytest.mark.parametrize(
    ("content", "remaining", "options"),
    [
        ("id,v\n42,a\n1,b\n", "id,v\n1,b\n", {}),
        ("id,v\r\n1,b\r\n042,a", "id,v\r\n1,b\r\n", {}),
        ("\n\nid,v\n\n+42,a\n\n1,b\n\n", "\n\nid,v\n\n\n1,b\n\n", {}),
        ('id,v\n"42","a\nb"\n1,"42\n42,x"\n', 'id,v\n1,"42\n42,x"\n', {}),
        ("v;ID\na;42\nb;4200\n", "v;ID\nb;4200\n", {"delimiter": ";"}),
        ("42,a\n1,b\n", "1,b\n", {"header": False}),
        ("v,id\n'it''s, 42',42\n'42,',1\n", "v,id\n'42,',1\n", {"quote": "'"}),
        ('v,id\n"a\\",",42\n"b\\"",42\n"42",1\n', 'v,id\n"42",1\n', {"escape": "\\"}),
        ("id,v\n1.042,a\n42,b\n42.000,c\n", "id,v\n42,b\n42.000,c\n", {"decimal": ",", "thousands": "."}),
        ("\ufeffid,v\n42,a\n1,b\n", "\ufeffid,v\n1,b\n", {}),
        ("id,v\n42,a\n", "id,v\n", {}),
    ],
)
def test_a_persons_rows_leave_a_csv_file(
    tmp_path: Path, content: str, remaining: str, options: dict[str, Value]
) -> None:
    persons = ["1042"] if "thousands" in options else ["42"]
    assert erase_one(tmp_path, "a.csv", content.encode(), persons, **options) == remaining.encode()


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "utf-32", "windows-1252", "ISO-8859-1", "shift_jis"])
def test_an_encoding_and_its_mark_are_kept(tmp_path: Path, encoding: str) -> None:
    text = "id;v\r\n42;ten\r\n1;42\r\n"
    mark = {"UTF-16": "utf-16", "utf-32": "utf-32"}.get(encoding, encoding)
    found = erase_one(tmp_path, "a.csv", text.encode(mark), ["42"], encoding=encoding, delimiter=";")
    assert found == "id;v\r\n1;42\r\n".encode(mark)


def test_invalid_bytes_of_other_rows_stay(tmp_path: Path) -> None:
    content = b"id,v\n1,\xff\xfe\x00x\n42,\xff\n2,\xc3\n"
    assert erase_one(tmp_path, "a.csv", content, ["42"]) == b"id,v\n1,\xff\xfe\x00x\n2,\xc3\n"


def test_a_text_is_compared_as_it_is_and_a_number_by_its_value(tmp_path: Path) -> None:
    content = b"id,v\n042,a\n42,b\n"
    assert erase_one(tmp_path, "a.csv", content, ["42"], kind="STRING") == b"id,v\n042,a\n"
    assert erase_one(tmp_path, "b.tsv", b"id\tv\n042\ta\n42\tb\n", ["42"]) == b"id\tv\n"


@pytest.mark.parametrize(
    ("row", "counts"),
    [
        ('42,"open', (1, 0)),
        ('"42,open', (0, 1)),
        ('"42"x,b', (0, 0)),
        ("42", (1, 0)),
        ("1", (0, 1)),
        ("42,b,c", (1, 0)),
        ("b,42,c", (0, 1)),
        ('x"42",b', (0, 0)),
    ],
)
def test_broken_rows_are_counted_unless_they_show_the_value(tmp_path: Path, row: str, counts: tuple[int, int]) -> None:
    content = f"id,v\n1,a\n{row}\n2,b\n".encode()
    path = archived(tmp_path, "a.csv", content)
    done = erase(tmp_path, "*.csv", ["42"])
    assert path.read_bytes() == (b"id,v\n1,a\n2,b\n" if counts[0] else content)
    assert [(one.removed, one.unread) for one in done] == [counts]


FIELDS = st.one_of(st.sampled_from(["42", "7", "042", "", " 42", "x"]), st.text('a",;\n\r\\ é42', max_size=6))


@QUICK
@given(st.data())
def test_other_rows_of_any_csv_stay_to_the_byte(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    delimiter = data.draw(st.sampled_from(",;|\t"))
    rows = data.draw(st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=8))
    quoting: Any = data.draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    persons = data.draw(st.sets(st.sampled_from(["42", "7", "042", " 42", "x"])))
    compression = data.draw(st.sampled_from(["", ".gz", ".bz2", ".zst"]))

    def written(*row: str) -> str:
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator=end).writerow(row)
        # a carriage return alone is a line end for Spark, but the module does not quote it
        return out.getvalue()

    parts = [(row, written(*row)) for row in rows]
    parts = [(row, text) for row, text in parts if text.strip() and (quoting != csv.QUOTE_MINIMAL or "\r" not in text)]
    content = written("a", "id", "b") + "".join(text for _, text in parts)
    remaining = written("a", "id", "b") + "".join(text for row, text in parts if row[1] not in persons)
    folder = tmp_path_factory.mktemp("csv")
    made = compress(content.encode(), compression)
    found = erase_one(folder, f"a.csv{compression}", made, list(persons), kind="STRING", delimiter=delimiter)
    assert unpack(found, compression) == remaining.encode()


def compress(content: bytes, compression: str) -> bytes:
    if compression == ".zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as file:
            file.write(content)
        return bytes(sink.getvalue())
    pack: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
    return pack[compression](content)


def unpack(content: bytes, compression: str) -> bytes:
    if compression == ".zst":
        return bytes(pa.input_stream(pa.py_buffer(content), compression="zstd").read())
    open_up: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.decompress, ".bz2": bz2.decompress}
    return open_up[compression](content)


# ---- JSON


@pytest.mark.parametrize(
    ("content", "remaining", "options"),
    [
        ('{"id": 42, "v": 1}\n{"v":  2, "id":1}\n', '{"v":  2, "id":1}\n', {}),
        ('{"id": "42"}\n\n{"id": 420}', '\n{"id": 420}', {}),
        ('{"v": {"id": 42}, "id": 1}\n', '{"v": {"id": 42}, "id": 1}\n', {}),
        ('[{"id": 42}, {"id": 1}]\n[{"id": 42}]\n', '[{"id": 1}]\n', {}),
        ('{"id": 1, "id": 42}\n{"ID": 42}\n', "", {}),
        ("{'id': 42, 'v': 'x'}\n{'id': 1}\n", "{'id': 1}\n", {}),
        ('{"id": 42, "v": "cut\n{"id": 1}\n', '{"id": 1}\n', {}),
        ('[\n {"id": 42},\n {"id": 1},\n {"id": 42}\n]\n', '[\n {"id": 1}\n]\n', {"multiline": True}),
        ('[{"id": 1}, {"id": 42} , {"id": 42}]', '[{"id": 1}]', {"multiline": True}),
        ('[{"id": 42}, {"id": 42} , {"id":  2}]', '[{"id":  2}]', {"multiline": True}),
        ('{\n"id": 42}', "[]\n", {"multiline": True}),
        ('[{"id": 42}]', "[]\n", {"multiline": True}),
        (
            '{"at": 1, "data": {"items": [{"id": 42}, {"id":1.50}], "n": 2}}',
            '{"at": 1, "data": {"items": [{"id":1.50}], "n": 2}}',
            {"rows": "data.items"},
        ),
        ('{"data": {"id": 42}}\n{"data": {"id": 1}}', '{"data": null}\n{"data": {"id": 1}}', {"rows": "data"}),
        (
            '[{"o": [{"c": 42, "lines": [{"n": 1}]}, {"c": 1, "lines": [{"n": 2}]}]}]',
            '[{"o": [{"c": 1, "lines": [{"n": 2}]}]}]',
            {"rows": "o.lines", "outer": "o.c AS id", "multiline": True},
        ),
        ('{"c": 42, "lines": [{"n": 1}]}\n{"c": 1, "lines": []}\n', '{"c": 1, "lines": []}\n',
         {"rows": "lines", "outer": "c AS id"}),
    ],
)  # fmt: skip
def test_a_persons_records_leave_a_json_file(
    tmp_path: Path, content: str, remaining: str, options: dict[str, Value]
) -> None:
    assert erase_one(tmp_path, "a.json", content.encode(), ["42"], **options) == remaining.encode()


def test_a_line_that_is_no_json_is_counted(tmp_path: Path) -> None:
    archived(tmp_path, "a.jsonl", b'{"id": 1}\nnot json\n' + b"[" * 2000 + b"\n")
    assert [(one.rows, one.unread) for one in erase(tmp_path, "*.jsonl", ["42"])] == [(3, 2)]


SCALARS = st.one_of(st.integers(-50, 50), st.text('ab"\\ é\n4', max_size=4), st.none(), st.booleans())
RECORDS = st.fixed_dictionaries(
    {"id": st.one_of(st.integers(40, 44), st.sampled_from(["42", "x", None]))},
    optional={"v": st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.sampled_from("ab"), SCALARS))},
)


@QUICK
@given(st.lists(RECORDS, max_size=6), st.sampled_from([None, 1]), st.booleans(), st.sampled_from(["lines", "list"]))
def test_other_records_of_any_json_stay_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, records: list[Any], indent: int | None, ascii_only: bool, form: str
) -> None:  # fmt: skip
    def text_of(record: Any) -> str:
        return json.dumps(record, indent=indent if form == "list" else None, ensure_ascii=ascii_only)

    kept = [record for record in records if str(record["id"]) not in ("42", "44")]
    folder = tmp_path_factory.mktemp("json")
    if form == "lines":
        content = "".join(f"{text_of(record)}\n" for record in records)
        found = erase_one(folder, "a.json", content.encode(), ["42", "44"])
        assert found.decode() == "".join(f"{text_of(record)}\n" for record in kept)
        return
    content = "[" + " ,\n".join(map(text_of, records)) + "]"
    found = erase_one(folder, "a.json", content.encode(), ["42", "44"], multiline=True)
    assert json.loads(found) == kept
    assert all(text_of(record).encode() in found for record in kept)


# ---- fixed width


def test_a_persons_lines_leave_a_file_of_fixed_width(tmp_path: Path) -> None:
    content = "  42é\r\n   1 42\r\n\r\n042 x\r\n".encode()
    assert erase_one(tmp_path, "a.txt", content, ["42"], positions="id 1-4, v 5-") == b"   1 42\r\n\r\n"


# ---- Parquet


def parquet_of(table: pa.Table, **how: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **how)
    return bytes(sink.getvalue())


TABLE = pa.table(
    {
        "id": pa.array([42, 1, None, 42, 7, 42], pa.int32()),
        "name": pa.array(["anna-secret", "b", "c", "anna-secret", "d", None]).dictionary_encode(),
        "list": pa.array([[1], [], None, [None, 2], [3], [4]], pa.list_(pa.int64())),
        "deep": pa.array([{"a": "x"}] * 6, pa.struct([("a", pa.string())])),
        "at": pa.array([datetime(2020, 1, 1, tzinfo=UTC)] * 6, pa.timestamp("us", "UTC")),
        "d": pa.array([1] * 6, pa.decimal128(10, 2)),
    }
).replace_schema_metadata({"origin": "a test"})


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "none", "lz4"])
@pytest.mark.parametrize("how", [{}, {"version": "1.0"}, {"use_compliant_nested_type": False}, {"store_schema": False}])
def test_a_persons_rows_leave_a_parquet_file(tmp_path: Path, codec: str, how: dict[str, Any]) -> None:
    content = parquet_of(TABLE, compression=codec, row_group_size=2, write_page_index=True, **how)
    before = pq.ParquetFile(pa.BufferReader(content))
    found = erase_one(tmp_path, "a.parquet", content, ["42"])
    after = pq.ParquetFile(pa.BufferReader(found))
    assert after.schema.equals(before.schema)
    assert after.schema_arrow.equals(before.schema_arrow, check_metadata=True)
    assert [after.metadata.row_group(at).num_rows for at in range(after.num_row_groups)] == [1, 1, 1]
    kept = [row for row in before.read().to_pylist() if row["id"] != 42]
    assert after.read().to_pylist() == kept
    groups = [after.metadata.row_group(at) for at in range(3)]
    assert {group.column(0).compression for group in groups} == {before.metadata.row_group(0).column(0).compression}
    assert groups[2].column(0).statistics.max == 7
    assert all(b"anna-secret" not in text for text in _texts_of(found))


def _texts_of(content: bytes) -> Iterator[bytes]:
    """Yield the file, and each dictionary entry or text value of its columns, including unused ones."""
    yield content
    file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=["name"])
    for chunk in file.read().column("name").chunks:
        yield from (str(value).encode() for value in chunk.dictionary.to_pylist())


def test_times_of_96_bits_stay(tmp_path: Path) -> None:
    times = [datetime(1, 1, 2, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]
    table = pa.table({"id": ["42", "1", "2"], "at": pa.array(times, pa.timestamp("us", "UTC"))})
    content = parquet_of(table, use_deprecated_int96_timestamps=True)
    found = erase_one(tmp_path, "a.parquet", content, ["42"], kind="STRING")
    after = pq.ParquetFile(pa.BufferReader(found), coerce_int96_timestamp_unit="us")
    assert after.schema.column(1).physical_type == "INT96"
    assert [each["at"].replace(tzinfo=UTC) for each in after.read().to_pylist()] == times[1:]


def test_a_parquet_file_of_erased_persons_only_keeps_its_schema(tmp_path: Path) -> None:
    content = parquet_of(TABLE.filter(pa.compute.equal(TABLE["id"], 42)))
    after = pq.ParquetFile(pa.BufferReader(erase_one(tmp_path, "a.parquet", content, ["42"])))
    assert after.metadata.num_rows == 0
    assert after.schema_arrow.names == TABLE.schema.names


# ---- files


def test_the_landing_file_of_a_hard_link_stays_and_mode_and_time_are_kept(tmp_path: Path) -> None:
    path = archived(tmp_path, "a.csv", b"id\n42\n1\n")
    landed = tmp_path / "landed.csv"
    os.link(path, landed)
    path.chmod(0o640)
    os.utime(path, ns=(10**18, 10**18 + 1))
    erase(tmp_path, "*.csv", ["42"])
    assert landed.read_bytes() == b"id\n42\n1\n"
    assert (path.read_bytes(), path.stat().st_nlink) == (b"id\n1\n", 1)
    assert (path.stat().st_mode & 0o777, path.stat().st_mtime_ns) == (0o640, 10**18 + 1)


def test_a_rewritten_file_is_known_by_its_size_at_the_collect(tmp_path: Path) -> None:
    path = archived(tmp_path, "a.csv", b"id,v\n42,first\n43,x\n1,y\n")
    erase(tmp_path, "*.csv", ["42"])
    erase(tmp_path, "*.csv", ["43"])
    (item,) = collector_of(tmp_path).find(unit_of("landing", "*.csv"), ["a.csv"])
    assert item.size == path.stat().st_size
    assert item.earlier_sizes == frozenset({23, 14})
    path.write_bytes(b"id,v\n")
    (item,) = collector_of(tmp_path).find(unit_of("landing", "*.csv"), ["a.csv"])
    assert item.earlier_sizes == frozenset()


@pytest.mark.parametrize("point", ["erase.written", "erase.replaced"])
def test_a_killed_erasure_leaves_the_old_or_the_new_file(tmp_path: Path, point: str) -> None:
    old, new = b"id\n42\n1\n", b"id\n1\n"
    path = archived(tmp_path, "a.csv", old)

    def strike(at: str) -> None:
        if at == point:
            raise KeyboardInterrupt

    with inject_faults(strike), pytest.raises(KeyboardInterrupt):
        erase(tmp_path, "*.csv", ["42"])
    assert path.read_bytes() == (old if point == "erase.written" else new)
    (item,) = collector_of(tmp_path).find(unit_of("landing", "*.csv"), ["a.csv"])
    assert len(old) in {item.size, *item.earlier_sizes}
    erase(tmp_path, "*.csv", ["42"])
    assert path.read_bytes() == new


def test_temporary_files_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f".a.csv.{'0' * 32}.part"
    path = archived(tmp_path, name, b"id\n42\n")
    found = erase(tmp_path, "*.csv", ["42"])
    assert [(one.path, bool(one.problem)) for one in found] == [(str(path), True)]
    monkeypatch.setattr("waterclock.connectors.files.erasure._STALE_SECONDS", -1)
    assert erase(tmp_path, "*.csv", ["42"]) == []
    assert not path.exists()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _break(path: Path) -> None:
    path.write_bytes(b"\x1f\x8b" + bytes(40))


def _link(path: Path) -> None:
    other = path.parent / ".other"
    path.rename(other)
    path.symlink_to(other)


@pytest.mark.parametrize("harm", [_cut, _break, _link])
@pytest.mark.parametrize("name", ["a.csv.gz", "a.json.gz"])
def test_a_file_that_cannot_be_read_is_reported_and_stays(
    tmp_path: Path, harm: Callable[[Path], None], name: str
) -> None:
    lines = "".join(f'{{"id": {at % 50}}}\n' for at in range(9999)).encode()
    path = archived(tmp_path, name, gzip.compress(b"id\n42\n" * 9999 if "csv" in name else lines))
    harm(path)
    before = path.read_bytes()
    (found,) = erase(tmp_path, f"*{name[1:]}", ["42"])
    assert found.problem
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir() if each.name != ".other"] == [name]


@pytest.mark.parametrize("name", ["a.xml", "a.xlsx", "a.avro", "a.zip"])
def test_other_formats_are_reported(tmp_path: Path, name: str) -> None:
    archived(tmp_path, name, b"<a/>")
    (found,) = erase(tmp_path, f"*{name[1:]}", ["42"], rows="a")
    assert found.problem == f"a {name[1:]} file cannot be rewritten"


def test_a_line_that_is_too_long_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.connectors.files.encodings.MOST_OF_A_LINE", 100)
    path = archived(tmp_path, "a.csv", b"id,v\n42,x\n1," + b"x" * 200 + b"\n")
    (found,) = erase(tmp_path, "*.csv", ["42"])
    assert "line of 100 characters" in found.problem
    assert path.stat().st_size > 200


def test_ten_thousand_persons_leave_in_one_pass(tmp_path: Path) -> None:
    chance = random.Random(3)
    rows = [chance.randrange(100_000) for _ in range(50_000)]
    persons = {str(each) for each in range(0, 100_000, 10)}
    content = "id,v\n" + "".join(f"{row},{at}\n" for at, row in enumerate(rows))
    expected = "id,v\n" + "".join(f"{row},{at}\n" for at, row in enumerate(rows) if str(row) not in persons)
    assert erase_one(tmp_path, "a.csv.gz", gzip.compress(content.encode()), list(persons))
    path = tmp_path / "storage" / "archive" / "landing" / "a.csv.gz"
    assert gzip.decompress(path.read_bytes()).decode() == expected


def test_supplier_files_in_folders_of_dates(tmp_path: Path) -> None:
    path = archived(tmp_path, "shop/orders/2020/01/shop_orders_2020_01_02_03_04_05.csv", b"id\n42\n1\n")
    erase(tmp_path, "shop.orders", ["42"])
    assert path.read_bytes() == b"id\n1\n"


def test_a_rewritten_file_has_not_changed_for_a_lookback(tmp_path: Path) -> None:
    archived(tmp_path, "a_20130101120000.csv", b"id,at\n42,2013-01-01\n1,2013-01-01\n")
    collector, unit = collector_of(tmp_path), unit_of("landing", "*.csv")
    day = datetime(2013, 1, 1, tzinfo=UTC)
    window = Window(day, day + timedelta(days=1))
    spark: Any = None  # no file is new, so none is read

    def scan(marks: dict[datetime, Mark]) -> Mark:
        request = ChangeScanRequest("at", None, [window], marks)
        found = collector.scan_changes(spark, unit, request, columns_of(id="BIGINT", at="TIMESTAMP"), "UTC")
        assert found.changed == {}
        return Mark(found.of_all)

    before = scan({})
    erase(tmp_path, "*.csv", ["42"])
    after = scan({day: before})
    assert after != before
    scan({day: after})
