"""A value planted anywhere in a storage is found, and a storage without it has no hit."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.storage.search import byte_search
from waterclock.storage.search.byte_search import SearchResult, search_bytes

PERSON, NUMBER = "anna.secret@example.com", "42"
Plant = Callable[[Path, str], None]


def search(folder: Path, *values: str, **how: Any) -> SearchResult:
    return search_bytes([folder], values or (PERSON,), columns=["customer_id"], **how)


def write_parquet(path: Path, table: pa.Table, **how: Any) -> None:
    pq.write_table(table, path, **how)


def _text(path: Path, value: str) -> None:
    path.write_text(f"failed for {value}: no such row\n")


def _gzip(path: Path, value: str) -> None:
    path.write_bytes(gzip.compress(b"x" * 5_000_000 + value.encode()) + gzip.compress(b"y"))


def _bzip(path: Path, value: str) -> None:
    path.write_bytes(bz2.compress(value.encode()))


def _zstd(path: Path, value: str) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(b"x" * 5_000_000 + value.encode())


def _zip(path: Path, value: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/sharedStrings.xml", f"<t>{value}</t>" + "x" * 1000)


def _delta_statistics(path: Path, value: str) -> None:
    stats = json.dumps({"numRecords": 1, "minValues": {"email": value}})
    path.write_text(json.dumps({"add": {"path": "x.parquet", "stats": stats}}) + "\n")


def _partition(path: Path, value: str) -> None:
    path.mkdir()
    (path / f"email={value.replace('@', '%40')}").write_bytes(b"")


def _utf_16(path: Path, value: str) -> None:
    path.write_bytes(f"a;{value};b".encode("utf-16"))


def _parquet(codec: str, **how: Any) -> Plant:
    def plant(path: Path, value: str) -> None:
        texts = [f"user{at}@example.org" for at in range(3000)]
        texts[1234] = value
        write_parquet(path, pa.table({"email": texts, "n": range(3000)}), compression=codec, **how)

    return plant


def _nested(path: Path, value: str) -> None:
    deep = pa.array(
        [{"list": [{"a": "x"}, {"a": value}]}], pa.struct([("list", pa.list_(pa.struct([("a", pa.string())])))])
    )
    maps = pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string()))
    write_parquet(path, pa.table({"deep": deep, "map": maps}), compression="zstd")


def _binary(path: Path, value: str) -> None:
    write_parquet(path, pa.table({"raw": [value.encode() + b"\xff"]}), compression="zstd", write_statistics=False)


def _unused_dictionary(path: Path, value: str) -> None:
    whole = pa.array(["x", value]).dictionary_encode()
    kept = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), whole.dictionary)
    write_parquet(path, pa.table({"email": kept}), compression="zstd", write_statistics=False)


def _metadata(path: Path, value: str) -> None:
    write_parquet(path, pa.table({"a": [1]}).replace_schema_metadata({"made for": value}))


def _ledger(path: Path, value: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE runs (id INTEGER, error TEXT)")
        database.execute("INSERT INTO runs VALUES (1, ?)", [f"E712 {'x' * 20_000} {value} {'y' * 20_000}"])


def _free_pages(path: Path, value: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA secure_delete = OFF")
        database.execute("CREATE TABLE runs (id INTEGER, error TEXT)")
        database.executemany("INSERT INTO runs VALUES (?, ?)", [(at, f"{value} {at}") for at in range(500)])
        database.execute("DELETE FROM runs")
        database.commit()


def _write_ahead_log(path: Path, value: str) -> None:
    other = path.with_name("other.db")
    with closing(sqlite3.connect(other)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE runs (error TEXT)")
        database.execute("INSERT INTO runs VALUES (?)", [value])
        database.commit()
        for ending in ("", "-wal"):
            path.with_name(f"{path.name}{ending}").write_bytes(other.with_name(f"{other.name}{ending}").read_bytes())
    for each in path.parent.glob("other.db*"):
        each.unlink()


PLACES: list[Plant] = [
    _text, _gzip, _bzip, _zstd, _zip, _delta_statistics, _utf_16, _nested, _binary, _unused_dictionary, _metadata,
    _ledger, _free_pages, _write_ahead_log,
    *(_parquet(codec) for codec in ("snappy", "zstd", "gzip", "none", "brotli", "lz4")),
    _parquet("zstd", use_dictionary=False, column_encoding={"email": "DELTA_BYTE_ARRAY"}, write_statistics=False),
    _parquet("zstd", use_dictionary=False, column_encoding={"email": "DELTA_LENGTH_BYTE_ARRAY"}),
    _parquet("snappy", data_page_version="2.0", data_page_size=1000, row_group_size=700),
]  # fmt: skip


@pytest.mark.parametrize("plant", PLACES)
def test_a_value_is_found_wherever_it_is(tmp_path: Path, plant: Plant) -> None:
    plant(tmp_path / "clean", "another.secret@example.com")
    clean = search(tmp_path)
    assert (clean.hits, clean.possible, clean.unsearched) == ((), (), ())
    assert clean.files >= 1
    plant(tmp_path / "planted", PERSON)
    result = search(tmp_path)
    assert {Path(hit.path).name.removesuffix("-wal") for hit in result.hits} == {"planted"}
    assert result.unsearched == ()
    assert all(PERSON not in hit.where for hit in result.hits)


def test_names_of_files_and_folders_are_searched(tmp_path: Path) -> None:
    (tmp_path / f"email={PERSON}").mkdir()
    (tmp_path / f"email={PERSON}" / "x").write_bytes(b"")
    assert [hit.where for hit in search(tmp_path).hits] == ["its name"]


# ---- numbers


def test_a_number_counts_only_in_a_column_of_persons(tmp_path: Path) -> None:
    kinds = [pa.int8(), pa.int32(), pa.uint64(), pa.decimal128(20, 0)]
    for at, kind in enumerate(kinds):
        numbers = [1, 42, 24]
        ids = pa.array(map(Decimal, numbers) if pa.types.is_decimal(kind) else numbers, kind)
        times = [datetime(2042, 1, 1, tzinfo=UTC)] * len(ids)
        write_parquet(tmp_path / f"hit{at}.parquet", pa.table({"CUSTOMER_ID": ids}))
        write_parquet(tmp_path / f"other{at}.parquet", pa.table({"quantity": ids, "at": times}))
        write_parquet(tmp_path / f"text{at}.parquet", pa.table({"customer_id": ["41", "42", "4 2"]}))
    result = search(tmp_path, NUMBER)
    names = {Path(hit.path).name for hit in result.hits}
    assert names == {f"{name}{at}.parquet" for at in range(len(kinds)) for name in ("hit", "text")}
    assert result.possible == ()


def test_a_value_that_many_rows_repeat_is_counted_in_each(tmp_path: Path) -> None:
    texts = pa.array(["by ada-lovelace, 1815", None, "x", "by 1815 and ada-lovelace"] * 500)
    write_parquet(tmp_path / "a.parquet", pa.table({"note": texts}), use_dictionary=False)
    found = search(tmp_path, "ada-lovelace", "1815")
    assert {(hit.where, hit.count) for hit in found.hits} >= {("column note, row group 1", 1000)}
    assert [(hit.where, hit.count) for hit in found.possible] == [("column note, row group 1", 1000)]


@pytest.mark.parametrize(
    ("document", "hits", "possible"),
    [
        ({"customer_id": 42}, 1, 0),
        ({"rows": 42, "size": 4242}, 0, 0),
        ({"stats": json.dumps({"minValues": {"customer_id": 42, "n": 42}})}, 1, 0),
        ({"measures": {"max(customer_id)": 42, "max(n)": 42}}, 1, 0),
        # rows that a rule counts; its name may be that of a column
        ({"measures": {"first": {"KEY (customer_id)": 42}, "broken": {"customer_id > 0": 42}}}, 0, 0),
        ({"measures": {"inputs": {"raw.a": {"first": {"KEY (customer_id)": 42}}}}}, 0, 0),
        ({"measures": {"first": {"customer_id": "42"}}}, 1, 0),
        # rows whose value is NULL, and PROFILE
        ({"files": [{"nulls": {"customer_id": 42}, "lows": {"n": 42}}]}, 0, 0),
        ({"add": {"stats": json.dumps({"nullCount": {"customer_id": 42, "of": {"customer_id": 42}}})}}, 0, 0),
        ({"nulls": {"customer_id": 42}}, 1, 0),
        ({"measures": {"measured": {"customer_id.nulls": {"value": "42"}}}}, 0, 0),
        ({"measures": {"measured": {"customer_id.distinct": {"value": "42"}}}}, 0, 0),
        ({"measures": {"measured": {"customer_id.min": {"value": "42"}}}}, 1, 0),
        ({"first": {"customer_id": 42}}, 1, 0),
        ({"error": "customer 42 has no name"}, 0, 1),
        ({"customer_id": ["42", 7]}, 1, 0),
        ({"customer_id": 420, "at": "2042-04-20"}, 0, 0),
    ],
)
def test_a_number_in_json_is_decided_by_its_member(tmp_path: Path, document: Any, hits: int, possible: int) -> None:
    for name, text in (("a.json", json.dumps(document)), ("b.jsonl.gz", f"{{}}\n{json.dumps(document)}\n")):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    result = search(tmp_path, NUMBER)
    assert (len(result.hits), len(result.possible)) == (2 * hits, 2 * possible)


@pytest.mark.parametrize(
    ("row", "hits", "possible"),
    [("42,7,x", 1, 0), ("7,42,x", 0, 0), ('7,42,"of 42"', 0, 1), ("7,42", 0, 0), ('"42",42,"x\n42"', 1, 1)],
)
def test_a_number_in_a_csv_file_is_decided_by_its_column(tmp_path: Path, row: str, hits: int, possible: int) -> None:
    for delimiter in ",;\t|":
        text = f"Customer_ID,n,note\n1,1,a\n{row}\n".replace(",", delimiter)
        (tmp_path / f"{ord(delimiter)}.csv.gz").write_bytes(gzip.compress(text.encode()))
    result = search(tmp_path, NUMBER)
    assert (len(result.hits), len(result.possible)) == (4 * hits, 4 * possible)


def test_a_number_in_other_texts_is_only_possible(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("customer 42 failed\nport 4200, 1.42, x42\n")
    result = search(tmp_path, NUMBER)
    assert result.hits == ()
    assert [hit.where for hit in result.possible] == ["from byte 9"]


def test_a_number_in_a_database_is_decided_by_its_column(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database, database:
        database.execute("CREATE TABLE runs (id INTEGER, customer_id, note TEXT, measures TEXT)")
        database.execute(
            'INSERT INTO runs VALUES (42, 7, \'{"customer_id": 42}\', \'{"first": {"KEY (customer_id)": 42}}\')'
        )
        database.execute("INSERT INTO runs VALUES (42, 42, 'rows: 42', '{}')")
    result = search(tmp_path, NUMBER)
    assert {hit.where for hit in result.hits} == {"table runs, column customer_id", "member note.customer_id"}
    assert {hit.where for hit in result.possible} == {"table runs, column note"}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.text("abé4", max_size=9)), max_size=30),
    st.sets(st.text("abé4", min_size=1, max_size=9), min_size=1, max_size=4),
    st.sampled_from(["PLAIN", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY"]),
)
def test_whole_values_of_a_column_are_found(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], values: set[str], encoding: str
) -> None:
    folder = tmp_path_factory.mktemp("search")
    how: dict[str, Any] = {"use_dictionary": True} if encoding == "RLE_DICTIONARY" else {
        "use_dictionary": False, "column_encoding": {"customer_id": encoding}
    }  # fmt: skip
    table = pa.table({"customer_id": pa.array(texts, pa.string())})
    write_parquet(folder / "a", table, compression="zstd", row_group_size=7, **how)
    result = search(folder, *values)
    places = {hit.where for hit in result.hits if hit.where.startswith("column")}
    expected = {f"column customer_id, row group {at // 7 + 1}" for at, text in enumerate(texts) if text in values}
    long = {value for value in values if not value.isdecimal() and len(value) >= 6}
    inner = {
        f"column customer_id, row group {at // 7 + 1}"
        for at, text in enumerate(texts)
        if text and any(value in text for value in long)
    }
    assert places == expected | inner
    assert result.unsearched == ()


# ---- hostile files


def test_files_that_cannot_be_searched_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(PERSON.encode() + os.urandom(10_000))[:-100])
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(50_000_000)))
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + PERSON.encode() + b"PAR1")
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\0" + PERSON.encode())
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04" + PERSON.encode())
    (tmp_path / "a.avro").write_bytes(b"Obj\x01\x04\x14avro.codec\x0edeflate\x00")
    monkeypatch.setattr(byte_search, "MOST_UNPACKED", 20_000_000)
    result = search(tmp_path)
    names = {Path(path).name for path, _ in result.unsearched}
    assert names == {
        "cut.gz", "bomb.gz", "link", "folder", "pipe", "broken.parquet", "broken.db", "broken.zip", "a.avro"
    }  # fmt: skip
    # their readable parts are searched nevertheless
    assert {Path(hit.path).name for hit in result.hits} >= {"broken.parquet", "broken.db", "broken.zip"}


def test_a_damaged_page_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, pa.table({"a": ["x" * 1000, PERSON] * 100}), compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    at = content.index(b"\x28\xb5\x2f\xfd") + 9
    content[at : at + 20] = bytes(20)
    path.write_bytes(content)
    assert search(tmp_path).unsearched


def test_single_files(tmp_path: Path) -> None:
    _text(tmp_path / "a", PERSON)
    _text(tmp_path / "b", PERSON)
    assert [hit.path for hit in search_bytes([tmp_path / "b"], [PERSON]).hits] == [str(tmp_path / "b")]
    assert search(tmp_path, "").hits == ()


def test_hits_of_one_file_are_summed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"{PERSON}\n" * 1000)
    result = search(tmp_path)
    assert len(result.hits) == 21
    assert sum(hit.count for hit in result.hits) == 1000


@pytest.mark.parametrize("content", [b"a\rb 42 c", b'"a\n42', b"\x00 42\r\n", b"a,b\r42,1", b"x" * 200_000 + b" 42\n"])
def test_any_text_with_a_number_is_searched(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    found = search(tmp_path, NUMBER)
    assert (found.hits, len(found.possible), found.unsearched) == ((), 1, ())


@given(
    st.sampled_from(
        [b"", b"PAR1", b"SQLite format 3\x00", b"PK\x03\x04", b"\x1f\x8b", b"Obj\x01", b"{", b"customer_id\r"]
    ),
    st.binary(max_size=60),
    st.binary(max_size=60),
)
@settings(deadline=None)
def test_no_content_of_a_file_ends_the_search(
    tmp_path_factory: pytest.TempPathFactory, head: bytes, before: bytes, after: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "a").write_bytes(head + before + b" 42 " + after)
    (folder / "b").write_bytes(PERSON.encode())
    found = search(folder, NUMBER, PERSON)
    assert str(folder / "b") in {hit.path for hit in found.hits}
