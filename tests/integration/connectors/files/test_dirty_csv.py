"""Dirty CSV: line breaks in quotes, unclosed quotes, other encodings, with and without parsed()."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.systems import HERE, LandingFolder, unit_of
from waterclock.connectors.files import multiline_csv
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.files.csv_records import Quotes
from waterclock.connectors.files.file_writing import WriteOptions, write_file
from waterclock.connectors.files.multiline_csv import read_by_record
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns, Value
from waterclock.flow.enums import Action
from waterclock.flow.origins import IN_ROWS
from waterclock.flow.rule_actions import RuleAction, UnparsedLines
from waterclock.storage.slices.row_filter import UNREAD
from waterclock.testing.connectors import declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROW = Column(IN_ROWS["row"], HERE, "BIGINT", metadata_field="row")


@pytest.fixture
def folder(tmp_path: Path) -> LandingFolder:
    return LandingFolder(tmp_path)


def drop(folder: LandingFolder, content: str | bytes, name: str = "a.csv") -> Path:
    path = folder.folder / "new" / "drop" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(spark: SparkSession, folder: LandingFolder, columns: Columns, **options: Value) -> list[dict[str, Any]]:
    unit = unit_of("landing", "drop/*.csv", **options)
    collected = FilesCollector(folder.setting).read_snapshot(spark, unit, columns, "UTC")
    try:
        return [row.asDict() for row in collected.frame.collect()]
    finally:
        collected.close()


def refused(spark: SparkSession, folder: LandingFolder, columns: Columns, **options: Value) -> WaterclockError:
    unit = unit_of("landing", "drop/*.csv", **options)
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark's error, which is explained)
        read(spark, folder, columns, **options)
    told = FilesCollector(folder.setting).explain(unit, columns, caught.value)
    assert told is not None, caught.value
    return told


def kept(columns: Columns) -> Columns:
    """Return the columns with EXPECT parsed() ELSE QUARANTINE, and with lines."""
    ladder = (RuleAction(Action.QUARANTINE),)
    return replace(columns, named=(*columns.named, ROW), unread=UnparsedLines("parsed", ladder))


TYPED = declared(("id", "INT"), ("note", "STRING"))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_break_within_quotes_belongs_to_its_field(spark: SparkSession, folder: LandingFolder, end: str) -> None:
    drop(folder, end.join(("id,note", '1,"two', 'lines, ""and"" more"', "", "2,b", '3,"c"', "")))
    drop(folder, "id,note\n4,d\n", "b.csv")
    columns = replace(TYPED, named=(*TYPED.named, ROW))
    found = sorted(tuple(row.values()) for row in read(spark, folder, columns))
    assert found == [(1, f'two{end}lines, "and" more', 2), (2, "b", 5), (3, "c", 6), (4, "d", 2)]


def test_a_quote_that_is_not_closed_is_a_broken_row_by_file_and_line(
    spark: SparkSession, folder: LandingFolder
) -> None:
    path = drop(folder, 'id,note\n1,a\n2,"unclosed\n3,c\n')
    told = refused(spark, folder, TYPED)
    assert (told.code, told.where, told.why) == ("E806", f"{path}:3", "a quote in it is not closed")


QUOTED_NULS = {
    '"\0y"': "\0y", '"h\0i"': "h\0i", '"j\0"': "j\0", '"\0"': "\0", "a\0b": "a\0b", "\0z": "\0z", "c\0": "c\0",
    '"a""b"': 'a"b', '"a""\0"': 'a"\0', '"\0""c"': '\0"c', '"a"""': 'a"', '""""': '"', '"x,\0"': "x,\0",
    '"""\0"""': '"\0"', '"\0\0"': "\0\0", '"\\"': "\\", "\\\0": "\\\0",
}  # fmt: skip
ESCAPED_NULS = {'"\0y"': "\0y", '"a\\"\0"': 'a"\0', '"\\\\\0"': "\\\0", "a\0b": "a\0b", '"j\0"': "j\0"}
BARE_NULS = {"\0y": "\0y", "a\0b": "a\0b", "c\0": "c\0", "\0": "\0", '"\0"': '"\0"', "\\\0": "\\\0"}


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        pytest.param(QUOTED_NULS, {}, id="doubled"),
        pytest.param(QUOTED_NULS, {"escape": ""}, id="no escape"),
        pytest.param(ESCAPED_NULS, {"escape": "\\"}, id="escaped"),
        pytest.param(BARE_NULS, {"quote": ""}, id="no quotes"),
    ],
)
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
def test_a_nul_character_is_kept_within_quotes_and_outside(
    spark: SparkSession, folder: LandingFolder, texts: dict[str, str], options: dict[str, str], encoding: str
) -> None:
    lines = ["id,note", *(f"{at},{text}" for at, text in enumerate(texts)), ""]
    drop(folder, "\n".join(lines).encode(encoding))
    for columns in (TYPED, kept(TYPED)):
        found = read(spark, folder, columns, encoding=encoding, **options)
        assert {row["id"]: row["note"] for row in found} == dict(enumerate(texts.values()))


def test_only_its_line_is_kept_aside_and_the_other_rows_are_read(spark: SparkSession, folder: LandingFolder) -> None:
    drop(folder, 'id,note\n1,"a\nb"\n2,"unclosed\n3,c\n4,d,e\n5,"f"\n')
    found = sorted(read(spark, folder, kept(TYPED)), key=lambda row: row[ROW.name])
    assert [(row["id"], row["note"], row[ROW.name], row[UNREAD]) for row in found] == [
        (1, "a\nb", 2, None),
        (None, None, 4, '2,"unclosed'),
        (3, "c", 5, None),
        (None, None, 6, "4,d,e"),
        (5, "f", 7, None),
    ]


def test_a_value_of_another_type_is_refused_in_a_file_read_by_record(
    spark: SparkSession, folder: LandingFolder
) -> None:
    path = drop(folder, 'id,note\n1,"a\nb"\nx,c\n')
    for columns in (TYPED, kept(TYPED)):
        told = refused(spark, folder, columns)
        assert (told.code, told.where, told.why) == ("E806", f"{path}:4", "id is 'x', which is not INT")


def test_lines_of_files_without_such_fields_are_still_read_side_by_side(
    spark: SparkSession, folder: LandingFolder
) -> None:
    plain = str(drop(folder, 'id,note\n1,"a, ""b"""\n2,5" disk\n3,\n'))
    spans = str(drop(folder, 'id,note\n1,5" disk,"a\nb"\n', "b.csv"))
    assert read_by_record(spark, ReadOptions(), [plain, spans]) == {spans}
    assert read_by_record(spark, ReadOptions(quote=""), [plain, spans]) == frozenset()
    assert read_by_record(spark, ReadOptions(encoding="UTF-16"), [plain, spans]) == {plain, spans}


def test_the_spark_scan_finds_every_multiline_file_that_the_local_scan_finds(
    spark: SparkSession, folder: LandingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = Random(7)
    paths = []
    for number in range(60):
        lines = ["".join(dice.choice('a",;') for _ in range(dice.randrange(1, 9))) for _ in range(3)]
        paths.append(str(drop(folder, "\n".join(lines) + "\n", f"f {number}.csv")))
    here = read_by_record(spark, ReadOptions(), paths)
    monkeypatch.setattr(multiline_csv, "_LOOKED_THROUGH", -1)
    by_spark = read_by_record(spark, ReadOptions(), paths)
    assert here <= by_spark
    assert 10 < len(here) <= len(by_spark) < 60
    assert read_by_record(spark, ReadOptions(escape="\\", delimiter="||"), paths) >= set()


@pytest.mark.parametrize(
    ("name", "codec"),
    [("UTF-16", "utf-16"), ("UTF-16LE", "utf-16"), ("UTF-16BE", "utf-16-be"), ("UTF-16", "utf-16-be"),
     ("UTF-8", "utf-8-sig"), ("windows-1252", "cp1252"), ("ISO-8859-1", "latin-1")],
)  # fmt: skip
@pytest.mark.parametrize("has_mark", [True, False])
def test_files_of_any_encoding_are_read_without_their_mark(
    spark: SparkSession, folder: LandingFolder, name: str, codec: str, *, has_mark: bool
) -> None:
    mark = "\ufeff" if has_mark and codec == "utf-16-be" else ""
    drop(folder, f'{mark}id,note\n1,é\n2,"ü\nß"\n'.encode(codec))
    columns = replace(TYPED, named=(*TYPED.named, ROW))
    found = sorted(tuple(row.values()) for row in read(spark, folder, columns, encoding=name))
    assert found == [(1, "é", 2), (2, "ü\nß", 3)]


def test_random_files_come_back_as_they_were_written(spark: SparkSession, folder: LandingFolder) -> None:
    import csv

    dice = Random(11)
    wanted = []
    for number in range(12):
        rows = [(str(at), "".join(dice.choice('ab ",\n\r\\é') for _ in range(dice.randrange(9)))) for at in range(20)]
        path = drop(folder, "", f"r{number}.csv")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n", quoting=dice.choice([csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
            writer.writerows([("id", "note"), *rows])
        wanted += [(int(one), text or None) for one, text in rows]
    found = [tuple(row.values()) for row in read(spark, folder, TYPED)]
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert Quotes(",", '"').is_open_after('1,"a')


@pytest.mark.parametrize(
    ("options", "texts", "values"),
    [
        ({"decimal": ",", "delimiter": ";"}, ["7,25", "-1", ",5", "1e2"], ["7.25", "-1.00", "0.50", "100.00"]),
        ({"decimal": ",", "thousands": ".", "delimiter": ";"}, ["1.234.567,5", "1234,5"], ["1234567.50", "1234.50"]),
        ({"decimal": ",", "thousands": " ", "delimiter": ";"}, ["1\u202f234,5", "1 234,5"], ["1234.50", "1234.50"]),
        ({"thousands": "'"}, ["1'234.5"], ["1234.50"]),
        ({}, ["7.25"], ["7.25"]),
    ],
)  # fmt: skip
def test_numbers_are_read_as_they_are_written(
    spark: SparkSession, folder: LandingFolder, options: dict[str, Value], texts: list[str], values: list[str]
) -> None:
    sign = str(options.get("delimiter", ","))
    drop(folder, "".join(f"{at}{sign}{text}{sign}{text}\n" for at, text in enumerate(texts)))
    columns = declared(("id", "INT"), ("exact", "DECIMAL(12,2)"), ("near", "DOUBLE"))
    found = sorted(tuple(row.values()) for row in read(spark, folder, columns, header=False, **options))
    assert [str(exact) for _, exact, _ in found] == values
    assert [near for *_, near in found] == [float(value) for value in values]


@pytest.mark.parametrize("text", ["7.25", "7,2,5", "1.23,5", "1.2345", "7,255", "x"])
def test_a_number_that_is_written_otherwise_is_refused(spark: SparkSession, folder: LandingFolder, text: str) -> None:
    path = drop(folder, f"id;amount\n1;1.000,5\n2;{text}\n")
    columns = declared(("id", "INT"), ("amount", "DECIMAL(9,2)"))
    told = refused(spark, folder, columns, decimal=",", thousands=".", delimiter=";")
    assert (told.code, told.where) == ("E806", f"{path}:3")
    assert told.why == f"amount is {text!r}, which is not DECIMAL(9,2)"


@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_bytes_come_back_as_they_were_written(
    spark: SparkSession, folder: LandingFolder, format_name: str, tmp_path: Path
) -> None:
    import pyarrow as pa

    values = [bytes([number]) for number in range(256)] + [bytes(range(256)), b"", None]
    batch = pa.RecordBatch.from_pydict({"id": list(range(len(values))), "raw": pa.array(values, pa.binary())})
    path = tmp_path / "new" / "drop" / f"a.{format_name}"
    path.parent.mkdir()
    write_file(path, iter([batch]), [("id", "bigint"), ("raw", "binary")], WriteOptions(format=format_name))
    unit = unit_of("landing", f"drop/*.{format_name}")
    columns = declared(("id", "INT"), ("raw", "BINARY"))
    found = FilesCollector(folder.setting).read_snapshot(spark, unit, columns, "UTC").frame.collect()
    read = {row["id"]: None if row["raw"] is None else bytes(row["raw"]) for row in found}
    empty = None if format_name == "csv" else b""  # an empty text of CSV is NULL, as in any column
    assert read == dict(enumerate([*values[:-2], empty, None]))


def test_a_text_that_is_no_base64_is_no_binary(spark: SparkSession, folder: LandingFolder) -> None:
    path = drop(folder, "id,raw\n1,QUI=\n2,%%\n")
    told = refused(spark, folder, declared(("id", "INT"), ("raw", "BINARY")))
    assert (told.code, told.where, told.why) == ("E806", f"{path}:3", "raw is '%%', which is not BINARY")
